"""The benchmarks in a process of their own, a line of JSON each: `python -m tests.judges.gpu.speed gpu sm_90a FOLDER`."""

from __future__ import annotations

import json
import sys

from tests.judges.gpu.benchmarks import measured
from tests.judges.gpu.correctness import Item, client

if __name__ == "__main__":
    on, target, folder = sys.argv[1:]
    for row in measured(client(Item(folder, "", on, target)), target, is_small=on == "emulator"):
        print(json.dumps(row), flush=True)
