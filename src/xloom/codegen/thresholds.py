"""Sizes at which plans differ, which several stages must agree on. In bytes, unless they say otherwise."""

POOLED = 1 << 15
"""Results as large have memory of the pool, aligned whoever calls the program. Smaller ones are NumPy's own: malloc
gives such memory again at once, and with its pages."""
RETURNED = 4 << 20
"""Results as large may be stored around the caches: nothing of them would be left there for their readers."""
TRANSPOSED_SIDE = 9
"""Elements along each side of what is transposed by tiles, at least: LLVM interleaves shorter rows as well."""
FEW_ROWS = 64
"""Rows that meet each element of a matrix so seldom that memory takes the time, where a processor multiplies tiles."""
