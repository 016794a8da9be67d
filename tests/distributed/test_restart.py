"""Training when one of its processes is killed, and when it is started again: in JAX alone, and the example of Flax."""

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

from tests.distributed.processes import finish, free_port, start
from xloom.distributed import library

pytest.importorskip("jax")
pytestmark = pytest.mark.skipif(not library.find().path, reason=library.find().why_not)

EXAMPLE = Path(__file__).parent.parent.parent / "examples" / "train_flax.py"
PLAIN = Path(__file__).with_name("restarted.py")
LIMIT = 15
"""Seconds that a process waits for the other: one that has still to compile, on a busy machine, is not gone."""
GONE = r"process 0 ends: .*process 0 has waited [\d.]+ s for process 1,"
"""What the process says that lives."""


def train(*arguments: str, devices: int = 1) -> subprocess.Popen[str]:
    return subprocess.Popen(
        [sys.executable, str(EXAMPLE), "--steps", "251", *arguments],
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


def killed_at(step: int, processes: list[subprocess.Popen[str]]) -> None:
    """Kills the second process when it has said so, and checks what the first one says."""
    assert processes[1].stdout is not None
    for line in processes[1].stdout:
        if re.match(rf"step +{step}:", line):
            processes[1].kill()
            break
    else:
        pytest.fail(f"step {step} did not come: {finish(processes)}")
    (status, _, errors), _ = finish(processes)
    assert status == 1, errors
    assert re.search(GONE, errors), errors


@pytest.mark.long
def test_plain_training_goes_on_with_the_same_bits(tmp_path):
    def both(folder: Path) -> list[subprocess.Popen[str]]:
        folder.mkdir(exist_ok=True)
        return start(PLAIN, [str(folder), "40"], devices=1, XLOOM_DISTRIBUTED_TIMEOUT=str(LIMIT))

    whole = [losses(out) for _, out, _ in finish(both(tmp_path / "whole"))]
    assert len(whole[0]) == 40
    killed_at(25, both(tmp_path / "killed"))
    for (status, out, errors), wanted in zip(finish(both(tmp_path / "killed")), whole, strict=True):
        assert status == 0, errors
        assert losses(out) == {step: loss for step, loss in wanted.items() if step >= 20}


def test_a_killed_process_and_the_same_commands_again(tmp_path):
    for package in ("flax", "optax", "orbax.checkpoint"):
        pytest.importorskip(package)

    def both() -> list[subprocess.Popen[str]]:
        address = ["--address", f"localhost:{free_port()}", "--processes", "2"]
        return [train(*address, "--process", str(k), "--checkpoint", str(tmp_path / "kept")) for k in range(2)]

    ((status, whole, errors),) = finish([train(devices=2)])
    assert status == 0, errors
    killed_at(150, both())  # that after 50 steps has been saved, as the next one has
    for status, out, errors in finish(both()):
        assert status == 0, errors
        assert losses(out).items() < losses(whole).items(), out
        assert 0 not in losses(out)
        assert 250 in losses(out)
