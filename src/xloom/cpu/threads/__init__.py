"""The native threads that share a loop: `pool()` gives the process's own."""

from xloom.cpu.threads.pool import Pool, pool

__all__ = ["Pool", "pool"]
