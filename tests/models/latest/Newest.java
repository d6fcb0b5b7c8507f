import java.util.Optional;
import org.xmml.Instance;
import org.xmml.Message;
import org.xmml.ReceiveTimeoutException;

/** Prints the numbers that it sees, and polls once before. See ../test_latest.py. */
public class Newest {
    public static void main(String[] args) {
        try (Instance me = Instance.join()) {
            while (me.reuse()) {
                try {
                    me.receive("fields", 0.0);
                } catch (ReceiveTimeoutException nothing) {
                    me.send("ready", 1);
                }
                for (Optional<Message> message = me.receiveOrEnd("fields");
                        message.isPresent();
                        message = me.receiveOrEnd("fields")) {
                    System.out.println(message.get().asLong());
                }
            }
        }
    }
}
