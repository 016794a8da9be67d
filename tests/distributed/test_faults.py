"""Processes that die, stop, are late or run something else: the others get an error that says which and what."""

import re
import signal
from pathlib import Path

import pytest

from tests.distributed.machines import Network
from tests.distributed.processes import finish, start
from xloom.distributed import library

pytest.importorskip("jax")
pytestmark = pytest.mark.skipif(not library.find().path, reason=library.find().why_not)

FAULTS = Path(__file__).with_name("faults.py")
LIMIT = 4.0
"""Machines have other work: a process that is not run for some seconds is not gone."""

SOON = r"[\d.]+ s ABORTED: "
"""Machines have other work: what tells that it was not the time-out is what is said."""
GONE = r"(?P<until>[\d.]+) s ABORTED: process 0 has waited (?P<waited>[\d.]+) s for process 1, .* to {}.*faults.py:"
ENDED = rf"{SOON}process 1 failed, for which process 0 waited .* at psum .*: process 1 has ended$"

FATAL = {
    "dies": GONE.format("psum"),
    "stops": GONE.format("psum"),
    "dies_while_data_moves": GONE.format("(psum|all_gather)"),
    "ends": ENDED,
    "ends_by_an_error": ENDED,
    "ends_after_an_error": rf"{ENDED[:-1]}, after an error: process 1 is at psum ",
    "goes_on_without": GONE.format("psum"),
}
"""What the first process says."""


def differ(process: int, mine: str, theirs: str) -> str:
    return rf"{SOON}process {process} is at {mine}.*, and process {1 - process} at {theirs}"


def both_differ(*sides: str) -> tuple[str, str]:
    return differ(0, *sides), differ(1, *reversed(sides))


OTHERS = {
    "stands_still": (r"([8-9]|\d\d+)\.\d s no error",) * 2,
    # what a small collective needs of the first was sent to the late one before
    "is_slow": (GONE.format("psum"), r"([7-9]|\d\d+)\.\d s no error"),
    "is_slow_with_much": (
        GONE.format("psum"),
        r"([7-9]|\d\d+)\.\d s ABORTED: process 0 failed, for which process 1 waited [0-3]\..*",
    ),
    # by the error of the first of them the last one failed, too, unless it was launched after that had been told
    "is_slow_for_several": (
        GONE.format(r"psum \(all-gather f32\[2,1,[456]\], "),
        r".* ABORTED: process 0 failed, for which process 1 waited .* at psum \(all-gather f32\[2,1,[456]\], ",
    ),
    "is_slow_for_what_is_launched_later": (
        GONE.format(r"psum \(all-to-all f32\[2,524288\], "),
        r".* ABORTED: process 0 failed, for which process 1 waited .* at psum \(all-gather f32\[2,1,4\], ",
    ),
    "other_order": both_differ(r"psum \(all-gather f32\[2,1,4\], .*faults.py:\d+\)", r"all_gather \(all-gather "),
    "other_shape": both_differ(r"psum \(all-gather f32\[2,1,4\], ", r"psum \(all-gather f32\[2,1,5\], "),
    "other_large_shape": both_differ(r"psum \(all-to-all f32\[2,32768\], ", r"psum \(all-to-all f32\[2,32770\], "),
    "leaves_a_loop": both_differ(
        r"while/body/ppermute \(collective-permute f32\[1,4\], .*faults.py:\d+\)", r"psum \(all-gather "
    ),
    "raises": (rf"{SOON}process 1 failed, for which process 0 waited .* at psum .*: not this time", ".* not this time"),
}
"""What both say, after which both go on."""


def outcome(*faults: str, count: int = 2, between: Network | None = None) -> list[tuple[int, str]]:
    """How each process ended, and what it said."""
    processes = start(FAULTS, faults, count, devices=1, network=between, XLOOM_DISTRIBUTED_TIMEOUT=str(LIMIT))
    try:
        if faults == ("stops",):
            first = processes[0].communicate(timeout=900)[0]
            processes[1].send_signal(signal.SIGKILL)
            return [(processes[0].returncode, first), (processes[1].wait(), "")]
        return [(status, out + errors) for status, out, errors in finish(processes, timeout=900)]
    finally:
        for process in processes:
            process.kill()
            process.communicate()


def check(said: str, fault: str, pattern: str) -> None:
    line = next((text for text in said.splitlines() if text.startswith(f"{fault}: ")), "")
    found = re.match(pattern, line.removeprefix(f"{fault}: "))
    assert found, said
    if "waited" in found.groupdict():
        assert LIMIT <= float(found["waited"]) <= float(found["until"]) < LIMIT + 60, said


@pytest.mark.parametrize("fault", ["dies", "stops", "dies_while_data_moves", "ends", "ends_after_an_error"])
def test_who_waits_for_one_that_is_gone_gets_an_error(fault):
    (status, said), other = outcome(fault)
    assert status == 0, f"{said}\nof the other, {other}"
    check(said, fault, FATAL[fault])


def test_who_is_a_run_ahead_hears_for_whom_the_others_have_waited():
    (status, said), *others = outcome("is_ahead", count=3)
    assert status == 0, f"{said}\nof the others, {others}"
    blamed = r"; the run before has failed there: process 1: process 1 has waited .* for process 2"
    check(said, "is_ahead", rf"{SOON}process 0 has waited .* for process 1, which does not come to psum .*{blamed}")


@pytest.fixture(scope="module")
def both():
    return outcome(*OTHERS)


@pytest.mark.parametrize("fault", OTHERS)
def test_both_get_an_error_and_may_go_on(both, fault):
    for (status, said), pattern in zip(both, OTHERS[fault], strict=True):
        assert status == 0, said
        check(said, fault, pattern)
        assert f"{fault}: afterwards 2.0" in said


@pytest.mark.long
def test_what_was_sent_to_a_run_that_failed_reaches_no_other():
    shapes = (r"psum \(all-to-all f32\[2,8192\], ", r"psum \(all-to-all f32\[2,8194\], ")
    both = outcome("other_middle_shape")
    for (status, said), pattern in zip(both, both_differ(*shapes), strict=True):
        assert status == 0, said
        check(said, "other_middle_shape", pattern)
        assert "other_middle_shape: afterwards 2.0" in said
