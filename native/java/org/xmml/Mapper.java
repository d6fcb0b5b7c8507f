package org.xmml;

import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;

/**
 * A mapper as a class. In the model: {@code class="pkg.Class"} and
 * {@code <implementation language="java" path="classes"/>}. It needs a constructor
 * without arguments, in which {@link #me} is set already.
 */
public abstract class Mapper {
    /** The instance. */
    protected final Instance me = Host.instance();

    /** Makes one; called by the runtime. */
    protected Mapper() {}

    /**
     * Turns one message from every coupled in port into what every coupled out port sends.
     *
     * @param inputs by in port its messages: one, or one per copy of a multiplied instance
     * @return by out port the data; towards a multiplied instance a {@link List} is one item per copy
     */
    protected abstract Map<String, Object> map(Map<String, List<Message>> inputs);

    /** Maps until an in port has ended. */
    public void run() {
        List<Port> ports = me.ports().stream().filter(port -> me.connected(port.name())).toList();
        while (me.reuse()) {
            Map<String, List<Message>> inputs = new LinkedHashMap<>();
            for (Port port : ports) {
                if (port.receives()) {
                    String name = port.name();
                    inputs.put(name, me.copies(name) > 0 ? me.receiveAll(name) : List.of(me.receive(name)));
                }
            }
            Map<String, Object> outputs = map(inputs);
            for (Port port : ports) {
                if (!port.receives()) {
                    if (!outputs.containsKey(port.name())) {
                        throw new XmmlException(me.name() + ": map must return a value for every out port; \"" + port.name()
                                + "\" is missing");
                    }
                    sendToAll(port.name(), outputs.get(port.name()));
                }
            }
        }
    }

    private void sendToAll(String port, Object value) {
        int copies = me.copies(port);
        if (copies == 0 || !(value instanceof List<?> items)) {
            me.send(port, value);
        } else if (items.size() == copies) {
            for (int copy = 0; copy < copies; copy++) {
                me.sendTo(port, copy, items.get(copy));
            }
        } else {
            throw new XmmlException(me.name() + "." + port + " leads to " + copies + " copies, but the list for it has "
                    + items.size() + " items; return one item per copy, or a value that is no list for the same to each");
        }
    }
}
