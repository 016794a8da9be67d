"""Loops over many arrays put together: pieces that do the same are code once, whichever arrays they load from."""

from __future__ import annotations

import re

import numpy as np
import pytest

import xloom as xl
from xloom.cpu.lower import lowered
from xloom.cpu.prepare import prepared
from xloom.llvm.target import process_target


def _text(parts: list[str], dims: list[tuple[int, ...]], dim: int, wide: tuple[int, ...], after: str) -> str:
    """HLO that concatenates what `parts` compute of x, an array of each of `dims`."""
    lines = [f"x{k} = f32[{_dims(d)}] parameter({k})" for k, d in enumerate(dims)]
    for k, (part, d) in enumerate(zip(parts, dims, strict=True)):
        lines.append(
            f"scale{k} = f32[] constant({k % 3 + 2}) wide{k} = f32[{_dims(d)}] broadcast(scale{k}), dimensions={{}}"
        )
        lines.append(f"p{k} = f32[{_dims(d)}] {part.format(k=k)}")
    listed = ", ".join(f"p{k}" for k in range(len(parts)))
    lines.append(f"y = f32[{_dims(wide)}] concatenate({listed}), dimensions={{{dim}}}")
    return "ENTRY e {\n" + "\n".join(lines) + f"\nROOT r = f32[{_dims(wide)}] {after}\n}}"


def _dims(dims: tuple[int, ...]) -> str:
    return ",".join(map(str, dims))


def _agrees(text: str, arrays: list[np.ndarray]) -> None:
    module = xl.parse(text)
    np.testing.assert_array_equal(np.asarray(xl.compile(module)(*arrays)), np.asarray(xl.evaluate(module, *arrays)))


PARTS = {
    "copies": ["copy(x{k})"],
    "alike": ["negate(x{k})"],
    "two in turn": ["negate(x{k})", "add(x{k}, x{k})"],
    "three constants": ["multiply(x{k}, wide{k})"],
    "one array in all": ["subtract(x{k}, x0)"],
}


@pytest.mark.sampled
@pytest.mark.parametrize("count", [8, 9, 10, 40, 150])
@pytest.mark.parametrize(("dims", "dim"), [((6, 5), 1), ((6, 5), 0), ((4, 3, 20), 1), ((3,), 0), ((1,), 0)])
@pytest.mark.parametrize("parts", PARTS)
def test_many_arrays(parts, dims, dim, count):
    chosen = [PARTS[parts][k % len(PARTS[parts])] for k in range(count)]
    wide = tuple(n * count if d == dim else n for d, n in enumerate(dims))
    arrays = [np.arange(k, k + np.prod(dims), dtype=np.float32).reshape(dims) for k in range(count)]
    _agrees(_text(chosen, [dims] * count, dim, wide, "negate(y)"), arrays)


@pytest.mark.parametrize("dim", [0, 1])
@pytest.mark.parametrize("after", ["negate(y)", "reverse(y), dimensions={0,1}"])
def test_arrays_of_several_sizes(dim, after):
    dims = [(7, 3 + 5 * k % 9) if dim else (3 + 5 * k % 9, 7) for k in range(30)]
    wide = (7, sum(d[1] for d in dims)) if dim else (sum(d[0] for d in dims), 7)
    arrays = [np.arange(k, k + np.prod(d), dtype=np.float32).reshape(d) for k, d in enumerate(dims)]
    _agrees(_text(["negate(x{k})"] * 30, dims, dim, wide, after), arrays)


def test_rows_and_columns_of_blocks():
    """Each block of rows has two of columns, which are pieces within pieces."""
    lines = [f"x{k} = f32[4,5] parameter({k}) n{k} = f32[4,5] negate(x{k})" for k in range(20)]
    lines += [f"r{k} = f32[4,10] concatenate(x{k}, n{k}), dimensions={{1}}" for k in range(20)]
    text = (
        "\n".join(lines)
        + f"\nROOT y = f32[80,10] concatenate({', '.join(f'r{k}' for k in range(20))}), dimensions={{0}}"
    )
    _agrees(f"ENTRY e {{\n{text}\n}}", [np.arange(k, k + 20, dtype=np.float32).reshape(4, 5) for k in range(20)])


def test_code_for_many_alike_arrays_is_as_for_a_few_more_than_are_written_one_by_one():
    def stores(count: int) -> int:
        text = _text(["negate(x{k})"] * count, [(6, 40)] * count, 1, (6, 40 * count), "negate(y)")
        _, _, program = lowered(prepared(xl.parse(text)), process_target())
        return sum(
            len(re.findall("store <", text)) for text in [program.main, *(m.text for m in program.modules.values())]
        )

    assert stores(60) == stores(12) < stores(8)


def test_indices_put_together():
    """What is gathered is the same array everywhere, wherever its indices are from."""
    text = f"""HloModule m
    ENTRY e {{
      a = s32[2,16] parameter(0)
      c = s32[18,16] concatenate({", ".join(["a"] * 9)}), dimensions={{0}}
      s = s32[17,3] slice(c), slice={{[0:17],[13:16]}}
      ROOT g = s32[17,3,16] gather(a, s), offset_dims={{2}}, collapsed_slice_dims={{0}}, start_index_map={{0}},
        index_vector_dim=2, slice_sizes={{1,16}}
    }}"""
    _agrees(text, [np.arange(32, dtype=np.int32).reshape(2, 16) - 20])
