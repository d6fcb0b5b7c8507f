package org.xmml;

/** The program was not started by {@code xmml-run}; {@link Alone} works without a run. */
public class NotInARunException extends XmmlException {
    private static final long serialVersionUID = 1L;

    /**
     * Makes one.
     *
     * @param message what went wrong, where, and what to do
     */
    public NotInARunException(String message) {
        super(message);
    }
}
