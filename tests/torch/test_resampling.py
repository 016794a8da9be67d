"""Images made larger and smaller, and the gradients of that."""

import pytest
import torch
from torch._ops import OpOverload
from torch.nn.functional import interpolate

import xloom.torch  # noqa: F401 - the backend
from xloom.torch.compile_backend import traced
from xloom.torch.decompositions.whole_operators import _KEYS, _operators, whole_operators

SIZES = {
    "doubled": {"scale_factor": 2},
    "larger": {"size": 13},
    "smaller": {"size": 5},
    "by a fraction": {"scale_factor": 1.7},
    "halved": {"scale_factor": 0.5},
    "one": {"size": 1},
}
RANKS = {"nearest": (1, 2, 3), "nearest-exact": (1, 2, 3), "linear": (1,), "bilinear": (2,), "trilinear": (3,)}
RANKS["bicubic"] = (2,)


@pytest.mark.parametrize("size", SIZES)
@pytest.mark.parametrize(("mode", "rank"), [(mode, rank) for mode, ranks in RANKS.items() for rank in ranks])
def test_gradients(mode, rank, size):
    torch.manual_seed(0)
    x = torch.randn(2, 3, *(8, 9, 7)[:rank], dtype=torch.float64, requires_grad=True)

    def resampled(x):
        return interpolate(x, mode=mode, **SIZES[size])

    found, want = traced(resampled)(x), resampled(x)
    torch.testing.assert_close(found, want)
    torch.testing.assert_close(*(torch.autograd.grad(y.square().sum(), x) for y in (found, want)))


def test_infinities_reach_no_neighbours_but_theirs():
    x = torch.zeros(1, 1, 16)
    x[0, 0, 3] = torch.inf
    for size in (40, 7):
        want = interpolate(x, size=size, mode="linear").isfinite()
        found = traced(lambda x, n=size: interpolate(x, size=n, mode="linear"))(x)
        assert found.isfinite()[~want].sum() == 0 and found.isfinite().sum() >= want.sum() - 1


def test_bytes_and_narrow_floats():
    x = torch.arange(48, dtype=torch.uint8).view(1, 3, 4, 4)
    assert torch.equal(traced(lambda x: interpolate(x, scale_factor=2))(x), interpolate(x, scale_factor=2))
    y = torch.arange(48.0).view(1, 3, 4, 4).bfloat16()
    options = {"size": (7, 9), "mode": "bilinear"}
    torch.testing.assert_close(traced(lambda x: interpolate(x, **options))(y), interpolate(y, **options))


def test_torch_has_its_own_again_afterwards():
    def kernels() -> list[tuple[OpOverload, list]]:
        return [(op, [op.py_kernels.get(key) for key in _KEYS]) for op in _operators()]

    before = kernels()
    with whole_operators():
        inside = kernels()
        with whole_operators():
            assert kernels() == inside != before
        assert kernels() == inside
    assert kernels() == before


def test_one_graph_for_all_sizes():
    from torch._dynamo.testing import CompileCounterWithBackend

    torch._dynamo.reset()
    counter = CompileCounterWithBackend("xloom")
    compiled = torch.compile(lambda x: interpolate(x, scale_factor=2, mode="bilinear"), backend=counter, dynamic=True)
    for size in ((2, 3, 8, 9), (2, 3, 11, 12), (3, 4, 5, 6)):
        x = torch.randn(size)
        torch.testing.assert_close(compiled(x), interpolate(x, scale_factor=2, mode="bilinear"))
    assert counter.frame_count == 1
