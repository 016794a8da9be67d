"""Which thread writes what a loop begins with."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import xloom as xl
from xloom.cpu.printers import loops_text


def filled(width: int, steps: int):
    """Rows of zeros, of which each step of a loop writes one; lowered."""

    def rows(x):
        return jax.lax.fori_loop(0, steps, lambda k, s: s.at[k].set(jnp.sin(x * k)), jnp.zeros((steps, width)))

    return xl.from_stablehlo(jax.jit(rows).lower(np.zeros(width, np.float32)).as_text())


@pytest.mark.parametrize(("width", "steps", "shared"), [(512, 1000, 0), (65536, 16, 2)])
def test_a_loop_that_one_thread_does_begins_with_what_that_thread_wrote(width, steps, shared):
    """The other half would come out of another core's cache, line by line."""
    module = filled(width, steps)
    assert loops_text(module).count("shared among threads") == shared
    x = np.ones(width, np.float32)
    np.testing.assert_allclose(
        xl.compile(module)(x), np.sin(np.arange(steps, dtype=np.float32))[:, None] * x, rtol=1e-5
    )
