"""Of the benchmarks: what needs no measuring."""
