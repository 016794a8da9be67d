"""XLOOM_CHECK's checks of values under JAX."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

pytest.importorskip("jax")


def test_faults_are_errors_of_jax():
    environment = {**os.environ, "JAX_PLATFORMS": "xloom,cpu", "XLOOM_CHECK": "nan,oob"}
    command = [sys.executable, str(Path(__file__).with_name("checked_programs.py"))]
    done = subprocess.run(command, env=environment, capture_output=True, text=True, timeout=900)
    assert done.returncode == 0, done.stderr
