"""Dispatches that native code does by itself, each program in a process of its own."""

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

pytest.importorskip("jax")

PROGRAMS = Path(__file__).with_name("native_programs.py")
NAMES = [name for name in re.findall(r"^def (\w+)\(\):", PROGRAMS.read_text(), re.M) if not name.startswith("_")]


@pytest.mark.parametrize("name", NAMES)
def test_program(name):
    environment = {**os.environ, "JAX_PLATFORMS": "xloom,cpu"}
    command = [sys.executable, "-X", "faulthandler", "-W", "error::RuntimeWarning", str(PROGRAMS), name]
    done = subprocess.run(command, env=environment, capture_output=True, text=True, timeout=900)
    assert done.returncode == 0, done.stderr
    assert "Exception ignored" not in done.stderr
