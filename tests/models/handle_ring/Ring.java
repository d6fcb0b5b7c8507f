import java.util.List;
import java.util.Map;
import org.xmml.Submodel;

/** Offers a handle, asks by the one that it is offered, and adds up what it is asked. */
public class Ring extends Submodel {
    private long sum;

    @Override
    protected void Oi() {
        me.onMessage("questions", message -> sum += message.asLong());
        me.send("offer", Map.of("ask", List.of(me.handle("questions"))));
    }

    @Override
    protected void S() {
        byte[] handle = (byte[]) ((List<?>) me.receive("offered").asMap().get("ask")).get(0);
        int number = me.open("asked", handle);
        for (long value = 0; value < 10; value++) {
            me.sendTo("asked", number, value);
        }
        me.close("asked", number);
        while (me.serve()) {}
        System.out.println(sum);
    }
}
