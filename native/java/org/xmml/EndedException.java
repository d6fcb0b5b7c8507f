package org.xmml;

/** A receive on a conduit whose sender has ended. */
public class EndedException extends XmmlException {
    private static final long serialVersionUID = 1L;

    /**
     * Makes one.
     *
     * @param message what went wrong, where, and what to do
     */
    public EndedException(String message) {
        super(message);
    }
}
