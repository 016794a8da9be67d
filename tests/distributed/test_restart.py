"""Training when one of its processes is killed, and when it is started again: in JAX alone, and the example of Flax."""

import os
import re
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from tests.distributed.processes import finish, free_port, start, until_killed
from xloom.distributed import library

pytest.importorskip("jax")
pytestmark = pytest.mark.skipif(not library.find().path, reason=library.find().why_not)

EXAMPLE = Path(__file__).parent.parent.parent / "examples" / "train_flax.py"
PLAIN = Path(__file__).with_name("restarted.py")
LIMIT = 15
"""Seconds that a process waits for the other: one that has still to compile, on a busy machine, is not gone."""
GONE = r"process 0 ends: .*process 0 has waited [\d.]+ s for process 1,"
"""What the process says that lives."""


def train(*arguments: str, devices: int = 1, killed: str = "") -> subprocess.Popen[str]:
    command = [str(EXAMPLE), "--steps", "251", *arguments]
    return subprocess.Popen(
        until_killed(killed, command) if killed else [sys.executable, *command],
        env={
            **os.environ,
            "JAX_PLATFORMS": "xloom,cpu",
            "XLOOM_NUM_DEVICES": str(devices),
            "XLOOM_DISTRIBUTED_TIMEOUT": str(LIMIT),
        },
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )


def losses(out: str) -> dict[int, str]:
    return {int(step): loss for step, loss in re.findall(r"step +(\d+): loss ([\w.+-]+)", out)}


def check_killed(processes: list[subprocess.Popen[str]]) -> None:
    """The second process was, and the first one says so."""
    (status, _, errors), (other_status, out, other_errors) = finish(processes)
    assert other_status == -signal.SIGKILL, out + other_errors
    assert status == 1, errors
    assert re.search(GONE, errors), errors


@pytest.mark.long
def test_plain_training_goes_on_with_the_same_bits(tmp_path):
    def both(folder: Path, killed: tuple[int, str] | None = None) -> list[subprocess.Popen[str]]:
        folder.mkdir(exist_ok=True)
        return start(PLAIN, [str(folder), "40"], devices=1, killed=killed, XLOOM_DISTRIBUTED_TIMEOUT=str(LIMIT))

    whole = [losses(out) for _, out, _ in finish(both(tmp_path / "whole"))]
    assert len(whole[0]) == 40
    check_killed(both(tmp_path / "killed", (1, "step 25:")))
    for (status, out, errors), wanted in zip(finish(both(tmp_path / "killed")), whole, strict=True):
        assert status == 0, errors
        assert losses(out) == {step: loss for step, loss in wanted.items() if step >= 20}


def test_a_killed_process_and_the_same_commands_again(tmp_path):
    for package in ("flax", "optax", "orbax.checkpoint"):
        pytest.importorskip(package)

    def both(*killed: str) -> list[subprocess.Popen[str]]:
        common = ["--address", f"localhost:{free_port()}", "--processes", "2", "--checkpoint", str(tmp_path / "kept")]
        return [train("--process", str(k), *common, killed=killed[k] if killed else "") for k in range(2)]

    ((status, whole, errors),) = finish([train(devices=2)])
    assert status == 0, errors
    check_killed(both("", "step +150:"))  # that after 50 steps has been saved, as the next one has
    for status, out, errors in finish(both()):
        assert status == 0, errors
        assert losses(out).items() < losses(whole).items(), out
        assert 0 not in losses(out)
        assert 250 in losses(out)
