"""Parse, print and proto times against jaxlib's, alternated in one process; medians of ratios.

python benchmarks/text.py [instructions ...]
"""

from __future__ import annotations

import statistics
import sys
import time
from collections.abc import Callable

from jaxlib import _hlo

import xloom as xl


def program(count: int) -> str:
    """A chain of elementwise instructions, broadcasts and reductions of about `count` lines."""
    lines = [
        "HloModule chain",
        "",
        "add { a = f32[] parameter(0) b = f32[] parameter(1) ROOT c = f32[] add(a, b) }",
        "",
        "ENTRY main {",
        "  %v0 = f32[64,128]{1,0} parameter(0)",
        "  %zero = f32[] constant(0)",
    ]
    last = "v0"
    kinds = ("exponential", "tanh", "add", "multiply", "reduce")
    for k in range(1, count):
        kind = kinds[k % len(kinds)]
        name = f"v{k}"
        if kind == "reduce":
            lines.append(
                f"  %r{k} = f32[64]{{0}} reduce(f32[64,128]{{1,0}} %{last}, f32[] %zero), dimensions={{1}}, "
                f'to_apply=%add, metadata={{op_name="jit(f)/reduce" source_file="f.py" source_line={k}}}'
            )
            lines.append(f"  %{name} = f32[64,128]{{1,0}} broadcast(f32[64]{{0}} %r{k}), dimensions={{0}}")
        elif kind in ("add", "multiply"):
            lines.append(f"  %{name} = f32[64,128]{{1,0}} {kind}(%{last}, %v0)")
        else:
            lines.append(f"  %{name} = f32[64,128]{{1,0}} {kind}(%{last})")
        last = name
    lines.append(f"  ROOT %root = f32[64,128]{{1,0}} negate(%{last})")
    lines.append("}")
    return "\n".join(lines) + "\n"


def seconds(function: Callable[[], object]) -> float:
    """How long one call takes."""
    start = time.perf_counter()
    function()
    return time.perf_counter() - start


def ratio(ours: Callable[[], object], theirs: Callable[[], object], rounds: int = 7) -> tuple[float, float]:
    """Median of ours / theirs over alternated rounds, and our median in seconds."""
    pairs = [(seconds(ours), seconds(theirs)) for _ in range(rounds)]
    return statistics.median(a / b for a, b in pairs), statistics.median(a for a, _ in pairs)


def main() -> None:
    """Prints one row a size."""
    sizes = [int(a) for a in sys.argv[1:]] or [1_000, 10_000, 100_000]
    print(f"{'instructions':>12} {'parse':>16} {'print':>16} {'to proto':>16} {'from proto':>16}  (s, x jaxlib)")
    for size in sizes:
        text = program(size)
        module, theirs = xl.parse(text), _hlo.hlo_module_from_text(text)
        assert module.to_text() == theirs.to_string()
        data = theirs.as_serialized_hlo_module_proto()
        rows = [
            ratio(lambda t=text: xl.parse(t), lambda t=text: _hlo.hlo_module_from_text(t)),
            ratio(module.to_text, theirs.to_string),
            ratio(module.to_proto, theirs.as_serialized_hlo_module_proto),
            ratio(lambda d=data: xl.from_proto(d), lambda d=data: _hlo.HloModule.from_serialized_hlo_module_proto(d)),
        ]
        print(f"{size:12}" + "".join(f" {s:8.3f} {r:6.1f}x" for r, s in rows))


if __name__ == "__main__":
    main()
