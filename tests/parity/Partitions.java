// Hashes keys with Kafka's own classes. The arguments are counts of partitions. Reads a key in hex per line from
// standard input and answers with its murmur2, then its partition for each count, separated by tabs.

import java.io.BufferedReader;
import java.io.InputStreamReader;
import java.io.PrintStream;
import java.util.HexFormat;
import org.apache.kafka.clients.producer.internals.BuiltInPartitioner;
import org.apache.kafka.common.utils.Utils;

public class Partitions {
    public static void main(String[] counts) throws Exception {
        BufferedReader lines = new BufferedReader(new InputStreamReader(System.in));
        PrintStream answers = new PrintStream(System.out, false);
        for (String line = lines.readLine(); line != null; line = lines.readLine()) {
            byte[] key = HexFormat.of().parseHex(line);
            StringBuilder answer = new StringBuilder().append(Utils.murmur2(key));
            for (String count : counts) {
                answer.append('\t').append(BuiltInPartitioner.partitionForKey(key, Integer.parseInt(count)));
            }
            answers.println(answer);
        }
        answers.flush();
    }
}
