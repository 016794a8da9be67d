"""XLOOM_CHECK's checks of values through both doors of PyTorch."""

import pytest

torch = pytest.importorskip("torch")

import xloom.torch as xt  # noqa: E402


@pytest.fixture(autouse=True)
def checks(monkeypatch):
    monkeypatch.setenv("XLOOM_CHECK", "nan,oob")


def test_compiled_functions():
    @torch.compile(backend="xloom")
    def function(x, rows, i):
        return torch.where(x > 0, torch.log(x), 0.0), rows[i]

    x, rows = torch.tensor([1.0, 2.0, 3.0]), torch.ones(4, 2)
    function(x, rows, torch.tensor([0, 3]))
    with pytest.raises(
        RuntimeError, match=r"log makes NaN of operands that have none: element \[2\] of 3.* = -3.0 .*py:\d"
    ):
        function(torch.tensor([1.0, 2.0, -3.0]), rows, torch.tensor([0, 3]))
    with pytest.raises(RuntimeError, match="has an index out of range"):
        function(x, rows, torch.tensor([0, 4]))


def test_the_device():
    x = torch.tensor([1.0, -2.0]).to(xt.device())
    with pytest.raises(RuntimeError, match=r"sqrt makes NaN .* = -2.0"):
        torch.sqrt(x).cpu()
