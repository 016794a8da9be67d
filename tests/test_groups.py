"""Tests that share what a module's fixture makes are given to one process of pytest-xdist."""

import subprocess
import sys

CONFTEST = "from tests.conftest import pytest_addoption, pytest_collection_modifyitems, pytest_itemcollected"
TESTS = """
import os
import pytest

@pytest.fixture(scope="module")
def made(request):
    with open(request.path.with_name("made"), "a") as file:
        print(os.getpid(), file=file)

@pytest.mark.parametrize("case", range(40))
def test_shared(case, made):
    pass

@pytest.mark.parametrize("case", range(40))
def test_alone(case):
    pass
"""


def test_a_fixture_of_a_module_is_made_once(tmp_path):
    (tmp_path / "conftest.py").write_text(CONFTEST)
    (tmp_path / "test_it.py").write_text(TESTS)
    options = ["-n", "2", "--dist", "loadgroup", "-p", "no:cacheprovider", "--rootdir", str(tmp_path)]
    done = subprocess.run(
        [sys.executable, "-m", "pytest", *options, str(tmp_path)],
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )
    assert "80 passed" in done.stdout, done.stdout + done.stderr
    assert len((tmp_path / "made").read_text().split()) == 1
