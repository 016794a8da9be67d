"""Loops, scans and branches: what has control flow."""

import jax
import jax.numpy as jnp
from jax import lax
from jax.scipy.special import logsumexp

from benchmarks.programs.arguments import scalar
from benchmarks.sweep.case import Family, array, positive, positive_definite

LOOPS = Family("loops")

# small enough that a recurrence forgets: else the last bit of a product decides what comes out
_WEIGHTS = array(64, 64, low=-0.1, high=0.1)


def _decay(carry, x):
    return carry * 0.9 + x, carry


def _recurrent_layer(weights, carry, inputs):
    return lax.scan(lambda c, x: (jnp.tanh(c @ weights + x), c), carry, inputs)


LOOPS.add("scan-vector", lambda c, xs: lax.scan(_decay, c, xs), array(64), array(1000, 64))
LOOPS.add("scan-scalar", lambda c, xs: lax.scan(_decay, c, xs), array(), array(1000))
LOOPS.add("scan-product", _recurrent_layer, _WEIGHTS, array(8, 64), array(100, 8, 64))
LOOPS.add(
    "scan-product-gradient",
    jax.grad(lambda w, c, xs: _recurrent_layer(w, c, xs)[0].sum()),
    _WEIGHTS,
    array(8, 64),
    array(100, 8, 64),
)


@LOOPS.program(array(4, 32), array(100, 4, 96), array(32, 96, low=-0.2, high=0.2))
def _gru(carry, inputs, weights):
    def step(c, x):
        z, r, h = (jax.nn.sigmoid(gate) for gate in jnp.split(c @ weights + x, 3, -1))
        return (1 - z) * c + z * jnp.tanh(h * r), c.sum()

    return lax.scan(step, carry, inputs)


@LOOPS.program(array(1000))
def _fori_add(x):
    return lax.fori_loop(0, 1000, lambda i, x: x * 0.5 + i, x)


@LOOPS.program(array(1000))
def _fori_update(x):
    return lax.fori_loop(0, 1000, lambda i, x: x.at[i].set(i), x)


@LOOPS.program(positive(1000))
def _while_newton(x):
    return lax.while_loop(lambda s: jnp.any(jnp.abs(s * s - x) > 1e-3), lambda s: 0.5 * (s + x / s), x)


@LOOPS.program(array(100, 100))
def _map_sort(x):
    return lax.map(jnp.sort, x)


@LOOPS.program(array(100, 16, 16))
def _map_product(x):
    return lax.map(lambda r: r @ r, x)


@LOOPS.program(array(), array(10_000))
def _cond(p, x):
    return lax.cond(p > 0, jnp.sin, jnp.cos, x)


@LOOPS.program(scalar(1, "int32"), array(10_000))
def _switch(i, x):
    return lax.switch(i, [jnp.sin, jnp.cos, jnp.tan], x)


@LOOPS.program(array(100), array(100, 100))
def _batched_cond(p, x):
    return jax.vmap(lambda p, x: lax.cond(p > 0, jnp.sin, jnp.cos, x))(p, x)


@LOOPS.program(array(30, 30, 8, low=-0.1, high=0.1))
def _nested_scan(x):
    def row(carry, r):
        return lax.scan(lambda d, e: (d + e * carry.sum(), d), carry, r)[0], None

    return lax.scan(row, x[0, 0], x)[0]


@LOOPS.program(scalar(1000, "int32"))
def _fibonacci(n):
    return lax.fori_loop(0, n, lambda _, s: (s[1], s[0] + s[1]), (jnp.int32(0), jnp.int32(1)))


@LOOPS.program(array(500, 128))
def _running_statistics(x):
    return lax.scan(lambda c, x: ((c[0] + x, jnp.maximum(c[1], x)), c), (x[0] * 0, x[0]), x)


@LOOPS.program(array(2, 100))
def _oscillator(y):
    return lax.fori_loop(0, 200, lambda _, y: y + 0.01 * jnp.stack([y[1], -y[0]]), y)


@LOOPS.program(positive_definite(64, 64), array(64))
def _conjugate_gradient(a, b):
    return jax.scipy.sparse.linalg.cg(lambda v: a @ v, b, maxiter=20)[0]


@LOOPS.program(array(128, 128))
def _stencil(x):
    def step(_, x):
        return jnp.tanh(jnp.roll(x, 1, 0) + jnp.roll(x, -1, 0) + jnp.roll(x, 1, 1) + jnp.roll(x, -1, 1))

    return lax.fori_loop(0, 20, step, x)


@LOOPS.program(array(32, 32), array(200, 32))
def _viterbi(transitions, emissions):
    def step(c, e):
        paths = c[:, None] + transitions
        return paths.max(0) + e, paths.argmax(0)

    return lax.scan(step, emissions[0], emissions)


@LOOPS.program(array(32, 32), array(200, 32))
def _forward_algorithm(transitions, emissions):
    def step(c, e):
        return logsumexp(c[:, None] + transitions, axis=0) + e, None

    return lax.scan(step, emissions[0], emissions)[0]


@LOOPS.program(array(100, dtype="s32"), array(100, dtype="s32"))
def _edit_distance(a, b):
    def step(row, x):
        changed = jnp.minimum(row + 1, jnp.where(b == x, 0, 1).astype(row.dtype) + row)
        return lax.associative_scan(jnp.minimum, changed), None

    return lax.scan(step, jnp.arange(100, dtype=jnp.int32), a)[0]
