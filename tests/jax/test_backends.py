"""JAX on backends of one's own, each program in a process of its own: platforms are chosen when JAX starts."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

pytest.importorskip("jax")

PROGRAMS = Path(__file__).with_name("backend_programs.py")


def run(name: str, platforms: str | None = None, **environment: str) -> None:
    given = {key: value for key, value in os.environ.items() if key != "JAX_PLATFORMS"}
    if platforms is not None:
        environment["JAX_PLATFORMS"] = platforms
    done = subprocess.run(
        [sys.executable, "-W", "error::RuntimeWarning", str(PROGRAMS), name],
        env={**given, **environment},
        capture_output=True,
        text=True,
        timeout=900,
    )
    assert done.returncode == 0, done.stderr
    assert "Exception ignored" not in done.stderr


@pytest.mark.parametrize("platforms", [None, "", "cpu", "mydevice", "mydevice,cpu", "cpu,mydevice"])
def test_whatever_platforms_are_named(platforms):
    run("platforms", platforms, WHEN="early")


@pytest.mark.parametrize("platforms", [None, "cpu"])
def test_after_jax_has_made_its_devices(platforms):
    run("platforms", platforms, WHEN="late")


@pytest.mark.parametrize("name", ["too_small", "another_name", "statistics", "unsupported", "compared", "traced"])
def test_program(name):
    run(name, "cpu")


@pytest.mark.parametrize("platforms", [None, "small"])
def test_memory_of_its_own(platforms):
    run("memory_of_its_own", platforms)


def test_torch_takes_arrays():
    pytest.importorskip("torch")
    run("torch_takes_arrays", "mydevice")
