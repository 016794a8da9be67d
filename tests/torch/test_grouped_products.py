"""Products in groups, as mixtures of experts have them, on both doors against the CPU."""

import pytest
import torch
from torch.nn.functional import grouped_mm

import xloom.torch
from xloom.torch.metrics import METRICS

ENDS = torch.tensor([3, 3, 11, 16], dtype=torch.int32)
SIDES = {
    "rows": ((16, 24), (4, 24, 8)),
    "columns": ((4, 8, 24), (24, 16)),
    "depth": ((8, 16), (16, 24)),
    "batch": ((4, 8, 16), (4, 16, 24)),
}
# torch compiles these of bf16 only
DOORS = [("compile", torch.bfloat16), ("device", torch.bfloat16), ("device", torch.float32)]


@pytest.mark.parametrize(("door", "dtype"), DOORS)
@pytest.mark.parametrize("kind", SIDES)
def test_groups(door, dtype, kind):
    torch.manual_seed(0)
    left, right = (torch.randn(dims).to(dtype) for dims in SIDES[kind])
    device = xloom.torch.device() if door == "device" else "cpu"

    def multiply(a, b, ends):
        return grouped_mm(a, b, offs=None if kind == "batch" else ends)

    torch._dynamo.reset()
    call = torch.compile(multiply, backend="xloom") if door == "compile" else multiply
    results = []
    for function, place in ((multiply, "cpu"), (call, device)):
        a, b = (each.detach().to(place).requires_grad_() for each in (left, right))
        out = function(a, b, ENDS.to(place))
        # a weight for each element; kernels take gradients of 16 bytes a line or more
        (out.float() * torch.arange(out.numel(), device=place).reshape(out.shape).cos()).sum().backward()
        results.append([t.detach().cpu().float() for t in (out, a.grad, b.grad) if t is not None])
    for found, want in zip(results[1], results[0], strict=True):
        torch.testing.assert_close(found, want, rtol=2e-2 if dtype is torch.bfloat16 else 1e-5, atol=1e-5)


@pytest.mark.parametrize("ends", [[3, 3, 11, 16], [0, 16, 16, 16], [2, 5, 5, 9]])
@pytest.mark.parametrize("kind", [torch.int32, torch.int64])
@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
def test_the_operator_of_transformers_runs_in_the_program(ends, kind, dtype):
    pytest.importorskip("transformers.integrations.moe")
    torch.manual_seed(0)
    rows, matrices = torch.randn(16, 24).to(dtype), torch.randn(4, 24, 8).to(dtype)

    def gradients(multiply):
        a, b = (each.clone().requires_grad_() for each in (rows, matrices))
        out = multiply(a, b, torch.tensor(ends, dtype=kind))
        out.square().sum().backward()
        return out.detach(), a.grad, b.grad

    operator = torch.ops.transformers.grouped_mm_fallback
    torch._dynamo.reset()
    before = METRICS.fallbacks.total()
    found = gradients(torch.compile(lambda a, b, ends: operator(a, b, ends), backend="xloom"))
    assert METRICS.fallbacks.total() == before
    for ours, theirs in zip(found, gradients(operator), strict=True):
        torch.testing.assert_close(ours, theirs, rtol=2e-2 if dtype is torch.bfloat16 else 1e-5, atol=1e-4)
