package org.xmml;

import java.lang.reflect.Array;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;

/** Java objects as payloads, and back. */
final class Values {
    private Values() {}

    /**
     * Makes a payload; the caller frees it, and keeps {@code value} reachable until then (unless {@code keeps} has it copied).
     */
    static long give(long me, Object value, boolean keeps) {
        if (value == null) {
            return Native.nothing();
        } else if (value instanceof Double || value instanceof Float) {
            return Native.real(((Number) value).doubleValue());
        } else if (value instanceof Long || value instanceof Integer || value instanceof Short || value instanceof Byte) {
            return Native.integer(((Number) value).longValue());
        } else if (value instanceof NdArray array) {
            long address = array.address();
            return Native.directArray(array.dtype().ordinal(), array.order().ordinal(), array.shape(), address, keeps);
        } else if (value instanceof byte[] bytes) {
            return Native.bytes(bytes);
        } else if (value instanceof Boolean truth) {
            return Native.bool(truth);
        } else if (value instanceof String text) {
            return Native.text(text);
        } else if (value instanceof Complex complex) {
            return Native.complex(complex.re(), complex.im());
        } else if (value instanceof double[][] matrix) {
            return give(me, NdArray.of(matrix), true);
        } else if (value instanceof double[][][] planes) {
            return give(me, NdArray.of(planes), true);
        } else if (value instanceof List<?> list) {
            return Native.list(all(me, list, keeps));
        } else if (value instanceof Map<?, ?> map) {
            String[] keys = new String[map.size()];
            int i = 0;
            for (Object key : map.keySet()) {
                if (!(key instanceof String text)) {
                    throw new DataTypeException("a map in a message has keys of type String, not " + nameOf(key));
                }
                keys[i++] = text;
            }
            return Native.map(keys, all(me, map.values(), keeps));
        }
        Dtype dtype = dtypeOf(value);
        return Native.heapArray(me, dtype.ordinal(), 0, new long[] {Array.getLength(value)}, value);
    }

    private static long[] all(long me, Iterable<?> values, boolean keeps) {
        List<Long> given = new ArrayList<>();
        try {
            for (Object value : values) {
                given.add(give(me, value, keeps));
            }
        } catch (RuntimeException problem) {
            given.forEach(Native::free);
            throw problem;
        }
        return given.stream().mapToLong(Long::longValue).toArray();
    }

    /** What a payload is in Java; frees it, or hands it over to an array. */
    static Object take(long data) {
        int kind = Native.kind(data);
        if (kind == 7) {
            return new NdArray(data);
        }
        try {
            return switch (kind) {
                case 0 -> null;
                case 1 -> Native.asLong(data) != 0;
                case 2 -> (Object) Native.asLong(data);
                case 3 -> (Object) Native.asDouble(data);
                case 4 -> new Complex(Native.asDouble(data), Native.asImaginary(data));
                case 5 -> Native.asText(data);
                case 6 -> Native.asBytes(data);
                case 8 -> {
                    List<Object> list = new ArrayList<>();
                    for (long child : Native.children(data)) {
                        list.add(take(child));
                    }
                    yield list;
                }
                default -> {
                    Map<String, Object> map = new LinkedHashMap<>();
                    String[] keys = Native.keys(data);
                    long[] children = Native.children(data);
                    for (int i = 0; i < keys.length; i++) {
                        map.put(keys[i], take(children[i]));
                    }
                    yield map;
                }
            };
        } finally {
            Native.free(data);
        }
    }

    static Dtype dtypeOf(Object elements) {
        if (elements instanceof double[]) {
            return Dtype.F64;
        } else if (elements instanceof float[]) {
            return Dtype.F32;
        } else if (elements instanceof long[]) {
            return Dtype.I64;
        } else if (elements instanceof int[]) {
            return Dtype.I32;
        } else if (elements instanceof short[]) {
            return Dtype.I16;
        } else if (elements instanceof byte[]) {
            return Dtype.I8;
        } else if (elements instanceof boolean[]) {
            return Dtype.BOOL;
        }
        throw new DataTypeException("a message cannot carry " + nameOf(elements) + "; it can carry numbers, Boolean, String, Complex,"
                + " byte[], arrays of primitive types, NdArray, and List and Map of these");
    }

    /** The extents that are meant, after checking that Java's array has so many elements. */
    static long[] shapeOf(Dtype dtype, Object elements, long[] shape) {
        Dtype own = dtypeOf(elements);
        boolean complex = dtype == Dtype.C64 || dtype == Dtype.C128;
        boolean fits = switch (dtype) {
            case C64 -> own == Dtype.F32;
            case C128 -> own == Dtype.F64;
            case U8 -> own == Dtype.I8;
            case U16 -> own == Dtype.I16;
            case U32 -> own == Dtype.I32;
            case U64 -> own == Dtype.I64;
            default -> own == dtype;
        };
        if (!fits) {
            throw new DataTypeException("elements of " + dtype + " do not lie in " + nameOf(elements));
        }
        long length = Array.getLength(elements);
        long parts = complex ? 2 : 1;
        if (shape.length == 0) {
            shape = new long[] {length / parts};
        }
        long size = parts;
        for (long extent : shape) {
            size = extent < 0 ? -1 : Math.multiplyExact(size, extent);
        }
        if (size != length) {
            throw new XmmlException("an array of " + dtype + " with shape " + Arrays.toString(shape) + " cannot have " + length
                    + " elements" + (complex ? " (real and imaginary parts)" : ""));
        }
        return shape;
    }

    private static String nameOf(Object value) {
        return value == null ? "null" : value.getClass().getTypeName();
    }
}
