"""Floats of 8 bits and fewer, as they are rounded, computed with and stored: every number of every type."""

from dataclasses import replace
from typing import Any

import numpy as np
import pytest

import xloom as xl
from xloom.cpu.compile import compile
from xloom.hlo.dtype import DTYPES
from xloom.llvm.target import process_target

FLUSHES = replace(process_target(), flushes_denormals=True)
SMALL = [name for name, dtype in DTYPES.items() if dtype.is_float and dtype.bits <= 8]


def numbers_of(dtype: str) -> np.ndarray[Any, Any]:
    return np.arange(1 << DTYPES[dtype].bits, dtype=np.uint8).view(DTYPES[dtype].numpy)


def run(module: xl.Module, *arguments: Any) -> np.ndarray[Any, Any]:
    return np.asarray(xl.compile(module)(*arguments))


def check(found: np.ndarray[Any, Any], wanted: np.ndarray[Any, Any]) -> None:
    """Equal bits, but of NaN."""
    numbers = ~np.isnan(wanted.astype(np.float32))
    np.testing.assert_array_equal(np.isnan(found.astype(np.float32)), ~numbers)
    np.testing.assert_array_equal(found.view(np.uint8)[numbers], wanted.view(np.uint8)[numbers])


def near_ties(dtype: str) -> np.ndarray[Any, Any]:
    """All numbers of the type, the middles of two, and the numbers of f32 that are next to them."""
    known = numbers_of(dtype).astype(np.float32)
    known = np.unique(known[np.isfinite(known)])
    exact = np.concatenate([known, (known[1:] + known[:-1]) / 2, known[-1:] * 1.03125, known[-1:] * 8])
    exact = np.concatenate([exact, -exact])
    ends = np.array([0, -0.0, np.inf, -np.inf, np.nan, 1e-30, -3e38], np.float32)
    return np.concatenate([exact, np.nextafter(exact, np.float32(9e9)), np.nextafter(exact, np.float32(-9e9)), ends])


@pytest.mark.parametrize("wide", ["f32", "bf16", "f16"])
@pytest.mark.parametrize("small", SMALL)
def test_rounded(small, wide):
    with np.errstate(all="ignore"):
        every = np.arange(1 << 16, dtype=np.uint16).view(DTYPES["bf16" if wide == "f32" else wide].numpy)
        x = np.concatenate([every.astype(np.float32), near_ties(small)]).astype(DTYPES[wide].numpy)
        if DTYPES[small].bits < 8:  # they have no NaN
            x = x[~np.isnan(x.astype(np.float32))]
        wanted = x.astype(np.float32).astype(DTYPES[small].numpy)
    module = xl.parse(f"ENTRY e {{ x = {wide}[{x.size}] parameter(0) ROOT y = {small}[{x.size}] convert(x) }}")
    check(run(module, x), wanted)


@pytest.mark.parametrize("small", SMALL)
def test_denormals_are_kept_where_those_of_f32_are_not(small):
    if small == "f8e8m0fnu":
        pytest.skip("has one of f32")
    x = numbers_of(small)
    module = xl.parse(f"ENTRY e {{ x = {small}[{len(x)}] parameter(0) ROOT y = f32[{len(x)}] convert(x) }}")
    found = np.asarray(compile(module, FLUSHES)(x))
    np.testing.assert_array_equal(found, x.astype(np.float32))


@pytest.mark.parametrize("opcode", ["add", "subtract", "multiply", "divide"])
@pytest.mark.parametrize("small", SMALL)
def test_arithmetic(small, opcode):
    numbers = numbers_of(small)
    n = len(numbers)
    x, y = np.repeat(numbers, n), np.tile(numbers, n)
    with np.errstate(all="ignore"):
        wide = getattr(np, opcode)(x.astype(np.float32), y.astype(np.float32))
        wanted = wide.astype(DTYPES[small].numpy)
    module = xl.parse(f"""ENTRY e {{
        x = {small}[{n * n}] parameter(0)
        y = {small}[{n * n}] parameter(1)
        ROOT z = {small}[{n * n}] {opcode}(x, y)
    }}""")
    is_known = ~np.isnan(wide) | (DTYPES[small].bits == 8)
    check(run(module, x, y)[is_known], wanted[is_known])


@pytest.mark.parametrize("opcode", ["copy", "abs", "negate", "select", "transpose", "twice"])
@pytest.mark.parametrize("small", SMALL)
def test_stored_as_they_are(small, opcode):
    x = numbers_of(small)
    n = len(x)
    text = {
        "select": f"p = pred[{n}] compare(x, w), direction=LT\n ROOT z = {small}[{n}] select(p, w, x)",
        "transpose": f"r = {small}[{n // 4},4] reshape(x)\n ROOT z = {small}[4,{n // 4}] transpose(r), dimensions={{1,0}}",
        "twice": f"t = {small}[{n}] add(x, w)\n u = {small}[{n}] multiply(t, t)\n ROOT z = ({small}[{n}], {small}[{n}], f32[{n}]) tuple(t, u, v)",
    }.get(opcode, f"ROOT z = {small}[{n}] {opcode}(x)")
    module = xl.parse(f"""ENTRY e {{
        x = {small}[{n}] parameter(0)
        w = {small}[{n}] reverse(x), dimensions={{0}}
        v = f32[{n}] convert(x)
        {text}
    }}""")
    for found, wanted in zip(
        *(flat(of(x)) for of in (xl.compile(module), lambda x: xl.evaluate(module, x))), strict=True
    ):
        if found.dtype == np.float32:
            np.testing.assert_array_equal(found, wanted)
        else:
            check(found, wanted)


def flat(results: Any) -> list[np.ndarray[Any, Any]]:
    return [np.asarray(r) for r in (results if isinstance(results, (list, tuple)) else [results])]
