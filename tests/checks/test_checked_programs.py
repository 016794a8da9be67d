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
    assert "'nan'" in caught.value.hint
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


@pytest.mark.parametrize("dtype", ["c64", "c128"])
def test_what_is_not_finite_shows_in_an_absolute_value(dtype):
    real = {"c64": "f32", "c128": "f64"}[dtype]
    module = xl.parse(
        f"ENTRY e {{ x = {dtype}[99] parameter(0) y = {dtype}[99] multiply(x, x) ROOT a = {real}[99] abs(y) }}"
    )
    looked_at = instrumented(module, ["nan", "inf"], exact=False)
    assert looked_at is not None and sum(i.opcode == "is-finite" for i in looked_at.instructions) == 1
    of_nans = instrumented(module, ["nan"], exact=False)
    assert of_nans is not None and sum(i.opcode == "reduce" for i in of_nans.instructions) == 2  # |inf + nan i| is inf
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
    assert done.returncode == 2 and "'nan'" in done.stderr
