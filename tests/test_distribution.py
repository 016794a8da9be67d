import subprocess
import sys
from pathlib import Path

import pytest

CONFTEST = """
from tests.distribution import CrashProof

def pytest_xdist_make_scheduler(config, log):
    return CrashProof(config, log)
"""
TESTS = """
import os
import pytest

@pytest.mark.parametrize("case", range(40))
def test(case):
    if case in {crashing}:
        os._exit(3)

@pytest.mark.xdist_group("together")
@pytest.mark.parametrize("case", range(5))
def test_group(case):
    if case == {in_group}:
        os._exit(3)
"""
CRASH_OF_THE_LAST = """
import os
import time
from pathlib import Path
import pytest

@pytest.mark.parametrize("case", range(6))
def test(case):
    begun = Path(__file__).with_name("begun")
    if case == 1:
        os._exit(3)
    if case == 0:
        while not begun.exists():
            time.sleep(0.01)
        os._exit(3)
    if case == 3:
        begun.touch()
        time.sleep(1)
"""


@pytest.mark.parametrize("crashing, in_group", [({11}, -1), ({11, 12, 39}, 2), (set(), 4)])
def test_a_worker_that_crashes_fails_the_test_that_it_ran_and_no_other(
    tmp_path: Path, crashing: set[int], in_group: int
) -> None:
    failed = len(crashing) + (in_group >= 0)
    printed = _printed_by(tmp_path, TESTS.format(crashing=crashing or "()", in_group=in_group))
    assert f"{failed} failed, {45 - failed} passed" in printed, printed


def test_a_test_that_crashed_is_not_given_to_a_new_worker_that_has_little_to_do(tmp_path: Path) -> None:
    printed = _printed_by(tmp_path, CRASH_OF_THE_LAST)
    assert "2 failed, 4 passed" in printed, printed


def _printed_by(folder: Path, tests: str) -> str:
    """What pytest prints, with two workers, of a file of tests."""
    (folder / "conftest.py").write_text(CONFTEST)
    (folder / "test_it.py").write_text(tests)
    options = ["-q", "-n", "2", "--dist", "loadgroup", "-p", "no:cacheprovider", "--rootdir", str(folder)]
    done = subprocess.run(
        [sys.executable, "-m", "pytest", *options, str(folder)],
        capture_output=True,
        text=True,
        timeout=120,
    )
    return done.stdout + done.stderr
