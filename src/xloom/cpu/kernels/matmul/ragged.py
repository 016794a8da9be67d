"""Products in groups of run-time sizes along one dimension of the left operand.

Along a free dimension each row has the matrix of its group; along a contracting dimension each group has a result of
its own; along a batch dimension the groups only say how many batches there are, the others are zero.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from math import prod
from typing import Any

from llvmlite import ir

from xloom.cpu.kernel_modules.kernel import Kernel, PhaseBuilder
from xloom.cpu.kernels.matmul.arithmetic import Arithmetic
from xloom.cpu.kernels.matmul.axes import Axis, count, digits, offset, row_major
from xloom.cpu.kernels.matmul.grain import grain
from xloom.cpu.kernels.matmul.operands import Array
from xloom.cpu.kernels.matmul.tile import Sums, Tile, at_most, fitting, nest, rolled
from xloom.hlo.dtype import s64
from xloom.hlo.shape import Shape
from xloom.llvm.element_access import load
from xloom.llvm.loop import allocate
from xloom.llvm.scalar.conversion import converted
from xloom.llvm.types import I64, i64
from xloom.llvm.vectors import first_lanes


@dataclass(frozen=True)
class Ragged:
    """The axes of a ragged product: `outer` are those of an item, by the dimension of the left operand they are."""

    outer: tuple[tuple[int, Axis], ...]
    columns: tuple[Axis, ...]
    depth: tuple[tuple[int, Axis], ...]
    ragged: int
    kind: str
    """What the ragged dimension is: "free", "contracting" or "batch"."""
    group: Axis
    """The groups: stride of the right operand when free, of the result when contracting."""
    counts: tuple[int, ...]
    """The dimensions of the left operand that sizes of groups differ along."""


def ragged_axes(attrs: Mapping[str, Any], lhs: Shape, rhs: Shape, sizes: Shape, out: Shape) -> Ragged:
    """The dimension numbers of a ragged-dot as axes."""
    (ragged,) = attrs["lhs_ragged_dims"]
    lb, rb, lc, rc = (
        attrs.get(k, ()) for k in ("lhs_batch_dims", "rhs_batch_dims", "lhs_contracting_dims", "rhs_contracting_dims")
    )
    kind = "contracting" if ragged in lc else "batch" if ragged in lb else "free"
    groups = attrs.get("rhs_group_dims", ()) if kind == "free" else ()
    a, b, c = row_major(lhs.dims), row_major(rhs.dims), row_major(out.dims)
    left = [k for k in range(lhs.rank) if k not in (*lb, *lc)]
    right = [k for k in range(rhs.rank) if k not in (*rb, *rc, *groups)]
    group = Axis(sizes.dims[-1], 0, b[groups[0]] if groups else 0, c[0] if kind == "contracting" else 0)
    if kind == "contracting":
        c = c[1:]
    of_b = dict(zip(lb, rb, strict=True))
    rows = [
        (k, Axis(lhs.dims[k], a[k], b[of_b[k]] if k in of_b else 0, s)) for k, s in zip((*lb, *left), c, strict=False)
    ]
    columns = [Axis(rhs.dims[k], 0, b[k], s) for k, s in zip(right, c[len(rows) :], strict=True)]
    depth = [(x, Axis(lhs.dims[x], a[x], b[y], 0)) for x, y in zip(lc, rc, strict=True)]
    known = [k for k, _ in rows if k != ragged] if kind == "free" else [k for k in lb if k != ragged]
    if kind == "free":
        known.sort()
    return Ragged(tuple(rows), tuple(columns), tuple(depth), ragged, kind, group, tuple(known[: sizes.rank - 1]))


def multiply_ragged(kernel: Kernel, arithmetic: Arithmetic, product: Ragged, a: Array, b_: Array, c: Array) -> None:
    """Adds one phase, whose items are rows of the result."""
    column = product.columns[-1] if product.columns else Axis(1, 0, 0, 1)
    adjacent = column.b == 1 and column.c == 1
    tile = fitting(arithmetic, 1, column.size, arithmetic.few_sums) if adjacent else Tile(arithmetic, 1, 1, 1)
    items = [axis for _, axis in product.outer] + list(product.columns[:-1])
    if product.kind == "contracting":
        items.append(product.group)
    cost = 2 * column.size * prod(x.size for _, x in product.depth)
    with kernel.phase(count(tuple(items)), grain(cost, arithmetic)) as phase:
        b = phase.b
        sums = Sums(b, tile)
        mask = first_lanes(tile.lanes, column.size) if column.size < tile.lanes else None
        lefts = [min(v * tile.lanes, max(0, column.size - tile.lanes)) for v in range(tile.vectors)]
        with rolled(b, phase.begin, phase.end, name="row") as item:
            position = digits(b, items, item)
            at = {name: offset(b, items, position, name) for name in "abc"}
            position_of = {k: at for (k, _), at in zip(product.outer, position, strict=False)}
            begin, end, group = _range(phase, product, position_of, position[-1])
            if product.kind == "free":
                at["b"] = b.add(at["b"], b.mul(group, i64(product.group.b)))
            loops: list = [(x.size, (x.a, x.b)) for k, x in product.depth if k != product.ragged]
            axis = next((x for k, x in product.depth if k == product.ragged), Axis(1, 0, 0, 0))
            at["a"] = b.add(at["a"], b.mul(begin, i64(axis.a)))
            at["b"] = b.add(at["b"], b.mul(begin, i64(axis.b)))
            loops.insert(0, (b.sub(end, begin), (axis.a, axis.b)))
            with rolled(b, 0, column.size, tile.columns, name="column") as j:
                first = at_most(b, j, max(0, column.size - tile.columns))
                sums.clear(b)

                def body(o: list[ir.Value]) -> None:
                    sums.multiply(
                        b,
                        lambda r: arithmetic.load(b, a.pointer(phase), a.dtype, o[0], 1),
                        lambda v: arithmetic.load(
                            b, b_.pointer(phase), b_.dtype, b.add(o[1], i64(lefts[v])), tile.lanes, mask
                        ),
                    )

                nest(b, loops, [at["a"], b.add(at["b"], b.mul(first, i64(column.b)))], body)
                for v, left in enumerate(lefts):
                    to = b.add(b.add(at["c"], b.mul(first, i64(column.c))), i64(left))
                    arithmetic.store(b, c.pointer(phase), c.dtype, to, sums.get(b, 0, v), mask)


def _range(
    phase: PhaseBuilder, product: Ragged, position: Mapping[int, ir.Value], last: ir.Value
) -> tuple[ir.Value, ir.Value, ir.Value]:
    """What is summed of the ragged dimension (once or not at all, unless it is contracting), and the item's group."""
    b, sizes = phase.b, phase.kernel.operands[2]
    lines = [Axis(1, s, 0, 0) for s in row_major(sizes.dims)]
    line = offset(b, lines, [*(position[k] for k in product.counts), i64(0)], "a")
    total, group, begin = (allocate(b, I64) for _ in range(3))
    for pointer in (total, group, begin):
        b.store(i64(0), pointer)
    with rolled(b, 0, product.group.size, name="group") as g:
        before = b.load(total, typ=I64)
        size = converted(b, load(b, phase.operand(2), sizes.dtype, b.add(line, g)), sizes.dtype, s64)
        b.store(b.add(before, size), total)
        if product.kind == "contracting":
            here = b.icmp_signed("==", g, last)
            b.store(b.select(here, before, b.load(begin, typ=I64)), begin)
            b.store(b.select(here, size, b.load(group, typ=I64)), group)
        else:
            passed = b.icmp_signed(">=", position[product.ragged], b.load(total, typ=I64))
            b.store(b.add(b.load(group, typ=I64), b.zext(passed, I64)), group)
    first, number = b.load(begin, typ=I64), b.load(group, typ=I64)
    if product.kind == "contracting":
        size = next(x.size for k, x in product.depth if k == product.ragged)
        return first, at_most(b, b.add(first, number), size), i64(0)
    inside = b.icmp_signed("<", number, i64(product.group.size))
    return i64(0), b.zext(inside, I64), b.select(inside, number, i64(0))
