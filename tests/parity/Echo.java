// Decodes messages with Kafka's own classes and encodes them again. Reads lines of "ClassName version hex" from
// standard input and answers each with the hex of what Java makes of it, or with "error: ...".

import java.io.BufferedReader;
import java.io.InputStreamReader;
import java.io.PrintStream;
import java.nio.ByteBuffer;
import java.util.HexFormat;
import org.apache.kafka.common.protocol.ByteBufferAccessor;
import org.apache.kafka.common.protocol.Message;
import org.apache.kafka.common.protocol.ObjectSerializationCache;

public class Echo {
    public static void main(String[] arguments) throws Exception {
        BufferedReader lines = new BufferedReader(new InputStreamReader(System.in));
        PrintStream answers = new PrintStream(System.out, false);
        for (String line = lines.readLine(); line != null; line = lines.readLine()) {
            String[] words = line.split(" ", -1);
            answers.println(echo(words[0], Short.parseShort(words[1]), HexFormat.of().parseHex(words[2])));
        }
        answers.flush();
    }

    private static String echo(String name, short version, byte[] bytes) {
        try {
            Class<?> type = Class.forName("org.apache.kafka.common.message." + name);
            Message message = (Message) type.getDeclaredConstructor().newInstance();
            ByteBuffer input = ByteBuffer.wrap(bytes);
            message.read(new ByteBufferAccessor(input), version);
            if (input.hasRemaining()) {
                return "error: " + input.remaining() + " bytes left over";
            }
            ObjectSerializationCache cache = new ObjectSerializationCache();
            ByteBuffer output = ByteBuffer.allocate(message.size(cache, version));
            message.write(new ByteBufferAccessor(output), cache, version);
            return HexFormat.of().formatHex(output.array());
        } catch (Exception error) {
            return "error: " + error;
        }
    }
}
