"""Sort: which algorithm serves which comparator and row length. All are stable."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

from xloom.cpu.emit.bits import move
from xloom.cpu.emit.loop import loop
from xloom.cpu.emit.registers import packs_lanes
from xloom.cpu.kernel import Kernel, kernel
from xloom.cpu.kernels.sorting.keys import Key, plain_keys
from xloom.cpu.kernels.sorting.records import INDEX_BITS, Indexed, Packed
from xloom.cpu.kernels.sorting.rows import Rows
from xloom.hlo.dtype import DType
from xloom.hlo.instruction import Instruction

if TYPE_CHECKING:
    from xloom.cpu.kernels.sorting.element_keys import ElementKey

_NETWORK_SIZE = 512
"""The longest rows that a network sorts faster, when there are enough of them to fill its lanes."""
_LONE_NETWORK_SIZE = 64
_LEAST_ELEMENTS = 16
"""In the shortest rows of single elements that leave few lanes of vectors idle."""
_LEAST_KEY = 16
"""Bits of keys that radix sorts are as quick with."""
_MOST_KEYS = 3
"""Of 32 bits, so many times of which a row is sorted by vectors sooner than once by all of them."""
_WIDEST = 128
"""Bits of a record."""


@kernel("sort")
def sort(kernel: Kernel, instruction: Instruction) -> None:
    """Plain keys by vectors, a network or a radix sort, other comparators by merging."""
    rows, dtypes, keys = _problem(instruction)
    if rows.size < 2 or not rows.count:
        _copy(kernel, rows)
        return
    comparator = instruction["to_apply"]
    bits = sum(k.bits for k in keys) if keys else math.inf
    short = rows.size <= (_NETWORK_SIZE if rows.count >= 8 else _LONE_NETWORK_SIZE)
    # no more is imported than what sorts this: all of it would take as long as to compile it
    if keys and (key := _element_key(rows, dtypes, keys)):
        from xloom.cpu.kernels.sorting import elements

        elements.sort(kernel, rows, key)
    elif keys and short and bits + INDEX_BITS <= 64:
        from xloom.cpu.kernels.sorting import network

        network.sort(kernel, Indexed(rows, dtypes, keys))
    elif keys and _in_pairs(rows, keys):
        from xloom.cpu.kernels.sorting import pairs

        pairs.sort(kernel, rows, dtypes, keys, [k for k in range(len(dtypes)) if _is_number(instruction, k)])
    elif keys and _LEAST_KEY < bits <= 64 - INDEX_BITS and packs_lanes():
        from xloom.cpu.kernels.sorting import numbered

        numbered.sort(kernel, Indexed(rows, dtypes, keys))
    elif keys and bits + INDEX_BITS <= _WIDEST and _radix_is_faster(rows.size, -(-bits // 8)):
        from xloom.cpu.kernels.sorting import radix

        packed = Packed.bits(dtypes) <= max(64, Indexed.bits(keys))
        radix.sort(kernel, (Packed if packed else Indexed)(rows, dtypes, keys))
    else:
        from xloom.cpu.kernels.sorting import merge

        packed = Packed.bits(dtypes) <= _WIDEST
        merge.sort(kernel, (Packed if packed else Indexed)(rows, dtypes), comparator)


def _element_key(rows: Rows, dtypes: list[DType], keys: list[Key]) -> ElementKey | None:
    """How the elements of rows that vectors sort are keys themselves, or None."""
    single = len(dtypes) == len(keys) == 1 and dtypes[0].bits in (32, 64)
    if not single or rows.stride != 1 or rows.size < _LEAST_ELEMENTS or not packs_lanes():
        return None
    from xloom.cpu.kernels.sorting.element_keys import ElementKey

    return ElementKey.of(keys[0])


def _in_pairs(rows: Rows, keys: list[Key]) -> bool:
    """True for long rows that vectors sort by some keys of 32 bits or fewer."""
    if rows.stride != 1 or sum(k.bits for k in keys) <= _LEAST_KEY or not packs_lanes():
        return False
    from xloom.cpu.kernels.sorting.pairs import KEY_BITS, groups
    from xloom.cpu.kernels.sorting.vectors import is_short

    narrow = all(k.bits <= KEY_BITS for k in keys) and len(groups(keys)) <= _MOST_KEYS
    return narrow and rows.size < 1 << INDEX_BITS and not is_short(rows.size * 8)


def _is_number(instruction: Instruction, operand: int) -> bool:
    """True for an operand of which each element is its number in the row."""
    made = instruction._operands[operand]
    integer = made.shape.dtype.is_integer and made.shape.dtype.bits == INDEX_BITS
    return made.opcode == "iota" and integer and made["iota_dimension"] == instruction["dimensions"][0]


def unread_operands(instruction: Instruction) -> frozenset[int]:
    """The operands of a sort whose elements are their numbers, where no key is of them: the kernel makes these."""
    if instruction.opcode != "sort" or all(o.opcode != "iota" for o in instruction._operands):
        return frozenset()
    rows, dtypes, keys = _problem(instruction)
    if not keys or not _in_pairs(rows, keys):
        return frozenset()
    used = {k for key in keys for k in key.operands}
    return frozenset(k for k in range(len(dtypes)) if k not in used and _is_number(instruction, k))


def sorts_in_place(instruction: Instruction) -> bool:
    """True when the result may lie where the operand does: a row's elements are all read before they are written.

    Those of long rows are read again only where elements are equal that differ.
    """
    rows, dtypes, keys = _problem(instruction)
    key = _element_key(rows, dtypes, keys) if keys else None
    if key is None:
        return False
    from xloom.cpu.kernels.sorting.vectors import is_short

    return not key.equal_zeros or is_short(rows.size * key.dtype.bytes)


def _problem(instruction: Instruction) -> tuple[Rows, list[DType], list[Key] | None]:
    shapes = [o.shape for o in instruction._operands]
    rows = Rows.along(shapes[0], instruction["dimensions"][0] if shapes[0].rank else 0)
    return rows, [s.dtype for s in shapes], plain_keys(instruction["to_apply"])


def _radix_is_faster(size: int, passes: float) -> bool:
    """By about what they take in ns: a radix pass 2 an element and 300 for its digits, a merge 2.5."""
    return passes * (2 * size + 300) < 2.5 * size * math.log2(size)


def _copy(kernel: Kernel, rows: Rows) -> None:
    total = rows.count * rows.size
    if not total:
        return
    with kernel.phase(total, 1 << 16) as phase, loop(phase.b, phase.begin, phase.end) as i:
        for k, shape in enumerate(kernel.operands):
            if k in kernel.unread:
                continue
            move(phase.b, phase.operand(k), i, phase.output(k), i, shape.dtype)
