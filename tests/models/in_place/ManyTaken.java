import java.nio.DoubleBuffer;
import org.xmml.Instance;
import org.xmml.NdArray;

/** Adds up what it receives in each step, and closes it. */
public class ManyTaken {
    public static void main(String[] arguments) {
        try (Instance me = Instance.join()) {
            while (me.reuse()) {
                double sum = 0;
                for (double t : me.steps()) {
                    try (NdArray array = me.receive("in").asArray()) {
                        DoubleBuffer view = array.doubles();
                        for (int i = 0; i < view.limit(); i++) {
                            sum += view.get(i);
                        }
                    }
                }
                System.out.println("sum " + sum);
            }
        }
    }
}
