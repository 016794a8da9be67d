"""Two processes with one device each, whose brief programs run in the caller's thread."""

from pathlib import Path

import pytest

from tests.distributed.processes import finish, start
from xloom.distributed import library

pytest.importorskip("jax")

PROGRAMS = Path(__file__).with_name("one_device.py")
NAMES = [
    "brief",
    "by_native_code",
    "where_it_belongs",
    "brief_and_slow",
    "in_place",
    "beside_programs_of_one_process",
    "refused",
    "after_what_failed",
]

pytestmark = pytest.mark.skipif(not library.find().path, reason=library.find().why_not)


@pytest.fixture(scope="module")
def said():
    return finish(start(PROGRAMS, NAMES, devices=1))


@pytest.mark.parametrize("name", NAMES)
def test_program(said, name):
    for status, out, errors in said:
        assert f"ok {name}\n" in out, out[out.find(f"failed\n{name}\n") :] or errors
        assert status == 0, errors
