"""The ocean model's kernels of pyhpc-benchmarks, in JAX beside XLA:CPU and in PyTorch beside eager mode and inductor.

python -m benchmarks.pyhpc CHECKOUT [--sizes 4096,65536] [--doors jax,torch] [--filter PATTERN] [--out FILE]

CHECKOUT is one of github.com/dionhaefner/pyhpc-benchmarks, of which nothing is changed. Each case has its own process.
"""

from __future__ import annotations

import argparse
import importlib
import json
import os
import re
import statistics
import sys
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any

from benchmarks.figures import duration, factor
from benchmarks.one_by_one import one_by_one
from benchmarks.result import geometric_mean
from benchmarks.timing import alternate, median_wall, ratios

_REPEATS = 5
_PROGRAMS = {
    "equation_of_state": ("eos", "gsw_dHdT"),
    "isoneutral_mixing": ("isoneutral", "isoneutral_diffusion_pre"),
    "turbulent_kinetic_energy": ("tke", "integrate_tke"),
}
"""What the files of a program begin with, and the function in them that is timed."""
_OTHERS = {"jax": ("XLA:CPU",), "torch": ("eager", "inductor")}


def measure(checkout: str, name: str, door: str, size: int) -> list[float]:
    """Seconds of xloom; and for each other side, its seconds and their ratio to xloom's."""
    warnings.simplefilter("ignore")
    sys.path.insert(0, f"{checkout}/benchmarks")
    sides = (_jax_sides if door == "jax" else _torch_sides)(name, size)
    want, *got = [side() for side in sides]
    for results in got:
        _compare(want, results)
    *others, ours = alternate(*sides, repeats=_REPEATS)
    return [median_wall(ours), *(f for o in others for f in (median_wall(o), statistics.median(ratios(o, ours))))]


def _jax_sides(name: str, size: int) -> list[Callable[[], Any]]:
    """XLA:CPU and xloom."""
    import jax

    jax.config.update("jax_enable_x64", True)
    program = importlib.import_module(name)

    def side(platform: str) -> Callable[[], Any]:
        device = jax.devices(platform)[0]
        with jax.default_device(device):
            function = program.get_callable("jax", size)

        def run() -> Any:
            with jax.default_device(device):
                return jax.tree.leaves(function())

        return run

    return [side("cpu"), side("xloom")]


def _torch_sides(name: str, size: int) -> list[Callable[[], Any]]:
    """Eager mode, inductor and xloom. TorchScript is left out: torch.compile does not look into it."""
    import torch

    import xloom.torch  # noqa: F401 - registers the backend

    torch.jit.script = lambda function: function  # type: ignore[assignment]
    prefix, function = _PROGRAMS[name]
    inputs = importlib.import_module(name).generate_inputs(size)
    eager = getattr(importlib.import_module(f"{name}.{prefix}_pytorch"), function)
    backends = [eager, torch.compile(eager, backend="inductor"), torch.compile(eager, backend="xloom")]

    def side(compiled: Callable[..., Any]) -> Callable[[], Any]:
        tensors = [torch.as_tensor(x).clone() for x in inputs]  # which it may change

        def run() -> Any:
            with torch.no_grad():
                results = compiled(*tensors)
            return results if isinstance(results, tuple) else (results,)

        return run

    return [side(each) for each in backends]


def _compare(want: Any, got: Any) -> None:
    import numpy as np

    for x, y in zip(want, got, strict=True):
        x, y = np.asarray(x), np.asarray(y)
        np.testing.assert_allclose(y, x, rtol=1e-6, atol=1e-6 * np.abs(x[np.isfinite(x)]).max(initial=0))


def main() -> None:
    """A row for each program, size and door, and the geometric means."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("checkout", help="folder of a checkout of dionhaefner/pyhpc-benchmarks")
    parser.add_argument("--sizes", default="4096,65536,1048576", help="elements of an array, about")
    parser.add_argument("--doors", default="jax,torch")
    parser.add_argument("--filter", default="", help="regular expression of programs' names")
    parser.add_argument("--out", help="file for a line of JSON for each case")
    parser.add_argument("--one", nargs=3, metavar=("NAME", "DOOR", "SIZE"), help=argparse.SUPPRESS)
    options = parser.parse_args()
    checkout = str(Path(options.checkout).resolve())
    if options.one:
        name, door, size = options.one
        print(json.dumps({"figures": measure(checkout, name, door, int(size))}))
        return
    if not Path(checkout, "benchmarks", "equation_of_state").is_dir():
        parser.error(f"{checkout} has no benchmarks: name a checkout of github.com/dionhaefner/pyhpc-benchmarks")
    os.environ["JAX_PLATFORMS"] = "xloom,cpu"
    names = [name for name in _PROGRAMS if re.search(options.filter, name)]
    doors = options.doors.split(",")
    cases = [(name, door, size, checkout) for door in doors for size in options.sizes.split(",") for name in names]
    found: dict[str, list[float]] = {}
    for (name, door, size, _), (ours, *others), say in one_by_one("benchmarks.pyhpc", cases):
        beside = list(zip(_OTHERS[door], others[::2], others[1::2], strict=True))
        said = "".join(f", {side} {duration(seconds):>8}, ratio {factor(ratio)}" for side, seconds, ratio in beside)
        say(f"{door:5} {name:24} {size:>8} xloom {duration(ours):>8}{said}")
        for side, _, ratio in beside:
            found.setdefault(side, []).append(ratio)
        if options.out:
            with Path(options.out).open("a") as file:
                file.write(
                    json.dumps({"name": name, "door": door, "size": int(size), "figures": [ours, *others]}) + "\n"
                )
    for side, values in found.items():
        print(f"{factor(geometric_mean(values))} of {side} in the geometric mean of {len(values)}")


if __name__ == "__main__":
    main()
