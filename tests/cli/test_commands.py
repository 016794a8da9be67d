"""The command line, through its entry point."""

import re
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

from xloom.cli.ops import markdown_table

ROOT = Path(__file__).parent.parent.parent
CARRIER = ROOT / "examples" / "my_custom_call.hlo"


def xloom(*arguments, stdin=""):
    return subprocess.run(
        [sys.executable, "-m", "xloom.cli.main", *map(str, arguments)],
        capture_output=True,
        text=True,
        input=stdin,
        check=False,
    )


def test_run_with_inputs_and_outputs(tmp_path):
    x, y = np.arange(10, dtype=np.float32), np.ones(10, np.float32)
    np.save(tmp_path / "x.npy", x)
    np.save(tmp_path / "y.npy", y)
    done = xloom(
        "run", CARRIER, "--passes", "expand", "-i", tmp_path / "x.npy", "-i", tmp_path / "y.npy", "-o", tmp_path
    )
    assert done.returncode == 0, done.stderr
    assert np.array_equal(np.load(tmp_path / "out0.npy"), np.full(10, 46, np.float32))


def test_run_compares_with_jaxlib():
    pytest.importorskip("jaxlib")
    done = xloom("run", CARRIER, "--passes", "expand", "--compare", "jaxlib")
    assert done.returncode == 0, done.stderr
    assert "equal to jaxlib" in done.stdout


def test_run_refuses_what_is_not_registered():
    done = xloom("run", CARRIER)
    assert done.returncode == 1 and done.stdout == ""
    assert "no custom call 'MyCustomCall'" in done.stderr and "--load" in done.stderr


def test_opt_prints_and_times():
    done = xloom("opt", "-p", "expand,dce", "--time", CARRIER)
    assert done.returncode == 0, done.stderr
    assert "%AddComputation.14.clone" in done.stdout and "expand" in done.stderr


def test_opt_writes_proto_that_reads_back(tmp_path):
    assert xloom("opt", CARRIER, "-o", tmp_path / "m.pb").returncode == 0
    assert xloom("opt", tmp_path / "m.pb").stdout == xloom("opt", CARRIER).stdout


def test_errors_point_and_exit_1():
    done = xloom("opt", "-", stdin="ENTRY e {\n  ROOT a = f32[2] parametre(0)\n}\n")
    assert done.returncode == 1 and done.stdout == ""
    assert "<stdin>:2:19: error: unknown opcode 'parametre'" in done.stderr
    assert "\n                    ^" in done.stderr and "'parameter'" in done.stderr


def test_unknown_pass_has_a_hint():
    done = xloom("opt", "-p", "expnd", CARRIER)
    assert done.returncode == 1 and "expand" in done.stderr


def test_info():
    done = xloom("info", CARRIER)
    assert "MyCustomCall: 1, not registered" in done.stdout
    assert "xloom 0.1.0" in xloom("info").stdout


def test_variables_have_values_and_origins(monkeypatch, tmp_path):
    monkeypatch.setenv("XLOOM_NUM_THREADS", "3")
    monkeypatch.setenv("XLOOM_CACHE", "2")
    monkeypatch.setenv("XLOOM_CACHE_DIR", str(tmp_path))
    monkeypatch.delenv("XLOOM_TARGET", raising=False)
    said = xloom("info", "--environment").stdout
    assert "XLOOM_NUM_THREADS = 3  (the environment)" in said
    assert re.search(r"XLOOM_TARGET = x86-64\S*  \(default: the host's level of x86-64\)", said)
    assert "XLOOM_CACHE = 2  (XLOOM_CACHE is '2')" in said
    assert f"XLOOM_CACHE_DIR = {tmp_path}  (the environment)" in said
    assert "XLOOM_TRACE   (not set: no trace)" in said


def test_missing_file():
    done = xloom("run", "nowhere.hlo")
    assert done.returncode != 0 and "nowhere.hlo" in done.stderr


@pytest.mark.parametrize("command", ["run", "opt", "info", "ops"])
def test_help_teaches(command):
    assert f"xloom {command}" in xloom(command, "--help").stdout


def test_ops():
    assert "reduce the operands" in xloom("ops", "reduce").stdout
    done = xloom("ops", "reduc")
    assert done.returncode == 1 and "'reduce'" in done.stderr


def test_ops_page_is_current():
    assert (ROOT / "docs" / "ops.md").read_text() == markdown_table(), "run: xloom ops --markdown > docs/ops.md"


@pytest.mark.parametrize(
    "header", [b"{'descr': '<f4', 'fortran_order': False, 'shape': (1000000000000,), }", b"{'descr': (("]
)
def test_an_input_that_is_no_array(tmp_path, header):
    hlo, array = tmp_path / "m.hlo", tmp_path / "x.npy"
    hlo.write_text("ENTRY e { p = f32[4] parameter(0) ROOT a = f32[4] add(p, p) }")
    array.write_bytes(b"\x93NUMPY\x01\x00v\x00" + header.ljust(117) + b"\n" + bytes(16))
    done = xloom("run", hlo, "-i", array)
    assert done.returncode == 1 and "is not an array" in done.stderr and "Traceback" not in done.stderr
    done = xloom("run", hlo, "-i", hlo)
    assert done.returncode == 1 and "m.hlo is not an array: it is no .npy file" in done.stderr
