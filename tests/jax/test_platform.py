"""JAX on the platform `xloom`, each program in a process of its own: platforms are chosen when JAX starts."""

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

pytest.importorskip("jax")

PROGRAMS = Path(__file__).with_name("programs.py")
NAMES = re.findall(r"^def (\w+)\(\):", PROGRAMS.read_text(), re.M)


def run(name: str, platforms: str = "xloom,cpu") -> subprocess.CompletedProcess:
    environment = {**os.environ, "JAX_PLATFORMS": platforms}
    return subprocess.run(
        [sys.executable, "-W", "error::RuntimeWarning", str(PROGRAMS), name],
        env=environment,
        capture_output=True,
        text=True,
        timeout=900,
    )


@pytest.mark.parametrize("name", NAMES)
def test_program(name):
    done = run(name)
    assert done.returncode == 0, done.stderr
    assert name == "failures" or "Exception ignored" not in done.stderr
    if name == "debug_print":
        assert done.stdout == "x = 2.0\n"


@pytest.mark.parametrize("name", ["power", "debug_print", "callbacks"])
def test_alone(name):
    done = run(name, "xloom")
    assert done.returncode == 0, done.stderr


def test_unasked():
    done = run("platform", "cpu")
    assert "AssertionError" in done.stderr
