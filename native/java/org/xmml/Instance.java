package org.xmml;

import java.util.ArrayList;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.Optional;
import java.util.PrimitiveIterator;
import java.util.function.Consumer;

/**
 * This program's part in a run.
 *
 * <pre>{@code
 * try (Instance me = Instance.join()) {
 *     while (me.reuse()) {                          // once for each pass
 *         double[] state = me.receive("initial").asDoubles();
 *         for (double t : me.steps()) {             // exactly the steps of the model
 *             me.send("boundary_out", state);       // O_i
 *             Message left = me.receive("boundary_in");  // S
 *         }
 *         me.send("final", state);                  // O_f
 *     }
 * }
 * }</pre>
 *
 * <p>A send takes its own copy of the data and returns; it waits while the conduit is full. A wait ends within a second of
 * {@link Thread#interrupt}. Closing the instance after the last run leaves the run normally. An exception that ends the program instead
 * makes the instance fail, with that exception as the reason.
 */
public final class Instance extends Declared implements AutoCloseable {
    private static final double FOREVER = -1;

    private final boolean alone;
    private final Map<String, BoundPort> bound = new HashMap<>();
    private volatile boolean finished;
    private volatile boolean left;

    Instance(long me, boolean alone) {
        super(me);
        this.alone = alone;
        String prefix = name() + ".";
        int number = 0;
        for (Port port : ports()) {
            String place = prefix + port.name();
            bound.put(port.name(), port.receives()
                    ? new InPort(this, number, port.name(), place)
                    : new OutPort(this, number, port.name(), place));
            number++;
        }
    }

    /**
     * Joins the run that this process was started for.
     *
     * @return the instance
     * @throws NotInARunException the program was not started by {@code xmml-run}; {@link Alone} works without a run
     */
    public static Instance join() {
        Instance joined = new Instance(Native.join(), false);
        Farewell.watch(joined);
        return joined;
    }

    /**
     * Whether there is another pass to do. Waits until every coupled f_init port has a message or has ended.
     *
     * @return true if so
     */
    public boolean reuse() {
        boolean again = Native.reuse(me);
        finished = !again;
        return again;
    }

    /**
     * The steps of a pass, as their model times in seconds.
     *
     * @return to be walked through once
     */
    public Iterable<Double> steps() {
        return () -> new PrimitiveIterator.OfDouble() {
            private double next;
            private boolean known;

            @Override
            public boolean hasNext() {
                if (!known) {
                    next = Native.step(me);
                    known = true;
                }
                return !Double.isNaN(next);
            }

            @Override
            public double nextDouble() {
                if (!hasNext()) {
                    throw new java.util.NoSuchElementException("the last step of this pass is behind us");
                }
                known = false;
                return next;
            }
        };
    }

    /**
     * Looks an out port up once: a name that is misspelt, or that of an in port, is an error here. Its calls are those below, without the
     * name.
     *
     * @param port an out port
     * @return the port
     * @throws PortException there is no such port, or it receives
     */
    public OutPort out(String port) {
        if (bound.get(port) instanceof OutPort found) {
            return found;
        }
        throw Native.noPort(me, port, true);
    }

    /**
     * Looks an in port up once, as {@link #out} does with an out port.
     *
     * @param port an in port
     * @return the port
     * @throws PortException there is no such port, or it sends
     */
    public InPort in(String port) {
        if (bound.get(port) instanceof InPort found) {
            return found;
        }
        throw Native.noPort(me, port, false);
    }

    private BoundPort any(String port) {
        BoundPort found = bound.get(port);
        return found != null ? found : out(port); // which says that there is none
    }

    /**
     * Sends on an out port, to all who receive there, with the time stamps of the loop. On a port that is not coupled it does nothing.
     *
     * @param port an out port
     * @param data see {@link Message}; also {@link Integer} and {@link Float}, Java arrays of primitive types, and {@code double[][]} and
     *     {@code double[][][]}; {@code byte[]} is bytes, and {@code NdArray.of(byte[])} an array
     * @return false: every receiver has left, and the message was dropped and counted
     */
    public boolean send(String port, Object data) {
        return out(port).send(data);
    }

    /**
     * Sends with time stamps of its own.
     *
     * @param port an out port
     * @param data as for {@link #send(String, Object)}
     * @param timestamp model time in seconds; NaN: that of the loop
     * @param nextTimestamp model time of the next message; NaN: that of the loop; infinite: this is the last one
     * @return as for {@link #send(String, Object)}
     */
    public boolean send(String port, Object data, double timestamp, double nextTimestamp) {
        return out(port).send(data, timestamp, nextTimestamp);
    }

    /**
     * Sends to one copy of the multiplied instance at the other end.
     *
     * @param port an out port
     * @param to number of the copy, from 0
     * @param data as for {@link #send(String, Object)}
     * @return as for {@link #send(String, Object)}
     */
    public boolean sendTo(String port, int to, Object data) {
        return out(port).sendTo(to, data);
    }

    /**
     * Sends to one copy of the multiplied instance at the other end, with time stamps of its own.
     *
     * @param port an out port
     * @param to number of the copy, from 0
     * @param data as for {@link #send(String, Object)}
     * @param timestamp as for {@link #send(String, Object, double, double)}
     * @param nextTimestamp as for {@link #send(String, Object, double, double)}
     * @return as for {@link #send(String, Object)}
     */
    public boolean sendTo(String port, int to, Object data, double timestamp, double nextTimestamp) {
        return out(port).sendTo(to, data, timestamp, nextTimestamp);
    }

    /**
     * Memory for an array, to be filled and then sent: receivers on this host get the very memory and no copy of it. Its contents are
     * unspecified at first. Once it is sent it must not be touched any more; the next one costs next to nothing.
     *
     * @param dtype element type
     * @param shape extents
     * @return an array, last index fastest
     */
    public NdArray loan(Dtype dtype, long... shape) {
        return new NdArray(Native.loan(me, dtype.ordinal(), Order.ROW_MAJOR.ordinal(), shape));
    }

    /**
     * Waits for the next message on an in port.
     *
     * @param port an in port
     * @return the message
     * @throws EndedException the sender has ended
     */
    public Message receive(String port) {
        return in(port).receive();
    }

    /**
     * Waits for the next message on an in port, but not forever.
     *
     * @param port an in port
     * @param seconds how long
     * @return the message
     * @throws ReceiveTimeoutException no message came in time; nothing was taken
     */
    public Message receive(String port, double seconds) {
        return in(port).receive(seconds);
    }

    /**
     * Waits for the next message of one copy of the multiplied instance at the other end.
     *
     * @param port an in port
     * @param of number of the copy, from 0
     * @return the message
     */
    public Message receiveOf(String port, int of) {
        return in(port).receiveOf(of);
    }

    /**
     * The same, but not forever.
     *
     * @param port an in port
     * @param of number of the copy, from 0
     * @param seconds how long
     * @return the message
     */
    public Message receiveOf(String port, int of, double seconds) {
        return in(port).receiveOf(of, seconds);
    }

    /**
     * Receives one message of every copy of the multiplied instance at the other end.
     *
     * @param port an in port
     * @return the messages, by number of the copy
     */
    public List<Message> receiveAll(String port) {
        return in(port).receiveAll();
    }

    /**
     * Waits for the next message, or the end of the sender.
     *
     * @param port an in port
     * @return the message; empty: the sender has ended, and all it sent has been received
     */
    public Optional<Message> receiveOrEnd(String port) {
        return in(port).receiveOrEnd();
    }

    /**
     * The same for one copy of the multiplied instance at the other end.
     *
     * @param port an in port
     * @param of number of the copy, from 0
     * @return as for {@link #receiveOrEnd(String)}
     */
    public Optional<Message> receiveOrEndOf(String port, int of) {
        return in(port).receiveOrEndOf(of);
    }

    /**
     * Whether a receive would return a message at once.
     *
     * @param port an in port
     * @return true if so
     */
    public boolean hasMessage(String port) {
        return in(port).hasMessage();
    }

    /**
     * The same for one copy of the multiplied instance at the other end.
     *
     * @param port an in port
     * @param of number of the copy, from 0
     * @return true if so
     */
    public boolean hasMessageOf(String port, int of) {
        return in(port).hasMessageOf(of);
    }

    /**
     * Offers an object without attributes of its own to the readers of the pools that an out port leads to.
     *
     * @param port an out port
     * @param data as for {@link #send(String, Object)}; null: nothing
     * @return how many readers choose it and have not left
     */
    public long put(String port, Object data) {
        return out(port).put(data);
    }

    /**
     * Offers an object to the readers of the pools that an out port leads to. Waits while a reader that chooses it holds as much as its limit
     * ({@code run:limit}) allows; what nobody chooses is not sent. May be called at any time.
     *
     * @param port an out port
     * @param data as for {@link #put(String, Object)}
     * @param attributes as for {@link OutPort#put(Object, String)}, for example {@code "step=3 param=t"}
     * @return as for {@link #put(String, Object)}
     * @throws XmmlException an attribute does not exist, is not allowed or is missing, or the port carries messages
     */
    public long put(String port, Object data, String attributes) {
        return out(port).put(data, attributes);
    }

    /**
     * Offers an object to the readers of the pools that an out port leads to.
     *
     * @param port an out port
     * @param data as for {@link #put(String, Object)}
     * @param attributes as for {@link OutPort#put(Object, Map)}, for example {@code Map.of("step", 3, "param", "t")}
     * @return as for {@link #put(String, Object)}
     * @throws XmmlException as for {@link #put(String, Object, String)}
     */
    public long put(String port, Object data, Map<String, ?> attributes) {
        return out(port).put(data, attributes);
    }

    /**
     * Says how many readers would choose an object with these attributes, and have not left: where nobody would, it need not be computed.
     *
     * @param port an out port
     * @param attributes as for {@link OutPort#put(Object, String)}
     * @return how many
     * @throws XmmlException as for {@link OutPort#put(Object, String)}
     */
    public long wanted(String port, String attributes) {
        return out(port).wanted(attributes);
    }

    /**
     * Says how many readers would choose an object with these attributes, and have not left.
     *
     * @param port an out port
     * @param attributes as for {@link OutPort#put(Object, Map)}
     * @return how many
     * @throws XmmlException as for {@link OutPort#put(Object, String)}
     */
    public long wanted(String port, Map<String, ?> attributes) {
        return out(port).wanted(attributes);
    }

    /**
     * Begins a group, whose objects have no attributes but those that each is put with.
     *
     * @param port an out port
     * @return the group
     */
    public Group group(String port) {
        return out(port).group();
    }

    /**
     * Begins a group: what is put on an out port until it ends becomes visible together. See {@link Group}.
     *
     * @param port an out port
     * @param attributes as for {@link OutPort#group(String)}, for example {@code "step=3"}
     * @return the group
     * @throws XmmlException as for {@link OutPort#group(String)}
     */
    public Group group(String port, String attributes) {
        return out(port).group(attributes);
    }

    /**
     * Begins a group: what is put on an out port until it ends becomes visible together. See {@link Group}.
     *
     * @param port an out port
     * @param attributes as for {@link OutPort#group(Map)}, for example {@code Map.of("step", 3)}
     * @return the group
     * @throws XmmlException as for {@link OutPort#group(String)}
     */
    public Group group(String port, Map<String, ?> attributes) {
        return out(port).group(attributes);
    }

    /**
     * Says that nothing more is put on an out port, for a program that goes on. See {@link OutPort#end()}.
     *
     * @param port an out port
     * @throws XmmlException as for {@link OutPort#end()}
     */
    public void end(String port) {
        out(port).end();
    }

    /**
     * Waits for the next object that the selector of an in port chooses, from any writer of its pools. May be called at any time.
     *
     * @param port an in port
     * @return the object; empty: all writers have ended, and everything that they put has been taken
     * @throws PortException the port is not coupled
     */
    public Optional<PoolObject> take(String port) {
        return in(port).take();
    }

    /**
     * The same, but not forever.
     *
     * @param port an in port
     * @param seconds how long
     * @return as for {@link #take(String)}
     * @throws ReceiveTimeoutException no object came in time; nothing was taken
     */
    public Optional<PoolObject> take(String port, double seconds) {
        return in(port).take(seconds);
    }

    /**
     * The objects on an in port until all writers have ended.
     *
     * @param port an in port
     * @return to be walked through once
     */
    public Iterable<PoolObject> objects(String port) {
        return in(port).objects();
    }

    /**
     * The same, without waiting forever for any of them.
     *
     * @param port an in port
     * @param seconds how long it waits for the next one; then it throws a {@link ReceiveTimeoutException}
     * @return to be walked through once
     */
    public Iterable<PoolObject> objects(String port, double seconds) {
        return in(port).objects(seconds);
    }

    /**
     * Declares that nothing is sent on this out port in this iteration (O_i) or pass (O_f).
     *
     * @param port an out port
     */
    public void skip(String port) {
        out(port).skip();
    }

    /**
     * Whether the port is coupled. One that brings the state of the previous pass is not, during the first.
     *
     * @param port any port
     * @return true if so
     */
    public boolean connected(String port) {
        return any(port).connected();
    }

    /**
     * How many copies are at the other end of the port.
     *
     * @param port any port
     * @return 0 if it is not a multiplied instance
     */
    public int copies(String port) {
        return any(port).copies();
    }

    /**
     * By which method each conduit of the port travels, why the others were refused, and what has passed.
     *
     * @param port any port
     * @return one line per conduit
     */
    public List<String> methods(String port) {
        return any(port).methods();
    }

    /**
     * Allows these methods on every conduit of the port from now on, in this order. Also while messages pass: none is lost, doubled or
     * reordered.
     *
     * @param port any port
     * @param methods for example {@code "shm", "tcp"}; none: all, fastest first
     * @throws XmmlException none of them leads to the receiver; the conduit goes on as before
     */
    public void setMethods(String port, String... methods) {
        any(port).setMethods(methods);
    }

    /**
     * A handle of an open in port ({@code run:open="yes"}): bytes to be sent to one other instance, alone or in lists and maps, which can open it
     * and then send to this port. The port ends when it has closed it or left.
     *
     * @param port an in port
     * @return the handle
     */
    public byte[] handle(String port) {
        return in(port).handle();
    }

    /**
     * A handle for several holders, or with methods chosen by hand.
     *
     * @param port an in port
     * @param holders how many instances may open it; 0: any number
     * @param methods by which it is reached, in this order, for example {@code "shm", "tcp"}; none: what is fastest for the holder
     * @return the handle
     */
    public byte[] handle(String port, int holders, String... methods) {
        return in(port).handle(holders, methods);
    }

    /**
     * From now on what is sent on this open out port goes to the port that the handle stands for.
     *
     * @param port an out port
     * @param handle as it was received
     * @return a number by which {@link #sendTo} addresses it alone; the other sends go to every handle that is open at the port
     */
    public int open(String port, byte[] handle) {
        return out(port).open(handle);
    }

    /**
     * Ends what {@link #open} began, at all handles that are open at the port. What was sent before arrives.
     *
     * @param port an out port
     */
    public void close(String port) {
        out(port).close();
    }

    /**
     * The same at one of them.
     *
     * @param port an out port
     * @param number as {@link #open} gave it
     */
    public void close(String port, int number) {
        out(port).close(number);
    }

    /**
     * Lets nobody open this handle of a port of this instance any more. Conduits that it has made go on.
     *
     * @param handle a handle
     */
    public void revoke(byte[] handle) {
        Native.revoke(me, handle);
    }

    /**
     * What a handle says, for people.
     *
     * @param handle a handle of any instance
     * @return a text
     */
    public static String describeHandle(byte[] handle) {
        return Native.handleText(handle);
    }

    /**
     * Has every message of an in port given to a callback: by the thread that waits in a call of this instance, as soon as the message is there
     * and may be received. Never two callbacks at once. An exception in one fails the run, and comes out of the call that waited.
     *
     * @param port an in port
     * @param callback what is done with each message; null: no longer
     */
    public void onMessage(String port, Consumer<Message> callback) {
        in(port).onMessage(callback);
    }

    /**
     * Waits until at least one callback was called.
     *
     * @return false if nothing more will come on any port that has one
     */
    public boolean serve() {
        return Native.serve(me, FOREVER) == 0;
    }

    /**
     * The same for a while.
     *
     * @param timeout in seconds, from 0
     * @return false also if no message came in time
     */
    public boolean serve(double timeout) {
        return Native.serve(me, timeout) == 0;
    }

    /**
     * Model time of the current iteration.
     *
     * @return in seconds
     */
    public double time() {
        return Native.facts(me)[2];
    }

    /**
     * Model time at which this pass began.
     *
     * @return in seconds
     */
    public double origin() {
        return Native.facts(me)[3];
    }

    /**
     * Tells people something, through the run's log and display.
     *
     * @param text what to tell
     */
    public void warn(String text) {
        Native.warn(me, text);
    }

    /**
     * Tells the run that this instance failed; the run stops. Usually the program exits now.
     *
     * @param reason why
     */
    public void fail(String reason) {
        left = true;
        Native.fail(me, reason);
    }

    /** Ends normally: everything sent is still delivered, then the partners learn that no more comes. */
    public void leave() {
        if (!left) {
            Native.leave(me);
            left = true;
        }
    }

    /**
     * Leaves, if the last run is over. Before that, Java does not tell whether an exception is on its way: the instance fails with it if
     * it ends the program, and else leaves when the program ends.
     */
    @Override
    public void close() {
        if (finished || alone) {
            if (finished) {
                leave();
            }
        } else {
            Farewell.closedBy(this);
        }
    }

    boolean isOver() {
        return left;
    }

    /**
     * What an instance made by {@link Alone} has sent.
     *
     * @param port an out port
     * @return the messages so far
     */
    public List<Message> outputs(String port) {
        List<Message> all = new ArrayList<>();
        double[] stamps = new double[2];
        for (long data; (data = Native.output(me, port, all.size(), stamps)) != 0;) {
            all.add(new Message(port, Values.take(data), stamps[0], stamps[1]));
        }
        return all;
    }
}
