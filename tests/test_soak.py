"""`make soak`: each activity does a round, and what grows, is wrong or is left behind is said."""

import os
import signal
import subprocess
import sys

import pytest

from tests.judges.soak import __main__ as harness
from tests.judges.soak import usage
from tests.judges.soak.activities import ACTIVITIES
from tests.judges.soak.usage import adopting, descendants, growth, usage_of, working


@pytest.mark.parametrize("name", ["dispatches", "compilations", "cancellations", "full_disks", "processes"])
def test_a_round(name):
    assert next(ACTIVITIES[name]()) > 0


def test_what_a_process_holds():
    mine = usage_of(os.getpid(), 1 << 20)
    assert mine.memory > 1 and mine.kept == 1 and mine.files >= 3 and mine.threads >= 1
    with subprocess.Popen([sys.executable, "-c", "input()"], stdin=subprocess.PIPE) as child:
        assert child.pid in descendants(os.getpid()) and usage_of(os.getpid(), 0).processes >= 1
        child.communicate(b"\n")


def test_a_process_that_its_parent_leaves_behind_is_found():
    code = "import subprocess as s; print(s.Popen(['sleep', '60'], stdout=s.DEVNULL, stderr=s.DEVNULL).pid)"
    before = descendants(os.getpid())
    with adopting():
        done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
        left = working(descendants(os.getpid()) - before)
        os.kill(int(done.stdout), signal.SIGKILL)
        assert os.waitpid(int(done.stdout), 0)[0] in left


def test_a_thread_that_ends_while_processes_are_looked_for_has_none(tmp_path, monkeypatch):
    monkeypatch.setattr(usage, "_PROC", tmp_path)
    for process, task, children in ((7, 1, "8 9"), (8, 1, "")):
        place = tmp_path / str(process) / "task" / str(task)
        place.mkdir(parents=True)
        (place / "children").write_text(children)
    (tmp_path / "7" / "task" / "2").mkdir()
    assert descendants(7) == {8}


def test_what_grows_only_at_first_does_not_grow():
    assert growth([1, 5, 9, 10, 10, 10, 10, 10, 10]) == 0
    assert growth([1, 2, 3, 4, 5, 6, 7, 8, 9]) == 3


def test_a_short_run_and_one_that_is_wrong(tmp_path, monkeypatch):
    monkeypatch.setattr(harness, "_TURN", 0.5)
    found = harness.soak(["dispatches"], 0.05, tmp_path)
    assert found["activities"]["dispatches"]["done"] > 0 and harness.failures(found) == []
    each = {"wrong": ["AssertionError: x"], "leaks": ["files"]}
    wrong = {"activities": {"training": each}, "processes left": 1, "files left": ["a"]}
    said = ["training: AssertionError: x", "training: files grow", "1 processes are left", "a is left"]
    assert harness.failures(wrong) == said
