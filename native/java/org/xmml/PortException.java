package org.xmml;

/** The port is not in the model, is used in the wrong direction, or is not coupled. */
public class PortException extends XmmlException {
    private static final long serialVersionUID = 1L;

    /**
     * Makes one.
     *
     * @param message what went wrong, where, and what to do
     */
    public PortException(String message) {
        super(message);
    }
}
