"""Several devices in one process, with jaxlib's CPU as the oracle; each program in a process of its own."""

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

pytest.importorskip("jax")

PROGRAMS = Path(__file__).with_name("device_programs.py")
HELPERS = {"meshes", "agree", "mapped", "cut"}
NAMES = [n for n in re.findall(r"^def (\w+)\(", PROGRAMS.read_text(), re.M) if n not in HELPERS]


@pytest.mark.parametrize("name", NAMES)
def test_program(name):
    environment = {
        **os.environ,
        "JAX_PLATFORMS": "xloom,cpu",
        "XLOOM_NUM_DEVICES": "8",
        "XLA_FLAGS": "--xla_force_host_platform_device_count=8",
    }
    done = subprocess.run(
        [sys.executable, "-W", "error::RuntimeWarning", str(PROGRAMS), name],
        env=environment,
        capture_output=True,
        text=True,
        timeout=900,
    )
    assert done.returncode == 0, done.stderr
