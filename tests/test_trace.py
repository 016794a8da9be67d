"""Traces: what ran when."""

import json
import os
import struct
import subprocess
import sys

import numpy as np
import pytest

import xloom as xl
from xloom.cpu.runtime.executable import Executable
from xloom.errors import XloomError
from xloom.pjrt import Client
from xloom.trace import active, trace

LOOP = """
HloModule loop
body {
  p = (s32[], f32[8,8]) parameter(0)
  i = s32[] get-tuple-element(p), index=0
  x = f32[8,8] get-tuple-element(p), index=1
  one = s32[] constant(1)
  j = s32[] add(i, one)
  y = f32[8,8] dot(x, x), lhs_contracting_dims={1}, rhs_contracting_dims={0}, metadata={op_name="matmul"}
  ROOT t = (s32[], f32[8,8]) tuple(j, y)
}
condition {
  p = (s32[], f32[8,8]) parameter(0)
  i = s32[] get-tuple-element(p), index=0
  n = s32[] constant(3)
  ROOT c = pred[] compare(i, n), direction=LT
}
ENTRY e {
  x = f32[8,8] parameter(0)
  zero = s32[] constant(0)
  t = (s32[], f32[8,8]) tuple(zero, x)
  w = (s32[], f32[8,8]) while(t), condition=condition, body=body
  ROOT y = f32[8,8] get-tuple-element(w), index=1
}
"""


def test_kernels_lie_in_their_loop_and_their_run(tmp_path):
    x = np.eye(8, dtype=np.float32)
    with trace(tmp_path / "trace.json") as taken:
        program = xl.compile(xl.parse(LOOP))
        assert np.array_equal(program(x), x)
    assert active() is None
    (loop,) = [s for s in taken.spans("kernel") if s["args"]["opcode"] == "while"]
    products = [s for s in taken.spans("kernel") if s["args"]["opcode"] == "dot"]
    (run,) = taken.spans("execute")
    assert len(products) == 3
    told = {"opcode": "dot", "instructions": "y", "bytes": 512, "flops": 1024, "element_bytes": 4, "op_name": "matmul"}
    assert all(s["args"] == told and s["name"] == "y: dot" for s in products)
    assert all(loop["ts"] <= s["ts"] and s["ts"] + s["dur"] <= loop["ts"] + loop["dur"] for s in products)
    assert run["ts"] <= loop["ts"] and loop["ts"] + loop["dur"] <= run["ts"] + run["dur"]
    events = json.loads((tmp_path / "trace.json").read_text())["traceEvents"]
    assert {e["cat"] for e in events if e["ph"] == "X"} == {"compile", "execute", "kernel"}
    program(x)  # later runs leave the file and the trace alone
    assert len(taken.spans("execute")) == 1


def test_a_program_that_is_run_on_addresses():
    x, y = np.eye(8, dtype=np.float32), np.zeros((8, 8), np.float32)
    with trace() as taken:
        program = xl.compile(xl.parse(LOOP))
        assert isinstance(program, Executable)
        program.call_at(struct.pack("Q", x.ctypes.data), struct.pack("Q", y.ctypes.data))
    assert np.array_equal(y, x)
    products = [s for s in taken.spans("kernel") if s["args"]["opcode"] == "dot"]
    assert len(products) == 3 and len(taken.spans("execute")) == 1


def _products(taken):
    return [s for s in taken.spans("kernel") if s["args"]["opcode"] == "dot"]


def test_programs_older_than_the_trace():
    x, y = np.eye(8, dtype=np.float32), np.zeros((8, 8), np.float32)
    program, other = xl.compile(xl.parse(LOOP)), xl.compile(xl.parse(LOOP))
    assert isinstance(program, Executable) and isinstance(other, Executable)
    program(x)
    with trace() as taken:
        assert np.array_equal(program(x), x)
        (compiled,) = [s for s in taken.spans("compile") if s["name"] == "loop"]
        assert "older than the trace" in compiled["args"]["note"]
        program.call_at(struct.pack("Q", x.ctypes.data), struct.pack("Q", y.ctypes.data))
        program.call_into([x], [y])
        assert len([s for s in taken.spans("compile") if s["name"] == "loop"]) == 1
    assert np.array_equal(y, x) and len(_products(taken)) == 9 and len(taken.spans("execute")) == 3
    program(x)
    with trace() as again:
        program(x)
    assert len(_products(again)) == 3 and not again.spans("compile")
    with trace() as without:  # programs that do not run are not compiled
        pass
    assert other.timed and not without.spans()


def test_what_runs_without_a_trace_keeps_its_quick_attributes():
    program = xl.compile(xl.parse(LOOP))
    assert (
        len(vars(program)) <= 30
    )  # of more, CPython looks each up in a dictionary of its own: a call takes 0.5 µs more


def test_a_module_that_was_changed_since():
    module = xl.parse("HloModule m\nENTRY e { x = f32[8] parameter(0)  ROOT y = f32[8] add(x, x) }")
    x = np.ones(8, np.float32)
    program = xl.compile(module)
    module.entry.root.opcode = "multiply"
    with trace() as taken:
        assert program(x)[0] == 2
    (compiled,) = taken.spans("compile")
    assert "was changed" in compiled["args"]["note"] and not taken.spans("kernel")


def test_donated_and_outfed_in_a_trace():
    text = """HloModule m, input_output_alias={ {}: (0, {}, must-alias) }
    ENTRY e { x = f32[8] parameter(0)  ROOT y = f32[8] add(x, x) }"""
    program, x = xl.compile(xl.parse(text)), np.ones(8, np.float32)
    with trace() as taken:
        assert program(x, donated=[0]) is x and x[0] == 2
    assert len(taken.spans("kernel")) == 1
    text = "HloModule m\nENTRY e { t = token[] after-all() c = f32[] constant(3)  ROOT o = token[] outfeed(c, t) }"
    program = xl.compile(xl.parse(text))
    with trace():
        program()
    program()
    assert program.outfeed == [3, 3]


def test_several_devices_that_were_compiled_before():
    text = """HloModule m, replica_count=2
    add { a = f32[] parameter(0)  b = f32[] parameter(1)  ROOT c = f32[] add(a, b) }
    ENTRY e { x = f32[8] parameter(0)  ROOT y = f32[8] all-reduce(x), replica_groups={}, to_apply=add }"""
    client = Client.cpu(2)
    program = client.compile(xl.parse(text))

    def run():
        rows = [[client.buffer_from_host(np.full(8, k + 1.0, np.float32), d)] for k, d in enumerate(client.devices)]
        return [np.asarray(result)[0] for (result,) in program.execute_sharded(rows)]

    assert run() == [3, 3]
    with trace() as taken:
        assert run() == [3, 3]
    opcodes = [s["args"]["opcode"] for s in taken.spans("kernel")]  # an all-reduce is a gather, and sums
    assert sorted(opcodes) == ["all-gather"] * 2 + ["fusion"] * 2
    assert len([s for s in taken.spans("compile") if s["name"] == "m"]) == 1


def test_transfers():
    client = Client.interpreter()
    with trace() as taken:
        program = client.compile(xl.parse(LOOP))
        (result,) = program.execute([client.buffer_from_host(np.eye(8, dtype=np.float32))])
        np.array(result)
    assert [s["name"] for s in taken.spans("transfer")] == ["host to device", "device to host"]
    assert len(taken.spans("execute")) == 1


def test_a_process_that_is_traced(tmp_path):
    path = tmp_path / "trace.json"
    program = f"import numpy as np, xloom as xl; xl.compile(xl.parse({LOOP!r}))(np.eye(8, dtype=np.float32))"
    subprocess.run([sys.executable, "-c", program], check=True, env={**os.environ, "XLOOM_TRACE": str(path)})
    assert any(event.get("cat") == "kernel" for event in json.loads(path.read_text())["traceEvents"])


def test_a_file_that_cannot_be_written_is_an_error_before_anything_runs(tmp_path):
    missing = r"there is no folder .*missing \(at .*t.json\)\n  hint: make the folder"
    with pytest.raises(XloomError, match=missing), trace(tmp_path / "missing" / "t.json"):
        raise AssertionError
    with pytest.raises(XloomError, match=r"it is a folder.*\n.*name a file in it"), trace(tmp_path):
        raise AssertionError
    assert active() is None and not list(tmp_path.iterdir())
    environment = {**os.environ, "XLOOM_TRACE": str(tmp_path / "missing" / "t.json")}
    program = "import xloom.trace; print('began')"
    ended = subprocess.run([sys.executable, "-c", program], env=environment, capture_output=True, text=True)
    assert ended.returncode == 1 and ended.stdout == ""
    assert ended.stderr.startswith("error: XLOOM_TRACE: the trace cannot be written")
    assert "hint: make the folder" in ended.stderr and "Traceback" not in ended.stderr
