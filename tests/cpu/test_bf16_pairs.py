"""Elements of bf16 two at a time."""

import re
from typing import Any

import ml_dtypes
import numpy as np
import pytest

import xloom as xl
from xloom.cpu.lower import lowered
from xloom.cpu.prepare import prepared
from xloom.llvm.target import process_target

SQUARE = "ROOT r = bf16[{n}] multiply(p, p)"
BODIES = {
    "one operator": (SQUARE, True),
    "a chain": ("e = bf16[{n}] exponential(p) ROOT r = bf16[{n}] multiply(p, e)", True),
    "two results": ("s = bf16[{n}] negate(p) q = bf16[{n}] abs(p) ROOT r = (bf16[{n}], bf16[{n}]) tuple(s, q)", True),
    "indices": ("i = bf16[{n}] iota(), iota_dimension=0 ROOT r = bf16[{n}] add(p, i)", True),
    "a number for all": (
        "z = bf16[] constant(3) b = bf16[{n}] broadcast(z), dimensions={{}} ROOT r = bf16[{n}] divide(p, b)",
        True,
    ),
    "another type": ("f = f32[{n}] convert(p) ROOT r = f32[{n}] sine(f)", False),
    "backwards": ("v = bf16[{n}] reverse(p), dimensions={{0}} ROOT r = bf16[{n}] add(p, v)", False),
    "an odd place": (
        "s = bf16[{m}] slice(p), slice={{[1:{n}]}} t = bf16[{m}] slice(p), slice={{[0:{m}]}} "
        "ROOT r = bf16[{m}] add(s, t)",
        False,
    ),
}
SPECIAL = [0.0, -0.0, np.inf, -np.inf, np.nan, 1e-40, -1e-40, 3.3e38, 1.0, -2.5]


def _check(text, *arguments):
    module = xl.parse(text)
    found, expected = xl.compile(module)(*arguments), xl.evaluate(module, *arguments)
    pairs: Any = zip(found, expected, strict=True) if isinstance(found, tuple) else [(found, expected)]
    for a, b in pairs:
        a, b = (x.astype(np.float32) for x in (a, b))
        np.testing.assert_allclose(a, b, rtol=2**-7, atol=1e-38)
    return "".join(m.text for m in lowered(prepared(module), process_target())[-1].modules.values())


def _loads(text, bits):
    return re.search(rf"load (<\d+ x )?i{bits}\b", text) is not None


def _numbers(*dims):
    x = np.random.default_rng(0).standard_normal(dims).astype(ml_dtypes.bfloat16)
    x.reshape(-1)[: len(SPECIAL)] = SPECIAL
    return x


@pytest.mark.parametrize("name", BODIES)
def test_arrays(name):
    n = 1 << 16
    body, paired = BODIES[name]
    text = f"HloModule m\nENTRY e {{ p = bf16[{n}] parameter(0) {body.format(n=n, m=n - 1)} }}"
    text = _check(text, _numbers(n))
    assert (_loads(text, 32) and not _loads(text, 16)) == paired


def test_bits_are_those_of_elements_one_by_one():
    x = _numbers(1 << 16)
    whole = xl.compile(xl.parse("ENTRY e { p = bf16[65536] parameter(0) ROOT r = bf16[65536] multiply(p, p) }"))(x)
    odd = xl.compile(xl.parse("ENTRY e { p = bf16[65535] parameter(0) ROOT r = bf16[65535] multiply(p, p) }"))(x[1:])
    np.testing.assert_array_equal(whole[1:].view(np.uint16), odd.view(np.uint16))


@pytest.mark.parametrize(("columns", "paired"), [(1024, True), (258, True), (257, False), (34, False)])
def test_rows(columns, paired):
    text = (
        f"HloModule m\nENTRY e {{ p = bf16[300,{columns}] parameter(0) v = bf16[{columns}] parameter(1) "
        f"b = bf16[300,{columns}] broadcast(v), dimensions={{1}} ROOT r = bf16[300,{columns}] add(p, b) }}"
    )
    text = _check(text, _numbers(300, columns), _numbers(columns))
    assert _loads(text, 32) == paired


def test_a_donated_argument_is_written_in_place():
    text = (
        "HloModule m, input_output_alias={ {}: (0, {}, may-alias) }\n"
        "ENTRY e { p = bf16[65536] parameter(0) ROOT r = bf16[65536] negate(p) }"
    )
    x = _numbers(1 << 16)
    expected = np.negative(x)
    found = xl.compile(xl.parse(text))(x, donated=[0])
    assert np.shares_memory(found, x)
    np.testing.assert_array_equal(found.view(np.uint16), expected.view(np.uint16))
