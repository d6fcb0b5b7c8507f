package org.xmml;

import java.util.List;

/**
 * A port that was looked up once, by {@link Instance#out} or {@link Instance#in}: its calls are those of the instance, without the name of
 * the port.
 */
public abstract sealed class BoundPort permits OutPort, InPort {
    /** All copies, or all handles. */
    static final int ALL = -1;

    final Instance me;
    /** By which the native library knows it. */
    final int number;
    private final String name;
    /** How errors name it. */
    final String place;

    BoundPort(Instance me, int number, String name, String place) {
        this.me = me;
        this.number = number;
        this.name = name;
        this.place = place;
    }

    static int copy(int number) {
        if (number < 0) {
            throw new XmmlException("copies are numbered from 0; there is no copy " + number);
        }
        return number;
    }

    /**
     * Its name in the model.
     *
     * @return the name
     */
    public String name() {
        return name;
    }

    /**
     * Whether the port is coupled. One that brings the state of the previous pass is not, during the first.
     *
     * @return true if so
     */
    public boolean connected() {
        return Native.connected(me.me, number);
    }

    /**
     * How many copies are at the other end of the port.
     *
     * @return 0 if it is not a multiplied instance
     */
    public int copies() {
        return Native.copies(me.me, number);
    }

    /**
     * By which method each conduit of the port travels, why the others were refused, and what has passed.
     *
     * @return one line per conduit
     */
    public List<String> methods() {
        return List.of(Native.methods(me.me, number));
    }

    /**
     * Allows these methods on every conduit of the port from now on, in this order. Also while messages pass: none is lost, doubled or
     * reordered.
     *
     * @param methods for example {@code "shm", "tcp"}; none: all, fastest first
     * @throws XmmlException none of them leads to the receiver; the conduit goes on as before
     */
    public void setMethods(String... methods) {
        Native.setMethods(me.me, number, String.join(",", methods));
    }

    @Override
    public String toString() {
        return place;
    }
}
