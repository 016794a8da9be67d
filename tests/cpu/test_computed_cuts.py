"""Loops cut where the program says: rolls and crops by computed offsets, beside the interpreter."""

import re

import numpy as np
import pytest

import xloom as xl
from xloom.cpu.printers.kernel_choices import kernel_choices_text
from xloom.llvm.target import target_named

TARGET = target_named("x86-64-v4")
ROLL = """
roll {{ x = {t}[40] parameter(0) by = s32[] parameter(1) xx = {t}[80] concatenate(x, x), dimensions={{0}}
  ROOT r = {t}[40] dynamic-slice(xx, by), dynamic_slice_sizes={{40}} }}
"""
PROGRAMS = {
    "roll": "a = {t}[40] call(x, i), to_apply=roll ROOT r = {t}[40] add(a, x)",
    "backwards": "a = {t}[40] call(x, i), to_apply=roll b = {t}[40] reverse(a), dimensions={{0}}"
    " ROOT r = {t}[40] add(b, x)",
    "two": "a = {t}[40] call(x, i), to_apply=roll b = {t}[40] call(x, j), to_apply=roll ROOT r = {t}[40] add(a, b)",
    "of_a_roll": "a = {t}[40] call(x, i), to_apply=roll b = {t}[40] call(a, j), to_apply=roll"
    " ROOT r = {t}[40] negate(b)",
    "three": "a = {t}[40] call(x, i), to_apply=roll b = {t}[40] call(x, j), to_apply=roll k = s32[] add(i, j)"
    " c = {t}[40] call(x, k), to_apply=roll d = {t}[40] add(a, b) ROOT r = {t}[40] subtract(d, c)",
    "crop": "m = {t}[5,8] reshape(x) z = {t}[] constant(1) p = {t}[45,48] pad(m, z), padding=20_20x20_20"
    " c = {t}[30,31] dynamic-slice(p, i, j), dynamic_slice_sizes={{30,31}} ROOT r = {t}[30,31] negate(c)",
    "channels": "m = {t}[5,4,2] reshape(x) z = {t}[] constant(1) p = {t}[5,44,2] pad(m, z), padding=0_0x20_20x0_0"
    " o = s32[] constant(0) c = {t}[3,30,2] dynamic-slice(p, i, j, o), dynamic_slice_sizes={{3,30,2}}"
    " ROOT r = {t}[3,30,2] negate(c)",
}


@pytest.mark.parametrize("dtype", ["f32", "s8"])
@pytest.mark.parametrize("name", PROGRAMS)
def test_offsets(name, dtype):
    body = (ROLL + "ENTRY e {{ x = {t}[40] parameter(0) i = s32[] parameter(1) j = s32[] parameter(2) ").format(t=dtype)
    module = xl.parse("HloModule m\n" + body + PROGRAMS[name].format(t=dtype) + "}")
    compiled = xl.compile(module)
    x = np.arange(40).astype(np.float32 if dtype == "f32" else np.int8)
    for i, j in [(0, 0), (1, 39), (39, 1), (40, 17), (17, 40), (-3, 100)]:
        arguments = x, np.int32(i), np.int32(j)
        np.testing.assert_array_equal(compiled(*arguments), xl.evaluate(module, *arguments))


def test_an_offset_of_each_row():
    module = xl.parse("""HloModule m
    ENTRY e { x = s8[6,70] parameter(0) at = s32[6,1] parameter(1) xx = s8[6,140] concatenate(x, x), dimensions={1}
      g = s8[6,70] gather(xx, at), offset_dims={1}, collapsed_slice_dims={}, start_index_map={1},
        operand_batching_dims={0}, start_indices_batching_dims={0}, index_vector_dim=1, slice_sizes={1,70}
      ROOT r = s8[6,70] subtract(g, x) }""")
    arguments = (
        (np.arange(420).reshape(6, 70) % 100).astype(np.int8),
        np.array([[0], [70], [1], [69], [33], [99]], "i4"),
    )
    np.testing.assert_array_equal(xl.compile(module)(*arguments), xl.evaluate(module, *arguments))


def test_why():
    body = (ROLL + "ENTRY e {{ x = {t}[40] parameter(0) i = s32[] parameter(1) ").format(t="f32")
    module = xl.parse("HloModule m\n" + body + "a = f32[40] call(x, i), to_apply=roll ROOT r = f32[40] add(a, x) }")
    assert re.search(
        r"between places that the program computes: where .* comes to 40", kernel_choices_text(module, [], TARGET)
    )
