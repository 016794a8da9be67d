"""What LLVM is given."""

from __future__ import annotations

from enum import Enum


class PassPipeline(Enum):
    """What a module's functions consist of, and so how much LLVM has to do."""

    LOOPS = "loops"
    """Scalar loops, which LLVM makes vectors of."""
    ROWS = "rows"
    """Scalar loops, several after one another for each row: unrolled as well, they are far larger, and no faster."""
    STEPS = "steps"
    """Loops of a program, around vectors where they pay: values that steps hand on are kept in registers."""
    VECTORS = "vectors"
    """Vectors where they pay: passes that look for more would take most of the time, and find nothing."""
    TILES = "tiles"
    """Vectors that a loop has all operations of: nothing of it is computed twice, or better somewhere else."""
    ROUTINES = "routines"
    """Written as they are to run, down to the vectors."""
    CALLERS = "callers"
    """Loops that call routines: code as it comes."""
    CALLS = "calls"
    """Little but calls: code as it comes."""
    THREADS = "threads"
    """What each of many threads of a GPU does: elements one by one, of which nothing becomes a vector but loads."""
