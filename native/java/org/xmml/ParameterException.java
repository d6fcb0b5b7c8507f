package org.xmml;

/** A parameter is missing or cannot be converted. */
public class ParameterException extends XmmlException {
    private static final long serialVersionUID = 1L;

    /**
     * Makes one.
     *
     * @param message what went wrong, where, and what to do
     */
    public ParameterException(String message) {
        super(message);
    }
}
