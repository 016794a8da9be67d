"""xloom against jaxlib's XLA:CPU, in one process, alternated. `python -m benchmarks --help`."""
