package org.xmml;

/** Anything that goes wrong between a program and its run; subclasses name the cause. */
public class XmmlException extends RuntimeException {
    private static final long serialVersionUID = 1L;

    /**
     * Makes one.
     *
     * @param message what went wrong, where, and what to do
     */
    public XmmlException(String message) {
        super(message);
    }
}
