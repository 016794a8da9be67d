"""torch.compile with dynamic shapes: sizes share programs, and values are those of eager mode."""

import numpy as np
import pytest
import torch
from torch import nn
from torch.fx.experimental.proxy_tensor import make_fx
from torch.nn import functional as F
from torch.utils._pytree import tree_leaves

import xloom as xl
from xloom.torch import metrics
from xloom.torch.compiled_graph import CompiledGraph
from xloom.torch.dynamic_graph import changes_with
from xloom.torch.fx_graph import translate
from xloom.torch.size_bounds import SMALLEST_OF_FEW, bound_of, samples_of

SIZES = (9, 10, 13, 16)


@pytest.fixture(autouse=True)
def fresh():
    torch._dynamo.reset()
    torch.manual_seed(0)
    metrics.clear()


@pytest.fixture
def compiled(monkeypatch):
    """The module of each program that is compiled, in order."""
    made = []
    init = CompiledGraph.__init__

    def noted(self, translated, **options):
        made.append(translated.module)
        init(self, translated, **options)

    monkeypatch.setattr(CompiledGraph, "__init__", noted)
    return made


def check(function, make, dim, sizes=SIZES, gradients=True):
    """Values, strides and gradients for each size."""
    run = torch.compile(function, backend="xloom", dynamic=True)
    for n in sizes:
        x = make(n)
        differs = gradients and x.is_floating_point()
        ours, theirs = (x.clone().requires_grad_(differs) for _ in range(2))
        torch._dynamo.mark_dynamic(ours, dim)
        found, expected = run(ours), function(theirs)
        assert found.stride() == expected.stride()
        torch.testing.assert_close(found, expected, rtol=1e-4, atol=1e-5)
        if differs:
            seed = torch.randn_like(expected)
            found.backward(seed)
            expected.backward(seed)
            torch.testing.assert_close(ours.grad, theirs.grad, rtol=1e-4, atol=1e-5)
    assert not metrics.METRICS.own_sizes


def test_a_language_model_learns_from_texts_of_any_length(compiled):
    embedding, layer = nn.Embedding(20, 8), nn.TransformerEncoderLayer(8, 2, 16, dropout=0.0, batch_first=True)

    def loss(ids):
        hidden = layer(embedding(ids), src_mask=torch.ones(ids.shape[1], ids.shape[1]).triu(1).bool())
        logits = hidden @ embedding.weight.t()
        return F.cross_entropy(logits[:, :-1].flatten(0, 1), ids[:, 1:].flatten())

    run = torch.compile(loss, backend="xloom", dynamic=True)
    for n in SIZES:
        ids = torch.randint(0, 20, (3, n))
        torch._dynamo.mark_dynamic(ids, 1)
        gradients = []
        for function in (run, loss):
            embedding.zero_grad()
            value = function(ids)
            value.backward()
            assert embedding.weight.grad is not None
            gradients.append((value.detach(), embedding.weight.grad.clone()))
        torch.testing.assert_close(*gradients, rtol=1e-4, atol=1e-6)
    assert not metrics.METRICS.own_sizes
    forward_and_backward = 2 * (2 + 1)  # two sizes of their own, and one program for all others
    assert len([m for m in compiled if m.entry.parameters]) == forward_and_backward


def test_a_batch_of_images_may_have_any_size():
    convolution, norm = nn.Conv2d(3, 4, 3, padding=1), nn.BatchNorm2d(4)
    check(lambda x: F.max_pool2d(F.relu(norm(convolution(x))), 2).flatten(1), lambda n: torch.randn(n, 3, 8, 8), 0)


def test_a_convolution_over_any_length():
    convolution = nn.Conv1d(4, 3, 3, padding=1)
    check(lambda x: convolution(x).softmax(-1), lambda n: torch.randn(2, 4, n), 2)


@pytest.mark.parametrize(
    "function",
    [
        lambda x: (x - x.mean(1, keepdim=True)) / x.std(1, keepdim=True),
        lambda x: x.cumsum(1).flip(1),
        lambda x: x.topk(3, 1).values,
        lambda x: torch.cat([x[:, -2:], x, x], 1)[:, 1:] * torch.arange(2 * x.shape[1] + 1)[:, None],
        lambda x: (x * 2)[:, -1],
        lambda x: x.flatten(0, 1).log_softmax(0).view(x.shape).transpose(0, 1),
    ],
)
def test_operators_see_nothing_beyond_the_size(function):
    check(function, lambda n: torch.randn(3, n, 4), 1)


def test_where_sizes_cannot_share_a_program_each_has_its_own():
    run = torch.compile(lambda x: x[: x.shape[0] // 2] * 2, backend="xloom", dynamic=True)
    for n in SIZES:
        x = torch.randn(n)
        torch.testing.assert_close(run(x), x[: n // 2] * 2)
    assert "not affine" in next(iter(metrics.METRICS.own_sizes))


@pytest.mark.parametrize(
    "function",
    [lambda x, n: (x + 1)[: n % 3 + 1], lambda x, n: x * (n // 3 * 3), lambda x, n: x * (9 // (n - 6))],
)
def test_sizes_of_one_remainder_are_not_taken_for_all(function):
    """The remainders of 8, 5 and 2 by 3, by which sizes up to 8 are judged, are the same."""
    run = torch.compile(function, backend="xloom", dynamic=True)
    for n in (4, 5, 8, 7):
        torch.testing.assert_close(run(torch.arange(5), n), function(torch.arange(5), n))
    assert any("//" in why or "Mod" in why for why in metrics.METRICS.own_sizes)


@pytest.mark.parametrize("gradients", [True, False])
@pytest.mark.parametrize(
    "view",
    [
        lambda x, n: x[:, :n],
        lambda x, n: x[n:],
        lambda x, n: (x[:, n - 1], x[:, :n], x[:n].sum()),
        lambda x, n: x.t().unsqueeze(0)[:, n:],
        lambda x, n: x[:1].expand(n, -1),
        lambda x, n: x.split(n)[-1],
    ],
)
def test_views_of_arguments_by_symbolic_sizes_are_of_their_memory(view, gradients):
    run = torch.compile(view, backend="xloom", dynamic=True)
    x = torch.randn(9, 6)[1:].requires_grad_(gradients)
    for n in (2, 3, 4, 3):
        pairs = zip(tree_leaves(run(x, n)), tree_leaves(view(x, n)), strict=True)
        for found, expected in pairs:
            torch.testing.assert_close(found, expected, rtol=1e-6, atol=1e-6, check_stride=True)
            shares = expected.untyped_storage().data_ptr() == x.untyped_storage().data_ptr()
            assert (found.untyped_storage().data_ptr() == x.untyped_storage().data_ptr()) == shares
            assert found.storage_offset() == expected.storage_offset()


@pytest.mark.parametrize(
    "write",
    [
        lambda x, n: x.mul_(2)[n:],
        lambda x, n: (x[:, :n].add_(1), x[n:]),
        lambda x, n: (x.t().add_(1)[:n], x.split(n)[-1].sum()),
        lambda x, n: x.copy_(x.sin())[:, n:],
    ],
)
def test_views_of_arguments_that_are_written_are_of_their_memory(write):
    run = torch.compile(write, backend="xloom", dynamic=True)
    for n in (2, 3, 4, 3):
        x, y = (torch.linspace(0, 5, 54).reshape(9, 6)[1:] for _ in range(2))
        torch.testing.assert_close(run(x, n), write(y, n), rtol=1e-6, atol=1e-6, check_stride=True)
        torch.testing.assert_close(x, y, rtol=1e-6, atol=1e-6)


@pytest.mark.parametrize(
    "read",
    [
        lambda x, n: x.as_strided((2, n), (n, 1), n),
        lambda x, n: x.as_strided((2, n), (n, 1), n) * 2,
        lambda x, n: x[1:].as_strided((n, 2), (3, 1)) * 2,
    ],
)
def test_memory_is_read_by_symbolic_strides_where_arguments_lie(read):
    run = torch.compile(read, backend="xloom", dynamic=True)
    memory = torch.arange(400.0).reshape(100, 4)
    for first, n in [(2, 2), (3, 4), (2, 9), (5, 9), (5, 14)]:
        x = memory[first:90]
        torch.testing.assert_close(run(x, n), read(x, n), rtol=0, atol=0)


def test_one_of_two_sizes_is_shared_at_a_time():
    run = torch.compile(lambda x: x.sum(0) @ x.sum(0), backend="xloom", dynamic=True)
    for n, m in [(9, 5), (10, 5), (11, 5), (12, 6), (13, 7)]:
        x = torch.randn(n, m)
        torch.testing.assert_close(run(x), x.sum(0) @ x.sum(0))
    assert not metrics.METRICS.own_sizes


def attend(query, cache, mask, bias):
    """A step of a decoder: the cache grows by the query, and mask and bias are as long as it is then."""
    keys = torch.cat([cache, query], 1)
    scores = query @ keys.mT + bias
    return scores.masked_fill(~mask, float("-inf")).softmax(-1) @ keys, keys


def grown(run, batch, first, last):
    """Steps from a cache of one size to that of another; checks each."""
    cache = torch.randn(batch, first, 4)
    for n in range(first, last):
        query, mask, bias = torch.randn(batch, 1, 4), torch.rand(n + 1) > 0.2, torch.randn(2 * n + 2)
        mask[-1] = True
        arguments = query, cache, mask, bias[::2]
        found, expected = run(*arguments), attend(*arguments)
        torch.testing.assert_close(found, expected)
        cache = found[1]


def test_sizes_that_grow_together_are_one(compiled):
    run = torch.compile(attend, backend="xloom", dynamic=True)
    grown(run, 3, 5, 24)
    assert len(compiled) == 2 + 3  # two sizes of their own, and bounds of 8, 16 and 24
    assert not metrics.METRICS.own_sizes


def test_sizes_that_grow_as_others_did_share_programs_at_once(compiled):
    run = torch.compile(attend, backend="xloom", dynamic=True)
    grown(run, 3, 10, 14)
    assert len(compiled) == 2 + 1
    grown(run, 5, 10, 14)
    assert len(compiled) == 2 + 2


def test_a_cache_may_be_a_part_of_any_memory(compiled):
    run = torch.compile(lambda query, cache: (query @ cache.mT).softmax(-1) @ cache, backend="xloom", dynamic=True)
    for n, spare in [(9, 1), (10, 3), (11, 2), (12, 7), (13, 1), (14, 5)]:
        query, cache = torch.randn(1, 2, 1, 4), torch.randn(1, 2, n + spare, 4)[:, :, :n]
        torch.testing.assert_close(run(query, cache), (query @ cache.mT).softmax(-1) @ cache)
    assert len(compiled) == 2 + 1
    assert not metrics.METRICS.own_sizes


def test_sizes_that_were_always_equal_change_together():
    """As the keys of each layer do, which Dynamo does not know to be equally many."""
    seen = np.array([(4, 14, 14), (4, 19, 19), (3, 25, 25)])
    assert [way.tolist() for way in changes_with(seen, 1)] == [[0, 1, 1], [0, 1, 0]]
    assert [way.tolist() for way in changes_with(seen, 0)] == [[1, 0, 0]]


def test_sizes_of_a_graph_end_where_another_graph_begins(compiled):
    run = torch.compile(lambda x: x[:, -15:] * max(x.shape[1] - 15, 0), backend="xloom", dynamic=True)
    for n in (9, 10, 11, 12, 13, 17, 18, 19, 20, 21):
        x = torch.randn(2, n)
        torch.testing.assert_close(run(x), x[:, -15:] * max(n - 15, 0))
    assert len(compiled) == 2 * (2 + 1)  # Dynamo has a graph below 15, and one above
    assert not metrics.METRICS.own_sizes


def test_bounds_waste_a_quarter_at_most():
    for size in range(2, 5000):
        bound = bound_of(size)
        assert size <= bound <= max(8, size * 5 / 4 + 8 * (size < 32))
        sizes = samples_of(bound)
        assert len(set(sizes)) == 3 and all(bound_of(s) == bound for s in sizes) and sizes[0] == bound


def test_bounds_of_programs_that_compute_little_are_further_apart():
    bounds = {bound_of(size, SMALLEST_OF_FEW) for size in range(2, 321)}
    assert bounds == {8, 64, 128, 192, 256, 320}
    for bound in bounds:
        sizes = samples_of(bound, SMALLEST_OF_FEW)
        assert len(set(sizes)) == 3 and all(bound_of(s, SMALLEST_OF_FEW) == bound for s in sizes)


def test_strides_that_a_graph_asks_for_are_those_of_torch():
    """Of tensors whose memory is made in the graph: backward graphs are given such numbers."""

    def scaled(x):
        return x * torch.ops.aten.sym_stride.int(torch.cat([x, x], 1), 0)

    graph = make_fx(scaled, tracing_mode="symbolic")(torch.ones(3, 5))
    assert "sym_stride" in str(graph.graph)
    module = translate(graph, [torch.ones(4, 6)]).module
    assert xl.evaluate(module, np.ones((4, 6), np.float32))[0].tolist() == [[12.0] * 6] * 4
