"""One process of `benchmarks.workloads`: `WORKLOAD`. It says when its first call is done, then calls when it is told.

A line of JSON each: seconds to prepare, and of the first call; then, for each line that it is sent, seconds of a call;
when there are no more, the results.
"""

from __future__ import annotations

import json
import sys
import time
from importlib import import_module
from typing import Any


def main() -> None:
    """Runs the workload of the arguments."""
    import jax
    import numpy as np

    begin = time.perf_counter()
    run = import_module(f"benchmarks.workloads.programs.{sys.argv[1]}").prepare()
    prepared = time.perf_counter()
    result = jax.block_until_ready(run())
    first = time.perf_counter()
    _say({"platform": jax.devices()[0].client.platform_version, "prepare": prepared - begin, "first": first - prepared})
    for _ in sys.stdin:
        start = time.perf_counter()
        result = jax.block_until_ready(run())
        _say({"seconds": time.perf_counter() - start})
    _say({"results": [np.asarray(leaf, np.float64).tolist() for leaf in jax.tree.leaves(result)]})


def _say(line: dict[str, Any]) -> None:
    print(json.dumps(line), flush=True)


if __name__ == "__main__":
    main()
