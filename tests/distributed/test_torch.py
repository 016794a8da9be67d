"""Two processes of PyTorch, by MPI and without."""

from pathlib import Path

import pytest

from tests.distributed.processes import finish, start
from xloom.distributed import library

pytest.importorskip("torch")

PROGRAMS = Path(__file__).with_name("torch_programs.py")
NAMES = [
    "reductions",
    "averages",
    "broadcasts",
    "gathers",
    "gathers_to_one",
    "scatters",
    "reduce_scatters",
    "exchanges",
    "between_two",
    "into_views",
    "objects",
    "one_prints",
    "of_groups",
    "functional",
    "data_parallel",
]


@pytest.fixture(scope="module", params=["MPI", "Gloo"])
def said(request):
    if request.param == "MPI" and not library.find().path:
        pytest.skip(library.find().why_not)
    mpi = "none" if request.param == "Gloo" else ""
    return finish(start(PROGRAMS, NAMES, XLOOM_DISTRIBUTED_TIMEOUT="20", XLOOM_MPI=mpi))


@pytest.mark.parametrize("name", NAMES)
def test_program(said, name):
    for status, out, errors in said:
        assert f"ok {name}\n" in out, out[out.find(f"failed\n{name}\n") :] or errors
        assert status == 0, errors
