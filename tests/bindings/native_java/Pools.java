import java.math.BigInteger;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.Arrays;
import java.util.Map;
import org.xmml.DataTypeException;
import org.xmml.Instance;
import org.xmml.PoolObject;
import org.xmml.XmmlException;

/** What Java alone has in pools: numbers that no long holds, narrow arrays, and attributes that the collector gives back. */
public class Pools {
    static final BigInteger LARGEST = BigInteger.TWO.pow(64).subtract(BigInteger.ONE);

    static void write(Instance me, int many) {
        me.put("objects", null, Map.of("natural", LARGEST, "number", 1, "whole", (byte) -1, "wholes", new short[] {-1, 2},
                "numbers", new float[] {0.5f}));
        me.put("objects", null, Map.of("wholes", new int[] {3, 4}, "natural", BigInteger.TEN));
        try {
            me.put("objects", null, Map.of("natural", LARGEST.add(BigInteger.ONE)));
        } catch (XmmlException problem) {
            System.out.println(problem.getMessage());
        }
        Map<String, String> text = Map.of("text", "x".repeat(60_000));
        for (int i = 0; i < many; i++) {
            me.put("objects", null, text);
        }
    }

    static void read(Instance me) throws Exception {
        PoolObject first = me.take("objects").orElseThrow();
        System.out.println(first.attribute("natural").get().equals(LARGEST) + " " + first.attributes().get("natural").equals(LARGEST));
        try {
            first.attributeLong("natural");
        } catch (DataTypeException problem) {
            System.out.println(problem.getMessage());
        }
        System.out.println(first.attributeDouble("number") + " " + first.attributeLong("whole") + " " + first.attributeDouble("whole") + " "
                + Arrays.toString(first.attributeLongs("wholes")) + " " + Arrays.toString(first.attributeDoubles("numbers")));
        PoolObject second = me.take("objects").orElseThrow();
        System.out.println(Arrays.toString(second.attributeLongs("wholes")) + " " + second.attributeLong("natural") + " "
                + second.attribute("whole"));
        // Their texts are not read: on Java's heap they would have the collector run.
        long taken = 0;
        for (PoolObject object : me.objects("objects")) {
            taken += object.hasAttribute("whole") ? 0 : 1;
        }
        System.out.println(taken);
        for (String line : Files.readAllLines(Path.of("/proc/self/status"))) {
            if (line.startsWith("VmHWM:")) {
                System.out.println(line.replaceAll("\\D", ""));
            }
        }
    }

    public static void main(String[] arguments) throws Exception {
        try (Instance me = Instance.join()) {
            while (me.reuse()) {
                if (me.name().equals("writer")) {
                    write(me, (int) me.paramLong("many"));
                } else {
                    read(me);
                }
            }
        }
    }
}
