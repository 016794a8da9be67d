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


BY_LU = {
    "lu": lambda a, b: torch.linalg.lu(a),
    "lu_factor": lambda a, b: torch.linalg.lu_factor(a)[0],
    "lu_solve": lambda a, b: torch.linalg.lu_solve(*torch.linalg.lu_factor(a), b),
    "lu_solve adjoint": lambda a, b: torch.linalg.lu_solve(*torch.linalg.lu_factor(a), b, adjoint=True),
    "inv": lambda a, b: torch.linalg.inv(a),
    "det": lambda a, b: torch.linalg.det(a),
    "slogdet": lambda a, b: torch.linalg.slogdet(a)[1],
    "solve": torch.linalg.solve,
    "solve right": lambda a, b: torch.linalg.solve(a, b.mT, left=False),
    "solve vector": lambda a, b: torch.linalg.solve(a, b[..., 0]),
}


BY_QR = {
    "qr": lambda a, b: torch.linalg.qr(a),
    "qr complete": lambda a, b: torch.linalg.qr(a.detach()[..., :2], "complete"),
    "qr wide": lambda a, b: torch.linalg.qr(a[..., :2, :]),
    "r": lambda a, b: torch.linalg.qr(a.detach(), "r")[1],
    "geqrf": lambda a, b: torch.geqrf(a.detach()),
    "householder_product": lambda a, b: torch.linalg.householder_product(*torch.geqrf(a.detach())),
    "ormqr": lambda a, b: torch.ormqr(*torch.geqrf(a.detach()), b),
    "ormqr adjoint": lambda a, b: torch.ormqr(*torch.geqrf(a.detach()), b, transpose=True),
    "ormqr right": lambda a, b: torch.ormqr(*torch.geqrf(a.detach()), b.mT, left=False),
    "ormqr right adjoint": lambda a, b: torch.ormqr(*torch.geqrf(a.detach()), b.mT, left=False, transpose=True),
}
BY_FACTORS = BY_LU | BY_QR


@pytest.mark.parametrize("function", BY_FACTORS)
@pytest.mark.parametrize("dims", [(3, 3), (4, 9, 9), (2, 70, 70)])
@pytest.mark.parametrize("dtype", [torch.float64, torch.complex128])
def test_what_is_made_of_factors(function, dims, dtype):
    from xloom.torch.compile_backend import traced

    torch.manual_seed(0)
    a, b = torch.randn(dims, dtype=dtype) + 2 * torch.eye(dims[-1]), torch.randn((*dims[:-1], 2), dtype=dtype)

    def values(door):
        x, y = a.clone().requires_grad_(), b.clone().requires_grad_()
        results = door(BY_FACTORS[function])(x, y)
        results = results if isinstance(results, tuple) else (results,)
        total = torch.stack([(r.abs() ** 2).sum().log() for r in results]).sum()
        gradients = torch.autograd.grad(total, (x, y), allow_unused=True) if total.requires_grad else ()
        return *results, *gradients

    for found, expected in zip(values(traced), values(lambda f: f), strict=True):
        if expected is not None:
            torch.testing.assert_close(found, expected, rtol=1e-9, atol=1e-9)


def test_tall_matrices():
    from xloom.torch.compile_backend import traced

    a = torch.randn(3000, 9, dtype=torch.float64)
    for function in (torch.linalg.qr, torch.geqrf):
        for found, expected in zip(traced(function)(a), function(a), strict=True):
            torch.testing.assert_close(found, expected, rtol=1e-9, atol=1e-9)
