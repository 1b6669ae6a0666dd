// How long Java's consumer takes from its construction to its first record: prints milliseconds.
// Arguments: bootstrap servers, topic, number of partitions. The JVM has started and this class is loaded before.

import java.time.Duration;
import java.util.ArrayList;
import java.util.List;
import java.util.Properties;
import org.apache.kafka.clients.consumer.KafkaConsumer;
import org.apache.kafka.common.TopicPartition;
import org.apache.kafka.common.serialization.ByteArrayDeserializer;

public class FirstRecord {
    public static void main(String[] arguments) {
        Properties settings = new Properties();
        settings.put("bootstrap.servers", arguments[0]);
        settings.put("auto.offset.reset", "earliest");
        settings.put("enable.auto.commit", "false");
        List<TopicPartition> partitions = new ArrayList<>();
        for (int i = 0; i < Integer.parseInt(arguments[2]); i++) {
            partitions.add(new TopicPartition(arguments[1], i));
        }
        long began = System.nanoTime();
        try (KafkaConsumer<byte[], byte[]> consumer =
                new KafkaConsumer<>(settings, new ByteArrayDeserializer(), new ByteArrayDeserializer())) {
            consumer.assign(partitions);
            while (consumer.poll(Duration.ofSeconds(1)).isEmpty()) {
            }
            System.out.println((System.nanoTime() - began) / 1e6);
        }
    }
}
