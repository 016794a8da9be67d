"""The example of Flax when one of its processes is killed, and when it is started again."""

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

from tests.distributed.processes import finish, free_port
from xloom.distributed import library

for package in ("jax", "flax", "optax", "orbax.checkpoint"):
    pytest.importorskip(package)
pytestmark = pytest.mark.skipif(not library.find().path, reason=library.find().why_not)

EXAMPLE = Path(__file__).parent.parent.parent / "examples" / "train_flax.py"
LIMIT = 5


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
    return {int(step): loss for step, loss in re.findall(r"step +(\d+): loss ([\d.]+)", out)}


def test_a_killed_process_and_the_same_commands_again(tmp_path):
    def both() -> list[subprocess.Popen[str]]:
        address = ["--address", f"localhost:{free_port()}", "--processes", "2"]
        return [train(*address, "--process", str(k), "--checkpoint", str(tmp_path / "kept")) for k in range(2)]

    ((status, whole, errors),) = finish([train(devices=2)])
    assert status == 0, errors
    processes = both()
    assert processes[1].stdout is not None
    for line in processes[1].stdout:
        if line.startswith("step  150"):  # that after 50 steps has been saved, as the next one has
            processes[1].kill()
            break
    (status, _, errors), _ = finish(processes)
    assert status == 1, errors
    assert re.search(r"process 0 ends: .*process 0 has waited [\d.]+ s for process 1,", errors), errors
    for status, out, errors in finish(both()):
        assert status == 0, errors
        assert losses(out).items() < losses(whole).items(), out
        assert 0 not in losses(out)
        assert 250 in losses(out)
