"""`xloom diff` and `xloom reduce`: what they print, and their exit status."""

import numpy as np
import pytest
from click.testing import CliRunner

import xloom as xl
from xloom.cli.main import cli

TEXT = """HloModule m
ENTRY main {
  x = f32[8,3] parameter(0)
  a = f32[8,3] negate(x)
  b = f32[8,3] tanh(a)
  c = f32[8,3] add(b, x)
  ROOT d = f32[8,3] multiply(c, x)
}
"""


@pytest.fixture
def files(tmp_path):
    (tmp_path / "a.hlo").write_text(TEXT)
    (tmp_path / "b.hlo").write_text(TEXT.replace("add(b, x)", "add(b, a)"))
    return tmp_path


def xloom(*arguments):
    return CliRunner().invoke(cli, [*map(str, arguments)])


def test_diff_of_structure(files):
    done = xloom("diff", files / "a.hlo", files / "b.hlo", "--html", files / "page.html")
    assert done.exit_code == 1
    assert "+ %c = f32[8,3]{1,0} add(%b, %a)" in done.output and done.output.endswith("1 changed\n")
    assert "add(%b, %a)" in (files / "page.html").read_text()
    assert xloom("diff", files / "a.hlo", files / "a.hlo").exit_code == 0
    assert xloom("diff", files / "a.hlo", "--pass", "dce").output == "the modules are the same\n"


def test_diff_of_values(files):
    np.save(files / "x.npy", np.ones((8, 3), np.float32))
    pair = files / "a.hlo", files / "b.hlo", "--values"
    done = xloom("diff", *pair, "--save", files / "saved", "-i", files / "x.npy")
    assert done.exit_code == 1 and done.output.startswith("%c, add, is the first that differs: [0,0] is ")
    assert np.load(files / "saved" / "operand1.npy")[0, 0] == -1
    assert [i.opcode for i in xl.load(files / "saved" / "alone.hlo").entry][-1] == "add"
    for options in (["--against", "interpreter"], ["--against", "cpu:algebraic-simplification"], ["--pass", "cse"]):
        done = xloom("diff", files / "a.hlo", "--values", *options)
        assert (done.exit_code, done.output) == (0, "no value differs by more than rounding\n"), done.exception


def test_usage(files):
    assert xloom("diff", files / "a.hlo").exit_code == 2
    assert xloom("diff", files / "a.hlo", "--against", "jaxlib").exit_code == 2
    assert xloom("reduce", files / "a.hlo").exit_code == 2
    assert xloom("reduce", files / "a.hlo", "--crash", "--test", "true").exit_code == 2


def test_reduce_by_a_test(files):
    output = files / "small.hlo"
    done = xloom("reduce", files / "a.hlo", "--test", "grep -q tanh", "-o", output, "--keep", files / "kept", "-j", 1)
    assert done.exit_code == 0, done.exception
    assert "5 instructions down to 2" in done.output
    assert [i.opcode for i in xl.load(output).entry] == ["parameter", "tanh"]
    assert (files / "kept" / "reduced.hlo").read_text() == output.read_text()
    done = xloom("reduce", files / "a.hlo", "--test", "false")
    assert "does not fail" in str(done.exception)
