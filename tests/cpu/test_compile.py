"""Programs as native code, against the interpreter."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest

import xloom as xl
from tests.test_opcodes import BEFORE, LINES, PROLOGUE, SUM
from xloom.codegen.fusion.fusion_group import FusionGroup
from xloom.codegen.schedule.thunks import scheduled
from xloom.cpu.lower import lowered
from xloom.cpu.prepare import prepared
from xloom.interpreter.samples import random_arguments
from xloom.llvm.target import process_target

GOLDEN = sorted((Path(__file__).parent.parent / "golden").rglob("*.hlo"))
DYNAMIC = ("dynamic-reshape", "get-dimension-size", "set-dimension-size")
# a start whose done is not in the program is not valid
REFUSED = (
    *("all-gather-start", "all-reduce-start", "collective-permute-start", "async-start", "async-update", "copy-start"),
)


def flat(value):
    return [a for v in value for a in flat(v)] if isinstance(value, tuple) else [value]


def agree(ours, theirs, tolerance=2e-5):
    for a, b in zip(flat(ours), flat(theirs), strict=True):
        if not isinstance(b, (np.ndarray, np.generic)):
            continue  # a token
        a, b = np.asarray(a), np.asarray(b)
        assert a.dtype == b.dtype and a.shape == b.shape
        if a.dtype.kind in "biu":
            assert np.array_equal(a, b)
        else:
            wide = np.complex128 if a.dtype.kind == "c" else np.float64
            slack = max(tolerance, 2.0 ** (1 - _mantissa(a.dtype)))
            np.testing.assert_allclose(a.astype(wide), b.astype(wide), rtol=slack, atol=slack)


def _mantissa(dtype):
    import ml_dtypes

    return int(ml_dtypes.finfo(dtype).nmant) if dtype.kind not in "biu" and "int" not in dtype.name else 52


@pytest.mark.parametrize("opcode", LINES)
def test_every_opcode(opcode):
    before = PROLOGUE if opcode in DYNAMIC else PROLOGUE.replace("<=", "")
    module = xl.parse(f"{SUM}ENTRY e {{{before}  {BEFORE.get(opcode, '')}\n  ROOT result = {LINES[opcode]}\n}}\n")
    if opcode in REFUSED:
        with pytest.raises(xl.VerifyError, match="one user, which ends it"):
            xl.compile(module)
        return
    arguments = random_arguments(module)
    fed: dict[str, Any] = {"infeed": [np.ones(4, np.float32)]} if opcode == "infeed" else {}
    if opcode.startswith("recv"):
        with pytest.raises(xl.XloomError, match="nothing was sent"):
            xl.compile(module)(*arguments)
        return
    agree(xl.compile(module)(*arguments, **fed), xl.evaluate(module, *arguments, **fed))


@pytest.mark.parametrize("path", GOLDEN, ids=lambda p: p.stem)
def test_golden_programs(path):
    module = xl.parse(path.read_text().partition("// ---- expect")[0])
    if any(i.opcode == "custom-call" for i in module.instructions):
        pytest.skip("needs code that is not here")
    # in what order sums of products overflow is not said
    sums = any(i.opcode in ("dot", "convolution") for i in module.instructions)
    arguments = random_arguments(module, edges=not sums)
    try:
        expected = xl.evaluate(module, *arguments)
    except xl.XloomError:
        pytest.skip("has no value on one device")
    agree(xl.compile(module)(*arguments), expected, 2e-3)


@pytest.mark.sampled
@pytest.mark.parametrize("dtype", ["f32", "f64", "bf16", "s8", "c64", "pred"])
@pytest.mark.parametrize("rows, columns", [(5, 7), (16, 16), (33, 47), (200, 130), (300, 17), (10, 300)])
def test_transposes_in_tiles(dtype, rows, columns):
    combine = "or" if dtype == "pred" else "add"
    module = xl.parse(f"""HloModule m
    ENTRY e {{
      x = {dtype}[3,{rows},{columns}] parameter(0)
      y = {dtype}[3,{columns},{rows}] parameter(1)
      t = {dtype}[3,{columns},{rows}] transpose(x), dimensions={{0,2,1}}
      ROOT r = {dtype}[3,{columns},{rows}] {combine}(t, y)
    }}""")
    arguments = random_arguments(module)
    agree(xl.compile(module)(*arguments), xl.evaluate(module, *arguments))


def test_rows_are_fused():
    module = xl.parse("""HloModule softmax
    max { a = f32[] parameter(0) b = f32[] parameter(1) ROOT m = f32[] maximum(a, b) }
    add { a = f32[] parameter(0) b = f32[] parameter(1) ROOT s = f32[] add(a, b) }
    ENTRY e {
      x = f32[64,100] parameter(0)
      low = f32[] constant(-inf)
      zero = f32[] constant(0)
      m = f32[64] reduce(x, low), dimensions={1}, to_apply=max
      mb = f32[64,100] broadcast(m), dimensions={0}
      d = f32[64,100] subtract(x, mb)
      p = f32[64,100] exponential(d)
      s = f32[64] reduce(p, zero), dimensions={1}, to_apply=add
      sb = f32[64,100] broadcast(s), dimensions={0}
      ROOT r = f32[64,100] divide(p, sb)
    }""")
    schedule = scheduled(prepared(module).entry)
    (group,) = [s for s in schedule.thunks if isinstance(s, FusionGroup)]
    assert group.rank == 1 and len(group.stages) == 4
    arguments = random_arguments(module)
    agree(xl.compile(module)(*arguments), xl.evaluate(module, *arguments))


LOOP = """HloModule m
body {
  s = (s32[], f32[1000], f32[1000], f32[1000]) parameter(0)
  i = s32[] get-tuple-element(s), index=0
  a = f32[1000] get-tuple-element(s), index=1
  b = f32[1000] get-tuple-element(s), index=2
  c = f32[1000] get-tuple-element(s), index=3
  one = s32[] constant(1)
  j = s32[] add(i, one)
  v = f32[1] dynamic-slice(a, j), dynamic_slice_sizes={1}
  c1 = f32[1000] dynamic-update-slice(c, v, i)
  c2 = f32[1000] dynamic-update-slice(c1, v, j)
  d = f32[1000] add(a, c1)
  ROOT t = (s32[], f32[1000], f32[1000], f32[1000]) tuple(j, b, d, c2)
}
cond {
  s = (s32[], f32[1000], f32[1000], f32[1000]) parameter(0)
  i = s32[] get-tuple-element(s), index=0
  n = s32[] constant(5)
  ROOT p = pred[] compare(i, n), direction=LT
}
ENTRY e {
  x = f32[1000] parameter(0)
  y = f32[1000] parameter(1)
  z = s32[] constant(0)
  s = (s32[], f32[1000], f32[1000], f32[1000]) tuple(z, x, y, x)
  w = (s32[], f32[1000], f32[1000], f32[1000]) while(s), condition=cond, body=body
  a = f32[1000] get-tuple-element(w), index=1
  r = f32[1000] multiply(a, x)
  ROOT t = (f32[1000], (s32[], f32[1000], f32[1000], f32[1000])) tuple(r, w)
}"""


def test_state_that_changes_places_and_is_read_after_it_is_written():
    module = xl.parse(LOOP)
    arguments = random_arguments(module)
    before = [a.copy() for a in arguments]
    agree(xl.compile(module)(*arguments), xl.evaluate(module, *arguments))
    assert all(np.array_equal(a, b) for a, b in zip(arguments, before, strict=True))


def test_loops_that_share_their_computations():
    module = xl.parse("""HloModule m
    body { s = (s32[], f32[100]) parameter(0)
      i = s32[] get-tuple-element(s), index=0
      x = f32[100] get-tuple-element(s), index=1
      one = s32[] constant(1)
      j = s32[] add(i, one)
      y = f32[100] add(x, x)
      ROOT t = (s32[], f32[100]) tuple(j, y) }
    cond { s = (s32[], f32[100]) parameter(0)
      i = s32[] get-tuple-element(s), index=0
      n = s32[] constant(3)
      ROOT p = pred[] compare(i, n), direction=LT }
    ENTRY e {
      x = f32[100] parameter(0)
      zero = s32[] constant(0)
      a = (s32[], f32[100]) tuple(zero, x)
      w = (s32[], f32[100]) while(a), condition=cond, body=body
      y = f32[100] get-tuple-element(w), index=1
      n = f32[100] negate(x)
      b = (s32[], f32[100]) tuple(zero, n)
      v = (s32[], f32[100]) while(b), condition=cond, body=body
      z = f32[100] get-tuple-element(v), index=1
      ROOT r = (f32[100], f32[100]) tuple(y, z)
    }""")
    arguments = random_arguments(module)
    agree(xl.compile(module)(*arguments), xl.evaluate(module, *arguments))


def test_results_do_not_share_memory_with_later_ones():
    executable = xl.compile(xl.parse("HloModule m\nENTRY e { x = f32[1000000] parameter(0) ROOT n = negate(x) }"))
    first = executable(np.ones(1000000, np.float32))
    part = first[10:20]
    del first
    for k in range(4):
        executable(np.full(1000000, k, np.float32))
    assert np.all(part == -1)


@pytest.mark.parametrize(
    "argument, problem",
    [
        (np.ones(5, np.float32), r"f32\[4\], found float32\[5\]"),
        (np.ones(4, np.float64), "found float64"),
        ([1, 2, 3, 4], "found int64"),
    ],
)
def test_arguments_that_do_not_fit(argument, problem):
    executable = xl.compile(xl.parse("HloModule m\nENTRY e { x = f32[4] parameter(0) ROOT n = negate(x) }"))
    with pytest.raises(xl.ShapeError, match=problem):
        executable(argument)
    with pytest.raises(xl.ShapeError, match="takes 1 arguments, found 2"):
        executable(argument, argument)


def test_arguments_that_native_code_cannot_take_as_they_are():
    executable = xl.compile(xl.parse("HloModule m\nENTRY e { x = f32[4] parameter(0) ROOT n = negate(x) }"))
    wide = np.arange(8, dtype=np.float32)
    shifted = np.frombuffer(b"\0" + wide.tobytes(), np.uint8)[1:17].view(np.float32)
    for argument in (wide[::2], shifted, wide[4:]):
        assert np.array_equal(executable(argument), -argument)


def test_invalid_modules_are_refused():
    module = xl.parse("HloModule m\nENTRY e { x = f32[4] parameter(0) ROOT n = f32[4] negate(x) }")
    module.entry.root.shape = xl.f32[4000]
    with pytest.raises(xl.VerifyError):
        xl.compile(module)


def test_a_concatenation_of_which_padding_leaves_nothing():
    """It is traced at indices that are in none of its operands."""
    text = """ENTRY e { p = f32[2,9] parameter(0) v = f32[] constant(7)
      a = f32[2,4] slice(p), slice={[0:2], [5:9]} b = f32[2,5] slice(p), slice={[0:2], [0:5]}
      c = f32[2,9] concatenate(a, b), dimensions={1} ROOT r = f32[2,9] pad(c, v), padding=0_0x-9_9 }"""
    module = xl.parse(text)
    lowered(module, process_target())  # as it is, whatever passes make of it
    assert np.array_equal(xl.compile(module)(np.ones((2, 9), np.float32)), np.full((2, 9), 7))


def test_loops_for_each_element_are_refused_with_their_source_line():
    text = """HloModule m

FileNames
1 "model.py"

FunctionNames
1 "f"

FileLocations
1 {file_name_id=1 function_name_id=1 line=7 end_line=7 column=1 end_column=9}

StackFrames
1 {file_location_id=1 parent_frame_id=1}

body { s = f32[] parameter(0) ROOT half = f32[] sine(s) }
go { s = f32[] parameter(0) one = f32[] constant(1) ROOT p = pred[] compare(s, one), direction=GT }
f {
  a = f32[] parameter(0) b = f32[] parameter(1) c = f32[] add(a, b)
  ROOT w = f32[] while(c), condition=go, body=body, metadata={op_name="jit(f)/reduce/while" stack_frame_id=1}
}
ENTRY e { x = f32[3,4] parameter(0) z = f32[] constant(0) ROOT r = f32[3] reduce(x, z), dimensions={1}, to_apply=f }"""
    with pytest.raises(xl.LoweringError, match=r"while in what is done for each element") as raised:
        xl.compile(xl.parse(text))
    assert "of jit(f)/reduce/while, model.py:7" in raised.value.where
    assert "xloom.evaluate" in raised.value.hint
