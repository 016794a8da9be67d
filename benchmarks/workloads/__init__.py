"""Programs that people write with JAX's libraries, whole: `python -m benchmarks.workloads`."""
