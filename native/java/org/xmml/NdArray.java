package org.xmml;

import java.lang.ref.Cleaner;
import java.lang.ref.Reference;
import java.nio.ByteBuffer;
import java.nio.ByteOrder;
import java.nio.DoubleBuffer;
import java.nio.FloatBuffer;
import java.nio.IntBuffer;
import java.nio.LongBuffer;
import java.nio.ShortBuffer;
import java.util.Arrays;

/**
 * An n-dimensional array outside Java's heap: what an array in a message is. Buffers show its elements where they lie, in the order of
 * {@link #order()}; what gives Java arrays copies them, and goes by index: last index fastest, whatever the order in memory.
 *
 * <p>The memory of a received array is given back when neither the array nor a buffer over it is reachable, or at once by {@link #close()}.
 * For the former Java's collector must run; it is called when arrays that are not given back hold much memory.
 * A received array may be written to, unless several receivers share it ({@link #isReadOnly()}).
 */
public final class NdArray implements AutoCloseable {
    private final Dtype dtype;
    private final Order order;
    private final long[] shape;
    private final long bytes;
    private final long address;
    private final boolean readOnly;
    private final Cleaner.Cleanable memory;
    /** Keeps the memory alive, and is kept by every buffer over it. */
    private ByteBuffer root;

    private NdArray(Dtype dtype, Order order, long[] shape, ByteBuffer root) {
        this.dtype = dtype;
        this.order = order;
        this.shape = shape;
        this.bytes = byteSize(dtype, shape);
        this.root = root;
        this.address = Native.addressOf(root);
        this.readOnly = root.isReadOnly();
        this.memory = null;
    }

    /** Over what the native library holds; takes it over. */
    NdArray(long data) {
        long[] layout = Native.layout(data);
        dtype = Dtype.of(layout[0]);
        order = layout[1] == 1 ? Order.COLUMN_MAJOR : Order.ROW_MAJOR;
        readOnly = layout[2] == 0;
        address = layout[3];
        bytes = layout[4];
        shape = Arrays.copyOfRange(layout, 5, layout.length);
        root = bytes == 0 ? ByteBuffer.allocateDirect(0) : Native.view(address, (int) Math.min(bytes, Integer.MAX_VALUE));
        memory = OutsideHeap.hold(root, bytes, () -> Native.free(data));
    }

    private static long byteSize(Dtype dtype, long[] shape) {
        long size = dtype.size();
        for (long extent : shape) {
            if (extent < 0) {
                throw new XmmlException("an extent of " + extent + " in the shape " + Arrays.toString(shape));
            }
            size = Math.multiplyExact(size, extent);
        }
        return size;
    }

    /**
     * An array of zeros, last index fastest.
     *
     * @param dtype element type
     * @param shape extents
     * @return the array
     */
    public static NdArray zeros(Dtype dtype, long... shape) {
        return zeros(dtype, Order.ROW_MAJOR, shape);
    }

    /**
     * An array of zeros.
     *
     * @param dtype element type
     * @param order memory order
     * @param shape extents
     * @return the array
     */
    public static NdArray zeros(Dtype dtype, Order order, long... shape) {
        long bytes = byteSize(dtype, shape);
        if (bytes > Integer.MAX_VALUE) {
            throw new XmmlException("an array of " + bytes + " bytes; one made here has at most 2^31 - 1: use Instance.loan");
        }
        return new NdArray(dtype, order, shape.clone(), ByteBuffer.allocateDirect((int) bytes));
    }

    /**
     * The bytes of a direct buffer from its position to its limit as an array; nothing is copied.
     *
     * @param dtype element type
     * @param order memory order
     * @param buffer a direct buffer, in native byte order
     * @param shape extents
     * @return the array
     */
    public static NdArray over(Dtype dtype, Order order, ByteBuffer buffer, long... shape) {
        if (!buffer.isDirect()) {
            throw new XmmlException("the buffer is not direct; make it with ByteBuffer.allocateDirect, or use NdArray.of");
        }
        if (byteSize(dtype, shape) != buffer.remaining()) {
            throw new XmmlException("an array of " + dtype + " with shape " + Arrays.toString(shape) + " cannot have "
                    + buffer.remaining() + " bytes");
        }
        return new NdArray(dtype, order, shape.clone(), buffer.slice());
    }

    /**
     * A copy of elements that lie in a Java array, last index fastest.
     *
     * @param elements a {@code boolean[]}, {@code byte[]}, {@code short[]}, {@code int[]}, {@code long[]}, {@code float[]} or
     *     {@code double[]}
     * @param shape extents; none: a vector of all elements
     * @return the array
     */
    public static NdArray of(Object elements, long... shape) {
        return of(Values.dtypeOf(elements), Order.ROW_MAJOR, elements, shape);
    }

    /**
     * A copy of elements that lie in a Java array, as a type that Java has not (unsigned, or complex as real and imaginary parts in
     * turn), or in another order.
     *
     * @param dtype element type, of the size of the Java array's (complex: of twice its size)
     * @param order order of the elements in the Java array, and in the new one
     * @param elements a Java array of a primitive type
     * @param shape extents; none: a vector of all elements
     * @return the array
     */
    public static NdArray of(Dtype dtype, Order order, Object elements, long... shape) {
        return new NdArray(Native.heapArray(0, dtype.ordinal(), order.ordinal(), Values.shapeOf(dtype, elements, shape), elements));
    }

    /**
     * A copy of a matrix.
     *
     * @param rows its rows, of equal length
     * @return the array
     */
    public static NdArray of(double[][] rows) {
        long columns = rows.length == 0 ? 0 : rows[0].length;
        NdArray array = zeros(Dtype.F64, rows.length, columns);
        DoubleBuffer target = array.doubles();
        for (double[] row : rows) {
            if (row.length != columns) {
                throw new XmmlException("rows of " + columns + " and of " + row.length + " elements make no array");
            }
            target.put(row);
        }
        return array;
    }

    /**
     * A copy of an array of rank 3.
     *
     * @param planes its planes, of equal shape
     * @return the array
     */
    public static NdArray of(double[][][] planes) {
        long rows = planes.length == 0 ? 0 : planes[0].length;
        long columns = rows == 0 ? 0 : planes[0][0].length;
        NdArray array = zeros(Dtype.F64, planes.length, rows, columns);
        DoubleBuffer target = array.doubles();
        for (double[][] plane : planes) {
            for (double[] row : plane) {
                if (plane.length != rows || row.length != columns) {
                    throw new XmmlException("planes or rows of different lengths make no array");
                }
                target.put(row);
            }
        }
        return array;
    }

    /**
     * Element type.
     *
     * @return the type
     */
    public Dtype dtype() {
        return dtype;
    }

    /**
     * Memory order of the elements.
     *
     * @return the order
     */
    public Order order() {
        return order;
    }

    /**
     * Extents.
     *
     * @return a copy of them; empty for rank 0
     */
    public long[] shape() {
        return shape.clone();
    }

    /**
     * Number of dimensions.
     *
     * @return the rank
     */
    public int rank() {
        return shape.length;
    }

    /**
     * Number of elements.
     *
     * @return 1 for rank 0
     */
    public long size() {
        return bytes / dtype.size();
    }

    /**
     * Number of bytes.
     *
     * @return the size of all elements
     */
    public long byteSize() {
        return bytes;
    }

    /**
     * Whether it may not be written to, since several receivers see the same memory.
     *
     * @return true if so
     */
    public boolean isReadOnly() {
        return readOnly;
    }

    /**
     * Gives the memory back now. No buffer over it may be used any more, which nothing checks; without this call the memory is given back
     * when no buffer is left.
     */
    @Override
    public void close() {
        root = null;
        if (memory != null) {
            memory.clean();
        }
    }

    private ByteBuffer root() {
        if (root == null) {
            throw new IllegalStateException("the array was closed already");
        }
        return root;
    }

    /** Where the elements are; the array must stay reachable while that is used. */
    long address() {
        root();
        return address;
    }

    /**
     * The elements as bytes, without a copy, in native byte order.
     *
     * @return a direct buffer
     */
    public ByteBuffer bytes() {
        if (bytes > Integer.MAX_VALUE) {
            throw new XmmlException("a buffer has at most 2^31 - 1 bytes, the array has " + bytes + ": use bytes(offset, length)");
        }
        ByteBuffer all = root();
        return (readOnly ? all.asReadOnlyBuffer() : all.duplicate()).clear().order(ByteOrder.nativeOrder());
    }

    /**
     * Some of the elements as bytes, without a copy, in native byte order: for arrays larger than one buffer.
     *
     * @param offset first byte
     * @param length number of bytes
     * @return a direct buffer
     */
    public ByteBuffer bytes(long offset, int length) {
        if (offset < 0 || length < 0 || offset > bytes - length) {
            throw new IndexOutOfBoundsException(length + " bytes from " + offset + " on of " + bytes);
        }
        ByteBuffer whole = root();
        if (offset + length <= whole.capacity()) {
            ByteBuffer part = whole.slice((int) offset, length);
            return (readOnly ? part.asReadOnlyBuffer() : part).order(ByteOrder.nativeOrder());
        }
        ByteBuffer part = Native.view(address + offset, length);
        // The memory stays as long as this buffer.
        OutsideHeap.CLEANER.register(part, () -> Reference.reachabilityFence(whole));
        return (readOnly ? part.asReadOnlyBuffer() : part).order(ByteOrder.nativeOrder());
    }

    private ByteBuffer bytesOf(Dtype... expected) {
        if (!Arrays.asList(expected).contains(dtype)) {
            throw new DataTypeException("expected an array of " + expected[0] + ", but found " + this);
        }
        return bytes();
    }

    /**
     * Elements of type F64, or parts of C128, without a copy.
     *
     * @return the elements as they lie in memory
     */
    public DoubleBuffer doubles() {
        return bytesOf(Dtype.F64, Dtype.C128).asDoubleBuffer();
    }

    /**
     * Elements of type F32, or parts of C64, without a copy.
     *
     * @return the elements as they lie in memory
     */
    public FloatBuffer floats() {
        return bytesOf(Dtype.F32, Dtype.C64).asFloatBuffer();
    }

    /**
     * Elements of type I64 or U64, without a copy.
     *
     * @return the elements as they lie in memory
     */
    public LongBuffer longs() {
        return bytesOf(Dtype.I64, Dtype.U64).asLongBuffer();
    }

    /**
     * Elements of type I32 or U32, without a copy.
     *
     * @return the elements as they lie in memory
     */
    public IntBuffer ints() {
        return bytesOf(Dtype.I32, Dtype.U32).asIntBuffer();
    }

    /**
     * Elements of type I16 or U16, without a copy.
     *
     * @return the elements as they lie in memory
     */
    public ShortBuffer shorts() {
        return bytesOf(Dtype.I16, Dtype.U16).asShortBuffer();
    }

    /**
     * The same elements in another memory order.
     *
     * @param wanted the order
     * @return a copy, or this array if it is in that order already
     */
    public NdArray in(Order wanted) {
        if (wanted == order || Arrays.stream(shape).filter(extent -> extent > 1).count() <= 1) {
            return this;
        }
        NdArray copy = zeros(dtype, wanted, shape);
        ByteBuffer source = bytes();
        ByteBuffer target = copy.bytes();
        int size = dtype.size();
        int rank = shape.length;
        // The target is written from its begin to its end; its fastest index is the last or the first one.
        boolean last = wanted == Order.ROW_MAJOR;
        long[] stride = new long[rank];
        long step = size;
        for (int i = 0; i < rank; i++) {
            int dimension = last ? i : rank - 1 - i;
            stride[dimension] = step;
            step *= shape[dimension];
        }
        long[] index = new long[rank];
        long from = 0;
        for (int to = 0; to < bytes; to += size) {
            target.put(to, source, (int) from, size);
            for (int i = 0; i < rank; i++) {
                int dimension = last ? rank - 1 - i : i;
                from += stride[dimension];
                if (++index[dimension] < shape[dimension]) {
                    break;
                }
                from -= stride[dimension] * shape[dimension];
                index[dimension] = 0;
            }
        }
        return copy;
    }

    private int count(int perElement) {
        return Math.toIntExact(size() * perElement);
    }

    /**
     * A copy of the elements of type F64 (C128: real and imaginary parts in turn), last index fastest.
     *
     * @return the elements
     */
    public double[] toDoubles() {
        double[] copy = new double[count(dtype == Dtype.C128 ? 2 : 1)];
        in(Order.ROW_MAJOR).doubles().get(copy);
        return copy;
    }

    /**
     * A copy of the elements of type F32 (C64: real and imaginary parts in turn), last index fastest.
     *
     * @return the elements
     */
    public float[] toFloats() {
        float[] copy = new float[count(dtype == Dtype.C64 ? 2 : 1)];
        in(Order.ROW_MAJOR).floats().get(copy);
        return copy;
    }

    /**
     * A copy of the elements of type I64 or U64, last index fastest.
     *
     * @return the elements
     */
    public long[] toLongs() {
        long[] copy = new long[count(1)];
        in(Order.ROW_MAJOR).longs().get(copy);
        return copy;
    }

    /**
     * A copy of the elements of type I32 or U32, last index fastest.
     *
     * @return the elements
     */
    public int[] toInts() {
        int[] copy = new int[count(1)];
        in(Order.ROW_MAJOR).ints().get(copy);
        return copy;
    }

    /**
     * A copy of the elements of type I16 or U16, last index fastest.
     *
     * @return the elements
     */
    public short[] toShorts() {
        short[] copy = new short[count(1)];
        in(Order.ROW_MAJOR).shorts().get(copy);
        return copy;
    }

    /**
     * A copy of the elements of type I8 or U8, last index fastest.
     *
     * @return the elements
     */
    public byte[] toBytes() {
        byte[] copy = new byte[count(1)];
        in(Order.ROW_MAJOR).bytesOf(Dtype.I8, Dtype.U8).get(copy);
        return copy;
    }

    /**
     * A copy of the elements of type BOOL, last index fastest.
     *
     * @return the elements
     */
    public boolean[] toBooleans() {
        boolean[] copy = new boolean[count(1)];
        ByteBuffer source = in(Order.ROW_MAJOR).bytesOf(Dtype.BOOL);
        for (int i = 0; i < copy.length; i++) {
            copy[i] = source.get(i) != 0;
        }
        return copy;
    }

    private void mustHaveRank(int rank) {
        if (shape.length != rank) {
            throw new DataTypeException("expected an array of rank " + rank + ", but found " + this);
        }
    }

    /**
     * A copy of a matrix of type F64, by rows.
     *
     * @return element [i][j] is that with index (i, j)
     */
    public double[][] toDoubles2() {
        mustHaveRank(2);
        DoubleBuffer source = in(Order.ROW_MAJOR).doubles();
        double[][] copy = new double[Math.toIntExact(shape[0])][Math.toIntExact(shape[1])];
        for (double[] row : copy) {
            source.get(row);
        }
        return copy;
    }

    /**
     * A copy of an array of rank 3 and type F64.
     *
     * @return element [i][j][k] is that with index (i, j, k)
     */
    public double[][][] toDoubles3() {
        mustHaveRank(3);
        DoubleBuffer source = in(Order.ROW_MAJOR).doubles();
        double[][][] copy =
                new double[Math.toIntExact(shape[0])][Math.toIntExact(shape[1])][Math.toIntExact(shape[2])];
        for (double[][] plane : copy) {
            for (double[] row : plane) {
                source.get(row);
            }
        }
        return copy;
    }

    /** Whether type, shape and elements are the same; the memory order does not matter. */
    @Override
    public boolean equals(Object other) {
        return other instanceof NdArray that && dtype == that.dtype && Arrays.equals(shape, that.shape)
                && bytes().equals(that.in(order).bytes());
    }

    @Override
    public int hashCode() {
        return 31 * dtype.hashCode() + Arrays.hashCode(shape);
    }

    @Override
    public String toString() {
        return "an array of " + dtype + " with shape " + Arrays.toString(shape);
    }
}
