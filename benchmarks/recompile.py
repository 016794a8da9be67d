"""How long xloom takes for a program whose machine code an earlier process left on disk.

python -m benchmarks.recompile NAME prints the seconds as JSON.
"""

from __future__ import annotations

import json
import sys

from benchmarks.programs import PROGRAMS
from benchmarks.sides import WARM_UP, compile_ours


def recompile(name: str) -> float:
    """Seconds of a compilation, in a process that has compiled nothing like it."""
    compile_ours(WARM_UP, WARM_UP.make_arguments())
    return compile_ours(PROGRAMS[name], []).compile_seconds


if __name__ == "__main__":
    print(json.dumps({"seconds": recompile(sys.argv[1])}))
