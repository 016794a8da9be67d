"""Linear algebra of matrices that do not lie in rows."""

import pytest
import torch

import xloom.torch  # noqa: F401

FACTORED = {
    "det": torch.linalg.det,
    "slogdet": lambda m: torch.linalg.slogdet(m)[1],
    "solve": lambda m: torch.linalg.solve(m, m[..., :1] + torch.arange(3.0, device=m.device)[:, None]).sum(),
}
ORDERS = {"columns": lambda m: m.mT, "gaps": lambda m: m[::2, ::2], "rows": lambda m: m}


def gradient(function, order, device, door):
    size = 5 if order == "gaps" else 3
    a = torch.arange(float(size * size)).view(size, size).sin() + torch.eye(size) * 3
    leaf = a.to(device).requires_grad_()
    value = door(lambda m: FACTORED[function](ORDERS[order](m)))(leaf)
    return torch.autograd.grad(value, leaf)[0].cpu()


@pytest.mark.parametrize("function", FACTORED)
def test_gradients_by_factors(function):
    from xloom.torch.compile_backend import traced

    for order in ORDERS:
        expected = gradient(function, order, "cpu", lambda f: f)
        torch.testing.assert_close(gradient(function, order, "xla", lambda f: f), expected)
        torch.testing.assert_close(gradient(function, order, "cpu", traced), expected)


def test_results_of_one_element_with_other_strides():
    x = torch.tensor([[1.0], [2.0], [2.0], [4.0]], device="xla")
    torch.testing.assert_close(torch.linalg.lstsq(x, x * 3).solution.cpu(), torch.tensor([[3.0]]))


def test_triangular_systems_of_two_dtypes():
    a, b = torch.arange(1.0, 5.0, dtype=torch.float64).view(2, 2), torch.ones(2, 1)
    for left, right in ((a, b), (a.float(), b.double())):
        expected = torch.linalg.solve_triangular(left, right, upper=True)
        found = torch.linalg.solve_triangular(left.to("xla"), right.to("xla"), upper=True)
        torch.testing.assert_close(found.cpu(), expected)


def test_exponentials_are_exact_to_their_type():
    for size in (0.03, 0.3, 1.0, 3.0):
        a = torch.arange(18.0, dtype=torch.float64).view(2, 3, 3).sin() * size
        expected = torch.linalg.matrix_exp(a)
        torch.testing.assert_close(torch.linalg.matrix_exp(a.to("xla")).cpu(), expected, rtol=1e-14, atol=1e-14)
