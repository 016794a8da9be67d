"""How cost grows with size: run time with the number of elements, compile time with the number of instructions.

python -m benchmarks.scaling writes scaling.json and scaling.svg, which the results page shows.
"""

from __future__ import annotations

import json
import statistics
import sys
import time
from collections.abc import Callable
from dataclasses import dataclass
from math import log
from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp

import xloom as xl
from benchmarks.curves import Curve, curves
from benchmarks.one_by_one import one_by_one
from benchmarks.programs.arguments import normal
from benchmarks.programs.registry import Program
from benchmarks.sides import bytecode, compile_ours, compile_xla
from benchmarks.timing import alternate, median_wall
from xloom.stablehlo.reference import compiled_by_xla_cpu

_FOLDER = Path(__file__).parent
_REPEATS = 7
_SIDE = 8


@dataclass(frozen=True)
class Case:
    """What grows, by what measure, and how far."""

    unit: str
    sizes: tuple[int, ...]
    measure: Callable[[int], tuple[float, float]]  # seconds of XLA and of xloom


def _runs(function: Callable[..., Any], largest: int = 26) -> Case:
    """Run time of a function of a vector."""

    def measure(size: int) -> tuple[float, float]:
        program = Program("scaling/run", function, (normal(size),))
        arguments = program.make_arguments()
        theirs, ours = compile_xla(program, arguments), compile_ours(bytecode(program), arguments)
        first, second = alternate(theirs.run, ours.run, repeats=_REPEATS)
        return median_wall(first), median_wall(second)

    return Case("elements", tuple(1 << k for k in range(10, largest + 1, 2)), measure)


def _compiles(size: int) -> tuple[float, float]:
    """Compile time of a program of so many instructions; nothing is cached, and the process has compiled before."""
    warm_up, module = xl.parse(_chain(20)), xl.parse(_chain(size))
    arguments = [jnp.ones((_SIDE, _SIDE))]
    seconds = []
    for compile_one in (lambda m: compiled_by_xla_cpu(m, arguments), xl.compile):
        compile_one(warm_up)
        start = time.perf_counter()
        compile_one(module)
        seconds.append(time.perf_counter() - start)
    return seconds[0], seconds[1]


def _chain(instructions: int) -> str:
    """Layers of a product, what is computed an element, and a sum over rows; no two are equal."""
    shape, vector = f"f32[{_SIDE},{_SIDE}]", f"f32[{_SIDE}]"
    lines, x, count = [], "x", 1
    while count < instructions:
        k = len(lines)
        lines.append(f"""
  c.{k} = f32[] constant({1 + k / 65536})
  b.{k} = {shape} broadcast(c.{k}), dimensions={{}}
  d.{k} = {shape} dot({x}, b.{k}), lhs_contracting_dims={{1}}, rhs_contracting_dims={{0}}
  t.{k} = {shape} tanh(d.{k})
  m.{k} = {shape} multiply(t.{k}, {x})
  z.{k} = f32[] constant(0)
  r.{k} = {vector} reduce(m.{k}, z.{k}), dimensions={{1}}, to_apply=sum
  s.{k} = {shape} broadcast(r.{k}), dimensions={{0}}
  a.{k} = {shape} add(m.{k}, s.{k})""")
        x, count = f"a.{k}", count + 9
    return f"""HloModule chain
sum {{ p = f32[] parameter(0)  q = f32[] parameter(1)  ROOT s = f32[] add(p, q) }}
ENTRY main {{
  x = {shape} parameter(0){"".join(lines)}
  ROOT y = {shape} negate({x})
}}"""


CASES = {
    "gelu": _runs(lambda x: jax.nn.gelu(x)),
    "sum": _runs(lambda x: jnp.sum(x)),
    "cumulative sum": _runs(lambda x: jnp.cumsum(x)),
    "sort": _runs(lambda x: jnp.sort(x), largest=24),
    "gather": _runs(lambda x: x[(jnp.arange(x.shape[0]) * 7919) % x.shape[0]]),
    "compile": Case("instructions", (10, 30, 100, 300, 1000, 3000, 10000, 30000), _compiles),
}


def main() -> None:
    """All sizes of all cases."""
    found: dict[str, list[list[float]]] = {}
    cases = [(name, str(size)) for name, case in CASES.items() for size in case.sizes]
    for (name, size), seconds, _ in one_by_one("benchmarks.scaling", cases):
        found.setdefault(name, []).append([int(size), *seconds])
    (_FOLDER / "scaling.json").write_text(json.dumps(found, indent=1) + "\n")
    write_picture(found)


def write_picture(found: dict[str, list[list[float]]]) -> None:
    """The curves of all cases."""
    rows = [
        Curve(name, CASES[name].unit, [(int(n), theirs, ours) for n, theirs, ours in points])
        for name, points in found.items()
    ]
    (_FOLDER / "scaling.svg").write_text(curves(rows))


def exponent(points: list[list[float]], side: int) -> float:
    """By which power of the size the cost of a side (1 XLA, 2 xloom) grows over the upper half of the sizes."""
    upper = points[len(points) // 2 :]
    return statistics.linear_regression([log(p[0]) for p in upper], [log(p[side]) for p in upper]).slope


def section(picture: str) -> list[str]:
    """The part of the results page about this; nothing when it was not measured."""
    path = _FOLDER / "scaling.json"
    if not path.exists():
        return []
    found: dict[str, list[list[float]]] = json.loads(path.read_text())
    rows = [
        f"| {name} | {points[0][0]:.0f} to {points[-1][0]:.0f} {CASES[name].unit} "
        f"| {exponent(points, 1):.2f} | {exponent(points, 2):.2f} | {min(p[1] / p[2] for p in points):.2f} |"
        for name, points in found.items()
        if len(points) > 2
    ]
    return [
        "",
        "## Cost against size",
        "",
        f"![Cost against size]({picture})",
        "",
        "The power of the size by which cost grows, over the upper half of the sizes, and XLA's cost of ours where we",
        "are worst. `compile` is of programs of so many instructions, nothing cached.",
        "",
        "| program | sizes | XLA | xloom | least ratio |",
        "|---|---|--:|--:|--:|",
        *rows,
    ]


if __name__ == "__main__":
    if sys.argv[1:2] == ["--one"]:
        print(json.dumps({"figures": CASES[sys.argv[2]].measure(int(sys.argv[3]))}))
    else:
        main()
