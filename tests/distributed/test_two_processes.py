"""Two processes with two devices each, as users of JAX start them."""

import re
import time
from pathlib import Path

import pytest

from tests.distributed.processes import finish, start
from xloom.distributed import library

pytest.importorskip("jax")

PROGRAMS = Path(__file__).with_name("programs.py")
MEMORY = Path("/dev/shm")
HELPERS = {"mesh", "array", "mapped", "agree", "numbers", "blocks", "joined"}
NAMES = [name for name in re.findall(r"^def (\w+)\(", PROGRAMS.read_text(), re.M) if name not in HELPERS]

pytestmark = pytest.mark.skipif(not library.find().path, reason=library.find().why_not)


@pytest.fixture(scope="module")
def said():
    return finish(start(PROGRAMS, NAMES))


@pytest.mark.parametrize("name", NAMES)
def test_program(said, name):
    for status, out, errors in said:
        assert f"ok {name}\n" in out, out[out.find(f"failed\n{name}\n") :] or errors
        assert status == 0, errors


@pytest.mark.skipif(not MEMORY.exists(), reason="processes share memory by other means")
def test_memory_in_common_is_given_back():
    before = set(MEMORY.glob("mpich_shm_*"))
    for status, out, errors in finish(start(PROGRAMS, ["sums"])):
        assert status == 0, out + errors
    end = time.monotonic() + 60  # others that begin beside have some for a while
    while not (left := set(MEMORY.glob("mpich_shm_*"))) <= before and time.monotonic() < end:
        time.sleep(0.1)
    assert left <= before
