import java.io.IOException;
import java.nio.ByteBuffer;
import java.nio.ByteOrder;
import java.nio.charset.StandardCharsets;
import java.nio.file.Files;
import java.nio.file.Path;
import java.nio.file.StandardOpenOption;
import java.util.ArrayList;
import java.util.HexFormat;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import java.util.StringTokenizer;
import java.util.zip.Adler32;
import org.xmml.Complex;
import org.xmml.Dtype;
import org.xmml.Instance;
import org.xmml.Message;
import org.xmml.NdArray;
import org.xmml.Order;

/** The peer of the cross-language suite in Java: sends every case on every out port, or describes what arrives. See README.md. */
public final class Peer {
    private static final List<String> DTYPES = List.of("bool", "int8", "int16", "int32", "int64", "uint8", "uint16", "uint32", "uint64",
            "float32", "float64", "complex64", "complex128");

    private final Instance me;
    private final String[] languages;
    private StringTokenizer tokens;
    private StringBuilder report;
    private int number;
    private int arrays;

    private Peer(Instance me) {
        this.me = me;
        languages = me.param("languages").split(" ");
    }

    public static void main(String[] arguments) throws IOException {
        try (Instance me = Instance.join()) {
            new Peer(me).run();
        }
    }

    private void run() throws IOException {
        boolean writes = me.name().startsWith("w");
        if (writes) {
            tokens = new StringTokenizer(Files.readString(Path.of(me.param("cases"))));
        }
        while (me.reuse()) {
            for (double t : me.steps()) {
                if (writes) {
                    writeCase();
                } else {
                    readCase();
                }
                number++;
            }
        }
    }

    // -------------------------------------------------------------------------------------------------------- elements

    private static float single(long m) {
        return switch ((int) m) {
            case 0 -> -0.0f;
            case 1 -> Float.POSITIVE_INFINITY;
            case 2 -> Float.NEGATIVE_INFINITY;
            case 3 -> Float.NaN;
            case 4 -> Float.MIN_VALUE;
            case 5 -> Float.MAX_VALUE;
            default -> ((float) m - 4096) / 64;
        };
    }

    private static double twofold(long m) {
        return switch ((int) m) {
            case 0 -> -0.0;
            case 1 -> Double.POSITIVE_INFINITY;
            case 2 -> Double.NEGATIVE_INFINITY;
            case 3 -> Double.NaN;
            case 4 -> Double.MIN_VALUE;
            case 5 -> Double.MAX_VALUE;
            default -> ((double) m - 4096) / 64 + m * 0x1p-40;
        };
    }

    /** Puts element number n, counted with the last index fastest, of array number `seed`. */
    private static void element(Dtype dtype, long n, long seed, ByteBuffer out, int at) {
        long m = (n % 8191 * 131 + seed * 29) % 8191;
        long other = (m * 7 + 3) % 8191;
        switch (dtype) {
            case BOOL -> out.put(at, (byte) (m & 1));
            case U8 -> out.put(at, (byte) m);
            case I8 -> out.put(at, (byte) (m ^ 0x80));
            case U16 -> out.putShort(at, (short) (m * 8));
            case I16 -> out.putShort(at, (short) (m * 8 ^ 0x8000));
            case U32 -> out.putInt(at, (int) (m * 524288 + m));
            case I32 -> out.putInt(at, (int) (m * 524288 + m ^ 0x80000000L));
            case U64 -> out.putLong(at, (m << 51) + m);
            case I64 -> out.putLong(at, (m << 51) + m ^ Long.MIN_VALUE);
            case F32 -> out.putFloat(at, single(m));
            case F64 -> out.putDouble(at, twofold(m));
            case C64 -> out.putFloat(at, single(m)).putFloat(at + 4, single(other));
            case C128 -> out.putDouble(at, twofold(m)).putDouble(at + 8, twofold(other));
        }
    }

    /** The elements are the same again after so many. */
    private static final int PERIOD = 8191;

    /** The elements of array number `seed`, as far as one of `size` elements has them. */
    private static ByteBuffer elements(Dtype dtype, long size, long seed) {
        int count = (int) Math.min(size, PERIOD);
        ByteBuffer known = ByteBuffer.allocate(count * dtype.size()).order(ByteOrder.nativeOrder());
        for (int n = 0; n < count; n++) {
            element(dtype, n, seed, known, n * dtype.size());
        }
        return known;
    }

    /** Where the element with number n (last index fastest) lies in an array of this order. */
    private static long place(long n, long[] shape, Order order) {
        if (order == Order.ROW_MAJOR) {
            return n;
        }
        long stride = 1;
        for (long extent : shape) {
            stride *= extent;
        }
        long place = 0;
        for (int i = shape.length - 1; i >= 0; n /= shape[i--]) {
            stride /= shape[i];
            place += n % shape[i] * stride;
        }
        return place;
    }

    private long seed() {
        return number + 100L * arrays++;
    }

    // --------------------------------------------------------------------------------------------------------- writing

    private void writeCase() {
        if (Integer.parseInt(token()) != number) {
            throw new IllegalStateException("number of the case");
        }
        arrays = 0;
        double time = bits(token());
        String next = token();
        Object value = value(token());
        for (String language : languages) {
            String port = "to_" + language;
            double following = next.equals("none") ? Double.POSITIVE_INFINITY : bits(next);
            if (number % 2 == 1) {
                me.out(port).send(value, time, following);
            } else {
                me.send(port, value, time, following);
            }
        }
    }

    private String token() {
        return tokens.nextToken();
    }

    private static double bits(String hex) {
        return Double.longBitsToDouble(Long.parseUnsignedLong(hex, 16));
    }

    private static byte[] unhex(String word) {
        return HexFormat.of().parseHex(word.substring(1));
    }

    private Object value(String kind) {
        switch (kind) {
            case "nothing":
                return null;
            case "bool":
                return token().equals("1");
            case "int":
                return Long.parseLong(token());
            case "double":
                return bits(token());
            case "complex":
                return new Complex(bits(token()), bits(token()));
            case "text":
                return new String(unhex(token()), StandardCharsets.UTF_8);
            case "bytes":
                return unhex(token());
            case "array":
                return array();
            case "[":
                List<Object> list = new ArrayList<>();
                for (String item = token(); !item.equals("]"); item = token()) {
                    list.add(value(item));
                }
                return list;
            case "{":
                Map<String, Object> map = new LinkedHashMap<>();
                for (String key = token(); !key.equals("}"); key = token()) {
                    map.put(new String(unhex(key), StandardCharsets.UTF_8), value(token()));
                }
                return map;
            default:
                throw new IllegalStateException("no such kind: " + kind);
        }
    }

    private NdArray array() {
        Dtype dtype = Dtype.values()[DTYPES.indexOf(token())];
        Order order = token().equals("row") ? Order.ROW_MAJOR : Order.COLUMN_MAJOR;
        long[] shape = new long[Integer.parseInt(token())];
        for (int i = 0; i < shape.length; i++) {
            shape[i] = Long.parseLong(token());
        }
        NdArray array = NdArray.zeros(dtype, order, shape);
        ByteBuffer bytes = array.bytes();
        int size = dtype.size();
        ByteBuffer known = elements(dtype, array.size(), seed());
        for (long n = 0; n < array.size(); n++) {
            bytes.put((int) place(n, shape, order) * size, known, (int) (n % PERIOD) * size, size);
        }
        return array;
    }

    // --------------------------------------------------------------------------------------------------------- reading

    private void readCase() throws IOException {
        for (String language : languages) {
            String port = "from_" + language;
            Message message = number % 2 == 1 ? me.in(port).receive() : me.receive(port);
            arrays = 0;
            report = new StringBuilder().append(number);
            describe(message.timestamp());
            if (message.nextTimestamp().isPresent()) {
                describe(message.nextTimestamp().getAsDouble());
            } else {
                report.append(" none");
            }
            describe(message.data());
            Files.writeString(Path.of(port), report.append('\n'), StandardOpenOption.CREATE, StandardOpenOption.APPEND);
        }
    }

    private void describe(double number) {
        report.append(String.format(" %016x", Double.doubleToRawLongBits(number)));
    }

    private void describe(byte[] bytes) {
        report.append(" x").append(HexFormat.of().formatHex(bytes));
    }

    private void describe(Object data) {
        if (data == null) {
            report.append(" nothing");
        } else if (data instanceof Boolean truth) {
            report.append(truth ? " bool 1" : " bool 0");
        } else if (data instanceof Long whole) {
            report.append(" int ").append(whole);
        } else if (data instanceof Double real) {
            report.append(" double");
            describe(real.doubleValue());
        } else if (data instanceof Complex complex) {
            report.append(" complex");
            describe(complex.re());
            describe(complex.im());
        } else if (data instanceof String text) {
            report.append(" text");
            describe(text.getBytes(StandardCharsets.UTF_8));
        } else if (data instanceof byte[] bytes) {
            report.append(" bytes");
            describe(bytes);
        } else if (data instanceof NdArray array) {
            describe(array);
        } else if (data instanceof List<?> list) {
            report.append(" [");
            list.forEach(this::describe);
            report.append(" ]");
        } else if (data instanceof Map<?, ?> map) {
            report.append(" {");
            map.forEach((key, item) -> {
                describe(((String) key).getBytes(StandardCharsets.UTF_8));
                describe(item);
            });
            report.append(" }");
        } else {
            report.append(" unexpected ").append(data.getClass());
        }
    }

    private void describe(NdArray array) {
        String order = array.order() == Order.ROW_MAJOR ? " row" : " column";
        report.append(" array ").append(DTYPES.get(array.dtype().ordinal())).append(order).append(order).append(' ').append(array.rank());
        for (long extent : array.shape()) {
            report.append(' ').append(extent);
        }
        ByteBuffer bytes = array.bytes();
        Adler32 sum = new Adler32();
        sum.update(bytes.duplicate());
        report.append(String.format(" %08x", sum.getValue()));
        int size = array.dtype().size();
        long[] shape = array.shape();
        ByteBuffer known = elements(array.dtype(), array.size(), seed());
        for (long n = 0; n < array.size(); n++) {
            int at = (int) place(n, shape, array.order()) * size;
            int expected = (int) (n % PERIOD) * size;
            for (int i = 0; i < size; i++) {
                if (known.get(expected + i) != bytes.get(at + i)) {
                    report.append(" wrong@").append(n);
                    return;
                }
            }
        }
    }
}
