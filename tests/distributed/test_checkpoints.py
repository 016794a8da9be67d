"""Checkpoints that as many processes write are read by fewer and by more."""

from pathlib import Path

import pytest

from tests.distributed.processes import finish, start
from xloom.distributed import library

CHANGES = [(2, 1), (2, 4), (1, 2), (4, 2)]


@pytest.mark.long
@pytest.mark.skipif(not library.find().path, reason=library.find().why_not)
@pytest.mark.parametrize("framework", ["jax", "torch"])
def test_other_numbers_of_processes(framework, tmp_path):
    pytest.importorskip(framework)
    if framework == "jax":
        pytest.importorskip("orbax.checkpoint")
    program = Path(__file__).with_name(f"{framework}_checkpoints.py")
    for saved in dict.fromkeys(saved for saved, _ in CHANGES):
        run(program, saved, tmp_path / str(saved), "save")
    for saved, loaded in CHANGES:
        run(program, loaded, tmp_path / str(saved), "load")


def run(program: Path, count: int, folder: Path, what: str) -> None:
    devices = 1 if count == 4 else 2
    for status, out, errors in finish(start(program, [str(folder), what], count, devices), 300):
        assert status == 0 and f"ok {what}\n" in out, errors[-3000:]
