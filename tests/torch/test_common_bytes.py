"""Which parts of memories have bytes in common, and what that is for."""

import random

import torch

import xloom.torch  # noqa: F401 - it registers the device
from xloom.torch.lazy.tensor.common_bytes import with_common_bytes


def test_pairs_are_those_that_overlap():
    draw = random.Random(3)
    for _ in range(200):
        parts = [(draw.randrange(2), start := draw.randrange(20), start + draw.randrange(6), k) for k in range(8)]
        wanted = {
            frozenset((a[3], b[3]))
            for a in parts
            for b in parts
            if a is not b and a[0] == b[0] and max(a[1], b[1]) < min(a[2], b[2])
        }
        assert {frozenset(pair) for pair in with_common_bytes(parts)} == wanted


def test_operators_of_parts_of_one_memory():
    """Those that lie apart, in one step; those that lie across one another, one after another as on the CPU."""
    for step in (3, 2):
        found = []
        for device in ("cpu", "xla"):
            memory = torch.arange(12.0).to(device)
            parts = [memory[k : k + 3] for k in range(0, 9, step)]
            torch.ops.aten._foreach_add_.List(parts, parts[::-1])
            found.append(memory.cpu())
        assert torch.equal(*found), step
