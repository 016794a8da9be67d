"""Operators on the device against the CPU, where op_db has few cases or none: values and gradients."""

import math
from itertools import product
from typing import Any

import pytest
import torch
import torch.nn.functional as F
from torch.utils._pytree import tree_map

from xloom.torch.metrics import METRICS


def assert_as_on_cpu(function, *tensors, tolerance=1e-4):
    """The same values, and the same gradients of those that have one."""
    found = []
    for device in ("cpu", "xla"):
        own = [t.detach().to(device).requires_grad_(t.requires_grad) for t in tensors]
        results = function(*own)
        results = results if isinstance(results, (tuple, list)) else [results]
        asked = [t for t in own if t.requires_grad]
        differentiable = [r for r in results if r.requires_grad]
        gradients = torch.autograd.grad([r.sum() for r in differentiable], asked) if asked else ()
        found.append([r.detach().cpu() for r in (*results, *gradients)])
    for ours, theirs in zip(*found[::-1], strict=True):
        torch.testing.assert_close(ours, theirs, rtol=tolerance, atol=tolerance, equal_nan=True)


def normal(*dims, dtype=torch.float32):
    """Numbers that are the same in every run."""
    return torch.randn(*dims, generator=torch.Generator().manual_seed(len(dims)), dtype=dtype)


@pytest.mark.parametrize(("mode", "padding"), [*product(["bilinear", "nearest", "bicubic"], range(3))])
def test_grid_sample(mode, padding):
    name = ("zeros", "border", "reflection")[padding]
    x, grid = normal(2, 2, 4, 5).requires_grad_(), (normal(2, 3, 2, 2) * 1.5).requires_grad_()
    for aligned in (False, True):
        assert_as_on_cpu(
            lambda x, g, aligned=aligned: F.grid_sample(x, g, mode, name, align_corners=aligned),
            x,
            grid,
            tolerance=1e-3,
        )


@pytest.mark.parametrize("padding", ["zeros", "border", "reflection"])
def test_grid_sample_of_volumes(padding):
    x, grid = normal(1, 2, 3, 4, 5).requires_grad_(), (normal(1, 2, 2, 3, 3) * 1.5).requires_grad_()
    assert_as_on_cpu(
        lambda x, g: F.grid_sample(x, g, "bilinear", padding, align_corners=False), x, grid, tolerance=1e-3
    )


def test_fractional_max_pools_of_given_samples():
    image, samples = normal(2, 3, 9, 11).requires_grad_(), torch.rand(2, 3, 2)
    assert_as_on_cpu(
        lambda x, s: F.fractional_max_pool2d_with_indices(x, [3, 2], [4, 5], _random_samples=s), image, samples
    )
    volume, samples = normal(2, 3, 7, 8, 9).requires_grad_(), torch.rand(2, 3, 3)
    assert_as_on_cpu(
        lambda x, s: F.fractional_max_pool3d_with_indices(x, [2, 2, 2], [3, 1, 4], _random_samples=s), volume, samples
    )


def test_fractional_max_pools_to_nothing():
    samples = torch.rand(2, 3, 2)
    pool = lambda x, s: F.fractional_max_pool2d_with_indices(x, [3, 2], [0, 5], _random_samples=s)  # noqa: E731
    assert_as_on_cpu(pool, normal(2, 3, 9, 11), samples)


@pytest.mark.parametrize("dims", [(2, 0, 9), (0, 3, 9)])
def test_convolutions_of_nothing(dims):
    weight = normal(4, dims[1], 2).requires_grad_()
    assert_as_on_cpu(F.conv1d, normal(*dims).requires_grad_(), weight, normal(4).requires_grad_())


@pytest.mark.parametrize("p", [1, 2])
@pytest.mark.parametrize("reduction", ["none", "mean"])
def test_multi_margin_loss(p, reduction):
    target, weight = torch.tensor([0, 3, 1]), torch.tensor([0.5, 1.0, 2.0, 3.0])
    x = normal(3, 4).requires_grad_()
    assert_as_on_cpu(
        lambda x, t, w: F.multi_margin_loss(x, t, p=p, weight=w, reduction=reduction, margin=0.7), x, target, weight
    )


@pytest.mark.parametrize(
    ("inputs", "targets", "blank"),
    [([10, 8, 9], [3, 2, 4], 0), ([10, 8, 9], [3, 0, 4], 2), ([4, 2, 10], [4, 3, 1], 0), ([10, 0, 3], [0, 0, 2], 0)],
)
def test_ctc_loss(inputs, targets, blank):
    labels = torch.tensor([[1, 1, 3, 4], [4, 3, 1, 1], [3, 1, 1, 3]])
    x = normal(10, 3, 5).requires_grad_()
    for impossible in (False, True):
        assert_as_on_cpu(
            lambda x, t, zero=impossible: F.ctc_loss(
                x.log_softmax(2), t, inputs, targets, blank, reduction="none", zero_infinity=zero
            ),
            x,
            labels,
        )
    flat = torch.cat([row[:n] for row, n in zip(labels, targets, strict=True)])
    lengths = torch.tensor(inputs), torch.tensor(targets)
    assert_as_on_cpu(
        lambda x, t, i, n: F.ctc_loss(x.log_softmax(2), t, i, n, blank, zero_infinity=True), x, flat, *lengths
    )

    def with_lengths_of_the_host(x, targets):
        return F.ctc_loss(x.log_softmax(2), targets, *lengths, blank=blank, zero_infinity=True)

    assert_as_on_cpu(with_lengths_of_the_host, x, flat)
    of_one = lengths[0][0], lengths[1][0]  # numbers, where there is no batch
    assert_as_on_cpu(
        lambda x, t, i, n: F.ctc_loss(x.log_softmax(1), t, i, n, blank, zero_infinity=True),
        x[:, 0],
        labels[0, : targets[0]],
        *of_one,
    )
    with torch.inference_mode():
        assert_as_on_cpu(with_lengths_of_the_host, normal(10, 3, 5), flat)


def test_histograms():
    x, weight = normal(40, 2), torch.rand(40)
    assert_as_on_cpu(lambda x: list(torch.histogram(x, 7)), x)
    assert_as_on_cpu(lambda x: list(torch.histogram(x, 5, range=(-1.0, 0.5), density=True)), x)
    assert_as_on_cpu(lambda x, e: list(torch.histogram(x, e)), x, torch.tensor([-2.0, -0.5, 0.0, 3.0]))

    def cells(x, w):
        counts, edges = torch.histogramdd(x, [3, 4], weight=w)
        return [counts, *edges]

    assert_as_on_cpu(cells, x, weight)


def test_hash_of_a_tensor():
    for x in (normal(3, 4), torch.arange(-3, 9).reshape(3, 4), normal(3, 4).bfloat16()):
        assert_as_on_cpu(lambda x: [torch.hash_tensor(x).view(torch.int64)], x)
        assert_as_on_cpu(lambda x: [torch.hash_tensor(x, 1, keepdim=True).view(torch.int64)], x)


@pytest.mark.parametrize("dims", [(), (3,), (2, 4)])
@pytest.mark.parametrize(("own", "other"), [(torch.complex64, torch.float64), (torch.float64, torch.complex64)])
def test_bytes_of_complex_numbers_as_another_type(own, other, dims):
    assert_as_on_cpu(lambda x: [x.view(other), x.view(other).view(own)], torch.full(dims, 1.5, dtype=own))


def test_numbers_are_not_rounded_to_narrow_floats():
    x = torch.linspace(0.1, 9, 64).bfloat16()
    for function in (
        lambda x: x * 0.69314718,
        lambda x: x + 0.1003,
        lambda x: x / 3.3,
        torch.deg2rad,
    ):
        assert torch.equal(function(x.to("xla")).cpu(), function(x))


def test_linspace_between_tensors():
    for ends in ((0.5, 3.0), (2, -7)):
        for dtype in (None, torch.int64):
            for steps in (0, 1, 6):
                assert_as_on_cpu(
                    lambda a, b, n=steps, d=dtype: torch.linspace(a, b, n, dtype=d, device=a.device),
                    *map(torch.tensor, ends),
                )


@pytest.mark.parametrize("ends", [(1, 127), (1146, -1533), (-512, 262)])
def test_integers_between_two_are_rounded_as_on_the_cpu(ends):
    start, end = ends
    first, last = (torch.tensor(float(each), device="xla") for each in ends)
    for steps in (19, 25, 50, 167, 179):
        expected = torch.linspace(start, end, steps, dtype=torch.int64)
        assert torch.equal(torch.linspace(start, end, steps, dtype=torch.int64, device="xla").cpu(), expected)
        assert torch.equal(torch.linspace(first, last, steps, dtype=torch.int64, device="xla").cpu(), expected)


@pytest.mark.parametrize("base", [2.0, -2.0])
def test_powers_of_a_base_that_may_be_negative(base):
    for ends in ((0, 4), (1.5, -0.5), (0, 1j), (torch.tensor(0.0), torch.tensor(4.0))):
        for dtype in (None, torch.int32) if ends[1] == 4 else (None,):

            def powers(x, ends=ends, dtype=dtype):
                start, end = (each.to(x.device) if isinstance(each, torch.Tensor) else each for each in ends)
                numbers: Any = {"start": start, "end": end, "steps": 5, "base": base, "dtype": dtype}
                return torch.logspace(**numbers, device=x.device)

            assert_as_on_cpu(powers, torch.ones(1))


def test_copies_to_the_one_place_of_a_number():
    assert_as_on_cpu(
        lambda x, i, y: x.index_copy(0, i, y), torch.ones(()), torch.tensor([0, 0]), torch.tensor([5.0, 2])
    )


def test_places_in_nothing():
    empty = torch.zeros(2, 0), torch.zeros(2, 3), torch.zeros(2, 0, dtype=torch.int64)
    assert_as_on_cpu(lambda line, x, order: torch.searchsorted(line, x, sorter=order), *empty)


def test_tensors_of_places_to_split_at():
    x = normal(10)
    ends, count = torch.tensor([2, 5]), torch.tensor(3)
    for places in (ends, count):
        found = torch.tensor_split(x.to("xla"), places.to("xla"))
        assert [f.tolist() for f in found] == [e.tolist() for e in torch.tensor_split(x, places)]


def test_factorisations_conjugate():
    a, b = normal(4, 3, dtype=torch.complex64), normal(4, 2, dtype=torch.complex64)
    assert_as_on_cpu(lambda a, b: torch.linalg.lstsq(a, b, driver="gels").residuals, a, b)
    assert_as_on_cpu(lambda a: list(torch.geqrf(a)), a)


def test_a_least_squares_solution_where_the_matrix_has_not_full_rank():
    a, b = torch.ones(5, 3), normal(5, 2)
    assert_as_on_cpu(lambda a, b: torch.linalg.lstsq(a, b, driver="gelsd").solution, a, b)
    residuals = torch.linalg.lstsq(a.to("xla"), b.to("xla"), driver="gelsd").residuals
    assert residuals.cpu().isnan().all()  # torch's has no elements then, which its values decide


@pytest.mark.filterwarnings("ignore:.*degrees of freedom")
@pytest.mark.parametrize("correction", [-5, 0, 1])
def test_the_spread_of_nothing_is_not_a_number(correction):
    assert_as_on_cpu(lambda x: torch.var_mean(x, correction=correction), torch.zeros(3, 0))


@pytest.mark.parametrize("dims", [(5, 4), (2, 5, 4), (4,), (0, 4), (2, 0)])
@pytest.mark.parametrize("dtype", [torch.float32, torch.complex64])
def test_linear_layers_are_one_operator_each_way(dims, dtype):
    x, weight, bias = (normal(*d, dtype=dtype).requires_grad_() for d in (dims, (3, dims[-1]), (3,)))
    parts = torch.view_as_real if dtype.is_complex else torch.clone
    assert_as_on_cpu(lambda x, w, b: parts(F.linear(x, w, b)).pow(2), x, weight, bias)
    assert_as_on_cpu(lambda x, w: parts(F.linear(x, w)).pow(2), x, weight)
    on_device = [t.detach().to("xla").requires_grad_() for t in (x, weight, bias)]
    before = METRICS.operators
    result = F.linear(*on_device)
    assert METRICS.operators == before + 1
    torch.autograd.grad(result, on_device, result.detach())
    assert METRICS.operators == before + 2


def test_linear_layers_with_one_feature_and_under_transformations():
    x, weight, bias = (normal(*d).requires_grad_() for d in ((5, 4), (3, 4), (3,)))
    assert_as_on_cpu(lambda x, w: F.linear(x, w).pow(2), x, normal(4).requires_grad_())

    def penalty(x, w, b):
        gradients = torch.autograd.grad(F.linear(x, w, b).pow(3).sum(), (x, w, b), create_graph=True)
        return [g.pow(2) for g in gradients]

    assert_as_on_cpu(penalty, x, weight, bias)

    def of_each_row(x, w, b):
        slope = torch.func.grad(lambda w, row: F.linear(row, w, b).pow(2).sum())
        return torch.func.vmap(slope, (None, 0))(w, x)

    assert_as_on_cpu(of_each_row, x.detach(), weight.detach(), bias.detach())


def test_the_gradient_of_ctc_loss_over_many_steps_is_as_accurate_as_its_type():
    x, targets = normal(50, 4, 12), torch.randint(1, 12, (4, 20), generator=torch.Generator().manual_seed(1))

    def gradient(x):
        x = x.requires_grad_()
        lengths: Any = [50] * 4, [20, 14, 17, 10]  # torch's stub knows tensors alone
        loss = F.ctc_loss(x.log_softmax(2), targets.to(x.device), *lengths, reduction="sum")
        return torch.autograd.grad(loss, x)[0].cpu().double()

    exact = gradient(x.double())
    torch.testing.assert_close(gradient(x.to("xla").detach()), exact, rtol=0, atol=1.5e-5)


@pytest.mark.parametrize("norm", [1.0, 2.0, float("inf")])
def test_embeddings_of_bounded_rows(norm):
    table, index = normal(5, 3) * 2, torch.tensor([[0, 3], [3, 4]])
    for device in ("cpu", "xla"):
        own = table.detach().to(device)
        found = F.embedding(index.to(device), own, max_norm=1.0, norm_type=norm)
        if device == "cpu":
            expected = found, own
        else:
            torch.testing.assert_close((found.cpu(), own.cpu()), expected)


def test_counts_of_integers():
    # as on other devices, though not on the CPU
    x = torch.tensor([0, 3, 3, 1, 3], dtype=torch.int32)
    counts = torch.histc(x.to("xla"), bins=4, min=0, max=3)
    assert counts.dtype is torch.int32 and counts.tolist() == [1, 1, 0, 3]


@pytest.mark.parametrize("size", range(8, 17))
def test_windows_of_a_few_narrow_elements(size):
    x = torch.linspace(-3, 3, size * size).sin().reshape(1, 1, size, size).to(torch.bfloat16)
    for padding in (0, 1):
        expected = torch.nn.functional.max_pool2d(x, 2, stride=1, padding=padding)
        assert torch.equal(torch.nn.functional.max_pool2d(x.to("xla"), 2, stride=1, padding=padding).cpu(), expected)


def test_a_roll_of_nothing_along_any_dimension():
    assert_as_on_cpu(lambda x: x.roll(0, 1), torch.zeros(0))


@pytest.mark.parametrize("shapes", [[(5, 3), (4,), (2, 2, 2)], [(6,)]])
def test_chunks_of_several_tensors_are_joined(shapes):
    host = [torch.arange(1.0, 1 + math.prod(dims)).reshape(dims) for dims in shapes]
    device = [each.to("xla") for each in host]
    for chunks in (1, 2, 3):
        wanted = torch.ops.aten._chunk_cat(host, 0, chunks)
        torch.testing.assert_close(torch.ops.aten._chunk_cat(device, 0, chunks).cpu(), wanted)
        out = torch.empty_like(wanted, device="xla")
        torch.ops.aten._chunk_cat(device, 0, chunks, out=out)
        torch.testing.assert_close(out.cpu(), wanted)
    along = [torch.arange(24.0).reshape(2, 3, 4), torch.arange(10.0).reshape(2, 5)]
    found = torch.ops.aten._chunk_cat([each.to("xla") for each in along], 1, 2)
    torch.testing.assert_close(found.cpu(), torch.ops.aten._chunk_cat(along, 1, 2))


def test_ranges_are_made_without_torchs_kernels_on_the_host(monkeypatch):
    """They fill an empty tensor: only of results of several dimensions it depends on the kernel how they lie."""
    from xloom.torch import kernel_refusals
    from xloom.torch.lazy.operators import checking

    def ranges(device):
        return torch.arange(5, device=device), torch.linspace(0, 1, 5, device=device)

    expected = ranges("cpu")
    ranges("xla")
    for module in (kernel_refusals, checking):
        monkeypatch.setattr(module, "tried", lambda *_: pytest.fail("a kernel of the host is called"))
    for found, wanted in zip(ranges("xla"), expected, strict=True):
        assert found.stride() == wanted.stride()
        assert torch.equal(found.cpu(), wanted)


@pytest.mark.filterwarnings("ignore:.torch.jit.script. is deprecated")  # by torch's own forward mode
def test_linear_has_derivatives_in_forward_mode():
    """Autograd has none of it where a device has a kernel of its own; that is one operator before and after."""
    model = torch.nn.Sequential(torch.nn.Linear(3, 4), torch.nn.Tanh(), torch.nn.Linear(4, 2))
    x = torch.randn(2, 3)

    def derivatives(x):
        tangent = torch.func.jvp(model, (x,), (x * 2,))[1]
        return [tangent, torch.func.jacfwd(model)(x), torch.func.hessian(lambda row: model(row).sum())(x[0])]

    expected = derivatives(x)
    model.to("xla")
    for ours, theirs in zip(derivatives(x.to("xla")), expected, strict=True):
        torch.testing.assert_close(ours.detach().cpu(), theirs.detach())
    before = METRICS.operators
    model[0](x.to("xla"))
    assert METRICS.operators == before + 1


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64, torch.bfloat16])
@pytest.mark.parametrize("zero_points", [torch.int32, torch.float32])
def test_rounding_to_quantised_types(dtype, zero_points):
    """Of ties, of what is out of the type, and of what is a half step away from a place that is no integer."""

    def rounded(x):
        steps, places = torch.tensor([0.1, 0.3, 0.5, 0.7]), torch.tensor([0, 2.5, 3, 5]).to(zero_points)
        steps, places = steps.to(x.device), places.to(x.device)
        return [
            torch.fake_quantize_per_tensor_affine(x, 0.1, 3, -20, 17),
            torch.fake_quantize_per_tensor_affine(x, steps[1], places[2].int(), 0, 255),
            torch.fake_quantize_per_channel_affine(x, steps, places, 1, -8, 7),
        ]

    x = torch.cat([normal(40) * 3, torch.tensor([0.05, -0.15, 0.25, 100])]).reshape(11, 4)
    assert_as_on_cpu(rounded, x.to(dtype).requires_grad_(), tolerance=0)


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
@pytest.mark.parametrize("place", [-2.5, -1.4, 0.5, 2.5, 300.0])
def test_rounding_to_steps_that_are_learnt(dtype, place):
    """The integer of 0 is a float then, which is rounded in one way for values, and in another for gradients."""

    def rounded(x, step, zero, steps, zeros):
        return [
            torch.ops.aten._fake_quantize_learnable_per_tensor_affine(x, step, zero, -8, 7, 0.3),
            torch.ops.aten._fake_quantize_learnable_per_channel_affine(x, steps, zeros, 1, -8, 7),
        ]

    given = (normal(11, 4).to(dtype), torch.tensor([0.3]), torch.tensor([place]))
    given += (torch.tensor([0.1, 0.3, 0.5, 0.7]), torch.tensor([place, -place, 0.0, 1.5]))
    assert_as_on_cpu(rounded, *[each.requires_grad_() for each in given], tolerance=1e-5)


@pytest.mark.parametrize("seen", ["nothing", "infinity", "some"])
@pytest.mark.parametrize("symmetric", [False, True])
@pytest.mark.parametrize("scale", [0.0, 1e-5, 3.0])
def test_rounding_to_steps_for_what_has_been_seen(seen, symmetric, scale):
    """The extremes of what was seen, the steps and the integers of 0 are written: twice, then once without observing."""
    inf = torch.inf

    def rounded(x):
        found = []
        for rows in (False, True):
            count = len(x) if rows else 1
            first = {"nothing": (inf, -inf), "infinity": (inf, -inf), "some": (-0.5, 0.7)}[seen]
            state = [torch.full([count], each, device=x.device) for each in (*first, 1.0)]
            state.append(torch.zeros(count, dtype=torch.int32, device=x.device))
            if rows and seen == "nothing":
                state = [each.new_empty(0) for each in state]
            for factor, observes, quantises in ((1, 1, 1), (-2, 1, 1), (1, 0, 1), (3, 1, 0)):
                flags = [torch.tensor([flag], device=x.device) for flag in (observes, quantises)]
                given: Any = (x * factor, *flags, *state, 0.01, -128, 127, 0, rows, symmetric)
                found.append(torch.fused_moving_avg_obs_fake_quant(*given))
            found += [each.float() for each in state]
        return found

    x = normal(5, 4, 3) * scale + torch.tensor([-3.0, 0, 0, 3, 1]).reshape(5, 1, 1) * (scale > 1)
    assert_as_on_cpu(rounded, x.requires_grad_(), tolerance=1e-6)


@pytest.mark.parametrize("loss", [F.mse_loss, F.smooth_l1_loss, F.huber_loss])
def test_gradients_of_mean_losses_of_nothing(loss):
    assert_as_on_cpu(loss, normal(0, 3).requires_grad_(), normal(0, 3))
    x = normal(0, 3).requires_grad_()
    torch.compile(loss, backend="xloom")(x, normal(0, 3)).backward()
    assert x.grad is not None and x.grad.shape == (0, 3)


@pytest.mark.parametrize("dims", [((0, 3, 5), (4, 5)), ((3, 5), (0, 4, 5)), ((3, 5), (0, 5))])
def test_gradients_of_distances_to_nothing(dims):
    """torch expands rows to the same batch only where there are some."""
    x, y = (normal(*each).requires_grad_() for each in dims)
    torch.compile(torch.cdist, backend="xloom")(x, y).sum().backward()
    for each in (x, y):
        assert each.grad is not None and not each.grad.any() and each.grad.shape == each.shape


@pytest.mark.parametrize("reduction", ["none", "mean", "sum"])
def test_multilabel_losses_are_of_the_targets_before_the_first_minus_one(reduction):
    x = torch.tensor([[0.3, -1.2, 0.9, 0.1], [2.0, 0.2, -0.7, 1.1], [0.0, 1.0, 0.5, -0.5]])
    targets = torch.tensor([[3, 0, -1, 1], [2, -1, 0, 0], [-1, 2, 1, 0]])
    assert_as_on_cpu(lambda x, y: F.multilabel_margin_loss(x, y, reduction=reduction), x.requires_grad_(), targets)
    assert_as_on_cpu(lambda x, y: F.multilabel_margin_loss(x[1], y[1], reduction=reduction), x, targets)


def test_gradient_of_a_multilabel_loss_of_nothing():
    targets = torch.zeros(0, 3, dtype=torch.long)
    assert_as_on_cpu(
        lambda x: F.multilabel_margin_loss(x, targets.to(x.device), reduction="none"), normal(0, 3).requires_grad_()
    )


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64, torch.bfloat16])
def test_gradients_of_digamma_at_its_poles(dtype):
    assert_as_on_cpu(
        lambda x: torch.polygamma(1, x), torch.tensor([-1, -3, 0, -2.5, 2, -7], dtype=dtype), tolerance=2e-2
    )


@pytest.mark.parametrize(
    "function",
    [
        lambda x, index: torch.scatter(x, 0, index, x + 9),
        lambda x, index: torch.scatter_add(x, 0, index, x + 9),
        lambda x, index: torch.scatter_reduce(x, 0, index, x + 9, "amax"),
        lambda x, index: torch.scatter(x, 0, index, x[3]),
    ],
)
def test_one_index_of_several_sources(function):
    assert_as_on_cpu(function, torch.arange(4.0), torch.tensor(1))


@pytest.mark.parametrize("dtype", [torch.uint8, torch.int32, torch.int64, torch.float32])
@pytest.mark.parametrize("function", [torch.median, torch.nanmedian])
def test_medians_of_nothing(function, dtype):
    assert_as_on_cpu(function, torch.empty(0, dtype=dtype))


@pytest.mark.parametrize("function", [torch.det, torch.linalg.lu, torch.linalg.lu_factor, torch.linalg.qr])
def test_factors_of_types_that_torch_has_no_routine_for(function):
    with pytest.raises(Exception, match="not implemented for 'Half'"):
        tree_map(torch.Tensor.cpu, function(normal(3, 3).to("xla", torch.float16)))
