"""What the harness costs against its rivals, measured in turns on the same work: `python -m benchmarks`."""
