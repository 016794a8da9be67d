"""Loop nests as kernels: maps, reductions, transposes, rows."""
