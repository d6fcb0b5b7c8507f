package org.xmml;

/**
 * How finely an instance resolves a dimension, and how much of it it covers, in base units (s, m, ...); 0 for what the model does not
 * give.
 *
 * @param delta step
 * @param total extent
 * @param steps steps that make the extent
 */
public record Scale(double delta, double total, long steps) {}
