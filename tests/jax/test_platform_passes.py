"""Passes of the user's own on xloom's platforms of JAX."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

pytest.importorskip("jax")


@pytest.mark.parametrize("environment", [{"JAX_PLATFORMS": "xloom"}, {"XLOOM_AS_CPU": "1"}], ids=str)
def test_passes_run_on_platforms_of_xloom(environment):
    command = [sys.executable, str(Path(__file__).with_name("passes_programs.py"))]
    done = subprocess.run(
        command, env={**os.environ, **environment}, capture_output=True, text=True, timeout=300, check=False
    )
    assert done.returncode == 0, done.stderr
