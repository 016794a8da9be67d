"""What processes, which are threads here, write of whom they wait for, and read of each other."""

import time

import pytest

torch = pytest.importorskip("torch")
from torch._C._distributed_c10d import HashStore  # noqa: E402

from xloom.torch.lazy.distributed.torch_store import TorchStore  # noqa: E402
from xloom.torch.lazy.distributed.waiting_board import Wait, Waiting, WaitingBoard  # noqa: E402

SECONDS = 0.4
PATIENCE = 60.0
"""Seconds in which a thread, which should write after a fraction of those, has done so on a machine with other work."""


def until_behind(board, wait, expected):
    end = time.monotonic() + PATIENCE
    while (found := board.behind(wait)) != expected and time.monotonic() < end:
        time.sleep(SECONDS / 8)
    assert found == expected


@pytest.fixture
def boards():
    store = HashStore()
    return [WaitingBoard(TorchStore(store), process, SECONDS) for process in range(4)]


def test_whom_others_wait_for(boards):
    with boards[1].waiting(Wait("sum", 2)), boards[2].waiting(Wait("gather", 3)):
        until_behind(boards[0], Wait("sum", 1), [Waiting(2, "sum"), Waiting(3, "gather")])
        assert boards[0].behind(Wait("sum", 3)) == []


def test_who_waits_for_each_other(boards):
    with boards[1].waiting(Wait("sum", 2)), boards[2].waiting(Wait("gather", 1)):
        time.sleep(SECONDS)
        assert boards[0].behind(Wait("sum", 1)) == []


def test_what_is_over_is_taken_back(boards):
    with boards[1].waiting(Wait("sum", 2)):
        until_behind(boards[0], Wait("sum", 1), [Waiting(2, "sum")])
    until_behind(boards[0], Wait("sum", 1), [])


def test_what_is_given_up_stays_until_the_next(boards):
    with boards[1].waiting(Wait("sum", 2)):
        boards[1].behind(Wait("sum", 2))
    assert boards[0].behind(Wait("gather", 1)) == [Waiting(2, "sum")]
    with boards[1].waiting(Wait("sum", 2)):
        time.sleep(SECONDS / 2)
    until_behind(boards[0], Wait("gather", 1), [])


def test_a_store_that_does_not_answer(boards, monkeypatch):
    class Stopped(TorchStore):
        def try_get(self, key):
            time.sleep(SECONDS)
            return None

    monkeypatch.setattr("xloom.torch.lazy.distributed.waiting_board._ANSWER", SECONDS / 4)
    with (board := WaitingBoard(Stopped(HashStore()), 0, SECONDS)).waiting(Wait("sum", 1)):
        assert board.behind(Wait("sum", 1)) is None
