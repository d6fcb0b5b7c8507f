import org.xmml.Instance;

/** Looks at what it receives in each step, and closes nothing. */
public class ManyForgotten {
    public static void main(String[] arguments) {
        try (Instance me = Instance.join()) {
            while (me.reuse()) {
                double sum = 0;
                for (double t : me.steps()) {
                    sum += me.receive("in").asArray().doubles().get(7);
                }
                System.out.println("sum " + sum);
            }
        }
    }
}
