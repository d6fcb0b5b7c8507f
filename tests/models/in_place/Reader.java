import java.lang.reflect.Field;
import java.nio.Buffer;
import java.nio.DoubleBuffer;
import java.nio.file.Files;
import java.nio.file.Path;
import org.xmml.Instance;
import org.xmml.NdArray;

/** Says where the array lies that it has received, and what its memory is made of. */
public class Reader {
    public static void main(String[] arguments) throws Exception {
        Field address = Buffer.class.getDeclaredField("address");
        address.setAccessible(true);
        try (Instance me = Instance.join()) {
            while (me.reuse()) {
                try (NdArray array = me.receive("in").asArray()) {
                    DoubleBuffer view = array.doubles();
                    double sum = 0;
                    for (int i = 0; i < view.limit(); i++) {
                        sum += view.get(i);
                    }
                    System.out.println("sum " + sum);
                    System.out.println("address " + address.getLong(view));
                    System.out.print(Files.readString(Path.of("/proc/self/maps")));
                }
            }
        }
    }
}
