package org.xmml;

import java.util.ArrayList;
import java.util.Iterator;
import java.util.List;
import java.util.NoSuchElementException;
import java.util.Optional;
import java.util.function.Consumer;

/**
 * An in port that was looked up once.
 *
 * <pre>{@code
 * InPort velocity = me.in("velocity");
 * for (double t : me.steps()) {
 *     double[] field = velocity.receive().asDoubles();
 * }
 * }</pre>
 */
public final class InPort extends BoundPort {
    private static final double FOREVER = -1;
    private static final long ENDED = -1;
    private static final long NOT_CONNECTED = -3;

    /** What is done with each message. */
    private volatile Consumer<Message> callback;

    InPort(Instance me, int number, String name, String place) {
        super(me, number, name, place);
    }

    /**
     * Waits for the next message.
     *
     * @return the message
     * @throws EndedException the sender has ended
     */
    public Message receive() {
        return insist(ALL, FOREVER);
    }

    /**
     * Waits for the next message, but not forever.
     *
     * @param seconds how long
     * @return the message
     * @throws ReceiveTimeoutException no message came in time; nothing was taken
     */
    public Message receive(double seconds) {
        return insist(ALL, timeout(seconds));
    }

    /**
     * Waits for the next message of one copy of the multiplied instance at the other end.
     *
     * @param of number of the copy, from 0
     * @return the message
     */
    public Message receiveOf(int of) {
        return insist(copy(of), FOREVER);
    }

    /**
     * The same, but not forever.
     *
     * @param of number of the copy, from 0
     * @param seconds how long
     * @return the message
     */
    public Message receiveOf(int of, double seconds) {
        return insist(copy(of), timeout(seconds));
    }

    /**
     * Receives one message of every copy of the multiplied instance at the other end.
     *
     * @return the messages, by number of the copy
     */
    public List<Message> receiveAll() {
        List<Message> all = new ArrayList<>();
        int copies = copies();
        for (int copy = 0; copy < copies; copy++) {
            all.add(receiveOf(copy));
        }
        return all;
    }

    /**
     * Waits for the next message, or the end of the sender.
     *
     * @return the message; empty: the sender has ended, and all it sent has been received
     */
    public Optional<Message> receiveOrEnd() {
        return orEnd(ALL);
    }

    /**
     * The same for one copy of the multiplied instance at the other end.
     *
     * @param of number of the copy, from 0
     * @return as for {@link #receiveOrEnd()}
     */
    public Optional<Message> receiveOrEndOf(int of) {
        return orEnd(copy(of));
    }

    private static double timeout(double seconds) {
        if (!(seconds >= 0)) {
            throw new XmmlException("a time-out of " + seconds + " s; it must be a number from 0");
        }
        return seconds;
    }

    private Message insist(int of, double seconds) {
        double[] stamps = new double[2];
        long data = Native.receive(me.me, number, of, seconds, stamps);
        if (data >= NOT_CONNECTED && data < 0) {
            Native.throwWithout(me.me, number, of, data, seconds);
        }
        return message(data, stamps[0], stamps[1]);
    }

    private Optional<Message> orEnd(int of) {
        double[] stamps = new double[2];
        long data = Native.receive(me.me, number, of, FOREVER, stamps);
        if (data == ENDED) {
            return Optional.empty();
        } else if (data < 0 && data >= NOT_CONNECTED) {
            Native.throwWithout(me.me, number, of, data, FOREVER);
        }
        return Optional.of(message(data, stamps[0], stamps[1]));
    }

    /**
     * Waits for the next object that the selector of this port chooses, from any writer of its pools. May be called at any time.
     *
     * @return the object; empty: all writers have ended, and everything that they put has been taken
     * @throws PortException the port is not coupled
     */
    public Optional<PoolObject> take() {
        return next(FOREVER);
    }

    /**
     * The same, but not forever.
     *
     * @param seconds how long
     * @return as for {@link #take()}
     * @throws ReceiveTimeoutException no object came in time; nothing was taken
     */
    public Optional<PoolObject> take(double seconds) {
        return next(timeout(seconds));
    }

    /**
     * The objects until all writers have ended.
     *
     * @return to be walked through once
     */
    public Iterable<PoolObject> objects() {
        return () -> new Objects(FOREVER);
    }

    /**
     * The same, without waiting forever for any of them.
     *
     * @param seconds how long it waits for the next one; then it throws a {@link ReceiveTimeoutException}
     * @return to be walked through once
     */
    public Iterable<PoolObject> objects(double seconds) {
        double limit = timeout(seconds);
        return () -> new Objects(limit);
    }

    private Optional<PoolObject> next(double seconds) {
        double[] stamps = new double[2];
        long[] known = new long[2];
        long data = Native.take(me.me, number, seconds, stamps, known);
        if (data == ENDED) {
            return Optional.empty();
        } else if (data < 0 && data >= NOT_CONNECTED) {
            Native.throwWithout(me.me, number, ALL, data, seconds);
        }
        return Optional.of(new PoolObject(place, data, stamps[0], stamps[1], known[0], known[1]));
    }

    /** The loop of a reader. */
    private final class Objects implements Iterator<PoolObject> {
        private final double seconds;
        /** Null: not asked for yet. */
        private Optional<PoolObject> next;

        Objects(double seconds) {
            this.seconds = seconds;
        }

        @Override
        public boolean hasNext() {
            if (next == null) {
                next = InPort.this.next(seconds);
            }
            return next.isPresent();
        }

        @Override
        public PoolObject next() {
            if (!hasNext()) {
                throw new NoSuchElementException("all writers have ended");
            }
            PoolObject object = next.get();
            next = null;
            return object;
        }
    }

    private Message message(long data, double timestamp, double nextTimestamp) {
        return new Message(place, Values.take(data), timestamp, nextTimestamp);
    }

    /**
     * Whether a receive would return a message at once.
     *
     * @return true if so
     */
    public boolean hasMessage() {
        return Native.hasMessage(me.me, number, ALL);
    }

    /**
     * The same for one copy of the multiplied instance at the other end.
     *
     * @param of number of the copy, from 0
     * @return true if so
     */
    public boolean hasMessageOf(int of) {
        return Native.hasMessage(me.me, number, copy(of));
    }

    /**
     * A handle of this port, if it is open ({@code run:open="yes"}), as {@link Instance#handle(String)} gives it.
     *
     * @return the handle
     */
    public byte[] handle() {
        return handle(1);
    }

    /**
     * A handle for several holders, or with methods chosen by hand.
     *
     * @param holders how many instances may open it; 0: any number
     * @param methods by which it is reached, in this order, for example {@code "shm", "tcp"}; none: what is fastest for the holder
     * @return the handle
     */
    public byte[] handle(int holders, String... methods) {
        return Native.handle(me.me, number, copy(holders), String.join(",", methods));
    }

    /**
     * Has every message given to a callback, as {@link Instance#onMessage} says.
     *
     * @param callback what is done with each message; null: no longer
     */
    public void onMessage(Consumer<Message> callback) {
        Consumer<Message> previous = this.callback;
        this.callback = callback;
        try {
            Native.onMessage(me.me, number, callback == null ? null : this);
        } catch (RuntimeException problem) {
            this.callback = previous;
            throw problem;
        }
    }

    /** Called by the native library; an exception stays pending and comes out of the call that waited. */
    private void arrived(long data, double timestamp, double nextTimestamp) {
        Consumer<Message> callback = this.callback;
        Message message = message(data, timestamp, nextTimestamp);
        if (callback != null) {
            callback.accept(message);
        }
    }
}
