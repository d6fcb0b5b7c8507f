package org.xmml;

/** The run was stopped: another instance failed, or somebody interrupted it. */
public class RunAbortedException extends XmmlException {
    private static final long serialVersionUID = 1L;

    /**
     * Makes one.
     *
     * @param message what went wrong, where, and what to do
     */
    public RunAbortedException(String message) {
        super(message);
    }
}
