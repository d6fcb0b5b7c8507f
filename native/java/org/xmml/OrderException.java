package org.xmml;

/** A call out of the order of the submodel execution loop. */
public class OrderException extends XmmlException {
    private static final long serialVersionUID = 1L;

    /**
     * Makes one.
     *
     * @param message what went wrong, where, and what to do
     */
    public OrderException(String message) {
        super(message);
    }
}
