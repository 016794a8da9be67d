"""Arrays that are larger than any memory: what is computed where it is read needs none, all else says how much."""

import numpy as np
import pytest

import xloom as xl
from xloom.errors import OutOfMemoryError

SIDE = 1 << 23  # of a square of 2^48 bytes, more than a process has addresses for
WHOLE = f"f32[{SIDE},{SIDE}]"
BYTES = str(4 * SIDE * SIDE)
LARGE = f"b = {WHOLE} broadcast(p), dimensions={{}}"


def module(body: str) -> xl.Module:
    return xl.parse(f"""add {{ x = f32[] parameter(0) y = f32[] parameter(1) ROOT r = f32[] add(x, y) }}
      less {{ x = f32[] parameter(0) y = f32[] parameter(1) ROOT r = pred[] compare(x, y), direction=LT }}
      ENTRY e {{ p = f32[] parameter(0) {body} }}""")


def test_a_part_of_an_array_that_is_not_there():
    m = module(f"{LARGE} n = {WHOLE} negate(b) ROOT s = f32[2,2] slice(n), slice={{[5:7],[6:8]}}")
    assert np.array_equal(xl.compile(m)(np.float32(3)), np.full((2, 2), -3, np.float32))


def test_indices_of_64_bits():
    last = (1 << 60) - 3
    m = module(
        f"i = s64[{(1 << 60) - 1}] iota(), iota_dimension=0 ROOT s = s64[2] slice(i), slice={{[{last}:{last + 2}]}}"
    )
    assert xl.compile(m)(np.float32(0)).tolist() == [last, last + 1]


@pytest.mark.parametrize(
    "body",
    [
        LARGE.replace("b =", "ROOT b ="),
        f"{LARGE} ROOT t = (f32[], {WHOLE}) tuple(p, b)",
        f"{LARGE} s = {WHOLE} sort(b), dimensions={{1}}, to_apply=less ROOT r = f32[1,1] slice(s), slice={{[0:1],[0:1]}}",
        f"k = {WHOLE} constant({{...}}) ROOT r = {WHOLE} negate(k)",
    ],
)
def test_what_a_program_needs_is_said(body: str):
    with pytest.raises(OutOfMemoryError, match=BYTES) as caught:
        xl.compile(module(body))(np.float32(1))
    assert caught.value.where


def test_missing_memory_is_said_in_the_words_of_xla():
    with pytest.raises(OutOfMemoryError, match=r"^Out of memory allocating \d+ bytes"):
        xl.compile(module(LARGE.replace("b =", "ROOT b =")))(np.float32(1))


def test_the_sum_of_temporary_arrays():
    square = "f32[1073741824,1073741824]"  # 2^62 bytes each
    m = module(f"""b = {square} broadcast(p), dimensions={{}} s = {square} sort(b), dimensions={{1}}, to_apply=less
      t = {square} sort(s), dimensions={{0}}, to_apply=less u = {square} add(s, t) v = {square} sort(u), dimensions={{0}}, to_apply=less
      ROOT r = f32[1,1] slice(v), slice={{[0:1],[0:1]}}""")
    with pytest.raises(OutOfMemoryError, match="can address"):
        xl.compile(m)


@pytest.mark.parametrize("dims", ["9223372036854775807", "4294967296,4294967296", "1099511627776,1099511627776"])
def test_sizes_do_not_wrap(dims: str):
    m = module(f"ROOT b = f32[{dims}] broadcast(p), dimensions={{}}")
    with pytest.raises(xl.VerifyError, match="2\\^63 or more"):
        xl.compile(m)
    with pytest.raises(OutOfMemoryError, match="bytes"):
        xl.evaluate(m, np.float32(1))


def test_the_interpreter_says_which_instruction():
    m = module(f"{LARGE} n = {WHOLE} negate(b) ROOT s = f32[1,1] slice(n), slice={{[0:1],[0:1]}}")
    with pytest.raises(OutOfMemoryError, match=BYTES) as caught:
        xl.evaluate(m, np.float32(1))
    assert caught.value.where in ("n", "b")


def test_a_literal_in_text():
    with pytest.raises(xl.ParseError, match=BYTES):
        module(f"ROOT k = {WHOLE} constant(1)")
