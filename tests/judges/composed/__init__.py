"""Random programs at the level of JAX, on the platform xloom and on XLA:CPU: `python -m tests.judges.composed`."""
