package org.xmml;

/**
 * A port that the model declares.
 *
 * @param name its id
 * @param receives whether it receives; else it sends
 * @param operator {@code "Finit"}, {@code "Oi"}, {@code "S"}, {@code "B"} or {@code "Of"}; empty for a mapper
 */
public record Port(String name, boolean receives, String operator) {}
