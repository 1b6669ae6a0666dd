// Reads all partitions of a topic with Kafka's own client and says in one line what is wrong with it:
//
//   LogInJava BOOTSTRAP TOPIC KEYS EACH
//
// The topic should have EACH records of each of KEYS keys, "0", "1" and so on. The values of a key are the numbers
// from 0 on, each once, in this order and in one partition.

import java.nio.charset.StandardCharsets;
import java.time.Duration;
import java.util.ArrayList;
import java.util.BitSet;
import java.util.List;
import java.util.Map;
import org.apache.kafka.clients.consumer.ConsumerRecord;
import org.apache.kafka.clients.consumer.KafkaConsumer;
import org.apache.kafka.common.TopicPartition;
import org.apache.kafka.common.serialization.ByteArrayDeserializer;

public class LogInJava {
    private static final long PATIENCE_NANOSECONDS = 120_000_000_000L;

    private static long records;
    private static long duplicates;
    private static long disorder;
    private static BitSet[] seen;
    private static int[] last;
    private static int[] home;

    public static void main(String[] arguments) {
        int keys = Integer.parseInt(arguments[2]);
        int each = Integer.parseInt(arguments[3]);
        seen = new BitSet[keys];
        last = new int[keys];
        home = new int[keys];
        for (int key = 0; key < keys; key++) {
            seen[key] = new BitSet(each);
            last[key] = -1;
            home[key] = -1;
        }
        read(arguments[0], arguments[1]);
        long missing = 0;
        for (BitSet numbers : seen) {
            missing += each - numbers.get(0, each).cardinality();
        }
        System.out.println(
            "records=" + records + " missing=" + missing + " duplicates=" + duplicates + " disorder=" + disorder);
    }

    private static void read(String bootstrap, String topic) {
        Map<String, Object> settings = Map.of("bootstrap.servers", bootstrap, "check.crcs", true);
        long until = System.nanoTime() + PATIENCE_NANOSECONDS;
        try (var consumer = new KafkaConsumer<>(settings, new ByteArrayDeserializer(), new ByteArrayDeserializer())) {
            List<TopicPartition> partitions = new ArrayList<>();
            consumer.partitionsFor(topic).forEach(found -> partitions.add(new TopicPartition(topic, found.partition())));
            consumer.assign(partitions);
            consumer.seekToBeginning(partitions);
            Map<TopicPartition, Long> ends = consumer.endOffsets(partitions);
            while (partitions.stream().anyMatch(each -> consumer.position(each) < ends.get(each))) {
                if (System.nanoTime() > until) {
                    throw new IllegalStateException("the log could not be read to its end");
                }
                consumer.poll(Duration.ofMillis(200)).forEach(LogInJava::check);
            }
        }
    }

    private static void check(ConsumerRecord<byte[], byte[]> record) {
        int key = Integer.parseInt(new String(record.key(), StandardCharsets.US_ASCII));
        int number = Integer.parseInt(new String(record.value(), StandardCharsets.US_ASCII));
        records++;
        if (home[key] >= 0 && home[key] != record.partition()) {
            disorder++;
        }
        home[key] = record.partition();
        if (seen[key].get(number)) {
            duplicates++;
        } else if (number < last[key]) {
            disorder++;
        }
        seen[key].set(number);
        last[key] = Math.max(last[key], number);
    }
}
