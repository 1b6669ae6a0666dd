// Prints a line per error code, separated by tabs: the code, its name, then whether the exception it stands for is
// retriable, due to old metadata, about authorization, about authentication, recoverable by a new client.

import java.util.List;
import org.apache.kafka.common.errors.ApplicationRecoverableException;
import org.apache.kafka.common.errors.AuthenticationException;
import org.apache.kafka.common.errors.AuthorizationException;
import org.apache.kafka.common.errors.InvalidMetadataException;
import org.apache.kafka.common.errors.RetriableException;
import org.apache.kafka.common.protocol.Errors;

public class ErrorCodes {
    private static final List<Class<?>> PARENTS = List.of(
        RetriableException.class,
        InvalidMetadataException.class,
        AuthorizationException.class,
        AuthenticationException.class,
        ApplicationRecoverableException.class);

    public static void main(String[] arguments) {
        for (Errors error : Errors.values()) {
            if (error != Errors.NONE) {
                StringBuilder line = new StringBuilder().append(error.code()).append('\t').append(error.name());
                for (Class<?> parent : PARENTS) {
                    line.append('\t').append(parent.isInstance(error.exception()));
                }
                System.out.println(line);
            }
        }
    }
}
