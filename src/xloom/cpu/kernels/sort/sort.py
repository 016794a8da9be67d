"""Sort: which algorithm serves which comparator and row length. All are stable."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from enum import Enum, auto
from typing import TYPE_CHECKING, Any, NamedTuple

from xloom.cpu.kernel_modules.choices import chosen
from xloom.cpu.kernel_modules.form import ShapeGenericProblem, form, form_of
from xloom.cpu.kernel_modules.kernel import STACK_SCRATCH, Kernel, kernel
from xloom.cpu.kernels.sort.keys import Key, plain_keys
from xloom.cpu.kernels.sort.rows import INDEX_BITS, Rows
from xloom.hlo.dtype import DType
from xloom.hlo.instruction import Instruction
from xloom.hlo.shape import Shape
from xloom.llvm.element_bits import move
from xloom.llvm.loop import loop
from xloom.llvm.symbolic_dimension import number
from xloom.llvm.target import Target

if TYPE_CHECKING:
    from xloom.cpu.kernels.sort.element_keys import ElementKey
    from xloom.cpu.kernels.sort.records import IndexedRecords, PackedRecords

_NETWORK_SIZE = 512
"""The longest rows that a network sorts faster, when there are enough of them to fill its lanes."""
_NETWORK_ROWS, _NETWORK_COLUMNS = 64, 256
"""The same where vectors sort numbered keys: of rows that lie one after another, and of others."""
_LONE_NETWORK_SIZE = 64
_LEAST_KEY = 16
"""Bits of keys that radix sorts are as quick with."""
_MOST_KEYS = 16
"""Of 32 bits, so many times of which a row is sorted by vectors sooner than once by all of them."""
_LEAST_IN_PAIRS = 32
"""Elements of a row that vectors sort sooner by several such keys."""
_WIDEST = 128
"""Bits of a record."""
_NEVER_OVERWRITTEN = frozenset({"parameter", "constant", "iota"})
"""Operators whose results the result of a sort takes the memory of seldom or never."""


@form_of("sort")
def sort_form(instruction: Instruction, shapes: Sequence[Shape], target: Target) -> ShapeGenericProblem | None:
    """The code of rows by keys that are elements does for others, as many as there are and as long as they are."""
    from xloom.cpu.kernels.sort.element_keys import ElementKey

    p = _problem(instruction)
    keys = [ElementKey.of(key) for key in p.keys]
    if not keys or None in keys or p.rows.size < 2 or not p.rows.count:
        return None
    names = ", ".join(f"{key.name} of {k.operand}" for key, k in zip(keys, p.keys, strict=True) if key)
    parts = (" ".join(t.name for t in p.dtypes), names, sorted(p.numbers), sorted(p.overwritable))

    def opened(size: Callable[[int], Any]) -> Rows:
        count, length, stride = p.rows.count, p.rows.size, p.rows.stride
        return Rows(size(count), size(length), size(stride) if stride > 1 else 1)

    return form(f"sort {parts}", opened)


@kernel("sort")
def sort(kernel: Kernel, instruction: Instruction) -> None:
    """Plain keys by vectors, a network or a radix sort, other comparators by merging."""
    p = _problem(instruction)
    if p.rows.size < 2 or not p.rows.count:
        _copy(kernel, p.rows)
        return
    p = p._replace(rows=kernel.problem or p.rows)
    # no more is imported than what sorts this: all of it would take as long as to compile it
    method, why = _decision(p, kernel.target)
    chosen(_MEANING[method], why)
    match method:
        case _Method.ELEMENTS:
            from xloom.cpu.kernels.sort import elements

            key = _element_key(p, kernel.target)
            assert key is not None
            elements.sort(kernel, p.rows, key)
        case _Method.NETWORK:
            from xloom.cpu.kernels.sort import network

            network.sort(kernel, _indexed(p))
        case _Method.PAIRS:
            from xloom.cpu.kernels.sort import key_arrays

            key_arrays.sort(kernel, p.rows, p.dtypes, p.keys, p.numbers, p.overwritable, _lent(p))
        case _Method.NUMBERED:
            from xloom.cpu.kernels.sort import packed_keys

            packed_keys.sort(kernel, _indexed(p))
        case _Method.RADIX:
            from xloom.cpu.kernels.sort import radix

            radix.sort(kernel, _radix_records(_known(p)))
        case _Method.MERGE:
            from xloom.cpu.kernels.sort import merge

            merge.sort(kernel, _records(_known(p)._replace(keys=[]), _WIDEST), instruction["to_apply"])


class _Problem(NamedTuple):
    rows: Rows
    dtypes: list[DType]
    keys: list[Key]
    """None, where the comparator has no plain ones."""
    numbers: frozenset[int]
    """The operands of no key of which each element is its number in the row."""
    overwritable: frozenset[int]
    """The operands that are computed, whose memory results may take."""


def _problem(instruction: Instruction) -> _Problem:
    operands = instruction._operands
    rows = Rows.along(operands[0].shape, instruction["dimensions"][0] if operands[0].shape.rank else 0)
    keys = plain_keys(instruction["to_apply"]) or []
    used = {k for key in keys for k in key.operands}
    numbers = frozenset[int]()
    if keys and rows.size > 1:
        numbers = frozenset(k for k in range(len(operands)) if k not in used and _is_number(instruction, k))
    overwritable = frozenset(k for k, o in enumerate(operands) if o.opcode not in _NEVER_OVERWRITTEN) - numbers
    return _Problem(rows, [o.shape.dtype for o in operands], keys, numbers, overwritable)


def _known(p: _Problem) -> _Problem:
    """Of which the sizes are numbers: code for these alone."""
    rows = p.rows
    return p._replace(rows=Rows(int(rows.count), int(rows.size), int(rows.stride)))


def _is_number(instruction: Instruction, operand: int) -> bool:
    """True for an operand of which each element is its number in the row."""
    made, dimension = instruction._operands[operand], instruction["dimensions"][0]
    if made.opcode == "broadcast":
        dimensions, made = made["dimensions"], made._operands[0]
        dimension = dimensions.index(dimension) if dimension in dimensions else None
    dtype = made.shape.dtype
    whole = dtype.is_integer and dtype.bits == 8 * dtype.bytes
    return made.opcode == "iota" and whole and made["iota_dimension"] == dimension


class _Method(Enum):
    ELEMENTS = auto()
    NETWORK = auto()
    PAIRS = auto()
    NUMBERED = auto()
    RADIX = auto()
    MERGE = auto()


_MEANING = {
    _Method.ELEMENTS: "quicksort by vectors of the elements themselves",
    _Method.NETWORK: "a network that sorts rows side by side",
    _Method.PAIRS: "quicksort by vectors of keys and row numbers",
    _Method.NUMBERED: "quicksort by vectors of keys with their row numbers in one word",
    _Method.RADIX: "radix sort",
    _Method.MERGE: "merge sort",
}


def _method(p: _Problem, target: Target) -> _Method:
    return _decision(p, target)[0]


def _decision(p: _Problem, target: Target) -> tuple[_Method, str]:
    """How it is sorted, and why so."""
    rows, bits = p.rows, sum(k.bits for k in p.keys)
    if not p.keys:
        return _Method.MERGE, "the comparator compares no plain keys, so that it must be called"
    if _element_key(p, target):
        return _Method.ELEMENTS, "there is one operand, of rows that lie one after another, and it is the key"
    if bits + INDEX_BITS <= 64 and rows.size <= _NETWORK_SIZE:  # of longer ones it is no condition how many there are
        longest, size, count = _longest_in_network(rows, bits, target), number(rows.size), number(rows.count)
        if rows.size <= longest:
            return _Method.NETWORK, f"rows of {size} are no longer than {longest}, {count} of them"
    if _in_pairs(rows, p.keys, target):
        return _Method.PAIRS, f"keys of {bits} bits, of long rows that lie one after another"
    if _LEAST_KEY < bits <= 64 - INDEX_BITS and target.packs_lanes():
        return _Method.NUMBERED, f"a key of {bits} bits and a row number fit a word"
    passes = -(-bits // 8)
    if bits + INDEX_BITS <= _WIDEST and _radix_is_faster(rows.size, passes):
        return _Method.RADIX, f"{passes} passes over {number(rows.size)} elements take less than to merge them"
    return _Method.MERGE, f"{passes} passes of a radix sort would take longer for rows of {number(rows.size)}"


def _longest_in_network(rows: Rows, bits: int, target: Target) -> int:
    """Elements of the longest rows of such keys that a network sorts faster than what else there is."""
    if rows.count < 8:
        return _LONE_NETWORK_SIZE
    if bits > _LEAST_KEY and target.packs_lanes():
        return _NETWORK_ROWS if rows.stride == 1 else _NETWORK_COLUMNS
    return _NETWORK_SIZE


def _element_key(p: _Problem, target: Target) -> ElementKey | None:
    """How the elements of rows that vectors sort are keys themselves, or None."""
    single = len(p.dtypes) == len(p.keys) == 1
    if not single or p.rows.stride != 1 or not target.packs_lanes():
        return None
    from xloom.cpu.kernels.sort.element_keys import ElementKey
    from xloom.cpu.kernels.sort.vector_rows import sorts

    key = ElementKey.of(p.keys[0])
    return key if key and sorts(p.rows, key.dtype.bits, target) else None


def _in_pairs(rows: Rows, keys: list[Key], target: Target) -> bool:
    """True for long rows that vectors sort by some keys, or parts of such, of 32 bits."""
    if rows.stride != 1 or sum(k.bits for k in keys) <= _LEAST_KEY or not target.packs_lanes():
        return False
    from xloom.cpu.kernels.sort.key_groups import groups
    from xloom.cpu.kernels.sort.vector_rows import is_short

    passes = len(groups(keys))
    short = rows.size < _LEAST_IN_PAIRS if passes > 1 else is_short(rows, 64, in_output=True)
    return passes <= _MOST_KEYS and rows.size < 1 << INDEX_BITS and not short


def _indexed(p: _Problem) -> IndexedRecords:
    from xloom.cpu.kernels.sort.records import IndexedRecords

    return IndexedRecords(p.rows, p.dtypes, p.keys, p.numbers, p.overwritable)


def _records(p: _Problem, most: int) -> PackedRecords | IndexedRecords:
    """Those that hold all operands where they need no more bits than `most`."""
    from xloom.cpu.kernels.sort.records import PackedRecords

    return PackedRecords(p.rows, p.dtypes, p.keys, p.numbers) if PackedRecords.bits(p.dtypes) <= most else _indexed(p)


def _radix_records(p: _Problem) -> PackedRecords | IndexedRecords:
    from xloom.cpu.kernels.sort.records import IndexedRecords

    return _records(p, max(64, IndexedRecords.bits(p.keys)))


def _is_packed(records: PackedRecords | IndexedRecords) -> bool:
    from xloom.cpu.kernels.sort.records import PackedRecords

    return isinstance(records, PackedRecords)


def unread_operands(instruction: Instruction) -> frozenset[int]:
    """The operands of a sort whose elements are their numbers, where no key is of them: the kernel makes these."""
    return _problem(instruction).numbers


def overwritten_operand(instruction: Instruction, output: int, target: Target) -> int | None:
    """The operand of a sort in whose memory an output may lie."""
    p = _problem(instruction)
    if p.rows.size < 2 or not p.rows.count:
        return None
    method = _method(p, target)
    if method is _Method.PAIRS and not _reads_first(p, method, target):
        lent = _lent(p)
        return lent[1] if lent and lent[0] == output else None
    may_be = method is _Method.ELEMENTS or output in p.overwritable
    return output if may_be and _reads_first(p, method, target) else None


def _reads_first(p: _Problem, method: _Method, target: Target) -> bool:
    """True where a row's elements are all read before any is written.

    Those of long rows are read again only where elements are equal that differ.
    """
    match method:
        case _Method.ELEMENTS:
            from xloom.cpu.kernels.sort.vector_rows import is_short

            key = _element_key(p, target)
            assert key is not None
            return not key.equal_zeros or is_short(p.rows, key.dtype.bits, in_output=True)
        case _Method.NETWORK:
            return True
        case _Method.PAIRS:
            from xloom.cpu.kernels.sort.key_groups import is_short

            return is_short(p.rows)
        case _Method.NUMBERED:
            from xloom.cpu.kernels.sort.vector_rows import is_short

            return p.rows.stride == 1 and is_short(p.rows, 64, in_output=False)
        case _Method.RADIX:
            from xloom.cpu.kernels.sort.radix import is_short

            records = _radix_records(p)
            return (_is_packed(records) or p.rows.stride == 1) and is_short(records)
        case _Method.MERGE:
            from xloom.cpu.kernels.sort.merge import is_short

            return (_is_packed(_records(p, _WIDEST)) or p.rows.stride == 1) and is_short(p.rows)


def _lent(p: _Problem) -> tuple[int, int] | None:
    """An output that is written when all others are, and an operand that may lie there until then.

    Only where what else that takes fits the stack.
    """
    from xloom.cpu.kernels.sort.key_groups import groups, is_short

    if is_short(p.rows) or len(groups(p.keys)) == 1 or 8 * p.rows.count * p.rows.size > STACK_SCRATCH:
        return None
    pairs = ((k, source) for source in sorted(p.overwritable) for k in range(len(p.dtypes)) if k != source)
    alike = ((k, source) for k, source in pairs if p.dtypes[k].bytes == p.dtypes[source].bytes)
    return next(((k, source) for k, source in alike if k not in p.numbers), None)


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
