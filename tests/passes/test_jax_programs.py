"""Programs that JAX lowers: every pass, and all of them in a row, keep their values."""

import numpy as np
import pytest

from xloom.hlo.text.parser import parse
from xloom.passes import PASSES, Compare, run_passes

jax = pytest.importorskip("jax")
jnp = pytest.importorskip("jax.numpy")

ALL = (
    "expand,call-inlining,tuple-simplification,single-window-simplification,update-predication,update-accumulation,"
    "while-loop-simplification,algebraic-simplification,"
    "layout-simplification,constant-folding,cse,dce"
)


def _softmax(x):
    return jax.nn.softmax(x, axis=-1) @ x.T


def _scan(x):
    def step(carry, row):
        total, count, constant = carry
        return (total + row * constant, count + 1, constant), total.sum()

    return jax.lax.scan(step, (jnp.zeros(4), 0, jnp.float32(2)), x)


def _branches(x):
    return jax.lax.cond(x[0, 0] > 0, lambda v: v * 2, lambda v: v.at[1].set(0), x), jax.lax.switch(
        1, [jnp.sin, jnp.cos, jnp.tan], x
    )


def _integers(x):
    i = (x * 10).astype(jnp.int32)
    return (i + 3) + 4, (i // 4) * 4 + i % 4, (i.astype(jnp.uint32) >> 0) & np.uint32(0xFFFFFFFF), jnp.bitwise_xor(i, i)


def _movement(x):
    y = x.T.reshape(2, 2, 4).transpose(2, 0, 1).T
    return jnp.concatenate([y[:1], y[1:]]), jnp.flip(jnp.flip(x, 0), 0), jnp.pad(x, 0), jnp.broadcast_to(x[0], (3, 4))


def _indexing(x):
    i = jnp.argmax(x, axis=1)
    return x[jnp.arange(4), i], jnp.take_along_axis(x, i[:, None], 1), jax.lax.dynamic_slice(x, (1, 7), (2, 2))


def _norm(x):
    mean = x.mean(-1, keepdims=True)
    return (x - mean) / jnp.sqrt(((x - mean) ** 2).mean(-1, keepdims=True) + 1e-5) * 1.0 + 0.0


def _fori(x):
    return jax.lax.fori_loop(0, 1, lambda i, v: v + i, x), jax.lax.fori_loop(0, 5, lambda i, v: v * 2 - v + i, x)


def _select(x):
    return jnp.where(x == x, x, 0.0), jnp.clip(x, -jnp.inf, jnp.inf), jnp.where(~(x > 0), x, jnp.abs(-x))


def _complex(x):
    z = x + 1j * x[::-1]
    return z.real, z.imag, jax.lax.complex(z.real, z.imag), z * z.conj()


def _gradient(x):
    return jax.grad(lambda v: jnp.tanh(v @ v).sum() + jax.nn.gelu(v).mean())(x)


def _random(x):
    return x + jax.random.normal(jax.random.PRNGKey(0), x.shape)


def _batched_loop(x):
    def fill(at, row):
        def step(state):
            k, row = state
            return k + 1, jax.lax.dynamic_update_slice(row.at[k].set(k * 2.0).at[(k * 3) % 5].add(1.0), row[:2], (k,))

        return jax.lax.while_loop(lambda state: state[0] < 3, step, (at, row))

    batches = jax.vmap(fill)(jnp.argmax(x, axis=1), x)
    return batches, jax.vmap(fill)(jnp.argmin(x[:1], axis=1), x[:1])


def _updates_by_condition(x):
    every = jax.vmap(lambda row, k: jax.lax.cond(row[k] > 0, lambda r: r.at[k].set(7.0), lambda r: r, row))
    kept = jnp.where(x[0, 0] > 5, x, x.at[1, 2].multiply(3.0))
    return every(x, jnp.arange(4)), kept, jnp.where(x.sum() > 0, x.at[jnp.array([0, 9])].set(1.0), x)


def _gradient_of_reads(x):
    def total(v):
        def step(carry, k):
            return jnp.tanh(carry + v[k] + v[(k * 3) % 4, 1] * v[:2].sum()), v[jnp.array([0, 3]), k].sum()

        return sum(map(jnp.sum, jax.lax.scan(step, v[0], jnp.arange(4))))

    return jax.grad(total)(x)


PROGRAMS = [
    _softmax,
    _scan,
    _branches,
    _integers,
    _movement,
    _indexing,
    _norm,
    _fori,
    _select,
    _complex,
    _gradient,
    _random,
    _batched_loop,
    _updates_by_condition,
    _gradient_of_reads,
]


def lowered(function) -> str:
    return jax.jit(function).lower(np.ones((4, 4), np.float32)).as_text(dialect="hlo")


@pytest.mark.parametrize("function", PROGRAMS, ids=lambda f: f.__name__.strip("_"))
def test_all_passes_keep_values(function) -> None:
    module = parse(lowered(function))
    before = sum(map(len, module.computations))
    run_passes(module, ALL, compare=Compare(seed=5, samples=2))
    assert sum(map(len, module.computations)) <= before
    run_passes(module, ALL, compare=Compare(seed=6, samples=2))


@pytest.mark.parametrize("name", sorted(PASSES.keys() - {"outline"}))
def test_each_pass_alone_keeps_values(name: str) -> None:
    for function in (_scan, _branches, _integers, _movement, _select, _updates_by_condition):
        run_passes(parse(lowered(function)), name, compare=True)


def test_known_loops_and_calls_go() -> None:
    module = parse(lowered(lambda x: jax.lax.fori_loop(0, 1, lambda i, v: v + i, x)))
    run_passes(module, ALL)
    assert "while" not in {i.opcode for i in module.instructions}
    module = parse(lowered(jax.jit(lambda x: jnp.where(x > 0, x, 0))))
    run_passes(module, ALL)
    assert [c.name for c in module.computations] == [module.entry.name]
