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


@pytest.mark.parametrize("crashing, in_group", [({11}, -1), ({11, 12, 39}, 2), (set(), 4)])
def test_a_worker_that_crashes_fails_the_test_that_it_ran_and_no_other(
    tmp_path: Path, crashing: set[int], in_group: int
) -> None:
    (tmp_path / "conftest.py").write_text(CONFTEST)
    (tmp_path / "test_it.py").write_text(TESTS.format(crashing=crashing or "()", in_group=in_group))
    options = ["-q", "-n", "2", "--dist", "loadgroup", "-p", "no:cacheprovider", "--rootdir", str(tmp_path)]
    done = subprocess.run(
        [sys.executable, "-m", "pytest", *options, str(tmp_path)],
        capture_output=True,
        text=True,
        timeout=120,
    )
    failed = len(crashing) + (in_group >= 0)
    assert f"{failed} failed, {45 - failed} passed" in done.stdout, done.stdout + done.stderr
