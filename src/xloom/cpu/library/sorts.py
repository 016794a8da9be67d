"""Sorts, for the library of kernels: by one key and by two, alone, with the elements' numbers and with other arrays.

Code of a method serves rows of any length and number, but memory for a row on the stack is of one of a few sizes.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import product

_KEYS = ("f32", "f64", "f16", "bf16", "s8", "s16", "s32", "s64", "u8", "u16", "u32", "u64")
_LENGTHS = (50, 200, 1000, 4000, 16_000, 100_000)
"""Of rows: one for each size of memory that they may take, and of some that take more than the stack has."""
_ROWS = 300
"""How many short ones there are; of long ones there is one."""
_LONG = 50_000
_COLUMNS = (50, 200, 1000, 4000)
"""Lengths of what is sorted across the last dimension."""
_USUAL = ("f32", "s32")
"""Keys that are also sorted in twos, and with other arrays, of which there are the same."""
_CANONICAL = """
 e{0} = pred[] compare({0}, zero{1}), direction=EQ
 n{0} = pred[] compare({0}, {0}), direction=NE
 z{0} = {1}[] select(e{0}, zero{1}, {0})
 c{0} = {1}[] select(n{0}, nan{1}, z{0})"""
"""Frameworks' order of floats: both zeros are equal, and so are all NaNs, which come last."""


def sorts() -> Iterator[str]:
    """The HLO text of each."""
    for dtype, length in product(_KEYS, _LENGTHS):
        for direction in ("LT", "GT"):
            yield _sort((dtype,), (), (), *_rows(length), direction)
            for only in (False, True):
                yield _sort((dtype,), (), ("s32",), *_rows(length), direction, only_numbers=only)
    for dtype, length, numbers in product(_KEYS, _COLUMNS, ((), ("s32",))):
        yield _sort((dtype,), (), numbers, f"{length},{_ROWS}", 0)
    for dtype, length in product((*_USUAL, "s64"), _LENGTHS):
        yield _sort((dtype,), (), ("s64",), *_rows(length))
    for dtype, other, length in product(_USUAL, _USUAL, _LENGTHS):
        yield _sort((dtype,), (other,), (), *_rows(length))
    for first, second, length in product(_USUAL, _USUAL, _LENGTHS):
        for others, numbers in (((), ()), ((), ("s32",)), *(((other,), ()) for other in _USUAL)):
            yield _sort((first, second), others, numbers, *_rows(length))


def _rows(length: int) -> tuple[str, int]:
    """Dimensions, and the one that is sorted along."""
    return (str(length), 0) if length > _LONG else (f"{_ROWS},{length}", 1)


def _sort(
    keys: Sequence[str],
    others: Sequence[str],
    numbers: Sequence[str],
    dims: str,
    along: int,
    direction: str = "LT",
    *,
    only_numbers: bool = False,
) -> str:
    """Of keys, the first decisive, with `others`, and with the elements' numbers of types `numbers`.

    With `only_numbers` the last of these are the result.
    """
    dtypes = (*keys, *others, *numbers)
    parameters = "".join(
        f" {name}{k} = {dtype}[] parameter({2 * k + n})\n"
        for k, dtype in enumerate(dtypes)
        for n, name in enumerate("pq")
    )
    constants = "".join(
        f" zero{dtype} = {dtype}[] constant(0)\n nan{dtype} = {dtype}[] constant(nan)\n"
        for dtype in dict.fromkeys(keys)
        if "f" in dtype
    )
    region, compared = "", ""
    for k, dtype in reversed(list(enumerate(keys))):
        names, kind = f"p{k}, q{k}", ""
        if "f" in dtype:
            region += "".join(_CANONICAL.format(f"{name}{k}", dtype) for name in "pq") + "\n"
            names, kind = f"cp{k}, cq{k}", ", type=TOTALORDER"
        region += f" less{k} = pred[] compare({names}), direction={direction}{kind}\n"
        if compared:
            region += f" same{k} = pred[] compare({names}), direction=EQ{kind}\n"
            region += f" both{k} = pred[] select(same{k}, {compared}, less{k})\n"
        compared = f"both{k}" if compared else f"less{k}"
    arrays = [f"{dtype}[{dims}]" for dtype in dtypes]
    given = len(dtypes) - len(numbers)
    made = "".join(
        f" a{k} = {array} {f'parameter({k})' if k < given else f'iota(), iota_dimension={along}'}\n"
        for k, array in enumerate(arrays)
    )
    shape = arrays[0] if len(arrays) == 1 else f"({', '.join(arrays)})"
    operands = ", ".join(f"a{k}" for k in range(len(arrays)))
    root, result = "ROOT ", ""
    if only_numbers:
        root, result = "", f" ROOT r = {arrays[-1]} get-tuple-element(c), index={given}\n"
    return (
        f"HloModule library\nless {{\n{parameters}{constants}{region} ROOT r = pred[] copy({compared})\n}}\n"
        f"ENTRY e {{\n{made} {root}c = {shape} sort({operands}), dimensions={{{along}}}, is_stable=true,"
        f" to_apply=less\n{result}}}\n"
    )
