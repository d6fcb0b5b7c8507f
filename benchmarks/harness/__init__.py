"""What the benchmarks share: where things are, running programs within bounds, statistics, tables."""
