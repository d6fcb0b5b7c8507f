package org.xmml;

import java.util.List;
import java.util.Map;
import java.util.OptionalDouble;

/**
 * A message that was received; a {@link PoolObject} if it was taken from a pool.
 *
 * <p>Its data is null (nothing), a {@link Boolean}, {@link Long}, {@link Double}, {@link Complex} or {@link String}, a {@code byte[]},
 * an {@link NdArray}, or a {@link List} or {@link Map} of these. {@link #data()} gives it as it is; the other calls give it as the type
 * that is expected, and throw a {@link DataTypeException} otherwise.
 */
public sealed class Message permits PoolObject {
    /** How errors name where it is from. */
    final String port;
    private final Object data;
    private final double timestamp;
    private final double nextTimestamp;

    Message(String port, Object data, double timestamp, double nextTimestamp) {
        this.port = port;
        this.data = data;
        this.timestamp = timestamp;
        this.nextTimestamp = nextTimestamp;
    }

    /**
     * What it carries.
     *
     * @return the data
     */
    public Object data() {
        return data;
    }

    /**
     * Model time of the observation.
     *
     * @return in seconds
     */
    public double timestamp() {
        return timestamp;
    }

    /**
     * Model time of the next message on this conduit.
     *
     * @return in seconds; empty if this is the last one or it is not known
     */
    public OptionalDouble nextTimestamp() {
        return Double.isInfinite(nextTimestamp) ? OptionalDouble.empty() : OptionalDouble.of(nextTimestamp);
    }

    private <T> T as(Class<T> type, String what) {
        if (!type.isInstance(data)) {
            throw new DataTypeException(port + ": expected " + what + ", but the message holds " + describe(data));
        }
        return type.cast(data);
    }

    static String describe(Object data) {
        if (data instanceof List<?> list) {
            return "a list of " + list.size();
        } else if (data instanceof Map<?, ?> map) {
            return "a map of " + map.size();
        } else if (data instanceof byte[] bytes) {
            return bytes.length + " bytes";
        } else if (data instanceof NdArray) {
            return data.toString();
        }
        return data == null ? "nothing" : "a " + data.getClass().getSimpleName();
    }

    /**
     * A truth value.
     *
     * @return the data
     */
    public boolean asBoolean() {
        return as(Boolean.class, "a truth value");
    }

    /**
     * An integer.
     *
     * @return the data
     */
    public long asLong() {
        return as(Long.class, "an integer");
    }

    /**
     * A real number, which may have been sent as an integer.
     *
     * @return the data
     */
    public double asDouble() {
        return data instanceof Long whole ? whole : as(Double.class, "a real number");
    }

    /**
     * A complex number.
     *
     * @return the data
     */
    public Complex asComplex() {
        return as(Complex.class, "a complex number");
    }

    /**
     * A text.
     *
     * @return the data
     */
    public String asText() {
        return as(String.class, "text");
    }

    /**
     * Bytes.
     *
     * @return the data
     */
    public byte[] asBytes() {
        return as(byte[].class, "bytes");
    }

    /**
     * An array, without a copy.
     *
     * @return the data
     */
    public NdArray asArray() {
        return as(NdArray.class, "an array");
    }

    /**
     * A copy of an array of type F64, last index fastest.
     *
     * @return the elements
     */
    public double[] asDoubles() {
        return asArray().toDoubles();
    }

    /**
     * A list.
     *
     * @return the data
     */
    @SuppressWarnings("unchecked")
    public List<Object> asList() {
        return as(List.class, "a list");
    }

    /**
     * A map, in the order in which the sender has put it together.
     *
     * @return the data
     */
    @SuppressWarnings("unchecked")
    public Map<String, Object> asMap() {
        return as(Map.class, "a map");
    }
}
