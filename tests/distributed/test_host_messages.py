"""Bytes through Gloo, between members that are threads here: what comes, and what is said of one that does not."""

from concurrent.futures import ThreadPoolExecutor
from datetime import timedelta
from threading import Event

import pytest

torch = pytest.importorskip("torch")
from torch._C._distributed_c10d import HashStore  # noqa: E402
from torch.distributed import ProcessGroupGloo  # noqa: E402

from xloom.errors import DistributedError  # noqa: E402
from xloom.torch.lazy.distributed.host_messages import HostMessages  # noqa: E402
from xloom.torch.lazy.distributed.torch_store import TorchStore  # noqa: E402
from xloom.torch.lazy.distributed.waiting_board import WaitingBoard  # noqa: E402

NAMES = (4, 7)
"""The members' numbers among all processes."""
LARGE = 1 << 20
SHORT = 0.3
"""Seconds."""


@pytest.fixture
def members(request):
    """What calls a function of rank and messages in as many threads at once as there are names, and gives what each
    returns or raises."""
    names = getattr(request, "param", NAMES)
    store, count = HashStore(), len(names)
    with ThreadPoolExecutor(count) as threads:
        groups = list(
            threads.map(lambda rank: ProcessGroupGloo(store, rank, count, timedelta(seconds=60)), range(count))
        )

        def run(function, seconds=60.0):
            boards = [WaitingBoard(TorchStore(store), name, seconds) for name in names]
            sides = [HostMessages(group, names, board) for group, board in zip(groups, boards, strict=True)]
            calls = [threads.submit(function, rank, side) for rank, side in enumerate(sides)]
            return [call.exception() or call.result() for call in calls]

        yield run


def data(rank, nbytes):
    return (torch.arange(nbytes) * (rank + 3)).to(torch.uint8)


@pytest.mark.parametrize("sizes", [(0, 0), (5, 3), (5, LARGE), (LARGE, LARGE)])
def test_what_comes(members, sizes):
    def swap(rank, messages):
        for _ in range(3):
            found = messages.swap("sizes", {1 - rank: data(rank, sizes[rank])}, {1 - rank: sizes[1 - rank]})
        return found[1 - rank]

    for rank, found in enumerate(members(swap)):
        assert torch.equal(found, data(1 - rank, sizes[1 - rank]))


@pytest.mark.parametrize("sizes", [(8, 12), (LARGE, LARGE + 4), (8, LARGE)])
def test_members_at_something_else_say_so_and_may_go_on(members, sizes):
    def swap(rank, messages):
        try:
            messages.swap(f"u8[{sizes[rank]}]", {1 - rank: data(rank, sizes[rank])}, {1 - rank: sizes[rank]})
        except DistributedError as error:
            return str(error), messages.swap("next", {1 - rank: data(rank, LARGE)}, {1 - rank: LARGE})[1 - rank]
        raise AssertionError("these fit")

    for rank, (said, found) in enumerate(members(swap)):
        at = f"process {NAMES[rank]} is at u8[{sizes[rank]}], and process {NAMES[1 - rank]} at u8[{sizes[1 - rank]}]"
        assert said.startswith(at)
        assert torch.equal(found, data(1 - rank, LARGE))


def test_who_is_late_is_named(members):
    gave_up = Event()

    def swap(rank, messages):
        if rank:
            gave_up.wait()
            return messages.swap("f32[2]", {0: data(rank, 8)}, {0: 8})
        try:
            return messages.swap("f32[2]", {1: data(rank, 8)}, {1: 8})
        finally:
            gave_up.set()

    error, theirs = members(swap, SHORT)
    assert str(error).startswith("process 4 has waited "), error
    assert "s for process 7, which does not come to f32[2]" in str(error)
    assert "s for process 4 at f32[2], and lost it: " in str(theirs)  # Gloo closes what it has waited for in vain


@pytest.mark.parametrize("members", [(4, 7, 9)], indirect=True)
def test_who_only_waits_is_not_named_alone(members):
    gave_up = Event()

    def swap(rank, messages):
        if rank == 2:  # is gone
            return gave_up.wait()
        try:
            other = 2 - 2 * rank
            return messages.swap(f"f32[{rank}]", {other: data(rank, 8)}, {other: 8})
        finally:
            gave_up.set()

    first, second, _ = members(swap, 10 * SHORT)  # who waits writes it within that, also on a busy machine
    assert "s for process 9, which does not come to f32[0]" in str(first)
    assert "s for process 4" in str(second)
    assert " for process 9 at f32[0]" in str(second)
