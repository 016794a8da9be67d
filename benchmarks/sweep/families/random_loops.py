"""Loops with random bodies of stencils, rows, columns, triangles, elements and scalars: what nobody tuned for.

A case is a kind and a number, from which its sizes, its type and the statements of its body are drawn; the same
number is the same program. Values stay bounded: each statement is a weighted mean or a tanh.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from itertools import product
from random import Random
from typing import Any

import jax.numpy as jnp
from jax import lax

from benchmarks.programs.arguments import Argument
from benchmarks.sweep.case import Family, array

RANDOM_LOOPS = Family("random-loops")
_CASES = 50
"""Per kind."""

State = tuple[Any, ...]
Statement = Callable[[Any, State], State]
"""Takes the loop's counter and state, and gives the next state."""


@dataclass(frozen=True)
class Draw:
    """What a case draws from, and the shapes of the state that it has drawn."""

    random: Random
    shapes: list[tuple[int, ...]] = field(default_factory=list)

    def which(self, *ranks: int) -> int:
        """The number of an array of one of these ranks."""
        return self.random.choice([k for k, shape in enumerate(self.shapes) if len(shape) in ranks])

    def share(self) -> float:
        """Of a weighted mean."""
        return round(self.random.uniform(0.1, 0.9), 3)


def _put(state: State, k: int, value: Any) -> State:
    return (*state[:k], value, *state[k + 1 :])


def _mean(share: float, x: Any, y: Any) -> Any:
    return share * x + (1 - share) * y


def stencil(d: Draw) -> Statement:
    """The inside of an array, of neighbours in it or in another."""
    shape = d.shapes[0]
    target, source = d.random.randrange(len(d.shapes)), d.random.randrange(len(d.shapes))
    reach = d.random.choice([1, 1, 1, 2])
    all_offsets = [o for o in product(range(-reach, reach + 1), repeat=len(shape)) if sum(map(abs, o)) <= reach]
    offsets = d.random.sample(all_offsets, min(len(all_offsets), d.random.randint(2, 7)))
    form = d.random.choice(["set", "set", "set", "add", "concatenate", "roll", "where"])
    outer = d.random.choice([lambda x: x, lambda x: x, jnp.tanh, lambda x: x / (1 + x * x)])
    inside = tuple(slice(reach, -reach) for _ in shape)
    weight = 1 / len(offsets)

    def step(i: Any, state: State) -> State:
        x, old = state[source], state[target]
        if form == "roll":
            return _put(state, target, outer(weight * sum(jnp.roll(x, o, range(x.ndim)) for o in offsets)))
        parts = [x[tuple(slice(reach + k, n - reach + k) for k, n in zip(o, shape, strict=True))] for o in offsets]
        new = outer(weight * sum(parts))
        if form == "set":
            return _put(state, target, old.at[inside].set(new))
        if form == "add":
            return _put(state, target, (0.5 * old).at[inside].add(0.5 * new))
        if form == "where":
            return _put(state, target, jnp.where(jnp.abs(old) < 1, jnp.pad(new, reach), old))
        padded = jnp.pad(new, [(0, 0), *[(reach, reach)] * (x.ndim - 1)])
        return _put(state, target, jnp.concatenate([old[:reach], padded, old[-reach:]]))

    return step


def _counter(d: Draw) -> Callable[[Any, int], Any]:
    """An index below a size, out of the loop's counter."""
    form, shift = d.random.choice(["up", "up", "down", "shifted"]), d.random.randint(1, 9)
    if form == "up":
        return lambda i, n: i % n
    if form == "down":
        return lambda i, n: n - 1 - i % n
    return lambda i, n: (i + shift) % n


def row(d: Draw) -> Statement:
    """A row of a matrix, of others or of a vector."""
    target, source, share = d.which(2), d.which(1, 2), d.share()
    here, there = _counter(d), _counter(d)

    def step(i: Any, state: State) -> State:
        a, b = state[target], state[source]
        k, other = here(i, len(a)), b if b.ndim == 1 else b[there(i, len(b))]
        return _put(state, target, a.at[k].set(_mean(share, a[k], other)))

    return step


def column(d: Draw) -> Statement:
    """A column of a matrix, of another column or a row."""
    target, source, share = d.which(2), d.which(2), d.share()
    here, there, crossed = _counter(d), _counter(d), d.random.random() < 0.3

    def step(i: Any, state: State) -> State:
        a, b = state[target], state[source]
        n = len(a)
        other = b[there(i, n)] if crossed else b[:, there(i, n)]
        return _put(state, target, a.at[:, here(i, n)].set(_mean(share, a[:, here(i, n)], other)))

    return step


def rank_one(d: Draw) -> Statement:
    """All of a matrix, of a row and a column of it: Floyd and Warshall, Gauss, Householder."""
    target, source, share = d.which(2), d.which(2), d.share()
    here, form = _counter(d), d.random.choice(["minimum", "mean", "tanh"])

    def step(i: Any, state: State) -> State:
        a, b = state[target], state[source]
        k = here(i, len(a))
        c, r = b[:, k, None], b[None, k]
        if form == "minimum":
            return _put(state, target, jnp.minimum(a, c + r))
        return _put(state, target, _mean(share, a, c * r) if form == "mean" else jnp.tanh(a - c * r))

    return step


def row_product(d: Draw) -> Statement:
    """An element of a vector: the product of a row or a column, or a part of it, with the vector."""
    matrix, vector = d.which(2), d.which(1)
    here, by_column, part = _counter(d), d.random.random() < 0.4, d.random.choice(["all", "below", "above"])

    def step(i: Any, state: State) -> State:
        a, v = state[matrix], state[vector]
        n = len(v)
        k = here(i, n)
        terms = (a[:, k] if by_column else a[k]) * v
        index = jnp.arange(n)
        if part != "all":
            terms = jnp.where(index < k if part == "below" else index > k, terms, 0)
        return _put(state, vector, v.at[k].set(jnp.tanh(terms.sum() / n)))

    return step


def triangle(d: Draw) -> Statement:
    """A row up to the diagonal, of a row of another matrix times an element of it."""
    target, source, share = d.which(2), d.which(2), d.share()
    here, below = _counter(d), d.random.random() < 0.5

    def step(i: Any, state: State) -> State:
        a, b = state[target], state[source]
        k, index = here(i, len(a)), jnp.arange(len(a))
        new = _mean(share, a[k], b[k] * a[k, 0])
        return _put(state, target, a.at[k].set(jnp.where(index <= k if below else index > k, new, a[k])))

    return step


def rows_inside(d: Draw) -> Statement:
    """A loop inside: a row gains from all rows before it."""
    target, source = d.which(2), d.which(2)
    here, masked, few = _counter(d), d.random.random() < 0.5, d.random.random() < 0.5

    def step(i: Any, state: State) -> State:
        b, n = state[source], len(state[target])
        k = here(i, n)

        def inner(j: Any, a: Any) -> Any:
            new = a[k] + b[k, j] * b[j] / n
            new = jnp.where(jnp.arange(n) <= k, new, a[k]) if masked else new
            return a.at[k].set(new)

        return _put(state, target, lax.fori_loop(0, k if few else n, inner, state[target] * 0.99))

    return step


def elements_inside(d: Draw) -> Statement:
    """A loop inside: elements of a row, one after the other."""
    target, share, here = d.which(2), d.share(), _counter(d)

    def step(i: Any, state: State) -> State:
        n = len(state[target])
        k = here(i, n)

        def inner(j: Any, a: Any) -> Any:
            return a.at[k, j].set(_mean(share, a[k, j - 1], a[k - 1, j]))

        return _put(state, target, lax.fori_loop(1, n, inner, state[target]))

    return step


def vector(d: Draw) -> Statement:
    """All of a vector."""
    target, source, share = d.which(1), d.which(1), d.share()
    form = d.random.choice(["mean", "tanh", "normalized", "cumulative", "reversed", "sine", "where"])

    def step(i: Any, state: State) -> State:
        x, y = state[target], state[source]
        new = {
            "mean": lambda: _mean(share, x, y),
            "tanh": lambda: jnp.tanh(x + y),
            "normalized": lambda: x / (1 + jnp.sqrt((y * y).sum())),
            "cumulative": lambda: jnp.cumsum(y) / len(y),
            "reversed": lambda: _mean(share, x, y[::-1]),
            "sine": lambda: jnp.sin(x + i) * share,
            "where": lambda: jnp.where(x > y, x, y - share),
        }[form]()
        return _put(state, target, new)

    return step


def element(d: Draw) -> Statement:
    """An element of a vector, of those before it."""
    target, source, share, here = d.which(1), d.which(1), d.share(), _counter(d)

    def step(i: Any, state: State) -> State:
        x, y = state[target], state[source]
        k = here(i, len(x))
        return _put(state, target, x.at[k].set(_mean(share, x[k - 1], y[k])))

    return step


def spread(d: Draw) -> Statement:
    """A few elements of a vector, at computed index, gain from others."""
    target, source, stride, count = d.which(1), d.which(1), d.random.randint(1, 7), d.random.choice([1, 4, 16, 100])

    def step(i: Any, state: State) -> State:
        x, y = state[target], state[source]
        to = (jnp.arange(count) * stride + i) % len(x)
        return _put(state, target, (x * 0.9).at[to].add(0.05 * y[(to * 3) % len(y)]))

    return step


def matrix_vector(d: Draw) -> Statement:
    """A vector times a matrix, from either side."""
    matrix, target, source, left = d.which(2), d.which(1), d.which(1), d.random.random() < 0.5

    def step(i: Any, state: State) -> State:
        a, v = state[matrix], state[source]
        return _put(state, target, jnp.tanh((v @ a if left else a @ v) / len(v) ** 0.5))

    return step


def scalars(d: Draw) -> Statement:
    """A scalar, of two others."""
    target, x, y = (d.random.randrange(len(d.shapes)) for _ in range(3))
    form, share = d.random.choice(["logistic", "mean", "sine", "root", "select"]), d.share()

    def step(i: Any, state: State) -> State:
        p, q = state[x], state[y]
        new = {
            "logistic": lambda: 1 - share * p * q,
            "mean": lambda: _mean(share, p, q),
            "sine": lambda: jnp.sin(p + share * i),
            "root": lambda: jnp.sqrt(jnp.abs(p * q)),
            "select": lambda: jnp.where(p > q, p - share, q * share),
        }[form]()
        return _put(state, target, new)

    return step


def choice(d: Draw) -> Statement:
    """One of two statements, by the counter or by a value."""
    statements = [d.random.choice([row, column, vector, element, triangle])(d) for _ in range(2)]
    by_value, k = d.random.random() < 0.3, d.which(1)

    def step(i: Any, state: State) -> State:
        condition = state[k][0] > 0 if by_value else i % 2 == 0
        return lax.cond(condition, *[lambda s, f=f: f(i, s) for f in statements], state)

    return step


@dataclass(frozen=True)
class Kind:
    """Shapes of the state, statements of the body, and how many iterations."""

    name: str
    shapes: Sequence[Sequence[tuple[int, ...]]]
    statements: Sequence[Callable[[Draw], Statement]]
    iterations: Sequence[int]


_SQUARES = [[(n, n), (n, n), (n,), (n,)] for n in (10, 33, 64, 100, 200, 257)]
_LARGE_SQUARES = [[(n, n), (n, n), (n,)] for n in (100, 257, 400, 700)]
KINDS = (
    Kind("stencil-1d", [[(n,)] * 2 for n in (50, 500, 2000, 10_001, 100_000)], [stencil], [100, 300]),
    Kind("stencil-2d", [[(n, m)] * 2 for n, m in ((20, 30), (64, 64), (150, 201), (400, 500))], [stencil], [20, 100]),
    Kind("stencil-3d", [[(n, n, n)] * 2 for n in (10, 25, 50, 70)], [stencil], [10, 30]),
    Kind("rows", _SQUARES, [row, column, element, row_product], [100, 300]),
    Kind("updates", _LARGE_SQUARES, [rank_one, row, column, triangle], [50, 100]),
    Kind("triangles", _SQUARES, [triangle, row_product, rows_inside], [30, 60]),
    Kind("elements", _SQUARES[:4], [elements_inside, element, row], [20, 60]),
    Kind("vectors", [[(n,)] * 3 for n in (3, 16, 100, 1000, 20_000)], [vector, element, spread], [100, 1000]),
    Kind("scalars", [[()] * n for n in (2, 4, 8)], [scalars], [1000, 10_000]),
    Kind("mixed", _SQUARES, [choice, row, column, vector, matrix_vector, rank_one, spread], [30, 100]),
)


def _case(kind: Kind, number: int) -> tuple[Callable[..., Any], list[Argument]]:
    d = Draw(Random(f"{kind.name} {number}"))
    d.shapes.extend(d.random.choice(kind.shapes))
    dtype = d.random.choice(["f64", "f64", "f32"])
    statements = [d.random.choice(kind.statements)(d) for _ in range(d.random.choice([1, 1, 2, 3]))]
    iterations = d.random.choice(kind.iterations)
    scanned = d.random.random() < 0.3

    def body(i: Any, state: State) -> State:
        for statement in statements:
            state = statement(i, state)
        return state

    def function(*state: Any) -> Any:
        if scanned:
            return lax.scan(lambda s, i: (body(i, s), s[-1].ravel()[0]), state, jnp.arange(iterations))
        return lax.fori_loop(0, iterations, body, state)

    return function, [array(*shape, dtype=dtype, low=-1.0, high=1.0) for shape in d.shapes]


for _kind in KINDS:
    for _number in range(_CASES):
        _function, _arguments = _case(_kind, _number)
        RANDOM_LOOPS.add(f"{_kind.name}-{_number:02}", _function, *_arguments)
