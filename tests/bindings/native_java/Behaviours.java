import java.nio.ByteBuffer;
import java.nio.ByteOrder;
import java.util.Arrays;
import java.util.List;
import java.util.Map;
import java.util.Random;
import org.xmml.Alone;
import org.xmml.Complex;
import org.xmml.DataTypeException;
import org.xmml.Dtype;
import org.xmml.EndedException;
import org.xmml.Host;
import org.xmml.InPort;
import org.xmml.Instance;
import org.xmml.Message;
import org.xmml.NdArray;
import org.xmml.NotInARunException;
import org.xmml.Order;
import org.xmml.OrderException;
import org.xmml.OutPort;
import org.xmml.ParameterException;
import org.xmml.PortException;
import org.xmml.Submodel;
import org.xmml.XmmlException;

/** Behaviours of an instance by itself; the argument says which. */
public class Behaviours {
    public static void main(String[] arguments) throws Throwable {
        Behaviours.class.getDeclaredMethod(arguments[0]).invoke(null);
        System.out.println("held");
    }

    static void check(boolean holds, Object found) {
        if (!holds) {
            throw new AssertionError("found " + found);
        }
    }

    static <E extends Throwable> String thrown(Class<E> type, Runnable call) {
        try {
            call.run();
        } catch (Throwable problem) {
            check(type.isInstance(problem), problem);
            return problem.getMessage();
        }
        throw new AssertionError("nothing was thrown");
    }

    /** Sends on one port, and receives the same on another. */
    static Message[] passed(Object value) {
        Instance me = new Alone("x").port("in", "S").port("out", "Oi").input("in", 0, value).join();
        check(me.reuse(), "no run");
        Message received = null;
        for (double t : me.steps()) {
            me.send("out", value);
            received = me.receive("in");
        }
        return new Message[] {received, me.outputs("out").get(0)};
    }

    static void a_callback_gets_the_messages_and_its_exception_comes_out_of_the_call_that_waited() {
        Instance me = new Alone("x").port("in", "in").port("out", "out").input("in", 0, 20L).input("in", 0, "deep").join();
        long[] sum = {1};
        me.onMessage("in", message -> sum[0] += message.asLong());
        check(me.reuse() && me.serve() && sum[0] == 21, sum[0]);
        me.send("out", null);
        check(me.reuse(), "no second run");
        String problem = thrown(DataTypeException.class, () -> me.serve(1.0));
        check(problem.contains("x.in: expected an integer"), problem);
        me.onMessage("in", null);
        check(thrown(XmmlException.class, me::serve).contains("has no callback"), "it has one");
    }

    static void ports_to_copies_are_addressed_by_their_numbers() {
        Instance me = new Alone("x").port("in", "in", 2).port("out", "out", 3).input("in[0]", 0, 5L).input("in[1]", 0, 6L).join();
        check(me.reuse() && me.copies("out") == 3, me.copies("out"));
        check(me.receiveOf("in", 1).asLong() == 6 && me.receiveOf("in", 0).asLong() == 5, "another");
        me.sendTo("out", 2, 7L);
        check(me.outputs("out[2]").size() == 1 && me.outputs("out[0]").isEmpty(), me.outputs("out[2]"));
        check(me.params().isEmpty(), me.params());
    }

    /** In its first run: in (S) and from (S, two copies) with inputs, out (O_i) and to (O_i, three copies). */
    static Instance withPorts() {
        Instance me = new Alone("cell").port("out", "Oi").port("to", "Oi", 3).port("in", "S").port("from", "S", 2)
                .input("in", 1.5, 7L).input("from[0]", 2.5, 5L).input("from[1]", 2.5, 6L).join();
        check(me.reuse(), "no run");
        return me;
    }

    static void a_misspelt_port_is_the_error_of_a_call_when_it_is_bound() {
        Instance me = withPorts();
        String byName = thrown(PortException.class, () -> me.send("powr", 1));
        check(byName.contains("powr") && byName.contains("from"), byName);
        check(thrown(PortException.class, () -> me.out("powr")).equals(byName), byName);
        check(thrown(PortException.class, () -> me.in("powr")).equals(byName), byName);
        check(thrown(PortException.class, () -> me.connected("powr")).equals(byName), byName);
        thrown(NullPointerException.class, () -> me.out(null));
    }

    static void a_port_of_the_other_direction_is_the_error_of_a_call_when_it_is_bound() {
        Instance me = withPorts();
        String receives = thrown(PortException.class, () -> me.send("in", 1));
        check(thrown(PortException.class, () -> me.out("in")).equals(receives) && receives.contains("cell.in"), receives);
        String sends = thrown(PortException.class, () -> me.receive("out"));
        check(thrown(PortException.class, () -> me.in("out")).equals(sends) && sends.contains("cell.out"), sends);
    }

    static void a_bound_port_sends_and_receives_what_a_call_by_name_does() {
        Instance me = withPorts();
        OutPort out = me.out("out");
        InPort in = me.in("in");
        check(out.name().equals("out") && out.toString().equals("cell.out") && out.connected() && out.copies() == 0, out);
        check(out.send(4L) && out.outputs().get(0).asLong() == 4 && me.outputs("out").size() == 1, out.outputs());
        me.out("to").skip();
        check(in.hasMessage(), "no message");
        Message message = in.receive();
        check(message.asLong() == 7 && message.timestamp() == 1.5, message);
        check(thrown(DataTypeException.class, message::asText).startsWith("cell.in: "), message);
    }

    static void a_bound_port_addresses_one_copy() {
        Instance me = withPorts();
        OutPort to = me.out("to");
        InPort from = me.in("from");
        me.skip("out");
        for (int copy = 0; copy < to.copies(); copy++) {
            to.sendTo(copy, copy);
        }
        check(me.outputs("to[2]").get(0).asLong() == 2, me.outputs("to[2]"));
        check(thrown(XmmlException.class, () -> to.sendTo(-1, 0)).contains("no copy -1"), to);
        check(from.hasMessageOf(1) && from.receiveOf(1, 1.0).asLong() == 6, from);
        check(from.receiveOrEndOf(0).orElseThrow().asLong() == 5, from);
    }

    static void a_bound_port_receives_of_all_copies() {
        Instance me = withPorts();
        me.skip("out");
        me.skip("to");
        List<Message> messages = me.in("from").receiveAll();
        check(messages.size() == 2 && messages.get(0).asLong() == 5 && messages.get(1).asLong() == 6, messages);
    }

    static void a_bound_port_takes_time_stamps_and_time_outs() {
        Instance me = withPorts();
        me.out("out").send(1, 20, Double.POSITIVE_INFINITY);
        me.out("to").sendTo(1, 1, 21, 22);
        Message message = me.outputs("out").get(0);
        check(message.timestamp() == 20 && message.nextTimestamp().isEmpty(), message.timestamp());
        check(me.outputs("to[1]").get(0).nextTimestamp().getAsDouble() == 22, me.outputs("to[1]"));
        thrown(XmmlException.class, () -> me.in("in").receive(-1));
        check(thrown(XmmlException.class, () -> me.out("out").send(1, Double.NEGATIVE_INFINITY, 0)).startsWith("cell.out: "), me);
    }

    static void a_port_of_messages_refuses_objects() {
        Instance me = new Alone("x").port("in", "S").port("out", "Oi").input("in", 0, 1).join();
        check(me.reuse(), "no run");
        InPort in = me.in("in");
        String problem = thrown(XmmlException.class, () -> me.put("out", new double[3], "step=1"));
        check(problem.contains("x.out: objects cannot be put here"), problem);
        thrown(XmmlException.class, () -> me.out("out").put(1, Map.of("step", 1)));
        check(thrown(XmmlException.class, in::take).contains("x.in: objects cannot be taken here"), "taken");
        check(thrown(XmmlException.class, () -> in.take(-1)).contains("a time-out of -1.0 s"), "in no time");
        check(thrown(XmmlException.class, () -> in.objects().iterator().hasNext()).contains("cannot be taken"), "a loop");
        thrown(NullPointerException.class, () -> me.put("out", 1, (String) null));
    }

    static void a_bound_port_has_a_callback() {
        Instance me = new Alone("x").port("in", "in").port("out", "out").input("in", 0, 20L).join();
        long[] sum = {1};
        me.in("in").onMessage(message -> sum[0] += message.asLong());
        check(me.reuse() && me.serve() && sum[0] == 21, sum[0]);
        me.onMessage("in", null);
        check(thrown(XmmlException.class, me::serve).contains("has no callback"), "it has one");
    }

    static void a_bound_port_of_an_instance_that_has_left_is_the_usual_error() {
        Instance me = new Alone("x").port("in", "in").port("out", "out").join();
        OutPort out = me.out("out");
        InPort in = me.in("in");
        me.leave();
        check(thrown(XmmlException.class, () -> out.send(1)).contains("x has left the run"), out);
        check(thrown(XmmlException.class, in::receive).contains("x has left the run"), in);
        check(thrown(XmmlException.class, in::hasMessage).contains("x has left the run"), in);
    }

    static void scalars_texts_and_bytes_arrive_as_they_are() {
        Object[] values = {null, true, false, Long.MIN_VALUE, 2.5, Double.NaN, new Complex(1, -2), "", "grüße \uD83C\uDF0A\u0000!"};
        for (Object value : values) {
            for (Message message : passed(value)) {
                check(value == null ? message.data() == null : value.equals(message.data()), message.data());
            }
        }
        for (Message message : passed(new byte[] {0, -1})) {
            check(Arrays.equals(message.asBytes(), new byte[] {0, -1}), message.data());
        }
    }

    static void arrays_of_every_type_rank_and_order_arrive_byte_for_byte() {
        Random random = new Random(1);
        for (Dtype dtype : Dtype.values()) {
            for (int rank = 0; rank <= 7; rank++) {
                for (Order order : Order.values()) {
                    long[] shape = new long[rank];
                    Arrays.setAll(shape, i -> 1 + random.nextInt(3));
                    NdArray array = NdArray.zeros(dtype, order, shape);
                    ByteBuffer bytes = array.bytes();
                    while (bytes.hasRemaining()) {
                        bytes.put((byte) (dtype == Dtype.BOOL ? random.nextInt(2) : random.nextInt(256)));
                    }
                    for (Message message : passed(array)) {
                        NdArray found = message.asArray();
                        check(found.dtype() == dtype && Arrays.equals(found.shape(), shape) && found.order() == order, found);
                        check(found.bytes().equals(array.bytes()), found);
                        check(found.in(Order.ROW_MAJOR).in(order).bytes().equals(array.bytes()), found);
                    }
                }
            }
        }
    }

    static void java_arrays_of_every_type_arrive() {
        check(Arrays.equals(passed(new double[] {1, 2})[0].asDoubles(), new double[] {1, 2}), "double");
        check(Arrays.equals(passed(new float[] {1, 2})[0].asArray().toFloats(), new float[] {1, 2}), "float");
        check(Arrays.equals(passed(new long[] {1, 2})[0].asArray().toLongs(), new long[] {1, 2}), "long");
        check(Arrays.equals(passed(new int[0])[0].asArray().toInts(), new int[0]), "int");
        check(Arrays.equals(passed(new short[] {1, 2})[0].asArray().toShorts(), new short[] {1, 2}), "short");
        check(Arrays.equals(passed(new boolean[] {true, false})[0].asArray().toBooleans(), new boolean[] {true, false}), "boolean");
        check(Arrays.equals(passed(NdArray.of(new byte[] {1}))[0].asArray().toBytes(), new byte[] {1}), "byte");
        double[][] matrix = {{1, 2, 3}, {4, 5, 6}};
        check(Arrays.deepEquals(passed(matrix)[0].asArray().toDoubles2(), matrix), "matrix");
        double[][][] planes = {matrix, matrix};
        check(Arrays.deepEquals(passed(planes)[0].asArray().toDoubles3(), planes), "planes");
    }

    static void a_column_major_array_is_read_by_its_indices() {
        NdArray array = NdArray.of(Dtype.F64, Order.COLUMN_MAJOR, new double[] {11, 21, 12, 22, 13, 23}, 2, 3);
        check(Arrays.deepEquals(array.toDoubles2(), new double[][] {{11, 12, 13}, {21, 22, 23}}), array);
    }

    static void nested_data_arrives() {
        Message message = passed(Map.of("list", List.of(1, "x", new double[] {3}), "map", Map.of()))[0];
        List<?> list = (List<?>) message.asMap().get("list");
        check(list.get(0).equals(1L) && list.get(1).equals("x") && ((NdArray) list.get(2)).toDoubles()[0] == 3, list);
    }

    static void a_direct_buffer_is_sent_as_it_lies() {
        ByteBuffer buffer = ByteBuffer.allocateDirect(24).order(ByteOrder.nativeOrder()).putDouble(0, 9).putDouble(8, 1);
        NdArray array = NdArray.over(Dtype.F64, Order.ROW_MAJOR, buffer.position(8), 2);
        check(Arrays.equals(passed(array)[1].asDoubles(), new double[] {1, 0}), array);
    }

    static void a_loan_is_filled_and_sent() {
        Instance me = new Alone("x").port("out", "Oi").join();
        me.reuse();
        for (double t : me.steps()) {
            NdArray loan = me.loan(Dtype.I32, 2, 2);
            loan.ints().put(new int[] {1, 2, 3, 4});
            me.send("out", loan);
        }
        check(Arrays.equals(me.outputs("out").get(0).asArray().toInts(), new int[] {1, 2, 3, 4}), "loan");
    }

    static void an_array_that_others_hold_is_read_only() {
        Instance me = new Alone("x").port("out", "Oi").join();
        me.reuse();
        for (double t : me.steps()) {
            me.send("out", new double[100_000]);
        }
        NdArray kept = me.outputs("out").get(0).asArray();
        check(kept.isReadOnly() && kept.doubles().isReadOnly(), "what is kept for others");
        check(!passed(new double[100_000])[0].asArray().isReadOnly(), "one's own");
    }

    static void a_view_keeps_its_memory() {
        for (int i = 0; i < 50; i++) {
            var view = passed(new double[100_000])[0].asArray().doubles();
            System.gc();
            check(view.get(99_999) == 0, view);
        }
    }

    static void errors_name_their_cause() {
        Instance me = new Alone("x").port("in", "S").port("out", "Oi").param("k", "fast").input("in", 0, "text").join();
        check(thrown(PortException.class, () -> me.receive("inn")).contains("x has no port \"inn\""), "port");
        check(thrown(ParameterException.class, () -> me.paramDouble("k")).contains("k"), "parameter");
        check(thrown(DataTypeException.class, () -> me.send("out", new Object())).contains("java.lang.Object"), "type");
        me.reuse();
        for (double t : me.steps()) {
            me.send("out", 1);
            check(thrown(OrderException.class, () -> me.send("out", 1)).contains("out of order"), "order");
            Message message = me.receive("in");
            check(thrown(DataTypeException.class, message::asArray).contains("expected an array"), "data");
        }
        check(thrown(NotInARunException.class, Instance::join).contains("xmml-run"), "join");
    }

    static void an_ended_sender_is_told() {
        Instance me = new Alone("x").port("in", "S").input("in", 0, 1).steps(2, 1).join();
        me.reuse();
        var steps = me.steps().iterator();
        steps.next();
        me.receive("in");
        steps.next();
        check(me.receiveOrEnd("in").isEmpty(), "a message");
        Instance other = new Alone("x").port("in", "S").input("in", 0, 1).steps(2, 1).join();
        other.reuse();
        steps = other.steps().iterator();
        steps.next();
        other.receive("in");
        steps.next();
        check(thrown(EndedException.class, () -> other.receive("in")).contains("has ended"), "ended");
    }

    public static class Doubler extends Submodel {
        private double value;

        @Override
        protected void finit() {
            value = me.receive("start").asDouble();
        }

        @Override
        protected void S() {
            value *= 2;
        }

        @Override
        protected void Of() {
            me.send("end", value);
        }
    }

    static void a_class_is_run_by_its_operators() throws Throwable {
        Instance me = new Alone("x").port("start", "finit").port("end", "Of").steps(3, 1).input("start", 0, 1.5).join();
        Host.run(me, Doubler.class);
        check(me.outputs("end").get(0).asDouble() == 12, me.outputs("end").get(0).data());
    }
}
