import java.nio.charset.StandardCharsets;
import java.time.Instant;
import java.util.HexFormat;
import java.util.LinkedHashMap;
import java.util.Map;
import org.xmml.DataTypeException;
import org.xmml.Group;
import org.xmml.Instance;
import org.xmml.OutPort;
import org.xmml.PoolObject;
import org.xmml.PortException;
import org.xmml.ReceiveTimeoutException;
import org.xmml.XmmlException;

/** Puts objects with an attribute of every type, or prints what it takes. See ../test_pools_in_every_language.py. */
public class EveryType {
    private static final HexFormat HEX = HexFormat.of().withUpperCase();

    private static Map<String, Object> ofEveryType() {
        Map<String, Object> all = new LinkedHashMap<>();
        all.put("truth", true);
        all.put("whole", -3);
        all.put("natural", (1L << 53) + 1);
        all.put("number", 0.1);
        all.put("text", "say \"\u00b5\"");
        all.put("level", "ml");
        all.put("moment", Instant.parse("2026-11-27T12:30:00.250001Z"));
        all.put("wholes", new long[] {1, -2, (1L << 53) + 1});
        all.put("numbers", new double[] {0.1, -2.5});
        all.put("raw", "raw \u00b5".getBytes(StandardCharsets.UTF_8));
        all.put("absent", null);
        return all;
    }

    private static void printError(String what, Runnable call) {
        try {
            call.run();
            System.out.println(what + ": nothing");
        } catch (XmmlException problem) {
            String kind = problem instanceof PortException ? "port"
                    : problem instanceof DataTypeException ? "type"
                    : problem.getClass() == XmmlException.class ? "usage"
                    : "other";
            System.out.println(what + ": " + kind + ": " + problem.getMessage());
        }
    }

    private static void print(PoolObject object) {
        StringBuilder line = new StringBuilder(object.attributeText("sys.instance"));
        line.append(' ').append(String.join(",", object.attributes().keySet()));
        if (!object.hasAttribute("truth")) {
            line.append(" whole ").append(object.attributeLong("whole")).append(" kind ").append(object.data() == null ? 0 : -1);
            if (object.hasAttribute("sys.group")) {
                line.append(" group ").append(object.attributeLong("sys.group")).append(" follow ").append(object.attributeLong("sys.follow"));
            }
            System.out.println(line);
            return;
        }
        line.append(" truth ").append(object.attributeBoolean("truth")).append(" whole ").append(object.attributeLong("whole"));
        line.append(" natural ").append(object.attributeLong("natural"));
        line.append(" number ").append(bits(object.attributeDouble("number")));
        line.append(" text ").append(HEX.formatHex(object.attributeText("text").getBytes(StandardCharsets.UTF_8)));
        line.append(" level ").append(object.attributeText("level")).append(" moment ").append(object.attributeTime("moment"));
        line.append(" wholes");
        for (long each : object.attributeLongs("wholes")) {
            line.append(' ').append(each);
        }
        line.append(" numbers");
        for (double each : object.attributeDoubles("numbers")) {
            line.append(' ').append(bits(each));
        }
        line.append(" raw ").append(HEX.formatHex(object.attributeBytes("raw")));
        double[][] field = object.asArray().toDoubles2();
        System.out.println(line + " elements " + (int) field[0][1] + " " + (int) field[1][0]);
    }

    private static String bits(double number) {
        return String.format("%016X", Double.doubleToRawLongBits(number));
    }

    private static void writeObjects(Instance me) {
        System.out.println("readers " + me.put("objects", new double[][] {{0, 1, 2}, {3, 4, 5}}, ofEveryType()));
        OutPort objects = me.out("objects");
        objects.put(null, "whole=4");
        printError("unknown", () -> objects.put(null, Map.of("whloe", 4)));
        printError("mistyped", () -> me.put("objects", null, "whole=x"));
        printError("no value", () -> me.put("objects", null, Map.of("whole", Thread.currentThread())));
        System.out.println("nowhere " + me.put("nowhere", null));
        System.out.println("wanted " + me.wanted("objects", Map.of("whole", 4)) + " " + objects.wanted("whole=5"));
        printError("unwanted", () -> me.wanted("objects", "whloe=4"));
    }

    private static void writeGroups(Instance me) {
        OutPort objects = me.out("objects");
        try (Group group = objects.group("whole=5")) {
            group.put(null);
            throw new IllegalStateException();
        } catch (IllegalStateException thrown) {
            // The group is forgotten.
        }
        try (Group group = me.group("objects", Map.of("whole", 6))) {
            printError("second", objects::group);
            group.put(null);
            group.put(null, Map.of("whole", 7));
            System.out.println("group " + group.end());
            printError("over", () -> group.put(null));
        }
        printError("common", () -> me.group("objects", Map.of("whloe", 4)));
        me.group("objects", "whole=8").put(null);
    }

    private static void readObjects(Instance me) {
        try {
            me.take("later", 0.01);
        } catch (ReceiveTimeoutException late) {
            System.out.println("timed out");
        }
        me.put("go", null);
        me.end("go");
        printError("late", () -> me.put("go", null));
        if (me.take("later").isEmpty()) {
            System.out.println("ended");
        }
        printError("nowhere", () -> me.take("nowhere"));
        for (PoolObject object : me.in("objects").objects()) {
            print(object);
            printError("unknown", () -> object.attribute("truht"));
            printError(object.hasAttribute("text") ? "mistyped" : "absent", () -> object.attributeLong("text"));
        }
    }

    public static void main(String[] arguments) {
        try (Instance me = Instance.join()) {
            while (me.reuse()) {
                if (me.name().startsWith("w")) {
                    writeObjects(me);
                    writeGroups(me);
                } else {
                    readObjects(me);
                }
            }
        }
    }
}
