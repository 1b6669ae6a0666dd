// A member of a group, of Java's own: subscribes to a topic and prints its partitions, separated by commas, whenever
// they change. Arguments: bootstrap servers, group, topic, then settings as name=value. Ends with its standard input.

import java.time.Duration;
import java.util.List;
import java.util.Properties;
import java.util.stream.Collectors;
import org.apache.kafka.clients.consumer.KafkaConsumer;
import org.apache.kafka.common.serialization.ByteArrayDeserializer;

public class JavaMember {
    private static volatile boolean over = false;

    public static void main(String[] arguments) throws Exception {
        Properties settings = new Properties();
        settings.put("bootstrap.servers", arguments[0]);
        settings.put("group.id", arguments[1]);
        settings.put("enable.auto.commit", "false");
        for (int i = 3; i < arguments.length; i++) {
            String[] pair = arguments[i].split("=", 2);
            settings.put(pair[0], pair[1]);
        }
        Thread input = new Thread(JavaMember::awaitEnd);
        input.setDaemon(true);
        input.start();
        try (KafkaConsumer<byte[], byte[]> consumer =
                new KafkaConsumer<>(settings, new ByteArrayDeserializer(), new ByteArrayDeserializer())) {
            consumer.subscribe(List.of(arguments[2]));
            String before = null;
            while (!over) {
                consumer.poll(Duration.ofMillis(50));
                String now = consumer.assignment().stream()
                    .map(each -> String.valueOf(each.partition())).sorted().collect(Collectors.joining(","));
                if (!now.equals(before)) {
                    System.out.println(now);
                    System.out.flush();
                    before = now;
                }
            }
        }
    }

    private static void awaitEnd() {
        try {
            while (System.in.read() >= 0) {
            }
        } catch (java.io.IOException error) {
            System.err.println(error);
        }
        over = true;
    }
}
