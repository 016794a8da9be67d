"""A client of one's own behind the device `xla`, in a process of its own: it is chosen before the device is used."""

import subprocess
import sys
from pathlib import Path

import pytest

pytest.importorskip("torch")

ROOT = Path(__file__).parents[2]


@pytest.mark.parametrize("name", ["simulated", "gpu", "no_gpu"])
def test_a_device_with_memory_of_its_own(name):
    command = [sys.executable, "-m", "tests.torch.backend_programs", name]
    done = subprocess.run(command, capture_output=True, text=True, timeout=900, cwd=ROOT)
    assert done.returncode == 0, done.stderr
