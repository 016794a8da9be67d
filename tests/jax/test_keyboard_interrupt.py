"""Ctrl-C under JAX."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

pytest.importorskip("jax")


def test_a_program_with_callbacks_is_interrupted():
    environment = {**os.environ, "JAX_PLATFORMS": "xloom,cpu"}
    script = Path(__file__).with_name("interrupted.py")
    done = subprocess.run(
        [sys.executable, script], capture_output=True, text=True, timeout=600, check=False, env=environment
    )
    assert (done.stdout, done.returncode) == ("interrupted True\n", 0), done.stderr
