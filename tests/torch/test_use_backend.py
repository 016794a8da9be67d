"""A client of one's own behind the device `xla`, in a process of its own: it is chosen before the device is used."""

import subprocess
import sys
from pathlib import Path

import pytest

pytest.importorskip("torch")

PROGRAMS = Path(__file__).with_name("backend_programs.py")


def test_a_device_with_memory_of_its_own():
    done = subprocess.run([sys.executable, PROGRAMS, "simulated"], capture_output=True, text=True, timeout=900)
    assert done.returncode == 0, done.stderr
