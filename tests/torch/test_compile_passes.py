"""Passes of the user's own over the graphs of torch.compile."""

import pytest
import torch
from torch import nn
from torch._dynamo.exc import BackendCompilerFailed

import xloom as xl
from tests.passes.pattern.told_kernels import attention as reference
from xloom.calls import registry

pytestmark = pytest.mark.filterwarnings("ignore")
called = []


@pytest.fixture(autouse=True)
def fresh():
    torch._dynamo.reset()
    before = dict(registry._registered)

    @xl.custom_call("test.twice")
    def twice(out, x):
        called.append(x.shape)
        out[...] = 2 * x

    called.clear()
    yield
    registry._registered.clear()
    registry._registered.update(before)
    torch._dynamo.reset()


def compiled(function, passes, **options):
    return torch.compile(function, backend="xloom", fullgraph=True, options={"passes": passes}, **options)


def gelu_and_more(x):
    return nn.functional.gelu(x) + 1


OUTLINE = "outline{pattern=gelu_erf,target=test.twice}"
X = torch.linspace(-2, 2, 12).reshape(3, 4)


@pytest.mark.parametrize("dynamic", [False, True])
def test_a_fused_operator_becomes_a_kernel(dynamic):
    function = compiled(gelu_and_more, OUTLINE, dynamic=dynamic)
    for rows in (3, 2, 1):
        assert torch.allclose(function(X[:rows]), 2 * X[:rows] + 1)
    assert called


def test_passes_run_in_order():
    assert torch.allclose(compiled(gelu_and_more, f"{OUTLINE},expand")(X), gelu_and_more(X), atol=1e-6)
    assert not called


def test_weights_that_are_kept():
    model = nn.Sequential(nn.Linear(4, 4), nn.GELU()).eval()
    with torch.no_grad():
        assert torch.allclose(compiled(model, OUTLINE)(X), 2 * model[0](X), atol=1e-5)


def test_gradients():
    x = X.clone().requires_grad_()
    compiled(gelu_and_more, "cse,dce")(x).sum().backward()
    y = X.clone().requires_grad_()
    gelu_and_more(y).sum().backward()
    assert x.grad is not None and y.grad is not None
    assert torch.allclose(x.grad, y.grad, atol=1e-5)


@pytest.mark.parametrize("masked", [False, True])
def test_attention_is_found_beside_what_nobody_uses(masked):
    q, k, v = torch.randn(3, 2, 3, 5, 8)
    mask = (torch.rand(2, 3, 5, 5) > 0.3) | (torch.arange(5) == 0) if masked else None
    seen = []

    @xl.custom_call("test.attention")
    def attention(out, *operands, match):
        seen.append((match.scale, match.mask))
        reference(out, *operands, match=match)

    def function(q, k, v):
        return nn.functional.scaled_dot_product_attention(q, k, v, attn_mask=mask)

    with torch.no_grad():
        found = compiled(function, "outline{pattern=attention,target=test.attention}")(q, k, v)
        assert torch.allclose(found, function(q, k, v), atol=1e-5)
    assert seen == [(pytest.approx(8**-0.5), "boolean" if masked else "none")]


def test_a_malformed_pipeline():
    with pytest.raises(BackendCompilerFailed, match="there is no pass 'outlin'"):
        compiled(gelu_and_more, "outlin")(X)
