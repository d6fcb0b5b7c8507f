package org.xmml;

import java.util.Map;

/**
 * Objects that become visible together, as {@link Instance#group} begins them.
 *
 * <pre>{@code
 * try (Group record = me.group("fields", Map.of("step", step))) {
 *     record.put(temperature, "param=t");
 *     record.put(wind, "param=u");
 *     record.end();
 * }
 * }</pre>
 *
 * <p>Each reader gets those that it selects, all at once, when the group ends. A group that is closed before, as an exception closes it, is
 * forgotten with its objects: nobody sees any of them.
 */
public final class Group implements AutoCloseable {
    private final OutPort port;
    private volatile boolean over;

    Group(OutPort port) {
        this.port = port;
    }

    /**
     * Adds an object without attributes but those of the group.
     *
     * @param data as for {@link Instance#put(String, Object)}
     * @return how many readers choose it
     */
    public long put(Object data) {
        return open().put(data);
    }

    /**
     * Adds an object. Waits for nobody.
     *
     * @param data as for {@link Instance#put(String, Object)}
     * @param attributes as for {@link OutPort#put(Object, String)}; the object has those of the group, too, unless these are others
     * @return how many readers choose it
     * @throws XmmlException an attribute does not exist, is not allowed or is missing, or the group is over
     */
    public long put(Object data, String attributes) {
        return open().put(data, attributes);
    }

    /**
     * Adds an object. Waits for nobody.
     *
     * @param data as for {@link Instance#put(String, Object)}
     * @param attributes as for {@link OutPort#put(Object, Map)}; the object has those of the group, too, unless these are others
     * @return how many readers choose it
     * @throws XmmlException as for {@link #put(Object, String)}
     */
    public long put(Object data, Map<String, ?> attributes) {
        return open().put(data, attributes);
    }

    /**
     * Has the objects visible. Waits until each reader has room for what it gets, or holds nothing.
     *
     * @return how many readers get some of them
     * @throws XmmlException the group is over
     */
    public long end() {
        open();
        over = true;
        return Native.endGroup(port.me.me, port.number);
    }

    /** Forgets the group, unless it has ended. */
    @Override
    public void close() {
        if (over) {
            return;
        }
        over = true;
        if (!port.me.isOver()) {
            Native.abandonGroup(port.me.me, port.number);
        }
    }

    private OutPort open() {
        if (over) {
            throw new XmmlException(port + ": this group has ended");
        }
        return port;
    }
}
