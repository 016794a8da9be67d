"""The set as JAX's users run it: through the plugin, against jaxlib's CPU, alternated in one process a program.

python -m benchmarks.jax_programs [PATTERN]
"""

from __future__ import annotations

import json
import os
import re
import statistics
import sys

from benchmarks.figures import duration, factor
from benchmarks.one_by_one import one_by_one
from benchmarks.programs import PROGRAMS
from benchmarks.result import geometric_mean
from benchmarks.timing import Run, alternate, median_wall, ratios

_REPEATS = 7


def measure(name: str) -> list[float]:
    """Seconds of jaxlib and of xloom, and the ratio."""
    import jax

    program = PROGRAMS[name]
    leaves = program.make_arguments()

    def prepare(platform: str) -> Run:
        arguments = jax.device_put(leaves, jax.devices(platform)[0])
        function = jax.jit(lambda *leaves: program.flat(*leaves))
        return lambda: jax.block_until_ready(function(*arguments))

    theirs, ours = alternate(prepare("cpu"), prepare("xloom"), repeats=_REPEATS)
    return [median_wall(theirs), median_wall(ours), statistics.median(ratios(theirs, ours))]


def main(pattern: str) -> None:
    """A row a program, and the geometric mean."""
    os.environ["JAX_PLATFORMS"] = "xloom,cpu"
    found: list[float] = []
    names = [(name,) for name in PROGRAMS if re.search(pattern, name)]
    for (name,), (theirs, ours, ratio), say in one_by_one("benchmarks.jax_programs", names):
        say(f"{name:32} XLA:CPU {duration(theirs):>8}, xloom {duration(ours):>8}, ratio {factor(ratio)}")
        found.append(ratio)
    if found:
        below = sum(ratio < 1 for ratio in found)
        print(f"{factor(geometric_mean(found))} in the geometric mean; {below} of {len(found)} below 1.0")


if __name__ == "__main__":
    if sys.argv[1:2] == ["--one"]:
        print(json.dumps({"figures": measure(sys.argv[2])}))
    else:
        main(sys.argv[1] if len(sys.argv) > 1 else "")
