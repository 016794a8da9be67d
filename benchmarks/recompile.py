"""How long xloom takes for a program whose machine code an earlier process left on disk.

python -m benchmarks.recompile FILE prints the seconds for the bytecode in FILE as JSON.
"""

from __future__ import annotations

import json
import sys
from pathlib import Path

from benchmarks.sides import WARM_UP, bytecode, compile_ours


def recompile(data: bytes) -> float:
    """Seconds of a compilation, in a process that has compiled nothing like it."""
    compile_ours(bytecode(WARM_UP), WARM_UP.make_arguments())
    return compile_ours(data, []).compile_seconds


if __name__ == "__main__":
    print(json.dumps({"seconds": recompile(Path(sys.argv[1]).read_bytes())}))
