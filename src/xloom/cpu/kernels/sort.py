"""Sort: which algorithm serves which comparator and row length. All are stable."""

from __future__ import annotations

import math

from xloom.cpu.emit.bits import move
from xloom.cpu.emit.loop import loop
from xloom.cpu.kernel import Kernel, kernel
from xloom.cpu.kernels.sorting import merge, network, radix
from xloom.cpu.kernels.sorting.keys import plain_keys
from xloom.cpu.kernels.sorting.records import INDEX_BITS, Indexed, Packed
from xloom.cpu.kernels.sorting.rows import Rows
from xloom.hlo.module import Instruction

_NETWORK_SIZE = 512
"""The longest rows that a network sorts faster, when there are enough of them to fill its lanes."""
_LONE_NETWORK_SIZE = 64
_WIDEST = 128
"""Bits of a record."""


@kernel("sort")
def sort(kernel: Kernel, instruction: Instruction) -> None:
    """Plain keys by a network or a radix sort, other comparators by merging."""
    shapes = [o.shape for o in instruction._operands]
    dtypes = [s.dtype for s in shapes]
    rows = Rows.along(shapes[0], instruction["dimensions"][0] if shapes[0].rank else 0)
    if rows.size < 2 or not rows.count:
        _copy(kernel, rows)
        return
    comparator = instruction["to_apply"]
    keys = plain_keys(comparator)
    bits = sum(k.bits for k in keys) if keys else math.inf
    if keys and bits + INDEX_BITS <= 64 and rows.size <= (_NETWORK_SIZE if rows.count >= 8 else _LONE_NETWORK_SIZE):
        network.sort(kernel, Indexed(rows, dtypes, keys))
    elif keys and bits + INDEX_BITS <= _WIDEST and _radix_is_faster(rows.size, -(-bits // 8)):
        packed = Packed.bits(dtypes) <= max(64, Indexed.bits(keys))
        radix.sort(kernel, (Packed if packed else Indexed)(rows, dtypes, keys))
    else:
        packed = Packed.bits(dtypes) <= _WIDEST
        merge.sort(kernel, (Packed if packed else Indexed)(rows, dtypes), comparator)


def _radix_is_faster(size: int, passes: float) -> bool:
    """By about what they take in ns: a radix pass 2 an element and 300 for its digits, a merge 2.5."""
    return passes * (2 * size + 300) < 2.5 * size * math.log2(size)


def _copy(kernel: Kernel, rows: Rows) -> None:
    total = rows.count * rows.size
    if not total:
        return
    with kernel.phase(total, 1 << 16) as phase, loop(phase.b, phase.begin, phase.end) as i:
        for k, shape in enumerate(kernel.operands):
            move(phase.b, phase.operand(k), i, phase.output(k), i, shape.dtype)
