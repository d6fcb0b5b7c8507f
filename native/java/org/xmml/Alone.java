package org.xmml;

import java.util.ArrayList;
import java.util.List;

/**
 * What an instance without a run is to be, for tests: its inputs are given, and its outputs kept ({@link Instance#outputs}).
 *
 * <pre>{@code
 * try (Instance me = new Alone("heater").port("power", "Oi").port("temperature", "S").steps(2, 60)
 *         .input("temperature", 0, 293.0).input("temperature", 60, 294.0).join()) {
 *     Heater.run(me);
 *     assert me.outputs("power").size() == 2;
 * }
 * }</pre>
 */
public final class Alone {
    private final String name;
    private final List<String> ports = new ArrayList<>();
    private final List<String> places = new ArrayList<>();
    private final List<String> params = new ArrayList<>();
    private final List<String> scales = new ArrayList<>();
    private final List<Double> extents = new ArrayList<>();
    private final List<String> inputPorts = new ArrayList<>();
    private final List<Double> inputTimes = new ArrayList<>();
    private final List<Object> inputs = new ArrayList<>();
    private long steps = 1;
    private double delta = 1;

    /**
     * An instance with one step of one second and no ports.
     *
     * @param name its name
     */
    public Alone(String name) {
        this.name = name;
    }

    /**
     * Adds a port. Those that are not given are not in the model.
     *
     * @param port its name
     * @param operator {@code "finit"}, {@code "Oi"}, {@code "S"}, {@code "B"} or {@code "Of"}; for a mapper {@code "in"} or
     *     {@code "out"}
     * @return this
     */
    public Alone port(String port, String operator) {
        ports.add(port);
        places.add(operator);
        return this;
    }

    /**
     * Adds a port with a multiplied instance at its other end: {@link Instance#sendTo} and {@link Instance#receiveOf} address its copies. The
     * inputs of copy 3 are those of {@code "port[3]"}, and so are its outputs.
     *
     * @param port its name
     * @param operator as of the other ports
     * @param copies how many there are, at least 1
     * @return this
     */
    public Alone port(String port, String operator, int copies) {
        return port(port, operator + "*" + copies);
    }

    /**
     * Sets a parameter.
     *
     * @param param its name
     * @param text its value as a model would give it
     * @return this
     */
    public Alone param(String param, String text) {
        params.add(param);
        params.add(text);
        return this;
    }

    /**
     * Sets the steps of a pass.
     *
     * @param count how many; 0: the program decides
     * @param seconds length of one
     * @return this
     */
    public Alone steps(long count, double seconds) {
        if (count < 0 || !(seconds >= 0) || Double.isInfinite(seconds)) {
            throw new XmmlException(count + " steps of " + seconds + " s; both must be numbers from 0");
        }
        steps = count;
        delta = seconds;
        return this;
    }

    /**
     * Adds a scale in space or another dimension, in base units.
     *
     * @param scale its name
     * @param step step
     * @param total extent
     * @return this
     */
    public Alone scale(String scale, double step, double total) {
        scales.add(scale);
        extents.add(step);
        extents.add(total);
        return this;
    }

    /**
     * Adds the next message that a port delivers; after the last one it has ended. An in port without any is not coupled.
     *
     * @param port the in port
     * @param timestamp time stamp in seconds
     * @param data what the message carries
     * @return this
     */
    public Alone input(String port, double timestamp, Object data) {
        inputPorts.add(port);
        inputTimes.add(timestamp);
        inputs.add(data);
        return this;
    }

    /**
     * Makes the instance.
     *
     * @return an instance that is not part of a run
     */
    public Instance join() {
        long[] data = new long[inputs.size()];
        for (int i = 0; i < data.length; i++) {
            data[i] = Values.give(0, inputs.get(i), true);
        }
        return new Instance(Native.alone(name, texts(ports), texts(places), texts(params), steps, delta, texts(scales),
                doubles(extents), texts(inputPorts), doubles(inputTimes), data), true);
    }

    private static String[] texts(List<String> list) {
        return list.toArray(String[]::new);
    }

    private static double[] doubles(List<Double> list) {
        return list.stream().mapToDouble(Double::doubleValue).toArray();
    }
}
