"""What a training step keeps from its forward to its backward half."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import xloom as xl

LAYERS, ROWS, WIDTH = 6, 256, 128
RANDOM = np.random.default_rng(0)


def kept(loss, *arguments) -> float:
    """Temporary memory of the loss's gradients, as a number of activations."""
    step = jax.grad(loss)
    module = xl.from_stablehlo(jax.jit(step).lower(*arguments).as_text())
    executable = xl.compile(module)
    flat = [np.asarray(a) for a in jax.tree.leaves(arguments)]
    for found, wanted in zip(executable(*flat), jax.tree.leaves(step(*arguments)), strict=True):
        np.testing.assert_allclose(found, wanted, rtol=1e-2, atol=1e-3 * np.abs(wanted).max())
    return executable.memory.temporary_bytes / (4 * ROWS * WIDTH)


@pytest.mark.parametrize(
    ("activation", "each"),
    [
        (jax.nn.relu, 1),  # its result, of which the mask is made too
        (jax.nn.gelu, 3),  # what it is of, its tanh and its result, not half of 1 + tanh
    ],
    ids=["relu", "gelu"],
)
def test_activations(activation, each):
    def loss(weights, x):
        for w in weights:
            x = activation(x @ w)
        return (x * x).sum()

    weights = [RANDOM.normal(size=(WIDTH, WIDTH)).astype(np.float32) / 8 for _ in range(LAYERS)]
    assert kept(loss, weights, RANDOM.normal(size=(ROWS, WIDTH)).astype(np.float32)) <= each * LAYERS + 2


def test_sums_by_index_begin_with_numbers_of_their_own():
    def loss(weights, x, source, target):
        for w in weights:
            x = jnp.tanh(jax.ops.segment_sum(x[source] @ w, target, ROWS))
        return (x * x).sum()

    weights = [RANDOM.normal(size=(WIDTH, WIDTH)).astype(np.float32) / 8 for _ in range(LAYERS)]
    places = RANDOM.integers(0, ROWS, (2, ROWS)).astype(np.int32)
    x = RANDOM.normal(size=(ROWS, WIDTH)).astype(np.float32)
    assert kept(loss, weights, x, *places) <= 2 * LAYERS + 1
