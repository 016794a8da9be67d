"""The native threads that share a loop: `pool()` gives the process's own."""

from xloom.cpu.runtime.threads.pool import ThreadPool, pool

__all__ = ["ThreadPool", "pool"]
