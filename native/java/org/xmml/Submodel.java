package org.xmml;

/**
 * A submodel as a class: override the operators that it has. In the model:
 * {@code class="pkg.Class"} and
 * {@code <implementation language="java" path="classes"/>}. It needs a constructor without arguments, in which
 * {@link #me} is set already.
 */
public abstract class Submodel {
    /** The instance. */
    protected final Instance me = Host.instance();

    /** Model time of the step, in seconds. */
    protected double t;

    /** Makes one; called by the runtime. */
    protected Submodel() {}

    /** Sets the initial state; may receive on ports of operator finit. */
    protected void finit() {}

    /** Sends observations of the state, on ports of operator Oi. */
    protected void Oi() {}

    /** Advances the state by one step; may receive on ports of operator S. */
    protected void S() {}

    /** Applies boundary conditions; may receive on ports of operator B. */
    protected void B() {}

    /** Sends the final state, on ports of operator Of. */
    protected void Of() {}

    /** Runs the submodel execution loop until no more runs follow. */
    public void run() {
        while (me.reuse()) {
            t = me.origin();
            finit();
            for (double time : me.steps()) {
                t = time;
                Oi();
                S();
                B();
            }
            t = me.time();
            Of();
        }
    }
}
