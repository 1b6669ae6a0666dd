// Writes or reads records with Kafka's own client, and prints each as one line of text that the test compares:
// offset, timestamp, key, value and headers, the last three in hex, "null" where there is none.
//
//   write BOOTSTRAP TOPIC CODEC COUNT     produces COUNT records, compressed with CODEC
//   read BOOTSTRAP TOPIC COUNT            consumes COUNT records from the beginning of partition 0

import java.nio.charset.StandardCharsets;
import java.time.Duration;
import java.util.ArrayList;
import java.util.HexFormat;
import java.util.List;
import java.util.Map;
import org.apache.kafka.clients.consumer.ConsumerRecord;
import org.apache.kafka.clients.consumer.KafkaConsumer;
import org.apache.kafka.clients.producer.KafkaProducer;
import org.apache.kafka.clients.producer.ProducerRecord;
import org.apache.kafka.common.TopicPartition;
import org.apache.kafka.common.header.Header;
import org.apache.kafka.common.serialization.ByteArrayDeserializer;
import org.apache.kafka.common.serialization.ByteArraySerializer;

public class RecordsInJava {
    public static void main(String[] arguments) throws Exception {
        if (arguments[0].equals("write")) {
            write(arguments[1], arguments[2], arguments[3], Integer.parseInt(arguments[4]));
        } else {
            read(arguments[1], arguments[2], Integer.parseInt(arguments[3]));
        }
    }

    private static void write(String bootstrap, String topic, String codec, int count) throws Exception {
        Map<String, Object> settings = Map.of(
            "bootstrap.servers", bootstrap, "compression.type", codec, "linger.ms", 200, "batch.size", 200000);
        long start = 1700000000000L;
        try (var producer = new KafkaProducer<>(settings, new ByteArraySerializer(), new ByteArraySerializer())) {
            for (int number = 0; number < count; number++) {
                byte[] key = number % 5 == 0 ? null : text("key " + number);
                byte[] value = number % 7 == 0 ? null : text("v".repeat(number % 300) + number);
                var sent = new ProducerRecord<>(topic, 0, start + (number * 37L) % 1000, key, value);
                for (int header = 0; header < number % 4; header++) {
                    sent.headers().add("name " + header % 2, header == 2 ? null : text("header " + number));
                }
                producer.send(sent, (metadata, error) -> {
                    if (error != null) {
                        throw new RuntimeException(error);
                    }
                });
                print(number, sent.timestamp(), key, value, sent.headers());
            }
        }
    }

    private static void read(String bootstrap, String topic, int count) {
        Map<String, Object> settings = Map.of("bootstrap.servers", bootstrap, "check.crcs", true);
        try (var consumer = new KafkaConsumer<>(settings, new ByteArrayDeserializer(), new ByteArrayDeserializer())) {
            var partition = new TopicPartition(topic, 0);
            consumer.assign(List.of(partition));
            consumer.seekToBeginning(List.of(partition));
            int read = 0;
            while (read < count) {
                for (ConsumerRecord<byte[], byte[]> got : consumer.poll(Duration.ofSeconds(1))) {
                    print(got.offset(), got.timestamp(), got.key(), got.value(), got.headers());
                    read++;
                }
            }
        }
    }

    private static void print(long offset, long timestamp, byte[] key, byte[] value, Iterable<Header> headers) {
        List<String> shown = new ArrayList<>();
        for (Header header : headers) {
            shown.add(hex(text(header.key())) + ":" + hex(header.value()));
        }
        System.out.println(offset + " " + timestamp + " " + hex(key) + " " + hex(value) + " " + String.join(",", shown));
    }

    private static byte[] text(String words) {
        return words.getBytes(StandardCharsets.UTF_8);
    }

    private static String hex(byte[] bytes) {
        return bytes == null ? "null" : HexFormat.of().formatHex(bytes);
    }
}
