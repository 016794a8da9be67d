"""Attention whose queries have more heads than keys and values, or see nothing, on both doors."""

import pytest
import torch
from torch.nn.functional import scaled_dot_product_attention

import xloom.torch
from xloom.torch.metrics import METRICS


def run(door, function, tensors):
    """The result and the gradients of what requires one."""
    given = [t.detach().clone().requires_grad_(t.requires_grad) for t in tensors]
    if door == "device":
        given = [t.detach().to(xloom.torch.device()).requires_grad_(t.requires_grad) for t in given]
    elif door == "compile":
        torch._dynamo.reset()
        function = torch.compile(function, backend="xloom")
    out = function(*given)
    (out * torch.arange(out.shape[-1], device=out.device)).sum().backward()
    return [t.detach().cpu() for t in (out, *(t.grad for t in given if t.requires_grad))]


@pytest.mark.parametrize("door", ["compile", "device"])
@pytest.mark.parametrize("kind", ["plain", "causal", "mask"])
@pytest.mark.parametrize("heads", [(6, 2), (4, 1), (3, 3)])
def test_groups_of_heads(door, kind, heads):
    torch.manual_seed(0)
    query = torch.randn(2, heads[0], 5, 8, requires_grad=True)
    key, value = (torch.randn(2, heads[1], 7, 8, requires_grad=True) for _ in range(2))
    mask = torch.rand(2, 1, 5, 7) > 0.3

    def attend(query, key, value, mask):
        seen = mask if kind == "mask" else None
        return scaled_dot_product_attention(query, key, value, seen, is_causal=kind == "causal", enable_gqa=True)

    tensors = (query, key, value, mask)
    for found, want in zip(run(door, attend, tensors), run("eager", attend, tensors), strict=True):
        torch.testing.assert_close(found, want)


def test_weights_are_no_subnormal_numbers():
    query, value = torch.tensor([[[[1.0]]]]), torch.tensor([[[[0.0], [1e30], [0.0]]]])
    attend = torch.compile(lambda q, k, v: scaled_dot_product_attention(q, k, v, scale=1.0), backend="xloom")
    for low, weight in ((-87.0, 1e30 * 2.718281828**-87.0), (-90.0, 0.0)):
        key = torch.tensor([[[[0.0], [low], [-200.0]]]])
        torch.testing.assert_close(attend(query, key, value), torch.full((1, 1, 1, 1), weight))


@pytest.mark.parametrize("door", ["compile", "device"])
@pytest.mark.parametrize("dtype", [torch.bool, torch.float32])
def test_queries_that_see_nothing(door, dtype):
    torch.manual_seed(0)
    query, key, value = (torch.randn(2, 3, 5, 8, requires_grad=True) for _ in range(3))
    seen = torch.ones(5, 5, dtype=torch.bool).tril().repeat(2, 1, 1, 1)
    seen[0, ..., :2] = False  # as where a batch is padded at the left
    mask = seen if dtype is torch.bool else torch.zeros(seen.shape).masked_fill(~seen, float("-inf"))
    tensors = (query, key, value, mask)
    found, want = run(door, scaled_dot_product_attention, tensors), run("eager", scaled_dot_product_attention, tensors)
    for one, other in zip(found, want, strict=True):
        torch.testing.assert_close(one, other)


def test_a_mask_leaves_attention_one_operator():
    """Forward and backward: what is recorded costs a training step more than what runs."""
    query, key, value = (torch.randn(2, 4, 5, 8).to("xla").requires_grad_() for _ in range(3))
    mask = torch.ones(2, 1, 5, 5, dtype=torch.bool).tril().to("xla")
    before = METRICS.operators
    out = scaled_dot_product_attention(query, key, value, mask)
    out.backward(out.detach())
    assert METRICS.operators - before == 2


@pytest.mark.parametrize("kind", ["plain", "causal", "mask"])
@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
@pytest.mark.parametrize("heads,rows", [((2, 2), 731), ((4, 2), 640)])
def test_scores_of_long_sequences_are_not_kept(kind, dtype, heads, rows):
    torch.manual_seed(0)
    query = torch.randn(1, heads[0], rows, 16, dtype=dtype, requires_grad=True)
    key, value = (torch.randn(1, heads[1], rows + 70, 16, dtype=dtype, requires_grad=True) for _ in range(2))
    mask = torch.rand(1, 1, rows, rows + 70) > 0.3

    def attend(query, key, value, mask):
        seen = mask if kind == "mask" else None
        return scaled_dot_product_attention(query, key, value, seen, is_causal=kind == "causal", enable_gqa=True)

    tensors = (query, key, value, mask)
    is_narrow = dtype is torch.bfloat16
    close = 0.05 if is_narrow else None
    for found, want in zip(run("compile", attend, tensors), run("eager", attend, tensors), strict=True):
        scale = want.abs().max() if is_narrow else 1
        torch.testing.assert_close(found / scale, want / scale, rtol=close, atol=close)


@pytest.mark.parametrize("door", ["eager", "device"])
def test_queries_in_columns_may_be_written_where_values_alone_have_gradients(door):
    def attend(query, value):
        turned = query.mT * 1
        out = scaled_dot_product_attention(turned, turned, value)
        turned.zero_()  # which the CPU's kernel for rows refuses
        return out

    tensors = (torch.ones(1, 1, 4, 4), torch.ones(1, 1, 4, 4, requires_grad=True))
    _, gradient = run(door, attend, tensors)
    torch.testing.assert_close(gradient.sum(2)[0, 0], torch.arange(4.0) * 4)


def test_compiled_attention_without_dropout_draws_nothing():
    """Its operator is marked as one that draws; numbers drawn afterwards have to be those of eager PyTorch."""
    x = torch.randn(2, 2, 5, 8, requires_grad=True)
    attention = torch.compile(lambda x: scaled_dot_product_attention(x, x, x), backend="xloom")
    before = torch.get_rng_state()
    attention(x).sum().backward()
    assert torch.equal(torch.get_rng_state(), before)
