"""`xl.testing.first_difference` of functions and models of PyTorch."""

import pytest

pytest.importorskip("torch")

import torch

import xloom as xl
from xloom.difference import sides
from xloom.interpreter.registry import RULES


@pytest.mark.filterwarnings("ignore::FutureWarning")  # torch.export's own
def test_of_a_model_and_of_a_function(monkeypatch):
    torch.manual_seed(0)
    model = torch.nn.Sequential(torch.nn.Linear(4, 3), torch.nn.ReLU(), torch.nn.LayerNorm(3))
    x = torch.randn(2, 4)
    assert xl.testing.first_difference(model, [x]) is None

    def wrong(instruction, operands, evaluator):
        return RULES["tanh"](instruction, operands, evaluator) * 2

    monkeypatch.setattr(sides, "RULES", {**RULES, "tanh": wrong})
    found = xl.testing.first_difference(lambda x: torch.tanh(x.T[1:]).sum(0) * 3, [x], on="interpreter", against="cpu")
    assert found.instruction.opcode == "tanh" and found.operands[0].shape == (3, 2)
