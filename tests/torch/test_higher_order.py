"""torch's operators that take graphs, under torch.compile: as control flow of HLO."""

from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch._dynamo.exc import BackendCompilerFailed
from torch._higher_order_ops.map import map as torch_map
from torch._higher_order_ops.scan import scan
from torch._higher_order_ops.while_loop import while_loop
from torch.nn.attention.flex_attention import create_block_mask, flex_attention
from torch.utils._pytree import tree_leaves
from torch.utils.checkpoint import checkpoint

from xloom.torch import metrics


def agree(
    function: Callable[..., Any],
    *arguments: torch.Tensor,
    gradients: bool = False,
    reference: Callable[..., Any] | None = None,
) -> None:
    """Compiled as in eager mode, or as `reference`, in one graph; `gradients` of the sum of the squares, too."""
    torch._dynamo.reset()
    compiled = torch.compile(function, backend="xloom", fullgraph=True)

    def results(run: Callable[..., Any]) -> list[torch.Tensor]:
        given = [a.clone().requires_grad_(gradients and a.is_floating_point()) for a in arguments]
        made = [r for r in tree_leaves(run(*given)) if isinstance(r, torch.Tensor)]
        if not gradients:
            return made
        floats = [g for g in given if g.requires_grad]
        torch.stack([r.square().sum() for r in made if r.is_floating_point()]).sum().backward()
        return [*(r.detach() for r in made), *(f.grad if f.grad is not None else torch.zeros(()) for f in floats)]

    for found, expected in zip(results(compiled), results(reference or function), strict=True):
        torch.testing.assert_close(found, expected, rtol=1e-4, atol=1e-5)


@pytest.fixture
def x():
    torch.manual_seed(0)
    return torch.randn(4, 8)


@pytest.mark.parametrize("gradients", [False, True])
@pytest.mark.parametrize("sign", [1, -1])
def test_cond(x, sign, gradients):
    w = torch.randn(8)

    def f(x, w):
        return torch.cond(x.sum() * sign > 0, lambda x, w: (x.sin() * w, w + 1), lambda x, w: (x * 3, w.cos()), (x, w))

    agree(f, x, w, gradients=gradients)


def test_cond_in_cond_in_a_loop(x):
    def inner(x):
        return torch.cond(x[0, 0] > 1, lambda x: x * 0.5, lambda x: x + 0.25, (x,))

    def step(k, x):
        return k + 1, torch.cond(k % 2 == 0, inner, lambda x: x * 1.5, (x,))

    def f(x):
        return while_loop(lambda k, x: (k < 7) & (x.abs().sum() < 1e6), step, (torch.tensor(0), x))

    agree(f, x)


def test_while_loop_with_values_from_outside(x):
    w = torch.randn(8, 8) / 4

    def f(x, w, y):
        return while_loop(lambda k, h: k < 5, lambda k, h: (k + 1, torch.tanh(h @ w) + y), (torch.tensor(0), x))

    agree(f, x, w, torch.randn(4, 8))


@pytest.mark.filterwarnings("ignore")  # torch's own, as it derives a scan
@pytest.mark.parametrize("gradients", [False, True])
@pytest.mark.parametrize("reverse", [False, True])
def test_scan(x, reverse, gradients):
    w = torch.randn(8, 8) / 4

    def step(w, carry, row):
        new = torch.tanh(carry @ w + row)
        return new, (carry * 2, new.sum() * 0.5)

    def f(x, w, start):
        return scan(lambda carry, row: step(w, carry, row), start, x, reverse=reverse)

    def by_hand(x, w, start):
        rows = []
        for k in reversed(range(4)) if reverse else range(4):
            start, made = step(w, start, x[k])
            rows.append(made)
        rows = rows[::-1] if reverse else rows
        return start, *(torch.stack(column) for column in zip(*rows, strict=True))

    agree(f, x, w, torch.randn(8), gradients=gradients, reference=by_hand)


def test_map(x):
    def f(x, y):
        return torch_map(lambda row, y: (row * y).cumsum(0), x, y)

    agree(f, x, torch.randn(8))


eager_flex = pytest.mark.filterwarnings("ignore:flex_attention called without:UserWarning")


def heads() -> tuple[torch.Tensor, ...]:
    torch.manual_seed(0)
    return tuple(torch.randn(2, 3, 16, 8) for _ in range(3))


@eager_flex
def test_flex_attention_with_a_score():
    slopes = torch.tensor([0.5, 0.25, 0.125])

    def f(q, k, v):
        def score(s, b, h, i, j):
            return torch.where(i >= j, s + slopes[h] * (j - i), -float("inf"))

        return flex_attention(q, k, v, score_mod=score)

    agree(f, *heads())


@eager_flex
def test_flex_attention_with_a_block_mask():
    mask = create_block_mask(lambda b, h, i, j: (i - j).abs() < 4, 2, 3, 16, 16, device="cpu")
    agree(lambda q, k, v: flex_attention(q, k, v, block_mask=mask), *heads())


@eager_flex
def test_grouped_queries_in_flex_attention():
    q, k, v = torch.randn(1, 4, 8, 8), torch.randn(1, 2, 8, 8), torch.randn(1, 2, 8, 8)
    agree(lambda q, k, v: flex_attention(q, k, v, enable_gqa=True), q, k, v)


def test_a_branch_that_draws_is_refused(x):
    torch._dynamo.reset()
    f = torch.compile(
        lambda x: torch.cond(x.sum() > 0, lambda x: torch.rand_like(x), lambda x: x + 1, (x,)), backend="xloom"
    )
    with pytest.raises(BackendCompilerFailed, match="inside a branch or a loop"):
        f(x)


def test_nothing_runs_on_the_host(x):
    metrics.clear()
    agree(lambda x: torch.cond(x.sum() > 0, lambda x: x.sin(), lambda x: x.cos(), (x,)), x)
    assert not [name for name in metrics.counter_names() if name.startswith("aten::")]


def test_a_batch_norm_in_a_checkpoint_writes_its_statistics_once():
    """Its gradient reads none of them, which are written by then."""
    torch.manual_seed(0)
    models = [torch.nn.Sequential(torch.nn.Linear(4, 6), torch.nn.BatchNorm1d(6), torch.nn.ReLU()) for _ in range(2)]
    models[1].load_state_dict(models[0].state_dict())
    x = torch.randn(8, 4)
    compiled = torch.compile(lambda x: checkpoint(models[1], x, use_reentrant=False), backend="xloom")
    for call in (models[0], compiled):
        call(x).square().sum().backward()
    torch.testing.assert_close(models[1].state_dict(), models[0].state_dict())
    for ours, theirs in zip(models[1].parameters(), models[0].parameters(), strict=True):
        torch.testing.assert_close(ours.grad, theirs.grad, rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("share", [0.0, 0.5])
def test_dropout_in_a_checkpoint(share):
    """What is computed again has the same elements dropped."""
    torch._dynamo.reset()
    linear = torch.nn.Linear(64, 64)
    model = torch.nn.Sequential(linear, torch.nn.Dropout(share), torch.nn.Sigmoid())
    compiled = torch.compile(lambda x: checkpoint(model, x, use_reentrant=False), backend="xloom")
    for _ in range(2):
        x = torch.randn(8, 64, requires_grad=True)
        y = compiled(x)
        y.sum().backward()
        assert x.grad is not None
        dropped = y == 0.5
        assert abs(dropped.float().mean().item() - share) < 0.1
        slope = torch.where(dropped, 0, y * (1 - y) / (1 - share))
        torch.testing.assert_close(x.grad, slope.detach() @ linear.weight.detach())
