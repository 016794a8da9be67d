"""Checks after planning that each thunk reads the bytes of the values that it is to read.

While the entry function is emitted, events say which memory each thunk reads and writes (`events`). The verifier
replays them on memory whose contents are names of values (`contents`), through loops and branches (`replay`), and looks
into the loop nests that write over what they read (`hazards`). It knows nothing of how the planner decides.
"""

from xloom.cpu.buffer_verifier.replay import verify_buffers

__all__ = ["verify_buffers"]
