"""NPBench's programs in JAX on xloom and on XLA:CPU, and for orientation in NumPy and Numba, alternated in one process.

python -m benchmarks.npbench CHECKOUT [--preset S] [--filter PATTERN] [--threads 1] [--out FILE]

CHECKOUT is one of github.com/spcl/npbench, of which nothing is changed. A program has a process of its own; what takes
longer than --seconds with NumPy or Numba is left out on that side.
"""

from __future__ import annotations

import argparse
import importlib
import json
import os
import re
import statistics
import sys
import time
import warnings
from collections.abc import Callable, Sequence
from contextlib import nullcontext
from pathlib import Path
from typing import Any

from benchmarks.child import limited_threads
from benchmarks.figures import duration, factor
from benchmarks.one_by_one import one_by_one
from benchmarks.result import geometric_mean
from benchmarks.timing import Run, alternate, median_wall, ratios

_REPEATS = 5
_NUMBA = ("numba_n", "numba_np", "numba_o", "numba_op", "numba_npr", "numba_opr")
"""What the files of a program in Numba end with; there are some of them."""


def measure(checkout: str, name: str, preset: str, seconds: float) -> list[float]:
    """Seconds of XLA:CPU, xloom, NumPy and the fastest of Numba's ways (0 for none), and XLA:CPU's over xloom's."""
    warnings.simplefilter("ignore")
    info, arguments = _program(checkout, name, preset)
    sides = [runner(checkout, name, preset, platform) for platform in ("cpu", "xloom")]
    _compare(*(side() for side in sides))
    theirs, ours = alternate(*sides, repeats=_REPEATS)
    others = [_best([_function(info, "numpy")], info, arguments, seconds)]
    others.append(_best([_function(info, way) for way in _NUMBA], info, arguments, seconds))
    return [median_wall(theirs), median_wall(ours), *others, statistics.median(ratios(theirs, ours))]


def runner(checkout: str, name: str, preset: str, platform: str) -> Run:
    """A program of the checkout in JAX on a platform, with its arguments there."""
    import jax

    jax.config.update("jax_enable_x64", True)
    info, arguments = _program(checkout, name, preset)
    function = _function(info, "jax")
    assert function is not None
    device = jax.devices(platform)[0]
    with jax.default_device(device):
        held = [jax.device_put(a, device) if k in info["array_args"] else a for k, a in arguments.items()]

    def run() -> Any:
        with jax.default_device(device):
            return jax.block_until_ready(function(*held))

    return run


def programs(checkout: str) -> list[str]:
    """The names of those that there are in JAX."""
    names = sorted(path.stem for path in Path(checkout, "bench_info").glob("*.json"))
    return [name for name in names if _has_jax(checkout, name)]


def _program(checkout: str, name: str, preset: str) -> tuple[dict[str, Any], dict[str, Any]]:
    """What the checkout says of a program, and its arguments."""
    if checkout not in sys.path:
        sys.path.insert(0, checkout)
    info = json.loads((Path(checkout) / "bench_info" / f"{name}.json").read_text())["benchmark"]
    return info, _arguments(info, preset)


def _arguments(info: dict[str, Any], preset: str) -> dict[str, Any]:
    """By name, in the order in which a program takes them."""
    values = dict(info["parameters"][preset])
    init = info.get("init")
    if init:
        module = importlib.import_module(_module(info))
        made = getattr(module, init["func_name"])(*(values[k] for k in init["input_args"]))
        values.update(zip(init["output_args"], made if len(init["output_args"]) > 1 else (made,), strict=True))
    return {k: values[k] for k in info["input_args"]}


def _module(info: dict[str, Any]) -> str:
    return f"npbench.benchmarks.{info['relative_path'].replace('/', '.')}.{info['module_name']}"


def _function(info: dict[str, Any], postfix: str) -> Callable[..., Any] | None:
    try:
        return getattr(importlib.import_module(f"{_module(info)}_{postfix}"), info["func_name"], None)
    except ImportError:
        return None


def _compare(want: Any, got: Any) -> None:
    import jax
    import numpy as np

    for x, y in zip(jax.tree.leaves(want), jax.tree.leaves(got), strict=True):
        x, y = np.asarray(x), np.asarray(y)
        scale = np.abs(x[np.isfinite(x)]).max(initial=1) if x.dtype.kind in "fc" else 1
        np.testing.assert_allclose(y, x, rtol=1e-4, atol=1e-4 * scale)  # some are chaotic


def _best(
    functions: Sequence[Callable[..., Any] | None], info: dict[str, Any], arguments: dict[str, Any], limit: float
) -> float:
    """Seconds of the fastest, on copies of the arrays, which they change; 0 when none ends in time."""
    found = []
    for function in functions:
        if function is None:
            continue
        times = []
        begin = time.perf_counter()
        try:
            while len(times) < 4 and time.perf_counter() - begin < limit:
                copied = [a.copy() if k in info["array_args"] else a for k, a in arguments.items()]
                start = time.perf_counter()
                function(*copied)
                times.append(time.perf_counter() - start)
        except Exception:  # a way that this NumPy or Numba does not take
            continue
        found += [statistics.median(times[1:])] if len(times) > 1 else []  # the first one compiles
    return min(found, default=0.0)


def main() -> None:
    """A row for each program, and the geometric mean."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("checkout", help="folder of a checkout of spcl/npbench")
    parser.add_argument("--preset", default="M", choices=("S", "M", "L", "paper"))
    parser.add_argument("--filter", default="", help="regular expression of programs' names")
    parser.add_argument("--threads", type=int, help="cores that a program has")
    parser.add_argument("--seconds", type=float, default=20, help="most for NumPy, and for each of Numba's ways")
    parser.add_argument("--out", help="file for a line of JSON for each program")
    parser.add_argument("--one", help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.one:
        figures = measure(options.checkout, options.one, options.preset, options.seconds)
        print(json.dumps({"figures": figures}))
        return
    os.environ["JAX_PLATFORMS"] = "xloom,cpu"
    checkout = str(Path(options.checkout).resolve())
    names = programs(checkout)
    if not names:
        parser.error(f"{checkout} has no bench_info: name a checkout of github.com/spcl/npbench")
    rest = [checkout, "--preset", options.preset, "--seconds", str(options.seconds)]
    cases = [(name, *rest) for name in names if re.search(options.filter, name)]
    found: dict[str, list[float]] = {}
    with limited_threads(options.threads) if options.threads else nullcontext():
        for (name, *_), figures, say in one_by_one("benchmarks.npbench", cases):
            theirs, ours, numpy, numba, ratio = figures
            others = "".join(f", {k} {duration(t):>8}" for k, t in (("NumPy", numpy), ("Numba", numba)) if t)
            say(f"{name:24} XLA:CPU {duration(theirs):>8}, xloom {duration(ours):>8}, ratio {factor(ratio)}{others}")
            found[name] = figures
            if options.out:
                with Path(options.out).open("a") as file:
                    file.write(json.dumps({"name": name, "preset": options.preset, "figures": figures}) + "\n")
    if found:
        means = [figures[4] for figures in found.values()]
        slower = sum(bool(figures[2]) and figures[1] > figures[2] for figures in found.values())
        print(
            f"{factor(geometric_mean(means))} in the geometric mean of {len(means)} of {len(cases)}; "
            f"{sum(r < 1 for r in means)} below 1.0; {slower} slower than NumPy"
        )


def _has_jax(checkout: str, name: str) -> bool:
    info = json.loads(Path(checkout, "bench_info", f"{name}.json").read_text())["benchmark"]
    return Path(checkout, f"{_module(info)}_jax".replace(".", "/") + ".py").exists()


if __name__ == "__main__":
    main()
