// Members of groups, of Java's own, that read a topic, for tests that compare how long they go without records.
// Arguments: bootstrap servers, topic, members in each group, then groups as protocol=group. Prints a line for each
// partition that a poll brought records of: the protocol, the partition, how many. Ends with its standard input.

import java.time.Duration;
import java.util.ArrayList;
import java.util.List;
import java.util.Properties;
import org.apache.kafka.clients.consumer.ConsumerRecords;
import org.apache.kafka.clients.consumer.KafkaConsumer;
import org.apache.kafka.common.TopicPartition;
import org.apache.kafka.common.serialization.ByteArrayDeserializer;

public class JavaReaders {
    private static volatile boolean over = false;

    public static void main(String[] arguments) throws Exception {
        List<Thread> members = new ArrayList<>();
        for (int i = 3; i < arguments.length; i++) {
            String[] pair = arguments[i].split("=", 2);
            for (int member = 0; member < Integer.parseInt(arguments[2]); member++) {
                Thread thread = new Thread(() -> read(arguments[0], arguments[1], pair[0], pair[1]));
                thread.start();
                members.add(thread);
            }
        }
        while (System.in.read() >= 0) {
        }
        over = true;
        for (Thread thread : members) {
            thread.join();
        }
    }

    private static void read(String servers, String topic, String protocol, String group) {
        Properties settings = new Properties();
        settings.put("bootstrap.servers", servers);
        settings.put("group.id", group);
        settings.put("group.protocol", protocol);
        settings.put("auto.offset.reset", "earliest");
        settings.put("auto.commit.interval.ms", "500");
        try (KafkaConsumer<byte[], byte[]> consumer =
                new KafkaConsumer<>(settings, new ByteArrayDeserializer(), new ByteArrayDeserializer())) {
            consumer.subscribe(List.of(topic));
            while (!over) {
                ConsumerRecords<byte[], byte[]> records = consumer.poll(Duration.ofMillis(1000));
                for (TopicPartition partition : records.partitions()) {
                    int count = records.records(partition).size();
                    System.out.println(protocol + " " + partition.partition() + " " + count);
                }
                System.out.flush();
            }
        }
    }
}
