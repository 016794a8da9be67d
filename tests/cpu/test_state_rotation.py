"""State of loops that moves on: its memory is exchanged rather than its contents copied."""

import re
from contextlib import nullcontext

import numpy as np
import pytest

import xloom as xl
from xloom.calls import remove
from xloom.calls.sanitizer import sanitize
from xloom.cpu.printers import schedule_text

N = 2000
LOOP = """HloModule m
{called}
c {{ s = {state} parameter(0) i = s32[] get-tuple-element(s), index=0 n = s32[] get-tuple-element(s), index=1
  ROOT t = pred[] compare(i, n), direction=LT }}
b {{ s = {state} parameter(0) i = s32[] get-tuple-element(s), index=0 n = s32[] get-tuple-element(s), index=1
  x = f32[{N}] get-tuple-element(s), index=2 y = f32[{N}] get-tuple-element(s), index=3
  z = f32[{N}] get-tuple-element(s), index=4 one = s32[] constant(1) j = s32[] add(i, one)
  half = f32[] constant(0.5) halves = f32[{N}] broadcast(half), dimensions={{}}
  {body}
  ROOT r = {state} tuple(j, n, {news}) }}
ENTRY e {{ n = s32[] parameter(0) x = f32[{N}] parameter(1) y = f32[{N}] parameter(2) z = f32[{N}] parameter(3)
  i = s32[] constant(0) s = {state} tuple(i, n, x, y, z)
  w = {state} while(s), condition=c, body=b a = f32[{N}] get-tuple-element(w), index=2
  d = f32[{N}] get-tuple-element(w), index=3 f = f32[{N}] get-tuple-element(w), index=4
  ROOT r = (f32[{N}], f32[{N}], f32[{N}]) tuple(a, d, f) }}"""
STATE = f"(s32[], s32[], f32[{N}], f32[{N}], f32[{N}])"
REVERSED = f"v = f32[{N}] reverse(x), dimensions={{0}} h = f32[{N}] multiply(v, halves) u = f32[{N}] add(h, y)"
INNER = f"""c.1 {{ s = (s32[], f32[{N}]) parameter(0) i = s32[] get-tuple-element(s), index=0 n = s32[] constant(3)
  ROOT t = pred[] compare(i, n), direction=LT }}
b.1 {{ s = (s32[], f32[{N}]) parameter(0) i = s32[] get-tuple-element(s), index=0 x = f32[{N}] get-tuple-element(s), index=1
  one = s32[] constant(1) j = s32[] add(i, one) v = f32[{N}] reverse(x), dimensions={{0}} u = f32[{N}] sine(v)
  ROOT r = (s32[], f32[{N}]) tuple(j, u) }}"""
INSIDE = f"""{REVERSED} zero = s32[] constant(0) q = (s32[], f32[{N}]) tuple(zero, u)
  w = (s32[], f32[{N}]) while(q), condition=c.1, body=b.1 k = f32[{N}] get-tuple-element(w), index=1"""


def program(body: str, news: str, called: str = "") -> xl.Module:
    return xl.parse(LOOP.format(body=body, news=news, called=called, state=STATE, N=N))


@pytest.mark.parametrize(
    ("body", "news", "called", "exchanged"),
    [
        (REVERSED, "u, y, z", "", 1),
        (REVERSED, "u, x, z", "", 2),
        (REVERSED, "u, x, y", "", 2),
        (REVERSED, "u, x, x", "", 1),  # what two need is copied to both
        (f"{REVERSED} o = f32[{N}] reverse(z), dimensions={{0}}", "u, o, x", "", 2),
        (f"{REVERSED} o = f32[{N}] negate(z)", "u, x, o", "", 2),
        (INSIDE, "k, x, z", INNER, 3),
        (INSIDE, "u, x, k", INNER, 3),
    ],
    ids=["one", "two", "three", "copied", "crossing", "beside", "of-inner-loop", "beside-inner-loop"],
)
def test_as_the_interpreter(body, news, called, exchanged):
    module = program(body, news, called)
    assert len(re.findall("exchanged with", schedule_text(module))) == exchanged
    executable = xl.compile(module)
    arrays = np.random.default_rng(0).random((3, N), np.float32)
    for count in range(8):
        want = xl.evaluate(module, np.int32(count), *arrays)
        for array, expected in zip(executable(np.int32(count), *arrays), want, strict=True):
            np.testing.assert_allclose(array, expected, rtol=1e-5, err_msg=f"{count} iterations")


@pytest.mark.parametrize("aliased", ["", ", output_to_operand_aliasing={{}: (0, {})}"], ids=["apart", "aliased"])
@pytest.mark.parametrize("body", [f"u = f32[{N}] CALL", f"v = f32[{N}] reverse(x), dimensions={{0}} u = f32[{N}] CALL"])
def test_python_sees_memory_that_changes_places(body, aliased):
    @xl.custom_call("rotation.k")
    def kernel(out, x):
        out[...] = 2 * x + 1

    operand = "v" if "reverse" in body else "x"
    call = f'custom-call({operand}), custom_call_target="rotation.k"{aliased}'
    module = program(body.replace("CALL", call), "u, x, z")
    assert "exchanged with" in schedule_text(module)
    arrays = np.random.default_rng(0).random((3, N), np.float32)
    try:
        for count in range(4):
            want = xl.evaluate(module, np.int32(count), *arrays)
            for sanitized in (False, True):
                with sanitize() if sanitized else nullcontext():
                    found = xl.compile(module)(np.int32(count), *arrays)
                for array, expected in zip(found, want, strict=True):
                    np.testing.assert_array_equal(array, expected, err_msg=f"{count} iterations")
    finally:
        remove("rotation.k")
