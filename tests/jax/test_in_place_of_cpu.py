"""xloom as JAX's platform `cpu`, each program in a process of its own: platforms are chosen when JAX starts."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

from xloom.errors import XloomError
from xloom.jax.denormals import flushes_denormals

pytest.importorskip("jax")

PROGRAMS = Path(__file__).with_name("cpu_programs.py")


def run(name: str, *command: str, **environment: str) -> str:
    """What it prints."""
    given = {key: value for key, value in os.environ.items() if key not in ("JAX_PLATFORMS", "XLA_FLAGS")}
    done = subprocess.run(
        [*(command or (sys.executable,)), "-m", "tests.jax.cpu_programs", name],
        env={**given, **environment},
        capture_output=True,
        text=True,
        timeout=900,
        cwd=PROGRAMS.parent.parent.parent,
    )
    assert done.returncode == 0, done.stderr
    return done.stdout


@pytest.mark.parametrize(
    "name", ["names", "both", "registrations", "caches", "alignments", "strides", "denormals", "exits", "as_on_xloom"]
)
def test_program(name):
    run(name, XLOOM_AS_CPU="1")


@pytest.mark.parametrize(
    ("environment", "are_kept"),
    [
        ({"JAX_PLATFORMS": "xloom"}, True),
        ({"JAX_PLATFORMS": "xloom", "XLOOM_DENORMALS": "flush"}, False),
        ({"XLOOM_AS_CPU": "1", "XLOOM_DENORMALS": "keep"}, True),
    ],
    ids=["kept", "flushed", "kept by the cpu"],
)
def test_denormals_are_as_the_environment_says(environment, are_kept):
    assert run("doubled_denormals", **environment) == f"{are_kept}\n"


def test_what_the_environment_cannot_say_of_denormals(monkeypatch):
    monkeypatch.setenv("XLOOM_DENORMALS", "0")
    with pytest.raises(XloomError, match="XLOOM_DENORMALS is '0'"):
        flushes_denormals(by_itself=True)


@pytest.mark.parametrize("name", ["installed", "too_late"])
def test_by_a_call(name):
    run(name, JAX_PLATFORMS="cpu")


@pytest.mark.parametrize(
    "environment",
    [
        {"XLA_FLAGS": "--xla_force_host_platform_device_count=3"},
        {"JAX_NUM_CPU_DEVICES": "3"},
        {"XLOOM_NUM_DEVICES": "3"},
        {"JAX_NUM_CPU_DEVICES": "3", "XLA_FLAGS": "--xla_force_host_platform_device_count=2", "XLOOM_NUM_DEVICES": "4"},
    ],
    ids=["forced", "configured", "ours", "all"],
)
def test_devices_are_as_many_as_jaxlib_would_make(environment):
    assert run("counted", JAX_PLATFORMS="cpu", XLOOM_AS_CPU="1", **environment) == "3\n"


def test_by_the_command_line():
    xloom = str(Path(sys.executable).with_name("xloom"))
    assert run("counted", xloom, "run-python", JAX_NUM_CPU_DEVICES="2") == "2\n"
    assert run("names", xloom, "run-python") == ""


def test_it_is_off_unless_asked_for():
    assert run("counted", JAX_PLATFORMS="cpu", XLOOM_AS_CPU="0", XLOOM_NUM_DEVICES="3") == "1\n"


EXITING = """
import atexit

@atexit.register
def after_jax():
    print(jax.jit(lambda x: x * 2)(jnp.arange(3)))

import jax, jax.numpy as jnp
print(jnp.arange(3) + 1)
if early:
    atexit._run_exitfuncs()  # as tests of libraries do
    print(jnp.arange(3) + 3)
"""


@pytest.mark.parametrize("early", [False, True])
@pytest.mark.parametrize("environment", [{"XLOOM_AS_CPU": "1"}, {"JAX_PLATFORMS": "xloom"}], ids=["cpu", "platform"])
def test_exit_functions_use_jax_after_it_was_cleaned_up(environment: dict[str, str], early: bool):
    given = {key: value for key, value in os.environ.items() if key != "JAX_PLATFORMS"} | environment
    program = EXITING.replace("early", str(early))
    done = subprocess.run([sys.executable, "-c", program], env=given, capture_output=True, text=True, timeout=300)
    assert done.returncode == 0 and not done.stderr, done.stderr
    assert done.stdout.splitlines() == ["[1 2 3]", "[0 2 4]", *(["[3 4 5]"] if early else [])]
