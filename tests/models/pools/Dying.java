import org.xmml.Group;
import org.xmml.Instance;

/** Throws what nobody catches, in the middle of a group. See ../test_pools_in_every_language.py. */
public class Dying {
    public static void main(String[] arguments) {
        try (Instance me = Instance.join()) {
            while (me.reuse()) {
                me.put("fields", null, "step=1");
                try (Group group = me.group("fields", "step=2")) {
                    group.put(null);
                    group.put(null);
                    if (me.take("later").isPresent()) {
                        throw new IllegalStateException("in the middle of a group");
                    }
                    group.end();
                }
            }
        }
    }
}
