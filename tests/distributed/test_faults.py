"""Processes that die, stop, are late or run something else: the others get an error that says which and what."""

import re
import signal
from pathlib import Path

import pytest

from tests.distributed.processes import finish, start
from xloom.distributed import library

pytest.importorskip("jax")
pytestmark = pytest.mark.skipif(not library.find().path, reason=library.find().why_not)

FAULTS = Path(__file__).with_name("faults.py")
LIMIT = 2.0


def outcome(fault: str) -> list[tuple[int, str]]:
    processes = start(FAULTS, [fault], devices=1, XLOOM_DISTRIBUTED_TIMEOUT=str(LIMIT))
    try:
        if fault == "stops":
            first = processes[0].communicate(timeout=60)[0]
            processes[1].send_signal(signal.SIGKILL)
            return [(processes[0].returncode, first), (processes[1].wait(), "")]
        return [(status, out) for status, out, _ in finish(processes, timeout=60)]
    finally:
        for process in processes:
            process.kill()
            process.communicate()


@pytest.mark.parametrize("fault", ["dies", "stops", "dies_while_data_moves"])
def test_who_waits_for_one_that_is_gone_gets_an_error(fault):
    (status, said), (other, _) = outcome(fault)
    assert status == 0
    assert other == -signal.SIGKILL
    found = re.match(
        r"([\d.]+) s ABORTED: process 0 has waited ([\d.]+) s for process 1, .* to (psum|all_gather)", said
    )
    assert found, said
    assert "faults.py:" in said
    assert LIMIT <= float(found[2]) <= float(found[1]) < LIMIT + 3


def test_who_is_late_is_not_waited_for_and_may_come_again():
    """What a small collective needs of the first process was sent to the late one before."""
    (_, said), (_, late) = outcome("is_slow")
    assert "process 0 has waited 2.0 s for process 1" in said
    assert "no error" in late
    assert "afterwards 2.0" in said
    assert "afterwards 2.0" in late


@pytest.mark.parametrize(
    ("fault", "mine", "theirs"),
    [
        ("other_order", r"psum \(all-gather f32\[2,1,4\], .*faults.py:\d+\)", r"all_gather \(all-gather "),
        ("other_shape", r"psum \(all-gather f32\[2,1,4\], ", r"psum \(all-gather f32\[2,1,5\], "),
        ("other_large_shape", r"psum \(all-to-all f32\[2,32768\], ", r"psum \(all-to-all f32\[2,32770\], "),
    ],
)
def test_another_program_is_noticed_at_once(fault, mine, theirs):
    both = outcome(fault)
    for process, (_, said) in enumerate(both):
        here, there = (mine, theirs) if process == 0 else (theirs, mine)
        pattern = rf"0\.\d s ABORTED: process {process} is at {here}.*, and process {1 - process} at {there}"
        assert re.match(pattern, said), said
        assert "afterwards 2.0" in said


def test_a_failure_is_told_to_the_others():
    (_, said), (_, failed) = outcome("raises")
    assert "ValueError: not this time" in failed
    assert re.match(r"0\.\d s ABORTED: process 1 failed, for which process 0 waited .* at psum .*: not this time", said)
    assert "afterwards 2.0" in said and "afterwards 2.0" in failed
