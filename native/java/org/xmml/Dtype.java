package org.xmml;

/** The element type of an {@link NdArray}. Unsigned numbers lie in Java's signed type of the same size. */
public enum Dtype {
    /** A truth value, one byte. */
    BOOL(1),
    /** A signed number of 1 byte. */
    I8(1),
    /** A signed number of 2 bytes. */
    I16(2),
    /** A signed number of 4 bytes. */
    I32(4),
    /** A signed number of 8 bytes. */
    I64(8),
    /** An unsigned number of 1 byte. */
    U8(1),
    /** An unsigned number of 2 bytes. */
    U16(2),
    /** An unsigned number of 4 bytes. */
    U32(4),
    /** An unsigned number of 8 bytes. */
    U64(8),
    /** A float. */
    F32(4),
    /** A double. */
    F64(8),
    /** A complex number: two floats, real and imaginary part. */
    C64(8),
    /** A complex number: two doubles, real and imaginary part. */
    C128(16);

    private static final Dtype[] ALL = values();
    private final int size;

    Dtype(int size) {
        this.size = size;
    }

    /**
     * Size of one element.
     *
     * @return in bytes
     */
    public int size() {
        return size;
    }

    static Dtype of(long code) {
        return ALL[(int) code];
    }
}
