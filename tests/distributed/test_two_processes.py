"""Two processes with two devices each, as users of JAX start them."""

import re
from pathlib import Path

import pytest

from tests.distributed.processes import finish, start
from xloom.distributed import library

pytest.importorskip("jax")

PROGRAMS = Path(__file__).with_name("programs.py")
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
