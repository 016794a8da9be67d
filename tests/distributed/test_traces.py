"""What several processes did is one trace, with what they waited for; lines of their logs say whose they are."""

import json
import re
from pathlib import Path

import pytest

from tests.distributed.processes import finish, start
from xloom.distributed import library

pytest.importorskip("jax")
pytestmark = pytest.mark.skipif(not library.find().path, reason=library.find().why_not)

TRACED = Path(__file__).with_name("traced.py")


@pytest.fixture(scope="module")
def taken(tmp_path_factory):
    """The events, and each process's errors."""
    path = tmp_path_factory.mktemp("traces") / "trace.json"
    ended = finish(start(TRACED, XLOOM_TRACE=str(path), XLOOM_LOG="pjrt"))
    for status, _, errors in ended:
        assert status == 0, errors
    assert list(path.parent.iterdir()) == [path]
    return json.loads(path.read_text())["traceEvents"], [errors for _, _, errors in ended]


def test_the_trace_has_the_kernels_of_both(taken):
    events, _ = taken
    for process in range(2):
        assert {e["cat"] for e in events if e["pid"] == process and e["ph"] == "X"} >= {"compile", "execute", "kernel"}
    named = {e["pid"]: e["args"]["name"] for e in events if e["name"] == "process_name"}
    assert named[0].startswith("process 0 on ") and named[1].startswith("process 1 on ")


def test_the_trace_shows_who_waited_for_whom(taken):
    events, _ = taken
    waits = [e for e in events if e.get("cat") == "exchange" and "ppermute" not in e["args"]["collective"]]
    assert {(e["pid"], e["name"]) for e in waits} == {(0, "wait for process 1"), (1, "wait for process 0")}
    assert all("psum" in e["args"]["collective"] and "traced.py:" in e["args"]["collective"] for e in waits)
    assert max(e["dur"] for e in waits if e["pid"] == 0) > 0.2e6  # the second one slept for so long
    tracks = {e["args"]["name"] for e in events if e["name"] == "thread_name"}
    assert {"between processes: devices 0, 1", "between processes: devices 2048, 2049"} <= tracks


def test_where_one_waits_alone_says_nothing_of_clocks(taken):
    events, _ = taken
    passed = [e for e in events if "ppermute" in e.get("args", {}).get("collective", "") and "peer" in e["args"]]
    both = [e for e in passed if e["cat"] == "exchange"]
    numbers = [[e["args"]["number"] for e in both if e["pid"] == process] for process in range(2)]
    assert numbers[0] == numbers[1] and len(numbers[0]) == 1
    assert [e["pid"] for e in passed if e["cat"] == "wait"] == [1] * 4


def test_a_wait_lies_within_its_collective(taken):
    events, _ = taken
    for wait in (e for e in events if e.get("cat") == "exchange"):
        assert any(
            e["pid"] == wait["pid"] and e["ts"] <= wait["ts"] and wait["ts"] + wait["dur"] <= e["ts"] + e["dur"]
            for e in events
            if e.get("cat") == "collective"
        )


def test_lines_of_the_log_say_whose_they_are(taken):
    _, errors = taken
    for process, said in enumerate(errors):
        # what comes before the processes have met is nobody's
        calls = re.findall(r"^(.*)PJRT_LoadedExecutable_\w+\(", said, re.M)
        assert calls and set(calls) == {f"[process {process}] "}
