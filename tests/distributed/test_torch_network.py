"""PyTorch on two machines, whose network is simulated: programs, torchrun, and a process that dies on the other one."""

import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from tests.distributed import machines
from tests.distributed.machines import Network, network
from tests.distributed.processes import finish, start
from tests.distributed.test_torch import PROGRAMS, check, losses
from xloom.distributed import library

pytest.importorskip("torch")
WHY_NOT = library.find().why_not or machines.why_not()
pytestmark = pytest.mark.skipif(bool(WHY_NOT), reason=WHY_NOT)

EXAMPLE = Path(__file__).parent.parent.parent / "examples" / "train_fsdp2.py"
BETWEEN_MACHINES = ("reductions", "exchanges", "fully_sharded")
"""A few of those of test_torch.py."""
LIMIT = 4.0


def test_programs():
    with network(2) as between:
        ended = finish(start(PROGRAMS, BETWEEN_MACHINES, network=between))
    for name in BETWEEN_MACHINES:
        check(ended, name)


@pytest.mark.long
def test_torchrun_on_each_machine():
    def job(between: Network, number: int) -> subprocess.Popen[str]:
        # machines have one name here: by it alone torchrun takes one for the other
        meet = ["--rdzv-backend", "c10d", "--rdzv-endpoint", f"{between.address(0)}:29500"]
        meet += ["--local-addr", between.address(number), "--nnodes", "2", "--nproc-per-node", "1"]
        command = [sys.executable, "-m", "torch.distributed.run", *meet, str(EXAMPLE), "--steps", "20"]
        streams: dict[str, Any] = {"stdin": subprocess.DEVNULL, "stdout": subprocess.PIPE, "stderr": subprocess.PIPE}
        return subprocess.Popen(between.machines[number].command(*command), text=True, **streams)

    alone = [sys.executable, str(EXAMPLE), "--steps", "20"]
    ((status, wanted, errors),) = finish(
        [subprocess.Popen(alone, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)]
    )
    assert status == 0, errors
    with network(2) as between:
        ended = finish([job(between, number) for number in range(2)])
    assert [status for status, _, _ in ended] == [0, 0], ended
    numbers = [
        [float(each.split()[-1]) for each in losses(text)] for text in ("".join(out for _, out, _ in ended), wanted)
    ]
    assert len(numbers[0]) == 2
    assert numbers[0] == pytest.approx(numbers[1], abs=1e-4)  # parts of sums are others


@pytest.mark.long
def test_who_dies_on_another_machine_is_named():
    with network(2) as between:
        (_, said, errors), (status, _, _) = finish(
            start(PROGRAMS, ["one_dies"], network=between, XLOOM_DISTRIBUTED_TIMEOUT=str(LIMIT))
        )
    assert status < 0
    assert re.search(r"process 0 has waited [\d.]+ s for process 1, which does not come to ", said), said + errors
