"""Checked programs in whatever calls them: the shell, compiled functions, memory that is given away, custom calls."""

import subprocess
import sys

import numpy as np
import pytest

import xloom as xl
from xloom.calls import register_symbol, registry
from xloom.calls.c_source import compile_source
from xloom.cpu.runtime.checked_executable import CheckedExecutable
from xloom.cpu.runtime.executable import Executable
from xloom.errors import CheckError, XloomError
from xloom.passes.instrumentation import instrumented

HALF = """#include <xloom/custom_call.h>
void half(void* out, const void** in) {
  for (int i = 0; i < 4; ++i) if (i != 2) ((float*)out)[i] = ((const float*)in[0])[i];
}
void whole(void* out, const void** in) {
  for (int i = 0; i < 4; ++i) ((float*)out)[i] = ((const float*)in[0])[i];
}"""
CALL = """HloModule m
ENTRY main {
  x = f32[4] parameter(0)
  y = f32[4] custom-call(x), custom_call_target="TARGET", api_version=API_VERSION_ORIGINAL
  ROOT r = f32[4] add(y, x)
}"""


LOG = "HloModule m\nENTRY main {\n  x = f32[4] parameter(0)\n  ROOT bad = f32[4] log(x)\n}"
GIVEN_AWAY = """HloModule m, input_output_alias={ {}: (0, {}, KIND-alias) }
ENTRY main {
  x = f32[4] parameter(0)
  s = f32[4] sqrt(x)
  ROOT r = f32[4] add(x, s)
}"""
X = np.array([1, 4, -1, 0], np.float32)


def test_what_a_call_does_not_write(monkeypatch):
    monkeypatch.setattr(registry, "_registered", dict(registry._registered))
    library = compile_source(HALF)
    for name in ("half", "whole"):
        register_symbol(name, library)
    with pytest.raises(CheckError, match=r"did not write element \[2\] of the result \(at %?y"):
        xl.compile(xl.parse(CALL.replace("TARGET", "half")), check=["unwritten"])(X)
    run = xl.compile(xl.parse(CALL.replace("TARGET", "whole")), check=["unwritten"])
    assert np.array_equal(run(X), X + X)


@pytest.mark.parametrize("kind", ["may", "must"])
def test_arguments_that_are_given_away_are_there_to_look_at(kind):
    run = xl.compile(xl.parse(GIVEN_AWAY.replace("KIND", kind)), check=["nan"])
    assert np.array_equal(run(abs(X), donated=[0]), [2, 6, 2, 0])
    with pytest.raises(CheckError, match=r"%x\[2\] = -1.0"):
        run(X.copy(), donated=[0])


def test_results_may_lie_where_arguments_do():
    run = xl.compile(xl.parse(GIVEN_AWAY.replace("KIND", "may")), check=["nan"])
    assert isinstance(run, CheckedExecutable)
    x = X.copy()
    with pytest.raises(CheckError, match=r"%x\[2\] = -1.0"):
        run.call_at(*[np.array([x.ctypes.data], np.uint64)] * 2)
    x[:] = abs(X)
    run.call_at(*[np.array([x.ctypes.data], np.uint64)] * 2)
    assert np.array_equal(x, [2, 6, 2, 0])


def test_the_environment_says_what_is_checked(monkeypatch):
    monkeypatch.setenv("XLOOM_CHECK", "inf,loops")
    run = xl.compile(xl.parse(LOG))
    run(X[:2].repeat(2))
    with pytest.raises(RuntimeError, match=r"log makes an infinity of finite operands: element \[3\]") as caught:
        run(abs(X))
    assert isinstance(caught.value, CheckError) and caught.value.index == (3,)
    assert isinstance(xl.compile(xl.parse(LOG), check=[]), Executable)


DYNAMIC = """HloModule m
add { a = f32[] parameter(0) b = f32[] parameter(1) ROOT c = f32[] add(a, b) }
ENTRY e { x = f32[<=5] parameter(0) z = f32[] constant(0) l = f32[<=5] log(x)
  s = f32[] reduce(l, z), dimensions={0}, to_apply=add ROOT t = (f32[], f32[<=5]) tuple(s, l) }"""


def test_arrays_of_dynamic_size_are_checked_without_what_is_beyond_their_size():
    run = xl.compile(xl.parse(DYNAMIC), check=["nan", "inf"])
    total, logarithms = run(np.array([1, np.e, 1], np.float32))  # log(0) of the padding is -inf
    assert total == 1 and logarithms.shape == (3,)
    with pytest.raises(CheckError, match=r"log makes NaN .* element \[1\] of 2; %x\[1\] = -2.0"):
        run(np.array([1, -2], np.float32))


def test_unknown_checks_are_refused(monkeypatch):
    with pytest.raises(XloomError, match="no check of values is called 'nans'") as caught:
        xl.compile(xl.parse(LOG), check=["nans"])
    assert caught.value.hint == "there are nan, inf, oob, overflow, unwritten"
    monkeypatch.setenv("XLOOM_CHECK", "nans")
    with pytest.raises(XloomError, match="XLOOM_CHECK is 'nans'"):
        xl.compile(xl.parse(LOG))


def test_only_what_nans_end_in_is_looked_at():
    chain = "".join(f"  a{k + 1} = f32[64] multiply(a{k}, a{k})\n" for k in range(20))
    loop = f"""b {{ a0 = f32[64] parameter(0)\n{chain}  ROOT r = f32[64] reverse(a20), dimensions={{0}} }}
c {{ x = f32[64] parameter(0)\n  ROOT p = pred[] constant(false) }}
ENTRY main {{ x = f32[64] parameter(0)\n  w = f32[64] while(x), condition=c, body=b\n  ROOT e = f32[64] add(w, w) }}"""
    module = instrumented(xl.parse(f"HloModule m\n{loop}"), ["nan"], exact=False)
    assert module is not None
    assert sum(i.opcode == "reduce" for i in module.instructions) == 1  # of e, none in the loop


def _looked_at(text: str) -> list[list[int]]:
    """The dimensions of what is looked at in loops, or as one."""
    module = instrumented(xl.parse(f"HloModule m\n{text}"), ["nan", "inf"], exact=False)
    assert module is not None
    return [list(i.operands[0].shape.dims) for i in module.instructions if i.opcode == "is-finite"]


CHOICE = """ENTRY main { x = f32[4096] parameter(0) p = pred[4096] parameter(1)
  l = f32[4096] log(x) s = f32[4096] sqrt(x) c = f32[4096] select(p, l, s)
  d = f32[4096] cosine(x) ROOT e = f32[4096] add(c, d) }"""
HALVES = """ENTRY main { x = f32[4,32] parameter(0)
  l = f32[4,32] log(x) s = f32[4,32] sqrt(x) ROOT c = f32[4,64] concatenate(l, s), dimensions={1} }"""
STENCIL = """new { a = f32[] parameter(0) ROOT b = f32[] parameter(1) }
body { s = (s32[], f32[8]) parameter(0) k = s32[] get-tuple-element(s), index=0
  x = f32[8] get-tuple-element(s), index=1 one = s32[] constant(1) next = s32[] add(k, one)
  left = f32[6] slice(x), slice={[0:6]} right = f32[6] slice(x), slice={[2:8]} sum = f32[6] add(left, right)
  at = s32[1] constant({1}) y = f32[8] scatter(x, at, sum), update_window_dims={0}, inserted_window_dims={},
    scatter_dims_to_operand_dims={0}, index_vector_dim=0, to_apply=new
  ROOT r = (s32[], f32[8]) tuple(next, y) }
condition { s = (s32[], f32[8]) parameter(0) k = s32[] get-tuple-element(s), index=0 n = s32[] constant(3)
  ROOT p = pred[] compare(k, n), direction=LT }
ENTRY main { s = (s32[], f32[8]) parameter(0) ROOT w = (s32[], f32[8]) while(s), condition=condition, body=body }"""


def test_what_one_loop_computes_is_looked_at_together():
    module = instrumented(xl.parse(f"HloModule m\n{CHOICE}"), ["nan"], exact=False)
    assert module is not None and sum(i.opcode == "reduce" for i in module.instructions) == 1
    run, x = xl.compile(xl.parse(f"HloModule m\n{CHOICE}"), check=["nan"]), np.ones(4096, np.float32)
    run(x, np.ones(4096, bool))
    x[7] = -1
    with pytest.raises(CheckError, match=r"log makes NaN .* element \[7\].*\(at l"):
        run(x, np.zeros(4096, bool))


def test_results_that_arrays_are_joined_in_are_looked_at_instead_of_them():
    assert _looked_at(HALVES) == [[4, 64]] and _looked_at(STENCIL) == [[8]]
    run, x = xl.compile(xl.parse(f"HloModule m\n{HALVES}"), check=["nan"]), np.ones((4, 32), np.float32)
    run(x)
    x[3, 1] = -1
    with pytest.raises(CheckError, match=r"log makes NaN .* element \[3, 1\].*\(at l"):
        run(x)
    loop, state = xl.compile(xl.parse(f"HloModule m\n{STENCIL}"), check=["inf"]), np.ones(8, np.float32)
    loop((np.int32(0), state))
    state[:3] = 2e38
    with pytest.raises(CheckError, match=r"add makes an infinity .* element \[0\].* in iteration 0, .*\(at sum"):
        loop((np.int32(0), state))


def test_what_is_written_where_it_may_not_stand_is_looked_at_itself():
    assert _looked_at(STENCIL.replace("constant({1})", "constant({3})")) == [[6]]
    assert _looked_at(STENCIL.replace("at = s32[1] constant({1})", "at = s32[1] reshape(k)")) == [[6]]
    assert _looked_at(STENCIL.replace("ROOT b = f32[] parameter(1)", "b = f32[] parameter(1) ROOT c = f32[] add(a, b)"))


def test_a_constant_infinity_does_not_have_each_instruction_asked():
    text = """HloModule m\nENTRY main { x = f32[64] parameter(0) inf = f32[] constant(inf)
  i = f32[64] broadcast(inf), dimensions={} p = f32[64] multiply(x, i) z = f32[] constant(0)
  s = f32[64] broadcast(z), dimensions={} o = pred[64] compare(x, s), direction=EQ l = f32[64] log(x)
  ROOT c = f32[64] select(o, p, l) }"""
    run = xl.compile(xl.parse(text), check=["nan", "inf"])
    assert isinstance(run, CheckedExecutable)
    run(np.ones(64, np.float32))
    assert not run._is_exact
    with pytest.raises(CheckError, match=r"multiply makes NaN"):  # 0 inf
        run(np.zeros(64, np.float32))


@pytest.mark.parametrize("dtype", ["c64", "c128"])
def test_what_is_not_finite_shows_in_an_absolute_value(dtype):
    real = {"c64": "f32", "c128": "f64"}[dtype]
    module = xl.parse(
        f"ENTRY e {{ x = {dtype}[99] parameter(0) y = {dtype}[99] multiply(x, x) ROOT a = {real}[99] abs(y) }}"
    )
    looked_at = instrumented(module, ["nan", "inf"], exact=False)
    assert looked_at is not None and sum(i.opcode == "is-finite" for i in looked_at.instructions) == 1
    of_nans = instrumented(module, ["nan"], exact=False)
    assert of_nans is not None and sum(i.opcode == "compare" for i in of_nans.instructions) == 3  # |inf + nan i| is inf
    numbers = [np.nan, np.inf, -np.inf, 0.0, 1e-30]
    text = f"ENTRY e {{ x = {dtype}[99] parameter(0) ROOT a = {real}[99] abs(x) }}"
    plain = xl.parse(text)
    of_type = plain.entry.parameters[0].shape.dtype.numpy
    values = np.resize([complex(a, b) for a in numbers for b in numbers], 99).astype(of_type)
    assert np.array_equal(np.isfinite(xl.compile(plain, check=[])(values)), np.isfinite(values))


@pytest.mark.parametrize("on", ["cpu", "interpreter"])
def test_from_the_shell(tmp_path, on):
    (tmp_path / "m.hlo").write_text(LOG)
    np.save(tmp_path / "x.npy", X)
    command = [sys.executable, "-m", "xloom.cli.main", "run", tmp_path / "m.hlo", "-i", tmp_path / "x.npy", "--on", on]
    done = subprocess.run([*command, "--check", "oob,nan"], capture_output=True, text=True, check=False)
    assert done.returncode == 1 and done.stdout == ""
    assert "log makes NaN of operands that have none: element [2] of 4; %x[2] = -1.0 (at bad" in done.stderr
    done = subprocess.run([*command, "--check", "nans"], capture_output=True, text=True, check=False)
    assert done.returncode == 2 and "there are nan" in done.stderr
