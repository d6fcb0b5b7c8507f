package org.xmml;

/** {@link Thread#interrupt} ended a wait. The thread stays marked as interrupted. */
public class WaitInterruptedException extends XmmlException {
    private static final long serialVersionUID = 1L;

    /**
     * Makes one.
     *
     * @param message what went wrong, where, and what to do
     */
    public WaitInterruptedException(String message) {
        super(message);
    }
}
