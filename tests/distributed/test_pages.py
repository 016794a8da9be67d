"""The page about several processes, and the example, run in two of them."""

import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from tests.distributed.processes import finish, free_port, start
from xloom.distributed import library

pytest.importorskip("jax")
pytestmark = pytest.mark.skipif(not library.find().path, reason=library.find().why_not)

ROOT = Path(__file__).parent.parent.parent


def test_the_page(tmp_path):
    blocks = re.findall(r"```python\n(.*?)```", (ROOT / "docs" / "distributed.md").read_text(), re.S)
    program = tmp_path / "program.py"
    program.write_text("import sys\nsys.argv[1:] = sys.argv[:0:-1]\n")
    program.write_text(program.read_text() + "\n".join(blocks))
    for status, _, errors in finish(start(program)):
        assert status == 0, errors


def test_the_page_under_a_launcher(tmp_path):
    launcher = shutil.which("mpiexec", path=str(Path(sys.executable).parent))
    if launcher is None:
        pytest.skip("there is no mpiexec beside Python")
    blocks = re.findall(r"```python\n(.*?)```", (ROOT / "docs" / "distributed.md").read_text(), re.S)
    program = tmp_path / "program.py"
    program.write_text("\n".join(blocks))
    shell = f'exec {sys.executable} {program} localhost:{free_port()} "$PMI_SIZE" "$PMI_RANK"'
    variables = {**os.environ, "JAX_PLATFORMS": "xloom,cpu", "XLOOM_NUM_DEVICES": "2"}
    done = subprocess.run(
        [launcher, "-n", "2", "sh", "-c", shell],
        env=variables,
        capture_output=True,
        text=True,
        check=False,
        timeout=600,
    )
    assert done.returncode == 0, done.stderr


def train(*arguments: str) -> subprocess.Popen[str]:
    return subprocess.Popen(
        [sys.executable, str(ROOT / "examples" / "train_flax.py"), *arguments],
        env={**os.environ, "JAX_PLATFORMS": "xloom,cpu", "XLOOM_NUM_DEVICES": "1"},
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )


def losses(*commands: list[str]) -> list[list[str]]:
    """What each of some processes says of its losses."""
    ended = finish([train(*command) for command in commands])
    assert all(status == 0 for status, _, _ in ended), ended
    return [re.findall(r"step +(\d+: loss [\d.]+)", out) for _, out, _ in ended]


def both(*arguments: str) -> list[list[str]]:
    address = f"localhost:{free_port()}"
    return losses(*(["--address", address, "--processes", "2", "--process", str(k), *arguments] for k in range(2)))


def test_the_example_learns_the_same_in_two_processes():
    pytest.importorskip("flax")
    pytest.importorskip("optax")
    (alone,) = losses(["--steps", "51"])
    assert both("--steps", "51") == [alone, alone]
    first, last = (float(text.split()[-1]) for text in alone)
    assert last < first / 2


def test_the_example_goes_on_from_a_checkpoint(tmp_path):
    pytest.importorskip("flax")
    pytest.importorskip("optax")
    pytest.importorskip("orbax.checkpoint")
    (whole,) = losses(["--steps", "101"])
    folder = str(tmp_path / "checkpoint")
    both("--steps", "60", "--checkpoint", folder)
    assert both("--steps", "101", "--checkpoint", folder) == [whole[1:]] * 2
