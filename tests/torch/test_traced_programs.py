"""Programs of torch that were compiled before a trace began."""

from functools import partial

import pytest
import torch

import xloom.torch
from xloom.trace import trace


def synced(x):
    result = torch.tanh(x) @ x
    xloom.torch.sync()
    return result


@pytest.mark.parametrize("door", ["compile", "device"])
def test_their_kernels_are_in_it(door):
    if door == "compile":
        compiled = torch.compile(lambda x: torch.tanh(x) @ x, backend="xloom")
        x = torch.eye(8)
        run = partial(compiled, x)
    else:
        run = partial(synced, torch.eye(8, device="xla"))

    run()  # of which the device makes x too
    before = run().cpu()
    with trace() as taken:
        after = run().cpu()
    assert torch.equal(before, after)
    assert {"tanh", "dot"} <= {s["args"]["opcode"] for s in taken.spans("kernel")}, taken.spans("kernel")
    (compiled_again,) = [s for s in taken.spans("compile") if "note" in s["args"]]
    assert "older than the trace" in compiled_again["args"]["note"]


def test_steps():
    x = torch.eye(8, device="xla")
    with trace() as taken:
        for _ in range(3):
            x = x + 1
            xloom.torch.sync()
        with xloom.torch.step():
            x = x * 2
    first, second, region = taken.spans("step")
    assert first["name"] != second["name"] and region["name"] == "step"
    assert first["ts"] + first["dur"] <= second["ts"] + 0.001  # they are rounded to nanoseconds
