"""Two machines, whose network is simulated: what programs compute there, and what they say when it fails."""

import re
import subprocess
import sys
import time
from typing import Any

import pytest

from tests.distributed import machines, test_faults, test_two_processes
from tests.distributed.machines import network
from tests.distributed.network_faults import outcome
from tests.distributed.processes import finish, start
from xloom.distributed import library

pytest.importorskip("jax")
WHY_NOT = library.find().why_not or machines.why_not()
pytestmark = pytest.mark.skipif(bool(WHY_NOT), reason=WHY_NOT)

LIMIT = 8.0
"""TCP tries again after pauses that double: what it lost has come by then."""
PROGRAMS = ("sums", "gathers", "exchanges", "permutes", "to_devices_of_another_process")
"""A few of those of test_two_processes.py."""
WAITED = (
    r"(?P<until>[\d.]+) s ABORTED: process {} has waited (?P<waited>[\d.]+) s for process {}, "
    r"which does not come to psum \(all-.*faults.py:\d+\)"
)
FAULTS = {
    "network_loses": (r"[\d.]+ s no error",) * 2,
    "network_comes_back": (r"[\d.]+ s no error",) * 2,
    "network_is_cut": (WAITED.format(0, 1), WAITED.format(1, 0)),
    "network_is_cut_while_data_moves": (WAITED.format(0, 1), WAITED.format(1, 0)),
}
"""What both processes say, after which both go on."""


def check(said: str, fault: str, pattern: str) -> None:
    line = next((text for text in said.splitlines() if text.startswith(f"{fault}: ")), "")
    found = re.match(pattern, line.removeprefix(f"{fault}: "))
    assert found, said
    if "waited" in found.groupdict():
        assert LIMIT <= float(found["waited"]) < LIMIT + 60, said
    assert f"{fault}: afterwards 2.0" in said


@pytest.fixture(scope="module")
def ended():
    return outcome(*FAULTS, limit=LIMIT, timeout=600)


@pytest.mark.long
@pytest.mark.parametrize("fault", FAULTS)
def test_who_waits_for_a_network_gets_an_error_and_may_go_on(ended, fault):
    for (status, said, errors), pattern in zip(ended[0], FAULTS[fault], strict=True):
        check(said, fault, pattern)
        assert status == 0, errors
    if fault == "network_loses":
        assert ended[1] > 0


def test_programs():
    with network(2) as between:
        for status, out, errors in finish(start(test_two_processes.PROGRAMS, PROGRAMS, network=between)):
            assert status == 0, errors
            for name in PROGRAMS:
                assert f"ok {name}\n" in out, out


def test_a_start_has_more_time_than_a_run():
    # a send that is tried for a hundredth of a second does not reach a process that has not begun
    with network(2) as between:
        variables: dict[str, Any] = {"XLOOM_DISTRIBUTED_TIMEOUT": "0.01"}
        for status, out, errors in finish(
            start(test_two_processes.PROGRAMS, ["devices_of_all_processes"], network=between, **variables)
        ):
            assert status == 0, errors
            assert "ok devices_of_all_processes\n" in out, out


BEGINS = """
from xloom.distributed.network import Host, choice, here
print(choice([here(), Host("another", (("eth0", "10.77.0.2"),))], 0, {})["FI_TCP_IFACE"])
"""


def test_an_interface_that_does_not_run_yet_is_waited_for():
    # MPI passes over one whose wire has just been plugged in, and ends the process
    def begin(patience: float) -> subprocess.Popen[str]:
        command = between.machines[0].command(sys.executable, "-c", BEGINS.format(patience))
        return subprocess.Popen(
            command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
        )

    with network(2) as between:
        between.cut(0)
        ((_, _, errors),) = finish([begin(0.1)])
        assert "eth0, by which other machines are reached, has not run for 0.1 s" in errors
        waits = begin(60)
        time.sleep(0.5)
        between.mend(0)
        assert finish([waits]) == [(0, "eth0\n", "")]


@pytest.mark.parametrize("fault", ["ends", "dies"])
def test_who_is_gone_from_another_machine_ends_nobody_else(fault):
    with network(2) as between:
        (status, said), other = test_faults.outcome(fault, between=between)
    assert status == 0, f"{said}\nof the other, {other}"
    test_faults.check(said, fault, test_faults.FATAL[fault])
