package org.xmml;

import java.lang.ref.Reference;
import java.math.BigInteger;
import java.time.Instant;
import java.util.Collections;
import java.util.LinkedHashMap;
import java.util.Map;
import java.util.Optional;

/**
 * An object that was taken from a pool: a message with typed attributes.
 *
 * <pre>{@code
 * for (PoolObject field : me.objects("fields")) {
 *     if (field.attributeLong("step") > 12) {
 *         double[] values = field.asDoubles();
 *     }
 * }
 * }</pre>
 *
 * <p>An attribute is a {@link Boolean}, {@link Long}, {@link Double}, {@link String} (also the member of an enumeration), {@link Instant},
 * {@code long[]}, {@code double[]} or {@code byte[]}; a whole number that no {@code long} holds is a {@link BigInteger}. Every object has
 * {@code "sys.t"}, {@code "sys.seq"}, {@code "sys.instance"} and others.
 */
public final class PoolObject extends Message {
    /** What the native library knows of the object. */
    private final long known;

    /** Takes over what the native library holds: {@code bytes} of attributes, {@code known}. */
    PoolObject(String port, long data, double timestamp, double nextTimestamp, long known, long bytes) {
        super(port, Values.take(data), timestamp, nextTimestamp);
        this.known = known;
        OutsideHeap.hold(this, bytes, () -> Native.freeAttributes(known));
    }

    /**
     * An attribute as it is.
     *
     * @param name its name
     * @return its value; empty if the object does not have it
     * @throws XmmlException the datatype of the object declares no such attribute
     */
    public Optional<Object> attribute(String name) {
        try {
            return Optional.ofNullable(Native.attribute(known, port, name));
        } finally {
            Reference.reachabilityFence(this);
        }
    }

    /**
     * The attributes that the object has.
     *
     * @return by name: those of its datatype, then those that every object has
     */
    public Map<String, Object> attributes() {
        Map<String, Object> all = new LinkedHashMap<>();
        try {
            Object[] pairs = Native.attributes(known);
            for (int i = 0; i < pairs.length; i += 2) {
                all.put((String) pairs[i], pairs[i + 1]);
            }
        } finally {
            Reference.reachabilityFence(this);
        }
        return Collections.unmodifiableMap(all);
    }

    /**
     * Whether the object has an attribute.
     *
     * @param name its name
     * @return true if so
     * @throws XmmlException the datatype of the object declares no such attribute
     */
    public boolean hasAttribute(String name) {
        return attribute(name).isPresent();
    }

    /**
     * A truth value.
     *
     * @param name name of the attribute
     * @return its value
     * @throws DataTypeException the attribute is of another type
     * @throws XmmlException the object does not have it
     */
    public boolean attributeBoolean(String name) {
        return attribute(name, Boolean.class, "a truth value");
    }

    /**
     * A whole number.
     *
     * @param name name of the attribute
     * @return its value
     * @throws DataTypeException the attribute is of another type, or larger than any long
     * @throws XmmlException the object does not have it
     */
    public long attributeLong(String name) {
        return attribute(name, Long.class, "an integer that a long holds");
    }

    /**
     * A number.
     *
     * @param name name of the attribute
     * @return its value
     * @throws DataTypeException the attribute is of another type
     * @throws XmmlException the object does not have it
     */
    public double attributeDouble(String name) {
        return attribute(name, Number.class, "a real number").doubleValue();
    }

    /**
     * A text, or the member of an enumeration.
     *
     * @param name name of the attribute
     * @return its value
     * @throws DataTypeException the attribute is of another type
     * @throws XmmlException the object does not have it
     */
    public String attributeText(String name) {
        return attribute(name, String.class, "text");
    }

    /**
     * A point in time.
     *
     * @param name name of the attribute
     * @return its value
     * @throws DataTypeException the attribute is of another type
     * @throws XmmlException the object does not have it
     */
    public Instant attributeTime(String name) {
        return attribute(name, Instant.class, "a time");
    }

    /**
     * Whole numbers in order.
     *
     * @param name name of the attribute
     * @return its value
     * @throws DataTypeException the attribute is of another type
     * @throws XmmlException the object does not have it
     */
    public long[] attributeLongs(String name) {
        return attribute(name, long[].class, "integers");
    }

    /**
     * Numbers in order.
     *
     * @param name name of the attribute
     * @return its value
     * @throws DataTypeException the attribute is of another type
     * @throws XmmlException the object does not have it
     */
    public double[] attributeDoubles(String name) {
        return attribute(name, double[].class, "real numbers");
    }

    /**
     * Bytes.
     *
     * @param name name of the attribute
     * @return its value
     * @throws DataTypeException the attribute is of another type
     * @throws XmmlException the object does not have it
     */
    public byte[] attributeBytes(String name) {
        return attribute(name, byte[].class, "bytes");
    }

    private <T> T attribute(String name, Class<T> type, String what) {
        Object value = attribute(name).orElseThrow(() -> new XmmlException(port + ": this object has no " + name));
        if (!type.isInstance(value)) {
            throw new DataTypeException(port + ": " + name + ": expected " + what + ", but it is " + describe(value));
        }
        return type.cast(value);
    }
}
