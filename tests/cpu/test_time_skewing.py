"""Loops whose iterations follow each other a few rows apart compute the same bits as those that do not."""

import math
import random

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax import lax

import xloom as xl
from xloom.cpu.entry import control_flow
from xloom.cpu.lower import lowered
from xloom.cpu.prepare import prepared
from xloom.hlo.instruction import Instruction
from xloom.llvm.target import process_target
from xloom.trace import trace


@pytest.fixture(autouse=True)
def anew(monkeypatch):
    monkeypatch.setenv("XLOOM_CACHE", "0")


def _module(loop, *arguments):
    with jax.enable_x64(True):
        return xl.from_stablehlo(jax.jit(loop, keep_unused=True).lower(*arguments).as_text())


def _is_skewed(module):
    code = lowered(prepared(module), process_target())[-1].code
    return any(isinstance(thunk, Instruction) and thunk.opcode == "while" for thunk in code)


def _both(monkeypatch, module, *arguments):
    """What the program gives in rounds, and iteration by iteration."""
    skewed = xl.compile(module)(*arguments)
    with monkeypatch.context() as patch:
        patch.setattr(control_flow, "skewed", lambda *_: None)
        plain = xl.compile(module)(*arguments)
    return [[np.asarray(x) for x in (r if isinstance(r, tuple) else (r,))] for r in (skewed, plain)]


def _agrees(monkeypatch, module, *arguments):
    for got, expected in zip(*_both(monkeypatch, module, *arguments), strict=True):
        np.testing.assert_array_equal(got, expected)


def _random(*shape):
    return np.random.default_rng(0).random(shape)


def _jacobi(count, a, b):
    def step(_, state):
        a, b = state
        b = b.at[1:-1].set((a[:-2] + a[1:-1] + a[2:]) / 3)
        return a.at[1:-1].set((b[:-2] + b[1:-1] + b[2:]) / 3), b

    return lax.fori_loop(0, count, step, (a, b))


def _heat(count, a):
    """One array, of which neighbours are read while it changes: it is copied in each step."""

    def step(_, a):
        return a.at[1:-1, 1:-1].set(0.2 * (a[1:-1, 1:-1] + a[:-2, 1:-1] + a[2:, 1:-1] + a[1:-1, :-2] + a[1:-1, 2:]))

    return lax.fori_loop(0, count, step, a)


def _wave(count, a, b):
    """Two arrays that take turns."""

    def step(_, state):
        now, before = state
        around = now[:-2, 1:-1] + now[2:, 1:-1] + now[1:-1, :-2] + now[1:-1, 2:] - 4 * now[1:-1, 1:-1]
        return jnp.pad(2 * now[1:-1, 1:-1] - before[1:-1, 1:-1] + 0.1 * around, 1), now

    return lax.fori_loop(0, count, step, (a, b))


def _fields(count, ex, ey, hz, source):
    """Rows of a table that the counter chooses, and arrays of different steps in time."""

    def step(t, state):
        ex, ey, hz = state
        ey = ey.at[0].set(source[t])
        ey = ey.at[1:].set(ey[1:] - 0.5 * (hz[1:] - hz[:-1]))
        ex = ex.at[:, 1:].set(ex[:, 1:] - 0.5 * (hz[:, 1:] - hz[:, :-1]))
        curl = ex[:-1, 1:] - ex[:-1, :-1] + ey[1:, :-1] - ey[:-1, :-1]
        return ex, ey, hz.at[:-1, :-1].set(hz[:-1, :-1] - 0.7 * curl)

    return lax.fori_loop(0, count, step, (ex, ey, hz))


def _walls(count, p, q):
    """The rows and columns at the ends are set apart."""

    def step(t, p):
        p = p.at[1:-1, 1:-1].set((p[1:-1, 2:] + p[1:-1, :-2] + p[2:, 1:-1] + p[:-2, 1:-1]) / 4 - q[1:-1, 1:-1] * t)
        p = p.at[:, -1].set(p[:, -2])
        p = p.at[0].set(p[1])
        return p.at[-1].set(0)

    return lax.fori_loop(0, count, step, p)


def _overwritten(count, a, b):
    """Rows that are written twice in a step, and read by none."""

    def step(t, state):
        a, b = state
        a = a.at[3:].set(jnp.sin(b[:-3]) + t)
        a = a.at[:-3].set(jnp.cos(b[3:]) - t)
        return a, b.at[1:-1].set((b[:-2] + b[1:-1] + b[2:]) / 3)

    return lax.fori_loop(0, count, step, (a, b))


def _trajectory(count, a, b):
    """What is noted in each iteration: an element, and all of every state."""
    noted, states = jnp.zeros(100), jnp.zeros((50, *a.shape))

    def step(t, state):
        a, noted, states = state
        a = a.at[1:-1].set((a[:-2] + a[1:-1] + a[2:]) / 3 + b[1:-1])
        return a, noted.at[t].set(a[7, 5]), states.at[t].set(a)

    return lax.fori_loop(0, count, step, (a, noted, states))


def _table(count, a, b):
    """A step that reads and makes nothing but its own row of a table."""

    def step(t, state):
        a, table = state
        row = b[0] * t
        return a.at[1:-1].set((a[:-2] + a[1:-1] + a[2:]) / 3), lax.dynamic_update_index_in_dim(table, row, t, 0)

    return lax.fori_loop(0, count, step, (a, jnp.zeros((80, b.shape[1]))))


PROGRAMS = {
    "table": (_table, [(130, 150), (4, 200)]),
    "trajectory": (_trajectory, [(258, 150), (258, 150)]),
    "overwritten": (_overwritten, [(400, 20), (400, 20)]),
    "jacobi": (_jacobi, [(5000,), (5000,)]),
    "heat": (_heat, [(130, 150)]),
    "wave": (_wave, [(130, 150), (130, 150)]),
    "fields": (_fields, [(130, 150), (130, 150), (130, 150), (100,)]),
    "walls": (_walls, [(130, 150), (130, 150)]),
}


@pytest.mark.parametrize("count", [0, 7, 61])
@pytest.mark.parametrize("name", PROGRAMS)
def test_same_bits(monkeypatch, name, count):
    loop, shapes = PROGRAMS[name]
    arguments = (np.int64(count), *(_random(*shape) for shape in shapes))
    module = _module(loop, *arguments)
    assert _is_skewed(module)
    _agrees(monkeypatch, module, *arguments)


def test_constant_trips_and_small_counters(monkeypatch):
    a, b = _random(5000), _random(5000)
    module = _module(lambda a, b: _jacobi(np.int32(53), a, b), a, b)
    assert _is_skewed(module)
    _agrees(monkeypatch, module, a, b)


def _until(count, a, b):
    def step(state):
        t, end, a, b = state
        return t + 1, end - (t == 20), *_jacobi(1, a, b)

    return lax.while_loop(lambda state: state[0] < state[1], step, (0, count, a, b))[2:]


def _around(count, a, b):
    return lax.fori_loop(0, count, lambda _, a: (jnp.roll(a, 1) + a + jnp.roll(a, -1)) / 3 + b, a)


def _whole(count, a, b):
    return lax.fori_loop(0, count, lambda _, a: a / (1 + jnp.sum(a)) + b, a)


def _scattered(count, a, b):
    """Where something is noted, a row of the state says that is far from the others."""

    def step(_, state):
        a, place, noted = state
        noted = lax.dynamic_update_slice(noted, a[7:8], (place[4000],))
        return (a + b) / 2, place * 5 % 61 + 1, noted

    return lax.fori_loop(0, count, step, (a, jnp.arange(5000), jnp.zeros(100)))


@pytest.mark.parametrize("loop", [_until, _around, _whole, _scattered])
def test_others_go_iteration_by_iteration(loop):
    a, b = _random(5000), _random(5000)
    module = _module(loop, np.int64(50), a, b)
    assert not _is_skewed(module)
    with jax.enable_x64(True):
        expected = jax.tree.leaves(jax.jit(loop)(50, a, b))
    got = xl.compile(module)(np.int64(50), a, b)
    for x, y in zip(got if isinstance(got, tuple) else (got,), expected, strict=True):
        np.testing.assert_allclose(x, y, rtol=1e-12)


@pytest.mark.parametrize("shape", [(0, 5), (5, 0)])
def test_arrays_without_elements(shape):
    def loop(count, a, b):
        return lax.fori_loop(0, count, lambda _, a: a + b, a)

    arguments = (np.int64(3), _random(*shape), _random(shape[1]))
    assert np.asarray(xl.compile(_module(loop, *arguments))(*arguments)).shape == shape


def test_time_and_results_in_a_loop_around(monkeypatch):
    """The memory of the inner loop's arrays is that of the outer one's, which moves on."""

    def outer(count, a, b):
        return lax.fori_loop(0, 3, lambda _, state: _wave(count, *state), (a, b))

    arguments = (np.int64(40), _random(130, 150), _random(130, 150))
    _agrees(monkeypatch, _module(outer, *arguments), *arguments)


class _RandomLoop:
    """A loop of a few updates of arrays of one shape, each from some of their neighbours."""

    def __init__(self, seed):
        r = random.Random(seed)
        rank = r.choice([1, 1, 2, 2, 2, 3])
        low, high = {1: (2000, 9000), 2: (60, 200), 3: (20, 40)}[rank]
        self.shape = tuple(r.randint(low, high) for _ in range(rank))
        self.dtype = r.choice(["f4", "f8", "i4"])
        self.arrays = [
            (np.random.default_rng(seed + k).random(self.shape) * 10).astype(self.dtype) for k in range(r.randint(1, 3))
        ]
        self.count = np.int64(r.randint(8, 60))
        offsets = [[tuple(r.randint(-1, 1) for _ in range(rank)) for _ in range(r.randint(1, 4))] for _ in range(4)]
        kinds = r.choices(["inner", "new", "all", "row", "column"], [4, 1, 1, 1, 1], k=r.randint(1, 4))
        number = len(self.arrays)
        self.updates = [
            (kind, *(r.randrange(number) for _ in range(3)), o) for kind, o in zip(kinds, offsets, strict=False)
        ]

    def _updated(self, t, kind, target, one, other, offsets):
        half = np.asarray(1 if self.dtype == "i4" else 0.5, self.dtype)
        inner = (slice(1, -1),) * len(self.shape)
        if kind == "all":
            return one * half + target * half
        if kind == "row":
            return target.at[0].set(one[1]).at[-1].set(one[-2])
        if kind == "column":
            return target.at[..., 0].set(one[..., 1])
        moved = [one[tuple(slice(1 + k, n - 1 + k) for k, n in zip(o, self.shape, strict=True))] for o in offsets]
        value = sum(moved[1:], moved[0]) * half + other[inner] + t.astype(self.dtype)
        value = value / math.sqrt(len(moved) + 2) if self.dtype != "i4" else value
        return jnp.pad(value, 1) if kind == "new" else target.at[inner].set(value.astype(self.dtype))

    def __call__(self, count, *arrays):
        def step(t, arrays):
            arrays = list(arrays)
            for kind, target, one, other, offsets in self.updates:
                arrays[target] = self._updated(t, kind, arrays[target], arrays[one], arrays[other], offsets)
            return tuple(arrays)

        return lax.fori_loop(0, count, step, arrays)


@pytest.mark.parametrize("seed", range(24))
def test_random_loops(monkeypatch, seed):
    loop = _RandomLoop(seed)
    module = _module(loop, loop.count, *loop.arrays)
    _agrees(monkeypatch, module, loop.count, *loop.arrays)


def test_most_random_loops_are_skewed():
    loops = map(_RandomLoop, range(24))
    assert sum(_is_skewed(_module(loop, loop.count, *loop.arrays)) for loop in loops) > 12


def test_an_end_inside_a_tuple():
    """The bound is an element of an element of the state."""
    state = "(s32[], (s32[], f32[5000]))"
    module = xl.parse(f"""HloModule m
    c {{ s = {state} parameter(0) i = s32[] get-tuple-element(s), index=0 t = (s32[], f32[5000]) get-tuple-element(s), index=1
      n = s32[] get-tuple-element(t), index=0 ROOT p = pred[] compare(i, n), direction=LT }}
    b {{ s = {state} parameter(0) i = s32[] get-tuple-element(s), index=0 t = (s32[], f32[5000]) get-tuple-element(s), index=1
      n = s32[] get-tuple-element(t), index=0 x = f32[5000] get-tuple-element(t), index=1 one = s32[] constant(1)
      j = s32[] add(i, one) y = f32[5000] add(x, x) u = (s32[], f32[5000]) tuple(n, y) ROOT r = {state} tuple(j, u) }}
    ENTRY e {{ n = s32[] parameter(0) x = f32[5000] parameter(1) i = s32[] constant(0) t = (s32[], f32[5000]) tuple(n, x)
      s = {state} tuple(i, t) w = {state} while(s), condition=c, body=b v = (s32[], f32[5000]) get-tuple-element(w), index=1
      ROOT y = f32[5000] get-tuple-element(v), index=1 }}""")
    x = np.ones(5000, np.float32)
    np.testing.assert_array_equal(xl.compile(module)(np.int32(20), x), x * 2**20)


def test_a_trace_tells_of_rounds():
    arguments = (np.int64(61), _random(130, 150))
    module = _module(_heat, *arguments)
    with trace() as taken:
        xl.compile(module)(*arguments)
    (loop,) = [span["args"] for span in taken.spans() if span["args"].get("opcode") == "while"]
    assert "in one pass over the arrays" in loop["rounds"]
