"""Programs on global arrays as programs of one device of many: SPMD partitioning."""

from xloom.passes.partitioning.partitioner import SpmdPartitioning, has_shardings

__all__ = ["SpmdPartitioning", "has_shardings"]
