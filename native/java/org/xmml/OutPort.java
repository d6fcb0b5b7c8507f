package org.xmml;

import java.lang.ref.Reference;
import java.util.List;

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

    /** Declares that nothing is sent on this port in this iteration (O_i) or run (O_f). */
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
