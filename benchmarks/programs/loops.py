"""Control flow: loops whose steps are small, and branches."""

import jax
import jax.numpy as jnp
from jax import lax

from benchmarks.programs.arguments import integers, normal, scalar, uniform
from benchmarks.programs.registry import program


@program("scalar-while", scalar(1.0))
def scalar_while(x):
    """A hundred thousand steps of next to nothing."""
    return lax.while_loop(lambda s: s[0] < 100_000, lambda s: (s[0] + 1, s[1] * 0.9999 + 0.1), (0, x))


@program("collatz", integers(1, low=837799, high=837800))
def collatz(n):
    """A loop whose length is not known, with a choice a step; repeated, for 52,400 steps."""

    def steps(_, total):
        def step(s):
            return jnp.where(s[0] % 2 == 0, s[0] // 2, (3 * s[0] + 1) % 1_000_003), s[1] + 1

        return lax.while_loop(lambda s: s[1] < 524, step, (n[0] + total % 2, 0))[0] + total

    return lax.fori_loop(0, 100, steps, jnp.int32(0))


@program("rnn", normal(1000, 128), normal(128, 128, scale=0.05), normal(128, 128, scale=0.05), normal(128))
def rnn(inputs, w, u, b):
    """A cell of 128 units, a thousand steps, every state a result."""

    def step(h, x):
        h = jnp.tanh(x @ w + h @ u + b)
        return h, h

    return lax.scan(step, jnp.zeros(128), inputs)


@program("lstm", normal(200, 16, 64), normal(64, 512, scale=0.05), normal(128, 512, scale=0.05), normal(512, scale=0.1))
def lstm(inputs, w, u, b):
    """Four gates, sixteen sequences."""

    def step(state, x):
        h, c = state
        i, f, g, o = jnp.split(x @ w + h @ u + b, 4, axis=1)
        c = jax.nn.sigmoid(f) * c + jax.nn.sigmoid(i) * jnp.tanh(g)
        h = jax.nn.sigmoid(o) * jnp.tanh(c)
        return (h, c), h

    zeros = jnp.zeros((16, 128))
    return lax.scan(step, (zeros, zeros), inputs)[1]


@program("jacobi", normal(64, 64))
def jacobi(x):
    """Two hundred sweeps of a small stencil."""

    def sweep(_, x):
        inner = (x[:-2, 1:-1] + x[2:, 1:-1] + x[1:-1, :-2] + x[1:-1, 2:]) * 0.25
        return x.at[1:-1, 1:-1].set(inner)

    return lax.fori_loop(0, 200, sweep, x)


@program("fill-rows", normal(512))
def fill_rows(x):
    """Each step writes a row of the state in place."""

    def step(k, table):
        return lax.dynamic_update_index_in_dim(table, x * k, k, 0)

    return lax.fori_loop(0, 1000, step, jnp.zeros((1000, 512)))


@program("mandelbrot", uniform(256, 256, low=-2.0, high=0.5), uniform(256, 256, low=-1.2, high=1.2), outliers=0.002)
def mandelbrot(re, im):
    """Steps over an array until none is left, at most two hundred. Counts are equal but for points near the border."""

    def step(state):
        k, x, y, count = state
        inside = x * x + y * y < 4.0
        next_x = jnp.where(inside, x * x - y * y + re, x)
        next_y = jnp.where(inside, 2.0 * x * y + im, y)
        return k + 1, next_x, next_y, count + inside

    def alive(state):
        return (state[0] < 200) & jnp.any(state[1] ** 2 + state[2] ** 2 < 4.0)

    zeros = jnp.zeros_like(re)
    return lax.while_loop(alive, step, (0, zeros, zeros, zeros))[3]


@program("branches", normal(2048, 64), integers(2048, high=3))
def branches(x, kinds):
    """A choice of three a step."""

    def step(h, item):
        row, kind = item
        h = lax.switch(kind, [lambda h: h + row, lambda h: h * 0.5 - row, lambda h: jnp.tanh(h)], h)
        return h, h.sum()

    return lax.scan(step, jnp.zeros(64), (x, kinds))
