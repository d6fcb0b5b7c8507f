package org.xmml;

import java.lang.ref.Reference;
import java.util.List;
import java.util.Map;
import java.util.Objects;

/**
 * An out port that was looked up once.
 *
 * <pre>{@code
 * OutPort pressure = me.out("pressure");
 * for (double t : me.steps()) {
 *     pressure.send(field);
 * }
 * }</pre>
 */
public final class OutPort extends BoundPort {
    private static final double OF_THE_LOOP = Double.NaN;

    OutPort(Instance me, int number, String name, String place) {
        super(me, number, name, place);
    }

    /**
     * Sends to all who receive here, with the time stamps of the loop. If the port is not coupled, it does nothing.
     *
     * @param data as for {@link Instance#send(String, Object)}
     * @return false: every receiver has left, and the message was dropped and counted
     */
    public boolean send(Object data) {
        return give(ALL, data, OF_THE_LOOP, OF_THE_LOOP);
    }

    /**
     * Sends with time stamps of its own.
     *
     * @param data as for {@link Instance#send(String, Object)}
     * @param timestamp model time in seconds; NaN: that of the loop
     * @param nextTimestamp model time of the next message; NaN: that of the loop; infinite: this is the last one
     * @return as for {@link #send(Object)}
     */
    public boolean send(Object data, double timestamp, double nextTimestamp) {
        return give(ALL, data, timestamp, nextTimestamp);
    }

    /**
     * Sends to one copy of the multiplied instance at the other end.
     *
     * @param to number of the copy, from 0
     * @param data as for {@link Instance#send(String, Object)}
     * @return as for {@link #send(Object)}
     */
    public boolean sendTo(int to, Object data) {
        return give(copy(to), data, OF_THE_LOOP, OF_THE_LOOP);
    }

    /**
     * Sends to one copy of the multiplied instance at the other end, with time stamps of its own.
     *
     * @param to number of the copy, from 0
     * @param data as for {@link Instance#send(String, Object)}
     * @param timestamp as for {@link #send(Object, double, double)}
     * @param nextTimestamp as for {@link #send(Object, double, double)}
     * @return as for {@link #send(Object)}
     */
    public boolean sendTo(int to, Object data, double timestamp, double nextTimestamp) {
        return give(copy(to), data, timestamp, nextTimestamp);
    }

    private boolean give(int to, Object data, double timestamp, double nextTimestamp) {
        if (Double.isInfinite(timestamp) || nextTimestamp == Double.NEGATIVE_INFINITY) {
            throw new XmmlException(place + ": the time stamps are " + timestamp + " and " + nextTimestamp);
        }
        long payload = Values.give(me.me, data, false);
        try {
            return Native.send(me.me, number, to, payload, timestamp, nextTimestamp);
        } finally {
            Native.free(payload);
            Reference.reachabilityFence(data);
        }
    }

    /**
     * Offers an object without attributes of its own to the readers of the pools that this port leads to.
     *
     * @param data as for {@link Instance#send(String, Object)}; null: nothing
     * @return how many readers choose it and have not left
     */
    public long put(Object data) {
        return put(data, "");
    }

    /**
     * Offers an object to the readers of the pools that this port leads to. Waits while a reader that chooses it holds as much as its limit
     * ({@code run:limit}) allows; what nobody chooses is not sent. May be called at any time.
     *
     * @param data as for {@link #put(Object)}
     * @param attributes {@code NAME=VALUE} with white space between: numbers, true and false, texts (in quotes if they hold white space), times
     *     such as {@code 2026-11-27T12:00Z}, lists such as {@code [1,2,3]}
     * @return as for {@link #put(Object)}
     * @throws XmmlException an attribute does not exist, is not allowed or is missing, or the port carries messages
     */
    public long put(Object data, String attributes) {
        return offer(data, Objects.requireNonNull(attributes), null, null);
    }

    /**
     * Offers an object to the readers of the pools that this port leads to.
     *
     * @param data as for {@link #put(Object)}
     * @param attributes by name; {@link Boolean}, whole numbers (also {@link java.math.BigInteger}), {@link Float}, {@link Double},
     *     {@link String}, {@link java.time.Instant}, {@code byte[]}, and arrays of {@code short}, {@code int}, {@code long}, {@code float} and
     *     {@code double}; one that is null is left out
     * @return as for {@link #put(Object)}
     * @throws DataTypeException a value that no attribute can have
     * @throws XmmlException as for {@link #put(Object, String)}
     */
    public long put(Object data, Map<String, ?> attributes) {
        String[] names = attributes.keySet().toArray(String[]::new);
        return offer(data, null, names, attributes.values().toArray());
    }

    /**
     * Says how many readers would choose an object with these attributes, and have not left: where nobody would, it need not be computed.
     * Nothing is put. Selectors that ask for the payload ({@code sys.size}, {@code sys.type}, {@code sys.shape}) see none.
     *
     * @param attributes as for {@link #put(Object, String)}
     * @return how many
     * @throws XmmlException as for {@link #put(Object, String)}
     */
    public long wanted(String attributes) {
        return Native.wanted(me.me, number, Objects.requireNonNull(attributes));
    }

    /**
     * Says how many readers would choose an object with these attributes, and have not left.
     *
     * @param attributes as for {@link #put(Object, Map)}
     * @return how many
     * @throws DataTypeException a value that no attribute can have
     * @throws XmmlException as for {@link #put(Object, String)}
     */
    public long wanted(Map<String, ?> attributes) {
        return Native.wantedNamed(
                me.me, number, attributes.keySet().toArray(String[]::new), attributes.values().toArray());
    }

    /**
     * Says that nothing more is put on this port, for a program that goes on. A reader sees the end when all its writers have said so, or have
     * left. Does not wait; what waits for readers is still given to them.
     *
     * @throws XmmlException a group has begun and not ended, or the port carries messages
     */
    public void end() {
        Native.end(me.me, number);
    }

    /** With attributes as a text, or by name. */
    private long offer(Object data, String attributes, String[] names, Object[] values) {
        long payload = Values.give(me.me, data, false);
        try {
            return names == null
                    ? Native.put(me.me, number, payload, attributes)
                    : Native.putNamed(me.me, number, payload, names, values);
        } finally {
            Native.free(payload);
            Reference.reachabilityFence(data);
        }
    }

    /**
     * Begins a group, whose objects have no attributes but those that each is put with.
     *
     * @return the group
     */
    public Group group() {
        return group("");
    }

    /**
     * Begins a group: what is put on this port until it ends becomes visible together.
     *
     * @param attributes as for {@link #put(Object, String)}: those of every object of the group, unless it is put with others
     * @return the group
     * @throws XmmlException a group that was begun here has not ended, an attribute does not exist or is not allowed, or the port carries
     *     messages
     */
    public Group group(String attributes) {
        Native.beginGroup(me.me, number, Objects.requireNonNull(attributes));
        return new Group(this);
    }

    /**
     * Begins a group: what is put on this port until it ends becomes visible together.
     *
     * @param attributes as for {@link #put(Object, Map)}: those of every object of the group, unless it is put with others
     * @return the group
     * @throws XmmlException as for {@link #group(String)}
     */
    public Group group(Map<String, ?> attributes) {
        Native.beginGroupNamed(me.me, number, attributes.keySet().toArray(String[]::new), attributes.values().toArray());
        return new Group(this);
    }

    /** Declares that nothing is sent on this port in this iteration (O_i) or pass (O_f). */
    public void skip() {
        Native.skip(me.me, number);
    }

    /**
     * From now on what is sent on this open port goes to the port that the handle stands for.
     *
     * @param handle as it was received
     * @return a number by which {@link #sendTo} addresses it alone; the other sends go to every handle that is open at the port
     */
    public int open(byte[] handle) {
        return Native.open(me.me, number, handle);
    }

    /** Ends what {@link #open} began, at all handles that are open at the port. What was sent before arrives. */
    public void close() {
        Native.close(me.me, number, ALL);
    }

    /**
     * The same at one of them.
     *
     * @param opened as {@link #open} gave it
     */
    public void close(int opened) {
        Native.close(me.me, number, copy(opened));
    }

    /**
     * What an instance made by {@link Alone} has sent here.
     *
     * @return the messages so far
     */
    public List<Message> outputs() {
        return me.outputs(name());
    }
}
