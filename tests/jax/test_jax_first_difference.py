"""`xl.testing.first_difference` of functions of JAX."""

from pathlib import Path

import numpy as np
import pytest

pytest.importorskip("jax")

import jax
import jax.numpy as jnp

import xloom as xl
from xloom.difference import sides
from xloom.interpreter.registry import RULES


def layer(x, w):
    h = jnp.tanh(x @ w["in"])
    for _ in range(2):
        h = jax.lax.fori_loop(0, 3, lambda _, y: jnp.sin(y) + y, h)
    return h / (1 + jnp.abs(h)).sum()


def test_of_a_function_of_jax(monkeypatch):
    args = np.ones((3, 4)), {"in": np.linspace(-1, 1, 8).reshape(4, 2), "unused": np.zeros(2)}
    assert xl.testing.first_difference(layer, args) is None
    assert xl.testing.first_difference(jax.jit(layer), args, against="jaxlib") is None

    def wrong(instruction, operands, evaluator):
        return -RULES["abs"](instruction, operands, evaluator)

    monkeypatch.setattr(sides, "RULES", {**RULES, "abs": wrong})
    found = xl.testing.first_difference(layer, args, on="interpreter", against="cpu")
    assert found.instruction.opcode == "abs"
    lines = Path(__file__).read_text().splitlines()
    line = next(k for k, text in enumerate(lines, 1) if "jnp.abs" in text)
    assert f"at {__file__}:{line}" in str(found)
