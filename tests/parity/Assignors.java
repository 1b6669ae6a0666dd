// Lets Java's own assignors share partitions. Each line of standard input is a group: the assignor, the topics with the
// racks of every partition, the members; each line of the answer is who gets what, or "error: ...".
//
//   sticky TAB t0=a,b/a/;t1=a TAB id|instance|rack|generation|t0,t1|t0:0,t0:1|user data in hex; ...

import java.io.BufferedReader;
import java.io.InputStreamReader;
import java.io.PrintStream;
import java.nio.ByteBuffer;
import java.util.ArrayList;
import java.util.HashMap;
import java.util.HexFormat;
import java.util.List;
import java.util.Map;
import java.util.Optional;
import java.util.Set;
import java.util.TreeMap;
import java.util.TreeSet;
import org.apache.kafka.clients.consumer.ConsumerPartitionAssignor;
import org.apache.kafka.clients.consumer.ConsumerPartitionAssignor.GroupSubscription;
import org.apache.kafka.clients.consumer.ConsumerPartitionAssignor.Subscription;
import org.apache.kafka.clients.consumer.CooperativeStickyAssignor;
import org.apache.kafka.clients.consumer.RangeAssignor;
import org.apache.kafka.clients.consumer.RoundRobinAssignor;
import org.apache.kafka.clients.consumer.StickyAssignor;
import org.apache.kafka.common.Cluster;
import org.apache.kafka.common.Node;
import org.apache.kafka.common.PartitionInfo;
import org.apache.kafka.common.TopicPartition;

public class Assignors {
    public static void main(String[] arguments) throws Exception {
        BufferedReader lines = new BufferedReader(new InputStreamReader(System.in));
        PrintStream answers = new PrintStream(System.out, false);
        for (String line = lines.readLine(); line != null; line = lines.readLine()) {
            String[] fields = line.split("\t", -1);
            try {
                answers.println(assign(assignor(fields[0]), cluster(fields[1]), members(fields[2])));
            } catch (Exception error) {
                answers.println("error: " + error);
            }
        }
        answers.flush();
    }

    private static ConsumerPartitionAssignor assignor(String name) {
        return List.of(new RangeAssignor(), new RoundRobinAssignor(), new StickyAssignor(), new CooperativeStickyAssignor())
            .stream().filter(each -> each.name().equals(name)).findFirst().get();
    }

    private static Cluster cluster(String topics) {
        Map<String, Node> nodes = new TreeMap<>();
        List<PartitionInfo> partitions = new ArrayList<>();
        for (String topic : words(topics, ";")) {
            String[] parts = topic.split("=", -1);
            String[] each = parts[1].split("/", -1);
            for (int number = 0; number < each.length; number++) {
                List<Node> replicas = new ArrayList<>();
                for (String rack : each[number].isEmpty() ? List.of("") : words(each[number], ",")) {
                    int id = nodes.size();
                    replicas.add(nodes.computeIfAbsent(rack, r -> new Node(id, "host", 1, r.isEmpty() ? null : r)));
                }
                Node[] array = replicas.toArray(new Node[0]);
                partitions.add(new PartitionInfo(parts[0], number, array[0], array, array));
            }
        }
        return new Cluster("cluster", nodes.values(), partitions, Set.of(), Set.of());
    }

    private static Map<String, Subscription> members(String text) {
        Map<String, Subscription> members = new HashMap<>();
        for (String member : words(text, ";")) {
            String[] said = member.split("\\|", -1);
            List<TopicPartition> owned = new ArrayList<>();
            for (String partition : words(said[5], ",")) {
                String[] parts = partition.split(":");
                owned.add(new TopicPartition(parts[0], Integer.parseInt(parts[1])));
            }
            ByteBuffer data = said[6].isEmpty() ? null : ByteBuffer.wrap(HexFormat.of().parseHex(said[6]));
            Optional<String> rack = said[2].isEmpty() ? Optional.empty() : Optional.of(said[2]);
            Subscription subscription =
                new Subscription(words(said[4], ","), data, owned, Integer.parseInt(said[3]), rack);
            subscription.setGroupInstanceId(said[1].isEmpty() ? Optional.empty() : Optional.of(said[1]));
            members.put(said[0], subscription);
        }
        return members;
    }

    private static String assign(ConsumerPartitionAssignor assignor, Cluster cluster, Map<String, Subscription> members) {
        Map<String, String> given = new TreeMap<>();
        assignor.assign(cluster, new GroupSubscription(members)).groupAssignment().forEach((member, assignment) -> {
            Set<String> partitions = new TreeSet<>();
            assignment.partitions().forEach(each -> partitions.add(each.topic() + ":" + each.partition()));
            given.put(member, member + "=" + String.join(",", partitions));
        });
        return String.join(";", given.values());
    }

    private static List<String> words(String text, String separator) {
        return text.isEmpty() ? List.of() : List.of(text.split(separator, -1));
    }
}
