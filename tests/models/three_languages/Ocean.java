import java.util.Arrays;
import java.util.LinkedHashMap;
import java.util.Map;
import org.xmml.Dtype;
import org.xmml.NdArray;
import org.xmml.Order;
import org.xmml.Submodel;

/** Calls the ice model with a matrix in every step, takes its answer, and gives the atlas all there is at the end. */
public class Ocean extends Submodel {
    private final double depth = me.paramDouble("depth", "m");
    private final double[][] heat = {{11, 12}, {21, 22}, {31, 32}};

    @Override
    protected void Oi() {
        me.send("heat", heat);
    }

    @Override
    protected void S() {
        double[][] ice = me.receive("ice").asArray().toDoubles2();
        for (int i = 0; i < heat.length; i++) {
            for (int j = 0; j < heat[i].length; j++) {
                heat[i][j] += ice[i][j];
            }
        }
        System.out.println("heat " + Arrays.deepToString(heat));
    }

    @Override
    protected void Of() {
        Map<String, Object> state = new LinkedHashMap<>();
        state.put("name", "deep");
        state.put("depth", depth);
        state.put("heat", heat);
        state.put("counts", NdArray.of(Dtype.U16, Order.ROW_MAJOR, new short[] {1, -1}));
        state.put("wet", new boolean[] {true, false});
        me.send("final", state);
    }
}
