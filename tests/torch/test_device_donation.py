"""What is updated in place stays in its memory, unless anybody can still ask for what was there before."""

import copy

import pytest
import torch
from torch import nn

import xloom.torch as xt
from xloom.torch.metrics import METRICS

SIDES = [100, 1500]  # programs that run at once, and those of the device's thread


@pytest.fixture(autouse=True)
def fresh():
    xt.sync(wait=True)
    xt.metrics.clear()


def square(side, value=0.0):
    made = torch.full((side, side), value).to("xla")
    xt.sync(wait=True)
    return made


def place(tensor):
    """Where its elements are, once they are."""
    xt.sync(wait=True)
    return tensor._alias.read().buffer.ready.result().ctypes.data


@pytest.mark.parametrize("side", SIDES)
def test_an_update_stays_where_it_was(side):
    p, step = square(side), square(side, 1.0)
    before = place(p)
    for k in range(4):
        p.add_(step, alpha=0.5)
        assert place(p) == before
        assert METRICS.donated == k + 1
    assert METRICS.programs == 1
    assert p[-1, -1].item() == 2.0


def test_a_part_that_is_written_leaves_the_rest_where_it_is():
    cache = square(300)
    before = place(cache)
    for k in range(3):
        cache[7] = k + 0.5
        assert place(cache) == before
    host = cache.cpu()
    assert host[7].eq(2.5).all() and host[6].eq(0).all() and host[8].eq(0).all()


def test_parameters_and_what_the_optimiser_keeps_are_updated_in_place():
    torch.manual_seed(0)
    model = nn.Sequential(nn.Linear(128, 128), nn.Tanh(), nn.Linear(128, 128)).to("xla")
    optimizer = torch.optim.Adam(model.parameters())
    x = torch.randn(16, 128).to("xla")

    def step():
        optimizer.zero_grad()
        model(x).square().mean().backward()
        optimizer.step()

    for _ in range(3):
        step()
    state = [optimizer.state[p][name] for p in model.parameters() for name in ("exp_avg", "exp_avg_sq") if p.dim() == 2]
    weights = [*(p for p in model.parameters() if p.dim() == 2), *state]
    before = [place(each) for each in weights]
    METRICS.donated = 0
    step()
    assert [place(each) for each in weights] == before
    assert METRICS.donated == len(weights) == 6


@pytest.mark.parametrize("keep", [torch.clone, copy.copy, copy.deepcopy, lambda t: t + 0, lambda t: t.cpu()])
@pytest.mark.parametrize("side", SIDES)
def test_copies_keep_what_was_there(keep, side):
    p, step = square(side, 1.0), square(side, 1.0)
    p.add_(step)
    xt.sync()
    kept = keep(p)
    before = kept.sum().item() if keep is not copy.copy else None
    p.add_(step)
    xt.sync()
    p.add_(step)
    assert p[3, 4].item() == 4.0
    if keep is copy.copy:  # shares the memory
        assert kept[3, 4].item() == 4.0
    else:
        assert kept[3, 4].item() == 2.0 and kept.sum().item() == before


@pytest.mark.parametrize("side", SIDES)
def test_views_see_what_is_written_and_reads_of_before_do_not(side):
    p, step = square(side, 1.0), square(side, 1.0)
    row, flipped = p[2], p.t()
    before = row * 1
    p.add_(step)
    xt.sync()
    flipped.mul_(3)
    xt.sync(wait=True)
    assert before[0].item() == 1.0
    assert row[0].item() == flipped[0, 2].item() == p[2, 0].item() == 6.0


def test_copies_that_are_both_updated_in_one_program():
    p = square(200, 1.0)
    q = p.clone()
    xt.sync(wait=True)
    p.add_(1)
    q.add_(p).mul_(p + 3)
    xt.sync(wait=True)
    assert p.cpu().eq(2).all() and q.cpu().eq(15).all()
    p.add_(q)
    q.sub_(p)
    assert q.cpu().eq(-2).all() and p.cpu().eq(17).all()


def test_what_backward_has_saved_is_there_until_it_is_used():
    w, x = square(200, 2.0).requires_grad_(), square(200, 3.0)
    y = (w * x).exp().log() * w.detach().clone()
    xt.sync()
    x.data.add_(1)  # as on the host, autograd does not hear of it
    xt.sync()
    with torch.no_grad():
        w.sub_(1)
    xt.sync(wait=True)
    y.sum().backward()
    assert w.grad is not None
    torch.testing.assert_close(w.grad.cpu(), torch.full((200, 200), 8.0))  # 2 x, of the x that is there now
    z = (w * w).sum()
    with torch.no_grad():
        w.add_(1)
    with pytest.raises(RuntimeError, match="modified by an inplace operation"):
        z.backward()


@pytest.mark.parametrize("side", SIDES)
def test_programs_that_still_wait_read_what_was_there(side):
    p, step = square(side), square(side, 1.0)
    sums = []
    for _ in range(12):
        sums.append(p.amax())
        xt.sync()
        p.add_(step)
        xt.sync()
    assert [each.item() for each in sums] == list(range(12))
    assert METRICS.donated >= 11


def test_a_program_that_was_made_for_free_memory_runs_without():
    p, step = square(300), square(300, 1.0)
    kept = []
    for k in range(6):
        if k % 2:
            kept.append(p.clone())
        p.add_(step)
        xt.sync()
    assert [each[0, 0].item() for each in kept] == [1.0, 3.0, 5.0]
    assert p[0, 0].item() == 6.0
    assert METRICS.donated == 3
