"""JAX's platform for GPUs, on a simulated driver."""

import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent.parent


@pytest.mark.parametrize("program", ["arrays", "callbacks", "calls", "dlpack", "linear_algebra"])
def test_jax_on_simulated_gpus(program):
    pytest.importorskip("jax")
    command = [sys.executable, "-m", "tests.cuda.jax_programs", program]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False, timeout=300)
    assert done.returncode == 0, done.stdout + done.stderr
