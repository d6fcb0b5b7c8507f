package org.xmml;

import java.io.IOException;
import java.io.InputStream;
import java.net.URISyntaxException;
import java.nio.ByteBuffer;
import java.nio.file.Files;
import java.nio.file.Path;
import java.nio.file.StandardCopyOption;

/** The native library: what it does is written down in its Rust source. Addresses are those of objects of Rust. */
final class Native {
    private static final String LIBRARY = "libxmml_java.so";

    static {
        load();
    }

    private Native() {}

    /** Loads the library beside the jar, as the development kit has it, or else the one inside the jar. */
    private static void load() {
        try {
            Path jar = Path.of(Native.class.getProtectionDomain().getCodeSource().getLocation().toURI());
            Path beside = jar.resolveSibling(LIBRARY);
            if (Files.exists(beside)) {
                System.load(beside.toString());
                return;
            }
        } catch (URISyntaxException | SecurityException | IllegalArgumentException elsewhere) {
            // Not from a file: then it is inside.
        }
        try (InputStream inside = Native.class.getResourceAsStream("/" + LIBRARY)) {
            if (inside == null) {
                throw new UnsatisfiedLinkError("xmml.jar holds no " + LIBRARY + "; build xMML again");
            }
            // Readable to its owner only, and gone as soon as it is loaded.
            Path copy = Files.createTempFile("xmml", ".so");
            try {
                Files.copy(inside, copy, StandardCopyOption.REPLACE_EXISTING);
                System.load(copy.toString());
            } finally {
                Files.delete(copy);
            }
        } catch (IOException problem) {
            UnsatisfiedLinkError error = new UnsatisfiedLinkError(
                    "cannot unpack " + LIBRARY + " from xmml.jar (" + problem + "); let java.io.tmpdir name a folder with room");
            error.initCause(problem);
            throw error;
        }
    }

    static native long join();

    static native long alone(String name, String[] ports, String[] places, String[] params, long steps, double delta,
            String[] scales, double[] extents, String[] inputPorts, double[] inputTimes, long[] inputData);

    static native void leave(long me);

    static native void fail(long me, String reason);

    static native void warn(long me, String text);

    static native boolean reuse(long me);

    static native double step(long me);

    static native String name(long me);

    static native double[] facts(long me);

    static native double[] scale(long me, String name);

    static native String[] ports(long me);

    static native String paramText(long me, String name);

    static native double paramDouble(long me, String name, String unit);

    static native long paramLong(long me, String name, String unit);

    static native boolean paramBoolean(long me, String name);

    static native String[] params(long me);

    static native boolean hasParam(long me, String name);

    static native RuntimeException noPort(long me, String port, boolean sends);

    static native boolean connected(long me, int port);

    static native int copies(long me, int port);

    static native void skip(long me, int port);

    static native String[] methods(long me, int port);

    static native void setMethods(long me, int port, String methods);

    static native byte[] handle(long me, int port, int holders, String methods);

    static native int open(long me, int port, byte[] handle);

    static native void close(long me, int port, int number);

    static native void revoke(long me, byte[] handle);

    static native String handleText(byte[] handle);

    static native void onMessage(long me, int port, InPort owner);

    static native int serve(long me, double timeout);

    static native boolean send(long me, int port, int to, long data, double timestamp, double nextTimestamp);

    static native long receive(long me, int port, int of, double timeout, double[] stamps);

    static native void throwWithout(long me, int port, int of, long outcome, double timeout);

    static native boolean hasMessage(long me, int port, int of);

    static native long put(long me, int port, long data, String attributes);

    static native long putNamed(long me, int port, long data, String[] names, Object[] values);

    static native long wanted(long me, int port, String attributes);

    static native long wantedNamed(long me, int port, String[] names, Object[] values);

    static native void beginGroup(long me, int port, String attributes);

    static native void beginGroupNamed(long me, int port, String[] names, Object[] values);

    static native long endGroup(long me, int port);

    static native void abandonGroup(long me, int port);

    static native void end(long me, int port);

    static native long take(long me, int port, double timeout, double[] stamps, long[] known);

    static native Object attribute(long known, String place, String name);

    static native Object[] attributes(long known);

    static native void freeAttributes(long known);

    static native long loan(long me, int dtype, int order, long[] shape);

    static native long output(long me, String port, int i, double[] stamps);

    static native long nothing();

    static native long bool(boolean value);

    static native long integer(long value);

    static native long real(double value);

    static native long complex(double re, double im);

    static native long text(String value);

    static native long bytes(byte[] value);

    static native long list(long[] elements);

    static native long map(String[] keys, long[] values);

    static native long heapArray(long me, int dtype, int order, long[] shape, Object array);

    static native long directArray(int dtype, int order, long[] shape, long address, boolean copy);

    static native long addressOf(ByteBuffer buffer);

    static native int kind(long data);

    static native long asLong(long data);

    static native double asDouble(long data);

    static native double asImaginary(long data);

    static native String asText(long data);

    static native byte[] asBytes(long data);

    static native long[] children(long data);

    static native String[] keys(long data);

    static native long[] layout(long data);

    static native ByteBuffer view(long address, int size);

    static native void free(long data);
}
