"""Two backends of PJRT are compared: a platform of JAX's, and the library of a plugin."""

import os
import shutil
import subprocess
import sys

import pytest

pytest.importorskip("jax")

from click.testing import CliRunner

from xloom.cli.main import cli
from xloom.pjrt.capi import api_address

TEXT = """HloModule m
ENTRY main {
  x = f32[8,3] parameter(0)
  a = f32[8,3] negate(x)
  b = f32[8,3] tanh(a)
  c = (f32[8,3], f32[8,3]) tuple(b, a)
  d = f32[8,3] get-tuple-element(c), index=0
  ROOT e = (f32[8,3], (f32[8,3], f32[8,3])) tuple(d, c)
}
"""


@pytest.fixture
def files(tmp_path):
    (tmp_path / "a.hlo").write_text(TEXT)
    (tmp_path / "b.hlo").write_text(TEXT.replace("tanh", "sine"))
    return tmp_path


def diff(*arguments):
    return CliRunner().invoke(cli, ["diff", "--values", *map(str, arguments)])


@pytest.fixture
def plugin(tmp_path):
    """A library that is a plugin: this process's own."""
    compiler = shutil.which("cc")
    if compiler is None:
        pytest.skip("there is no C compiler")
    source, library = tmp_path / "plugin.c", tmp_path / "plugin.so"
    source.write_text(f"const void *GetPjrtApi(void) {{ return (const void *){api_address()}ull; }}")
    subprocess.run([compiler, "-shared", "-fPIC", "-o", library, source], check=True)
    return library


def test_a_plugin_by_a_platform(files, plugin):
    done = diff(files / "a.hlo", "--on", f"pjrt:{plugin}", "--against", "pjrt:cpu")
    assert (done.exit_code, done.output) == (0, "no value differs by more than rounding\n"), done.exception


def test_two_programs_on_a_platform(files):
    done = diff(files / "a.hlo", files / "b.hlo", "--on", "pjrt:cpu")
    assert done.exit_code == 1 and done.output.startswith("%b, sine, is the first that differs"), done.output


def test_platforms_that_are_asked_for_are_there(files):
    command = [
        sys.executable,
        "-m",
        "xloom.cli.main",
        "diff",
        "a.hlo",
        "--values",
        "--on",
        "pjrt:xloom",
        "--against",
        "pjrt:cpu",
    ]
    environment = {k: v for k, v in os.environ.items() if k != "JAX_PLATFORMS"}
    done = subprocess.run(command, cwd=files, env=environment, capture_output=True, text=True, check=False)
    assert (done.returncode, done.stdout) == (0, "no value differs by more than rounding\n"), done.stderr


def test_what_is_no_backend(files):
    done = diff(files / "a.hlo", "--on", "pjrt:/no/such.so", "--against", "interpreter")
    assert done.exit_code == 1 and "no backend '/no/such.so'" in str(done.exception), done.output
    done = diff(files / "a.hlo", "--against", "pjrt")
    assert "or pjrt: and a platform" in str(done.exception)
