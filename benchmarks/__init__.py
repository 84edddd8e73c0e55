"""Measures the cost of the harness against its rivals, in turns on the same work: `python -m benchmarks`."""
