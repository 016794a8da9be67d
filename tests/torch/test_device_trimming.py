"""The tree of traces is bounded: programs that ran long ago are forgotten, and compiled again when they come back."""

import pytest
import torch

from xloom.torch.lazy.recording import trimming
from xloom.torch.lazy.recording.table import HANDLERS
from xloom.torch.lazy.recording.trace import TRACE
from xloom.torch.lazy.runtime.execution import flush
from xloom.torch.metrics import METRICS


def run(number):
    """A program of its own for each number below 128: other sizes or constants would share one."""
    x, expected = torch.ones(8, device="xla"), 1
    for k in range(7):
        x, expected = (x * 2, expected * 2) if number >> k & 1 else (x + 1, expected + 1)
    assert x.sum().item() == 8 * expected


def compiled_by(function):
    before = METRICS.programs
    function()
    return METRICS.programs - before


@pytest.mark.parametrize("bound", ["MOST_PROGRAMS", "MOST_NODES"])
def test_programs_that_ran_long_ago_are_forgotten(monkeypatch, bound):
    flush()
    monkeypatch.setattr(trimming, "MOST_PROGRAMS", 10_000)
    monkeypatch.setattr(trimming, "MOST_NODES", 1_000_000)
    run(100)
    monkeypatch.setattr(trimming, bound, 8 if bound == "MOST_PROGRAMS" else 60)
    for number in range(20):
        run(number)
        assert compiled_by(lambda: run(0)) == 0 or number == 0  # it is used all the time
    assert TRACE.programs <= 9 and TRACE.nodes <= 70
    assert compiled_by(lambda: run(19)) == 0
    assert compiled_by(lambda: run(5)) > 0
    nodes = list(TRACE.roots.values())
    for node in nodes:
        nodes.extend(node.next.values())
    assert len(nodes) - len(TRACE.roots) == TRACE.nodes
    assert sum(len(node.programs) for node in nodes) == TRACE.programs


def test_signatures_and_views_of_numbers_that_ever_change_are_forgotten(monkeypatch):
    monkeypatch.setattr(trimming, "MOST_SIGNATURES", 8)
    x = torch.arange(40.0).reshape(20, 2)
    ours = x.to("xla")
    for k in range(20):
        assert ours.roll(k, 0).cpu().equal(x.roll(k, 0))
        assert ours[k].cpu().equal(x[k])
    roll = HANDLERS[id(torch.ops.aten.roll.default)]
    (record,) = (cell.cell_contents for cell in roll.__closure__ or ())
    assert len(record.__self__.signatures) <= 8
