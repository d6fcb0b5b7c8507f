package org.xmml;

import java.util.ArrayList;
import java.util.List;

/** What the model says of an instance: its ports, its parameters, its place among copies, its time step. */
abstract class Declared {
    /** The instance, as the native library knows it. */
    final long me;

    Declared(long me) {
        this.me = me;
    }

    /**
     * The ports that the model declares.
     *
     * @return in the order of the model
     */
    public List<Port> ports() {
        String[] all = Native.ports(me);
        List<Port> ports = new ArrayList<>();
        for (int i = 0; i < all.length; i += 3) {
            ports.add(new Port(all[i], all[i + 1].equals("In"), all[i + 2]));
        }
        return ports;
    }

    /**
     * A parameter as it is written.
     *
     * @param name its name
     * @return its text
     * @throws ParameterException it is not set
     */
    public String param(String name) {
        return Native.paramText(me, name);
    }

    /**
     * A parameter as a number: as it is written, or in SI units if it has a unit.
     *
     * @param name its name
     * @return its value
     */
    public double paramDouble(String name) {
        return Native.paramDouble(me, name, null);
    }

    /**
     * A parameter as a number in a unit.
     *
     * @param name its name
     * @param unit for example {@code "m/s"}
     * @return its value
     */
    public double paramDouble(String name, String unit) {
        return Native.paramDouble(me, name, unit);
    }

    /**
     * A parameter as an integer.
     *
     * @param name its name
     * @return its value
     */
    public long paramLong(String name) {
        return Native.paramLong(me, name, null);
    }

    /**
     * A parameter as an integer in a unit.
     *
     * @param name its name
     * @param unit for example {@code "mm"}
     * @return its value
     */
    public long paramLong(String name, String unit) {
        return Native.paramLong(me, name, unit);
    }

    /**
     * A parameter as a truth value.
     *
     * @param name its name
     * @return its value
     */
    public boolean paramBoolean(String name) {
        return Native.paramBoolean(me, name);
    }

    /**
     * The parameters that are set.
     *
     * @return their names, in the order of the alphabet
     */
    public List<String> params() {
        return List.of(Native.params(me));
    }

    /**
     * Whether a parameter is set.
     *
     * @param name its name
     * @return true if so
     */
    public boolean hasParam(String name) {
        return Native.hasParam(me, name);
    }

    /**
     * The name in the model.
     *
     * @return for a copy {@code "c[3]"}
     */
    public String name() {
        return Native.name(me);
    }

    /**
     * Number among the copies.
     *
     * @return from 0
     */
    public int index() {
        return (int) Native.facts(me)[0];
    }

    /**
     * How many copies there are.
     *
     * @return at least 1
     */
    public int count() {
        return (int) Native.facts(me)[1];
    }

    /**
     * Length of a step.
     *
     * @return in seconds; 0 if the model gives none
     */
    public double delta() {
        return Native.facts(me)[4];
    }

    /**
     * Length of a pass.
     *
     * @return in seconds; 0 if the model gives none
     */
    public double total() {
        return Native.facts(me)[5];
    }

    /**
     * Number of steps of a pass.
     *
     * @return 0: the program decides
     */
    public long stepCount() {
        return (long) Native.facts(me)[6];
    }

    /**
     * A scale of the model.
     *
     * @param id of time ({@code "t"} unless it has another one), space, or another dimension
     * @return the scale
     */
    public Scale scale(String id) {
        double[] scale = Native.scale(me, id);
        return new Scale(scale[0], scale[1], (long) scale[2]);
    }
}
