package org.xmml;

/** The time-out of a receive passed. */
public class ReceiveTimeoutException extends XmmlException {
    private static final long serialVersionUID = 1L;

    /**
     * Makes one.
     *
     * @param message what went wrong, where, and what to do
     */
    public ReceiveTimeoutException(String message) {
        super(message);
    }
}
