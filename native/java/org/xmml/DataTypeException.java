package org.xmml;

/** A value that no message can carry, or one of another type than asked for. */
public class DataTypeException extends XmmlException {
    private static final long serialVersionUID = 1L;

    /**
     * Makes one.
     *
     * @param message what went wrong, where, and what to do
     */
    public DataTypeException(String message) {
        super(message);
    }
}
