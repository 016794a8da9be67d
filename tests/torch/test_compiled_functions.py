"""What torch.compile traces besides plain operators: lists of tensors, derivatives of functions, complex numbers."""

from typing import Any

import pytest
import torch

import xloom.torch  # noqa: F401 - the backend

TORCH: Any = torch  # of these functions it says that they are its own
FOREACH = {
    "numbers": lambda x, y: TORCH._foreach_add(TORCH._foreach_mul(x, 0.9), TORCH._foreach_sqrt(TORCH._foreach_abs(y))),
    "tensors": lambda x, y: TORCH._foreach_add(TORCH._foreach_div(x, y), y, alpha=2),
    "numbers of each": lambda x, y: TORCH._foreach_pow(TORCH._foreach_sub(x, [1.0, 2.0]), [2.0, 3.0]),
    "three": lambda x, y: TORCH._foreach_addcdiv(TORCH._foreach_lerp(x, y, 0.1), x, y, value=0.5),
    "factors": lambda x, y: TORCH._foreach_addcmul(x, x, y, [0.5, 2.0]),
    "norms": lambda x, y: TORCH._foreach_norm(x, 1),
    "where they lie": lambda x, y: (
        TORCH._foreach_addcmul_(TORCH._foreach_neg(x), x, y) or TORCH._foreach_clamp_min(x, 0.1)
    ),
}


def compiled(function, *args):
    torch._dynamo.reset()
    return torch.compile(function, backend="xloom")(*args)


OF_NUMBERS = {
    "bartlett": lambda **o: torch.bartlett_window(8, **o),
    "blackman": lambda **o: torch.blackman_window(7, periodic=False, **o),
    "hamming": lambda **o: torch.hamming_window(7, True, 0.5, 0.4, **o),
    "kaiser": lambda **o: torch.kaiser_window(9, True, 5.0, **o),
    "frequencies": lambda **o: torch.fft.fftfreq(8, d=0.5, **o),
    "frequencies of reals": lambda **o: torch.fft.rfftfreq(7, dtype=torch.float64, **o),
    "range": lambda **o: torch.ops.aten.range.step(1, 2, 0.25, **o),
    "range of integers": lambda **o: torch.ops.aten.range.step(5, 0, -2, dtype=torch.int32, **o),
}


@pytest.mark.parametrize("name", OF_NUMBERS)
def test_windows_frequencies_and_ranges(name):
    made = OF_NUMBERS[name](device="cpu")
    torch.testing.assert_close(compiled(lambda: OF_NUMBERS[name](device="cpu")), made, rtol=0, atol=0)
    torch.testing.assert_close(OF_NUMBERS[name](device="xla").cpu(), made)


@pytest.mark.parametrize("name", FOREACH)
def test_lists_of_tensors(name):
    torch.manual_seed(0)
    x, y = ([torch.randn(4, 3), torch.randn(5)] for _ in range(2))
    torch.testing.assert_close(compiled(FOREACH[name], x, y), FOREACH[name](x, y), equal_nan=True)


@pytest.mark.filterwarnings("ignore::DeprecationWarning")  # torch's own
def test_optimizer_of_lists():
    def trained(step_of):
        torch.manual_seed(0)
        weights = [torch.randn(3, 4, requires_grad=True), torch.randn(4, requires_grad=True)]
        optimizer = torch.optim.AdamW(weights, foreach=True)
        step = step_of(optimizer.step)
        for _ in range(3):
            for w in weights:
                w.grad = w.detach().cos()
            step()
        return weights

    torch._dynamo.reset()
    torch.testing.assert_close(trained(lambda s: torch.compile(s, backend="xloom")), trained(lambda s: s))


@pytest.mark.filterwarnings("ignore::DeprecationWarning")
def test_second_derivatives():
    w, x = torch.randn(5, 4, dtype=torch.float64), torch.randn(4, dtype=torch.float64)

    def hessian(w, x):
        return torch.func.hessian(lambda x: torch.logsumexp(w @ x, 0))(x)

    torch.testing.assert_close(compiled(hessian, w, x), hessian(w, x))


def test_gradient_through_a_complex_factor():
    x = torch.randn(4, 2, requires_grad=True)

    def turned(x):
        return torch.view_as_real(torch.exp(torch.view_as_complex(x) * 1j)).square().sum()

    found, want = compiled(turned, x), turned(x)
    torch.testing.assert_close(*(torch.autograd.grad(out, x) for out in (found, want)))
