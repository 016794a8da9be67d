"""The command line on native code: run, opt --emit, info."""

import json
import re
import sys
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

import xloom as xl
from xloom.cli.main import main
from xloom.codegen import ops
from xloom.cpu.coverage import lowering_kind, missing
from xloom.cpu.kernel_modules import kernel
from xloom.cpu.kernels import rule_of
from xloom.hlo.opcodes import OPCODES
from xloom.roofline.limits import Limits

SORT = """HloModule sorting
%less { a = f32[] parameter(0)  b = f32[] parameter(1)  ROOT c = pred[] compare(a, b), direction=LT }
ENTRY main {
  x = f32[37] parameter(0)
  s = f32[37] sort(x), dimensions={0}, to_apply=%less, metadata={source_file="model.py" source_line=12}
  n = f32[37] negate(s)
  ROOT t = f32[37] sort(n), dimensions={0}, to_apply=%less
}"""
DOUBLE = """HloModule double
ENTRY main {
  x = f32[8] parameter(0)
  ROOT y = f32[8] add(x, x)
}"""
RANDOM = """HloModule random
ENTRY main {
  low = f32[] constant(0)
  high = f32[] constant(1)
  ROOT y = f32[8] rng(low, high), distribution=rng_uniform
}"""


@pytest.fixture
def xloom(monkeypatch, capsys, tmp_path):
    """Runs the command in this process on a program's text; returns the exit status and both outputs."""

    def call(command: str, text: str, *arguments: str) -> tuple[int, str, str]:
        path = tmp_path / "program.hlo"
        path.write_text(text)
        monkeypatch.setattr(sys, "argv", ["xloom", command, str(path), *map(str, arguments)])
        status = 0
        try:
            main()
        except SystemExit as end:
            status = int(end.code or 0)
        return status, *capsys.readouterr()

    return call


@pytest.fixture
def no_sort(monkeypatch):
    """Sort as an operator without native code, that of earlier runs included."""
    monkeypatch.setenv("XLOOM_CACHE", "0")
    rule_of("sort")  # whoever imports its file later would register it again
    monkeypatch.setitem(ops.OP_ROWS, "sort", replace(ops.OP_ROWS["sort"], kernel=""))
    monkeypatch.delitem(kernel.KERNELS, "sort", raising=False)


# -- run
def test_run_is_native(xloom, monkeypatch):
    monkeypatch.setattr("xloom.interpreter.Evaluator.call", None)
    status, out, err = xloom("run", DOUBLE)
    assert (status, err) == (0, "") and out.startswith("out0: float32[8]")


def test_run_on_the_interpreter(xloom, monkeypatch):
    monkeypatch.setattr("xloom.cpu.compile.compile", None)
    status, out, err = xloom("run", DOUBLE, "--on", "interpreter")
    assert (status, err) == (0, "") and out.startswith("out0: float32[8]")


def test_both_ways_give_the_same(xloom, tmp_path):
    x = np.arange(8, dtype=np.float32)
    np.save(tmp_path / "x.npy", x)
    for on in ("cpu", "interpreter"):
        assert xloom("run", DOUBLE, "--on", on, "-i", tmp_path / "x.npy", "-o", tmp_path / on)[0] == 0
        assert np.array_equal(np.load(tmp_path / on / "out0.npy"), 2 * x)


def test_profile(xloom, tmp_path):
    assert xloom("run", DOUBLE, "--profile", tmp_path / "trace.json")[0] == 0
    events = json.loads((tmp_path / "trace.json").read_text())["traceEvents"]
    assert {"compile", "execute", "kernel"} == {event["cat"] for event in events if "cat" in event}


def test_what_is_not_native_is_refused(xloom, no_sort):
    status, out, err = xloom("run", SORT)
    assert status == 1 and out == ""
    assert "error: sort has no native code" in err and "(at s, model.py:12)" in err
    assert "--allow-interpreter" in err and "xloom info" in err


def test_what_is_not_native_is_interpreted_when_allowed(xloom, no_sort):
    status, out, err = xloom("run", SORT, "--allow-interpreter")
    assert status == 0 and out.startswith("out0: float32[37]")
    assert re.match(r"on the interpreter, all of it: sort has no native code.* \(at s, model\.py:12\)\n$", err)


def test_nothing_is_said_where_all_is_native(xloom):
    assert xloom("run", DOUBLE, "--allow-interpreter")[2] == ""


def test_compare_with_the_interpreter(xloom, monkeypatch):
    status, out, _ = xloom("run", SORT, "--compare", "interpreter")
    assert status == 0 and "equal to interpreter within 1e-05" in out
    monkeypatch.setattr(xl, "evaluate", lambda module, x, seed: x + 1, raising=False)
    status, out, err = xloom("run", DOUBLE, "--compare", "interpreter")
    assert status == 1 and out == "" and "result 0 differs from that of interpreter by up to" in err


def test_the_interpreter_is_not_compared_with_itself(xloom):
    status, _, err = xloom("run", DOUBLE, "--on", "interpreter", "--compare", "interpreter")
    assert status == 2 and "--compare" in err


def test_time(xloom):
    status, out, err = xloom("run", DOUBLE, "--time", "5")
    assert status == 0 and "us" not in out
    assert re.fullmatch(r"median of 5 runs: \d+\.\d us\n", err)


def test_native_random_numbers_run(xloom):
    assert xloom("run", RANDOM)[0] == 0


# -- opt --emit
@pytest.mark.parametrize(
    ("stage", "sign"),
    [
        ("hlo", "HloModule double"),
        ("schedule", "return  %y f32[8]  stack 0  copied to result 0"),
        ("loops", "%y[i1] = v1 + v1"),
        ("llvm", 'define i32 @"xloom_main"'),
        ("asm", "\nxloom_main:"),
    ],
)
def test_emit(xloom, stage, sign, tmp_path):
    status, out, err = xloom("opt", DOUBLE, "--emit", stage)
    assert (status, err) == (0, "") and sign in out
    assert xloom("opt", DOUBLE, "--emit", stage, "-o", tmp_path / "out.txt") == (0, "", "")
    assert sign in (tmp_path / "out.txt").read_text()


def test_emit_comes_after_the_passes(xloom):
    carrier = (Path(__file__).parent.parent.parent / "examples" / "my_custom_call.hlo").read_text()
    status, out, err = xloom("opt", carrier, "--emit", "loops")
    assert status == 1 and out == "" and "no custom call 'MyCustomCall'" in err
    status, out, _ = xloom("opt", carrier, "--emit", "loops", "--passes", "expand")
    assert status == 0 and "acc1 += " in out


def test_emit_with_code_of_custom_calls(xloom, tmp_path):
    code = "import xloom\n@xloom.custom_call('test_native.shift')\ndef shift(out, x):\n    out[:] = x + 1\n"
    (tmp_path / "shift.py").write_text(code)
    text = DOUBLE.replace("add(x, x)", 'custom-call(x), custom_call_target="test_native.shift"')
    status, out, err = xloom("opt", text, "--emit", "schedule", "--load", tmp_path / "shift.py")
    assert status == 0, err
    assert "custom-call %y" in out
    xl.calls.remove("test_native.shift")


def test_emit_is_of_hlo_in_protobuf_only(xloom, tmp_path):
    status, _, err = xloom("opt", DOUBLE, "--emit", "asm", "-o", tmp_path / "m.pb")
    assert status == 2 and "--emit asm is text" in err
    assert not (tmp_path / "m.pb").exists()


def test_emit_refuses_what_is_not_native(xloom, no_sort):
    status, out, err = xloom("opt", SORT, "--emit", "schedule")
    assert status == 1 and out == "" and "sort has no native code" in err


# -- info
def test_info_says_what_is_native(xloom):
    assert "native: all of it" in xloom("info", SORT)[1]


def test_info_lists_all_that_is_not_native(xloom, no_sort):
    status, out, _ = xloom("info", SORT)
    assert status == 0 and "all of it" not in out
    assert re.findall(r"not native: sort has no native code.*\(at (.*)\)", out) == ["s, model.py:12", "t"]


def test_info_of_memory(xloom):
    status, out, _ = xloom("info", SORT, "--memory")
    assert status == 0
    assert re.search(r"arguments +148 B\nresults +148 B\n", out) and "%x f32[37]" in out


def test_memory_is_of_a_program(monkeypatch, capsys):
    monkeypatch.setattr(sys, "argv", ["xloom", "info", "--memory"])
    with pytest.raises(SystemExit):
        main()
    assert "name its file" in capsys.readouterr().err


def test_missing_finds_kernels_inside_control_flow(no_sort):
    module = xl.parse("""HloModule m
%less { a = f32[] parameter(0)  b = f32[] parameter(1)  ROOT c = pred[] compare(a, b), direction=LT }
%yes { p = f32[9] parameter(0)  ROOT y = f32[9] sort(p), dimensions={0}, to_apply=%less }
%no { q = f32[9] parameter(0)  ROOT z = f32[9] negate(q) }
ENTRY main {
  x = f32[9] parameter(0)
  flag = pred[] parameter(1)
  ROOT r = f32[9] conditional(flag, x, x), true_computation=%yes, false_computation=%no
}""")
    assert [error.where for error in missing(module)] == ["y"]


def test_missing_is_what_compile_raises():
    module = xl.parse("""HloModule m
ENTRY main {
  x = c64[4] parameter(0)
  ROOT y = f32[4,2] bitcast-convert(x)
}""")
    (error,) = missing(module)
    with pytest.raises(xl.LoweringError, match=re.escape(error.message)):
        xl.compile(module)


# -- ops
def test_ways_of_opcodes():
    ways = {"add": "loops", "reduce": "loops", "dot": "kernel", "rng": "kernel", "while": "entry", "tuple": "no code"}
    ways |= {"fusion": "rewritten", "all-reduce": "rewritten", "batch-norm-grad": "rewritten", "copy-done": "rewritten"}
    assert {opcode: lowering_kind(opcode) for opcode in ways} == ways


def test_every_native_opcode_is_said_to_be(no_sort):
    assert lowering_kind("sort") == ""
    assert {lowering_kind(opcode) for opcode in OPCODES} <= {"", "loops", "kernel", "entry", "no code", "rewritten"}


def test_ops_say_how(monkeypatch, capsys):
    monkeypatch.setattr(sys, "argv", ["xloom", "ops", "sort"])
    main()
    assert "native code: kernel" in capsys.readouterr().out


def test_page_has_the_column():
    page = (Path(__file__).parent.parent.parent / "docs" / "ops.md").read_text()
    assert re.search(r"\| `dot` \| 2 \|.*\| kernel \| sum of products", page)


# -- bench
class FixedGauge:
    limits = Limits(1e10, 1e11)

    def look(self):
        pass


def test_bench_finds_the_kernel_that_takes_the_time(xloom, monkeypatch):
    monkeypatch.setattr("xloom.cli.bench.Gauge", FixedGauge)
    program = SORT.replace("37", "41")  # one that no other test compiles
    status, out, err = xloom("bench", program, "--repeats", "2", "--profile")
    assert (status, err) == (0, "")
    assert "10.0 GB/s and 100 GFLOP/s" in out
    assert re.search(r"│ s +│ sort +│", out) and re.search(r"│ n +│ negate +│", out)
    assert "model.py:12" in out and "latency of a call" in out


DONATED = """HloModule d, input_output_alias={ {}: (0, {}, must-alias) }
ENTRY e { x = f32[64] parameter(0)  y = f32[64] parameter(1)  ROOT z = f32[64] add(x, y) }"""


@pytest.mark.parametrize("kind", ["must-alias", "may-alias"])
def test_bench_takes_programs_that_take_their_arguments(xloom, kind):
    pytest.importorskip("jaxlib")
    program = DONATED.replace("must-alias", kind)
    status, out, err = xloom("bench", program, "--repeats", "2", "--against", "jaxlib")
    assert (status, err) == (0, "") and "XLA:CPU" in out


def test_bench_says_before_it_measures_that_the_trace_cannot_be_written(xloom, tmp_path):
    status, out, err = xloom("bench", DONATED, "--trace", tmp_path / "no" / "t.json")
    assert (status, out) == (1, "") and "there is no folder" in err and "hint" in err
    status, out, err = xloom("run", DONATED, "--profile", tmp_path / "no" / "t.json")
    assert (status, out) == (1, "") and "there is no folder" in err
