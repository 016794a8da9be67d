"""The benchmarks in a process of their own, a line of JSON each: `python -m tests.judges.gpu.speed gpu sm_90a FOLDER`."""

from __future__ import annotations

import json
import os
import sys
from pathlib import Path

from tests.judges.gpu.benchmarks import measured
from tests.judges.gpu.correctness import client
from tests.judges.gpu.recorded import cache_of
from xloom.environment import CACHE_DIR

if __name__ == "__main__":
    on, target, folder = sys.argv[1:]
    os.environ[CACHE_DIR.name] = str(cache_of(Path(folder)))
    for row in measured(client(on, target), target, is_small=on == "emulator"):
        print(json.dumps(row), flush=True)
