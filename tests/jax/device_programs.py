"""Programs on eight devices, each run on xloom's and on jaxlib's, in a process of their own: `device_programs.py NAME`."""

import sys
import threading
from functools import partial
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax
from jax.experimental.custom_partitioning import custom_partitioning
from jax.sharding import Mesh, NamedSharding, SingleDeviceSharding
from jax.sharding import PartitionSpec as P

X = np.sin(np.arange(8 * 4, dtype=np.float32)).reshape(8, 4)
MATRIX = np.cos(np.arange(16 * 8, dtype=np.float32)).reshape(16, 8)


def meshes(shape=(4, 2), names=("x", "y")):
    for platform in ("xloom", "cpu"):
        yield Mesh(np.array(jax.devices(platform)).reshape(shape), names)


def agree(make, *arrays, shape=(4, 2), names=("x", "y"), exact=False, sharded=True, rtol=2e-5):
    """`make(mesh)` gives a function of the arrays; its results, and how they are cut, are the same on both platforms."""
    found = []
    for mesh in meshes(shape, names):
        with mesh:
            found.append(jax.tree.leaves(make(mesh)(*arrays)))
    ours, wanted = found
    assert len(ours) == len(wanted) > 0
    for mine, reference in zip(ours, wanted, strict=True):
        assert next(iter(mine.devices())).platform == "xloom"
        if sharded:
            pieces = [[s.index for s in array.addressable_shards] for array in (mine, reference)]
            assert pieces[0] == pieces[1], pieces
        if exact:
            np.testing.assert_array_equal(np.asarray(mine), np.asarray(reference))
        else:
            np.testing.assert_allclose(np.asarray(mine), np.asarray(reference), rtol=rtol, atol=1e-5)


CUT = P("x", "y")


def mapped(function, in_specs: Any = CUT, out_specs: Any = CUT, **options):
    return lambda mesh: jax.jit(
        jax.shard_map(function, mesh=mesh, in_specs=in_specs, out_specs=out_specs, check_vma=False, **options)
    )


def sums():
    for axes in ("x", "y", ("x", "y"), ("y", "x")):
        agree(mapped(lambda x, a=axes: lax.psum(x, a)), X)
        agree(mapped(lambda x, a=axes: lax.pmax(x, a)), X, exact=True)
        agree(mapped(lambda x, a=axes: lax.pmin(x, a)), X, exact=True)
        agree(mapped(lambda x, a=axes: lax.pmean(x, a)), X)
    agree(mapped(lambda x: lax.psum((x, x.astype(jnp.int32), 2), "x")[0:2]), X)
    for dtype in (jnp.bfloat16, jnp.int8, jnp.uint32, jnp.complex64):
        agree(mapped(lambda x, t=dtype: lax.psum((x * 5).astype(t), "x").astype(jnp.complex64)), X)
    # jaxlib rounds every sum of f16, and only the last one of bf16, as xloom does of both
    agree(mapped(lambda x: lax.psum((x * 5).astype(jnp.float16), "x").astype(jnp.float32)), X, rtol=1e-2)
    agree(mapped(lambda x: lax.psum(x > 0, "x")), X, exact=True)


def large_sums():
    big = np.arange(8 * 50_001, dtype=np.float32).reshape(8, -1)
    agree(mapped(lambda x: lax.psum(x, ("x", "y")), P(("x", "y")), P()), big)
    agree(mapped(lambda x: lax.psum_scatter(x[0], "x", tiled=True), P(("x", "y")), P(("y", "x"))), big[:, :50_000])


def groups():
    for split in ([[0, 1], [2, 3]], [[0, 3], [1, 2]], [[2, 0, 1, 3]]):
        agree(mapped(lambda x, g=split: lax.psum(x, "x", axis_index_groups=g)), X)
        agree(mapped(lambda x, g=split: lax.all_gather(x, "x", axis_index_groups=g)), X, exact=True)


def gathers():
    for axis in (0, 1):
        for tiled in (False, True):
            agree(mapped(lambda x, a=axis, t=tiled: lax.all_gather(x, "x", axis=a, tiled=t)), X, exact=True)
    agree(mapped(lambda x: lax.all_gather(x, ("y", "x"), tiled=True), out_specs=P()), X, exact=True)


def scatters():
    agree(mapped(lambda x: lax.psum_scatter(x, "x", scatter_dimension=0, tiled=True), P("y", None), P("x")), MATRIX)
    agree(
        mapped(lambda x: lax.psum_scatter(x, "y", scatter_dimension=1, tiled=True), P("x", None), P("x", "y")), MATRIX
    )
    agree(mapped(lambda x: lax.psum_scatter(x, "x", scatter_dimension=0), P("x", None), P("x")), MATRIX)


def exchanges():
    for split, concat in ((0, 0), (0, 1), (1, 0), (1, 1)):
        agree(mapped(lambda x, s=split, c=concat: lax.all_to_all(x, "x", s, c, tiled=True), P("y")), MATRIX, exact=True)
    agree(mapped(lambda x: lax.all_to_all(x, "x", 0, 0), P("x", "y"), P("x", "y")), MATRIX, exact=True)


def permutations():
    ring = [(k, (k + 1) % 4) for k in range(4)]
    for pairs in (ring, [(0, 3), (3, 0)], [(1, 2)], []):
        agree(mapped(lambda x, p=pairs: lax.ppermute(x, "x", p)), X, exact=True)
    agree(mapped(lambda x: lax.pshuffle(x, "x", [3, 1, 0, 2])), X, exact=True)


def ragged():
    rows = np.arange(8 * 6, dtype=np.float32)
    starts, sizes = np.array([0, 1, 3, 4], np.int32), np.array([1, 2, 1, 2], np.int32)

    def exchange(x):
        me = lax.axis_index("x")
        targets = jnp.full(4, 3, jnp.int32) * me
        received = jnp.full(4, sizes[0])
        return lax.ragged_all_to_all(x, jnp.zeros(12), starts, sizes, targets, received, axis_name="x")

    # jaxlib's CPU cannot: what each member gets is written down here
    for mesh in meshes((8,), ("x",)):
        if mesh.devices.flat[0].platform == "xloom":
            inner = Mesh(mesh.devices[:4], ("x",))
            program = jax.shard_map(exchange, mesh=inner, in_specs=P("x"), out_specs=P("x"), check_vma=False)
            found = np.asarray(jax.jit(program)(rows[:24])).reshape(4, 12)
            for k in range(4):
                for sender in range(4):
                    part = rows[6 * sender + starts[k] :][: sizes[k]]
                    assert (found[k, 3 * sender :][: sizes[k]] == part).all()


def indices():
    agree(mapped(lambda x: x * 0 + lax.axis_index("x") * 10 + lax.axis_index("y")), X, exact=True)
    agree(mapped(lambda x: x * 0 + lax.axis_index(("y", "x"))), X, exact=True)


def loops():
    def body(x):
        return lax.fori_loop(
            0, 5, lambda _, y: lax.ppermute(lax.pmean(y, "y"), "x", [(0, 1), (1, 2), (2, 3), (3, 0)]), x
        )

    agree(mapped(body), X)
    agree(mapped(lambda x: lax.scan(lambda c, y: (lax.psum(c + y, "x"), y), jnp.zeros(2), x)[0][None]), X)
    agree(mapped(lambda x: lax.cond(lax.axis_index("x") < 2, lambda y: y + 1, lambda y: y * 2, x)), X)


def partly_manual():
    def function(mesh):
        inner = jax.shard_map(
            lambda a: lax.psum(jnp.sin(a @ a.T), "x"), mesh=mesh, in_specs=P("x"), out_specs=P(), axis_names={"x"}
        )
        return jax.jit(lambda a: inner(lax.with_sharding_constraint(a, NamedSharding(mesh, P("x", "y")))) * 2)

    agree(function, X, sharded=False)


def gradients():
    def loss(weights, x):
        h = jnp.tanh(x @ weights[0])
        return lax.pmean(jnp.mean((h @ weights[1]) ** 2), ("x", "y"))

    weights = [np.ones((4, 8), np.float32) / 7, np.ones((8, 3), np.float32) / 5]
    agree(mapped(jax.grad(loss), (P(), P(("x", "y"))), P()), weights, X)


def pmaps():
    x = np.arange(24, dtype=np.float32).reshape(8, 3)
    for platform in ("xloom", "cpu"):
        step = partial(jax.pmap, axis_name="i", devices=jax.devices(platform))
        np.testing.assert_allclose(step(lambda a: a / lax.psum(a, "i"))(x + 1), (x + 1) / (x + 1).sum(0), rtol=1e-6)
        rolled = step(lambda a: lax.ppermute(a, "i", [(k, (k + 3) % 8) for k in range(8)]))(x)
        np.testing.assert_array_equal(rolled, np.roll(x, 3, 0))


# -- jit on cut arrays
OPERATORS = {
    "matmul": lambda x, y: y @ x,
    "contracted": lambda x, y: jnp.einsum("ab,cb->ac", x, y.reshape(32, 4)),
    "sums": lambda x, y: (x.sum(0), y.sum(1), x.max(), (y > 0).any(0), y.prod(0), jnp.argmax(y, 0), y.mean() - x.min()),
    "shapes": lambda x, y: (x.T, x.reshape(-1), x.reshape(2, 4, 4), y.reshape(8, 16), y[None].swapaxes(0, 2)),
    "slices": lambda x, y: (x[1:5], x[::-1], y[:, 2:4], y[3], x[:, ::2], jnp.roll(y, 3, 0)),
    "joins": lambda x, y: (
        jnp.concatenate([x, x]),
        jnp.stack([y, y]),
        jnp.pad(x, ((1, 2), (0, 1))),
        jnp.tile(x, (2, 3)),
    ),
    "gathers": lambda x, y: (y[jnp.array([1, 5, 2, 2])], jnp.take(x, jnp.arange(8)[::-1] % 4, 1), x[jnp.arange(4), 0]),
    "updates": lambda x, y: (x.at[2:4].set(1.0), y.at[jnp.array([0, 3, 3])].add(2.0), y.at[5].multiply(3.0)),
    "dynamic": lambda x, y: lax.dynamic_update_slice(y, lax.dynamic_slice(y, (3, 1), (2, 4)), (x.shape[0], 2)),
    "sorted": lambda x, y: (jnp.sort(x, 0), jnp.argsort(y, 1), lax.top_k(y, 3), jnp.cumsum(y, 0), jnp.median(y, 0)),
    "softmax": lambda x, y: (jax.nn.softmax(y, 1), jax.nn.logsumexp(x, 0), jax.nn.gelu(y)),
    "factors": lambda x, y: (jnp.linalg.cholesky(y.T @ y + jnp.eye(8)), jnp.linalg.solve(x.T @ x + jnp.eye(4), x.T)),
    "spectra": lambda x, y: jnp.abs(jnp.fft.fft(y)) + jnp.abs(jnp.fft.fft(y, axis=0)),
    "random": lambda x, y: (
        x + jax.random.normal(jax.random.key(3), x.shape) + jax.random.permutation(jax.random.key(1), x)
    ),
    "loop": lambda x, y: lax.fori_loop(0, 4, lambda k, c: c * 0.5 + x.sum() * k, y),
    "scan": lambda x, y: lax.scan(lambda c, row: (c + row, c * row), jnp.zeros(8), y),
    "branches": lambda x, y: lax.cond(x.sum() > 100, lambda a: a @ a.T, lambda a: -a @ a.T, y),
    "convolution": lambda x, y: lax.conv(y.reshape(2, 1, 8, 8), jnp.ones((3, 1, 3, 3)), (1, 1), "SAME"),
    "windows": lambda x, y: lax.reduce_window(y, -jnp.inf, lax.max, (2, 2), (2, 1), "VALID"),
    "gradient": lambda x, y: jax.grad(lambda a: jnp.sum(jnp.tanh(y @ a) ** 2))(x),
    "uneven": lambda x, y: jnp.sum(y[:13, :7] ** 2, 0),
}


def cut(platform, mesh, array, spec):
    return jax.device_put(array, NamedSharding(mesh, spec))


def jit_on_cut_arrays():
    for name, function in OPERATORS.items():
        for specs in ((P("x", "y"), P("x", "y")), (P(None, "x"), P("y", "x"))):

            def make(mesh, function=function, specs=specs):
                shardings = tuple(NamedSharding(mesh, s) for s in specs)
                return jax.jit(function, in_shardings=shardings)

            try:
                agree(make, X, MATRIX, sharded=False)
            except AssertionError as error:
                raise AssertionError(f"{name} with {specs}: {error}") from error


def constraints():
    def make(mesh):
        def function(x):
            y = lax.with_sharding_constraint(x * 2, NamedSharding(mesh, P("y", "x")))
            z = lax.with_sharding_constraint(y + 1, NamedSharding(mesh, P(("y", "x"))))
            return x, y, z, lax.with_sharding_constraint(z[:6], NamedSharding(mesh, P("y")))

        return jax.jit(function, in_shardings=NamedSharding(mesh, P("x", "y")))

    agree(make, X, exact=True)


def training():
    """A step of data and model parallel training, twenty times."""

    def make(mesh):
        def place(array, spec):
            return jax.device_put(array, NamedSharding(mesh, spec))

        rng = np.random.default_rng(0)
        weights = [place(rng.standard_normal((8, 16), np.float32) / 4, P(None, "y"))]
        weights.append(place(rng.standard_normal((16, 1), np.float32) / 4, P("y")))

        @partial(jax.jit, donate_argnums=0)
        def step(weights, x, y):
            def loss(weights):
                return jnp.mean((jnp.tanh(x @ weights[0]) @ weights[1] - y) ** 2)

            value, grads = jax.value_and_grad(loss)(weights)
            return [w - 0.1 * g for w, g in zip(weights, grads, strict=True)], value

        def train(x, y):
            state, values = weights, []
            x, y = place(x, P("x")), place(y, P("x"))
            for _ in range(20):
                state, value = step(state, x, y)
                values.append(value)
            assert values[-1] < values[0] / 2
            return state, jnp.stack(values)

        return train

    agree(make, MATRIX, MATRIX.sum(1, keepdims=True))


def memory_kinds():
    for mesh in meshes():
        if mesh.devices.flat[0].platform == "cpu":
            continue
        here = NamedSharding(mesh, P("x", "y"))
        for kind in ("pinned_host", "unpinned_host"):
            there = here.with_memory_kind(kind)
            array = jax.device_put(jax.device_put(X, here), there)
            assert array.sharding.memory_kind == kind
            back = jax.jit(lambda x: x * 2, out_shardings=there)(jax.device_put(array, here))
            assert back.sharding.memory_kind == kind
            np.testing.assert_array_equal(back, 2 * X)
        other = jax.device_put(array, SingleDeviceSharding(jax.devices()[5]))
        assert other.devices() == {jax.devices()[5]}
        np.testing.assert_array_equal(jax.device_put(other, jax.devices()[2]) + 1, X + 1)


def inspected():
    """How arrays in the middle are cut, and those that are to be cut alike."""
    from jax.experimental.shard_alike import shard_alike

    seen = []
    for mesh in meshes((8,), ("x",)):

        @jax.jit
        def f(x):
            y, like = shard_alike(jnp.arange(16.0), x)
            jax.debug.inspect_array_sharding(like + 1, callback=seen.append)
            return y.sum() + like.sum()

        assert float(f(jax.device_put(np.ones(16, np.float32), NamedSharding(mesh, P("x"))))) == 136
        assert seen.pop().shard_shape((16,)) == (2,)


def started_collectives():
    """In an order that the program asks for."""
    from jax._src.lax import parallel
    from jax.experimental.control_deps import schedule

    def body(x, y):
        first, second = (parallel.all_gather_start(z, "x", tiled=True) for z in (x, y))
        product = jnp.sin(x) @ y.T
        schedule([second.x, product, first.x])
        return first.done().sum(0) + second.done().max(0), product, parallel.psum_start(x, "y").done()

    agree(mapped(body, (P("x"), P("x")), (P(), P("x"), P("x"))), X, X * 2)
    for mesh in meshes():
        alone = mapped(lambda x: parallel.psum_start(x, "y").done(), P("x", "y"), P("x"))(mesh)
        assert "all-reduce(" in (alone.lower(X).compile().as_text() or "")


def terms_of_sums():
    """They are added once, after the loop, though functions and transposes are on the way."""
    found = []
    for mesh in meshes((8,), ("x",)):
        with jax.set_mesh(Mesh(mesh.devices, ("x",), axis_types=(jax.sharding.AxisType.Explicit,))):

            @jax.jit
            def summed(weight, inputs):
                def step(total, x):
                    return total + jax.grad(lambda w: jnp.sum(jnp.sin(x @ w)))(weight), None

                start = jax.sharding.reshard(jnp.zeros_like(weight), P(unreduced=frozenset("x")))
                return jax.sharding.reshard(lax.scan(step, start, inputs)[0], P())

            weight = jax.device_put(X[:4], P(reduced=frozenset("x")))
            # angles of which no digit is lost
            numbers = np.arange(3 * 16 * 4, dtype=np.float32).reshape(3, 16, 4) / 256
            inputs = jax.device_put(numbers, P(None, "x", None))
            assert (summed.lower(weight, inputs).compile().as_text() or "").count("all-reduce(") == 1
            found.append(np.asarray(summed(weight, inputs)))
    np.testing.assert_allclose(*found, rtol=2e-5, atol=1e-4)


def parts_as_terms():
    """A part that becomes a term of a sum stays where it is, among zeros: nothing is sent."""
    found = []
    for mesh in meshes():
        with jax.set_mesh(Mesh(mesh.devices, ("x", "y"), axis_types=(jax.sharding.AxisType.Explicit,) * 2)):
            for source, target in [
                (P("x"), P(unreduced=frozenset({"x"}))),
                (P(None, "x"), P(unreduced=frozenset({"x"}))),
                (P("x", "y"), P(None, "y", unreduced=frozenset({"x"}))),
                (P(("x", "y")), P("x", unreduced=frozenset({"y"}))),
                (P("y", "x"), P(unreduced=frozenset({"x", "y"}))),
                (P(), P(unreduced=frozenset({"x"}))),
            ]:
                terms = jax.jit(lambda x: x, out_shardings=target)
                array = jax.device_put(X, source)
                assert "all-gather(" not in (terms.lower(array).compile().as_text() or "")
                found.append([np.asarray(shard.data) for shard in terms(array).addressable_shards])
    ours, wanted = found[: len(found) // 2], found[len(found) // 2 :]
    np.testing.assert_equal(ours, wanted)
    # where one dimension is cut along both axes, the terms of jaxlib 0.10.2 add up to something else
    mesh = next(meshes())
    with jax.set_mesh(Mesh(mesh.devices, ("x", "y"), axis_types=(jax.sharding.AxisType.Explicit,) * 2)):
        for axes in (("x", "y"), ("y", "x")):
            array = jax.device_put(X, P(axes))
            terms = jax.jit(lambda x: x, out_shardings=P(unreduced=frozenset({"x", "y"})))(array)
            np.testing.assert_equal(sum(np.asarray(shard.data) for shard in terms.addressable_shards), X)


def scattered_terms():
    """Devices add the updates that they have: nothing is gathered, and only terms of other axes are added up."""
    ids = np.arange(32).reshape(8, 4) * 7 % 10
    updates = np.arange(8 * 4 * 6, dtype=np.float32).reshape(8, 4, 6)
    wanted = np.ones((10, 6), np.float32)
    np.add.at(wanted, ids, updates)
    mesh = next(meshes())
    with jax.set_mesh(Mesh(mesh.devices, ("x", "y"), axis_types=(jax.sharding.AxisType.Explicit,) * 2)):
        start = jax.sharding.reshard(jnp.ones((10, 6), jnp.float32), P(unreduced=frozenset("x")))
        for source, sums in ((P("x"), 0), (P(), 0), (P("x", "y"), 1), (P(("x", "y")), 1), (P(None, "y"), 1)):
            given = jax.device_put(ids, source), jax.device_put(updates, source)
            for target in (P(unreduced=frozenset("x")), P(None, "y", unreduced=frozenset("x"))):
                add = jax.jit(lambda x, k, u, target=target: x.at[k].add(u, out_sharding=target))
                text = add.lower(start, *given).compile().as_text() or ""
                if target == P(unreduced=frozenset("x")):
                    assert "all-gather(" not in text
                    assert text.count("all-reduce(") == sums, source
                np.testing.assert_array_equal(jax.sharding.reshard(add(start, *given), P()), wanted)
        # the gradient of a table, of which each device reads its part of a batch
        table = jax.device_put(wanted, P())
        rows = jax.device_put(ids, P("x"))
        slope = jax.jit(jax.grad(lambda t, k: jnp.sum(t.at[k].get(out_sharding=P("x")) ** 2) / 2))
        assert "all-gather(" not in (slope.lower(table, rows).compile().as_text() or "")
        counts = np.bincount(ids.reshape(-1), minlength=10).astype(np.float32)
        np.testing.assert_array_equal(slope(table, rows), wanted * counts[:, None])


def callbacks_of_parts():
    for mesh in meshes((8,), ("x",)):
        seen = []
        array = jax.device_put(X, NamedSharding(mesh, P("x")))

        @jax.jit
        def function(x, seen=seen):
            jax.debug.callback(lambda v: seen.append(np.array(v)), x + 1, partitioned=True)
            return x

        function(array)
        jax.effects_barrier()
        assert {part.shape for part in seen} == {(1, 4)}
        np.testing.assert_array_equal(np.sort(np.concatenate(seen), axis=None), np.sort(X + 1, axis=None))


def terms_of_sums_in_layers():
    """They stay terms where a loop puts them into an array of all layers."""
    found = []
    for mesh in meshes((8,), ("x",)):
        with jax.set_mesh(Mesh(mesh.devices, ("x",), axis_types=(jax.sharding.AxisType.Explicit,))):

            @jax.jit
            def summed(weights, inputs):
                def loss(weights):
                    return jnp.sum(lax.scan(lambda x, w: (jnp.sin(x @ w), None), inputs, weights)[0])

                return jax.sharding.reshard(jax.grad(loss)(weights), P())

            weights = jax.device_put(np.stack([X[:4, :4] / 9] * 3), P(reduced=frozenset("x")))
            inputs = jax.device_put(np.arange(16 * 4, dtype=np.float32).reshape(16, 4), P("x", None))
            assert (summed.lower(weights, inputs).compile().as_text() or "").count("all-reduce(") == 1
            found.append(np.asarray(summed(weights, inputs)))
    np.testing.assert_allclose(*found, rtol=2e-5, atol=1e-4)


def callbacks():
    for mesh in meshes():
        if mesh.devices.flat[0].platform == "cpu":
            continue
        seen = []
        array = jax.device_put(X, NamedSharding(mesh, P("x", "y")))

        @jax.jit
        def function(x, seen=seen):
            jax.debug.callback(lambda v: seen.append(np.array(v)), x)
            return jax.pure_callback(lambda v: v * 3, jax.ShapeDtypeStruct(x.shape, x.dtype), x)

        np.testing.assert_allclose(function(array), 3 * X)
        jax.effects_barrier()
        assert len(seen) == 1
        np.testing.assert_array_equal(seen[0], X)


def failures():
    mesh = next(meshes())

    def fail(index, x):
        if index == 3:
            raise ZeroDivisionError("device three has had enough")
        return x

    def function(x):
        index = lax.axis_index("x") * 2 + lax.axis_index("y")
        checked = jax.pure_callback(fail, jax.ShapeDtypeStruct(x.shape, x.dtype), index, x)
        return lax.psum(checked, ("x", "y"))

    broken = mapped(function)(mesh)
    for _ in range(3):
        try:
            jax.block_until_ready(broken(X))
        except jax.errors.JaxRuntimeError as error:
            assert "device three has had enough" in str(error), error
        else:
            raise AssertionError("no error")
    np.testing.assert_allclose(
        mapped(lambda x: lax.psum(x, "x"))(mesh)(X), np.tile(X.reshape(4, 2, 4).sum(0), (4, 1)), rtol=1e-4
    )


def nested():
    """A callback of one device's program runs a program of all devices, its own among them."""
    mesh = next(meshes())
    inner = mapped(lambda x: lax.psum(x, ("x", "y")))(mesh)

    def call(x):
        return np.asarray(inner(np.asarray(x)))[:2, :2]

    @jax.jit
    def outer(x):
        return jax.pure_callback(call, jax.ShapeDtypeStruct((2, 2), np.float32), x) + 1

    wanted = X.reshape(4, 2, 2, 2).sum((0, 2)) + 1
    np.testing.assert_allclose(outer(X), wanted, rtol=1e-4, atol=1e-5)


def at_once():
    """Devices run at the same time: each waits for all others to have begun."""
    mesh = next(meshes((8,), ("x",)))
    gate = threading.Barrier(8, timeout=60)

    def wait(x):
        gate.wait()
        return x

    both = jax.shard_map(
        lambda x: jax.pure_callback(wait, jax.ShapeDtypeStruct(x.shape, x.dtype), x),
        mesh=mesh,
        in_specs=P("x"),
        out_specs=P("x"),
        check_vma=False,
    )
    np.testing.assert_array_equal(jax.jit(both)(X), X)


def one_by_one():
    """Programs whose devices exchange nothing: native code runs them for all, whatever the caller does with them."""
    for mesh in meshes((8,), ("x",)):
        cut = NamedSharding(mesh, P("x"))
        array = jax.device_put(X, cut)
        add = jax.jit(lambda x: (x + 1, x.sum(1)))
        give = jax.jit(lambda x: x + 1, donate_argnums=0)
        where = jax.jit(jax.shard_map(lambda x: x + lax.axis_index("x"), mesh=mesh, in_specs=P("x"), out_specs=P("x")))
        for n in range(5):
            np.testing.assert_array_equal(add(array)[0], X + 1)
            np.testing.assert_allclose(add(array)[1], X.sum(1), rtol=1e-5)
            np.testing.assert_allclose(where(array), X + np.arange(8, dtype=np.float32)[:, None], rtol=1e-5)
            moved = jax.device_put(X + n, cut)
            np.testing.assert_allclose(give(give(moved)), X + n + 2, rtol=1e-5)
            assert moved.is_deleted()
            total = jnp.sum(give(add(array)[0]))  # what comes from a run before this one, and goes to a collective
            np.testing.assert_allclose(total, (X + 2).sum(), rtol=1e-5)


def donors():
    """Who donates an array keeps it where no result has its size on a device, and where a view of it is alive."""
    functions = (lambda x, y: (x + y, y), lambda x, y: x + y, lambda x, y: (x.astype("int32"), y + 1))
    ours, wanted = [], []
    for found, mesh in zip((ours, wanted), meshes((2, 4), ("x", "y")), strict=True):
        for first, second in ((P("y"), P("x")), (P(), P("y")), (P("x", "y"), P("x", "y"))):
            for function in functions:
                for numbers in ((0,), (1,), (0, 1)):
                    arrays = [
                        jax.device_put(np.ones((8, 8), "float32"), NamedSharding(mesh, s)) for s in (first, second)
                    ]
                    views = np.asarray(arrays[0]) if numbers == (0,) else None
                    results = jax.jit(function, donate_argnums=numbers)(*arrays)
                    found.append(([a.is_deleted() for a in arrays], [float(r.sum()) for r in jax.tree.leaves(results)]))
                    assert views is None or (views == 1).all()
    assert ours == wanted, (ours, wanted)


def deleted_on_each():
    """A deleted array is refused, on devices whose program native code runs."""
    mesh = next(meshes((8,), ("x",)))
    array = jax.device_put(X, NamedSharding(mesh, P("x")))
    add, give = jax.jit(lambda x: x + 1), jax.jit(lambda x: x + 1, donate_argnums=0)
    moved = add(array)
    give(moved)
    for _ in range(2):
        try:
            jax.block_until_ready(add(moved))
        except (RuntimeError, ValueError) as error:
            assert "deleted" in str(error), error
        else:
            raise AssertionError("a deleted array was taken")
        np.testing.assert_array_equal(add(array), X + 1)


def refused_on_each():
    """A call that fails on one device, in programs that native code runs."""
    mesh = next(meshes((8,), ("x",)))
    shapes = jax.ShapeDtypeStruct((1, 4, 4), "float32"), jax.ShapeDtypeStruct((1,), "int32")
    call = jax.ffi.ffi_call("lapack_spotrf_ffi", shapes)  # does not say which triangle
    refused = jax.jit(jax.shard_map(call, mesh=mesh, in_specs=P("x"), out_specs=(P("x"), P("x")), check_vma=False))
    array = jax.device_put(np.ones((8, 4, 4), np.float32), NamedSharding(mesh, P("x")))
    for _ in range(3):
        try:
            jax.block_until_ready(refused(array))
        except (jax.errors.JaxRuntimeError, ValueError) as error:
            assert "lapack_spotrf_ffi' failed" in str(error), error
        else:
            raise AssertionError("not refused")
    np.testing.assert_array_equal(jax.jit(lambda x: x + 1)(array), np.full((8, 4, 4), 2))


def many_dispatches():
    mesh = next(meshes())
    array = jax.device_put(X, NamedSharding(mesh, P("x", "y")))
    step = mapped(lambda x: lax.pmean(lax.ppermute(x, "x", [(k, (k + 1) % 4) for k in range(4)]), "y"))(mesh)
    for _ in range(300):
        array = step(array)
    half = np.repeat(X.reshape(8, 2, 2).mean(1), 2, 0).reshape(8, 4)
    np.testing.assert_allclose(array, half, rtol=1e-4)


def threads():
    """Launches from several threads reach all devices in one order."""
    mesh = next(meshes())
    array = jax.device_put(X, NamedSharding(mesh, P("x", "y")))
    total = mapped(lambda x: lax.psum(x, "x"))(mesh)
    swapped = mapped(lambda x: lax.ppermute(x, "y", [(0, 1), (1, 0)]) + lax.pmean(x, ("x", "y")))(mesh)
    alone = jax.jit(lambda x: x * 2)
    wanted, errors = [np.asarray(total(array)), np.asarray(swapped(array)), 2 * X], []

    def work(k):
        try:
            for n in range(60):
                one = jax.device_put(X, jax.devices()[(n + k) % 8])
                found = [total(array), swapped(array), alone(one)]
                if n % 10 == 0:
                    for mine, reference in zip(found, wanted, strict=True):
                        np.testing.assert_array_equal(mine, reference)
        except BaseException as error:
            errors.append(error)

    workers = [threading.Thread(target=work, args=(k,)) for k in range(6)]
    for worker in workers:
        worker.start()
    for worker in workers:
        worker.join()
    assert not errors, errors


def compiled():
    mesh = next(meshes())
    array = jax.device_put(X, NamedSharding(mesh, P("x", "y")))
    program = jax.jit(lambda x: (x @ x.T, x.sum(0))).lower(array).compile()
    assert program.output_shardings[0].shard_shape((8, 8)) == (2, 8)
    assert program.output_shardings[1].shard_shape((4,)) == (2,)
    assert "all-reduce" in (program.as_text() or "")
    first, second = program(array)
    np.testing.assert_allclose(first, X @ X.T, rtol=1e-5, atol=1e-6)
    np.testing.assert_allclose(second, X.sum(0), rtol=1e-5, atol=1e-6)


def own_partitioning():
    @custom_partitioning
    def scaled(x, scale):
        return x * scale, x.sum(1)

    def partition(mesh, arg_shapes, result_shape):
        cut = NamedSharding(mesh, P("x", "y"))

        def lower_fn(x, scale):
            # of a part, with an exchange of its own
            return x * scale, lax.psum(x.sum(1), "y")

        return mesh, lower_fn, (cut, NamedSharding(mesh, P("x"))), (cut, NamedSharding(mesh, P()))

    scaled.def_partition(partition, sharding_rule="i j, -> i j, i")
    agree(lambda mesh: jax.jit(scaled, in_shardings=(NamedSharding(mesh, CUT), None)), X, 3.0)

    def in_a_loop(mesh):
        start = NamedSharding(mesh, CUT)
        return jax.jit(lambda x: lax.fori_loop(0, 3, lambda _, x: scaled(x, 2.0)[0], x), in_shardings=start)

    agree(in_a_loop, X, exact=True)

    # where parts differ in size, a partitioner hears of the whole axis, and may ask for such parts
    uneven = np.arange(55.0, dtype=np.float32).reshape(5, 11)
    said = []

    def as_result(mesh, args, result):
        said.append((args[1].sharding.spec, result.sharding.spec))
        return mesh, lambda x, y: x * 2 + y, result.sharding, (result.sharding,) * 2

    combined = custom_partitioning(lambda x, y: x * 2 + y)
    combined.def_partition(as_result, sharding_rule="i j, i j -> i j")

    def constrained(mesh):
        def function(x):
            cut = lax.with_sharding_constraint(combined(x, jnp.flip(x, 0)), NamedSharding(mesh, P("y", "x")))
            return cut - cut.sum(0)

        return jax.jit(function)

    agree(constrained, uneven)
    assert said == [(P("y", "x"), P("y", "x"))] * 2, said

    mismatched = custom_partitioning(lambda x: x)
    mismatched.def_partition(
        lambda mesh, args, result: (mesh, lambda x: x[:1], result.sharding, (result.sharding,)), sharding_rule="i -> i"
    )
    mesh = next(meshes())
    try:
        jax.jit(mismatched, in_shardings=NamedSharding(mesh, P("x")))(np.arange(8.0))
    except jax.errors.JaxRuntimeError as error:
        assert "Mismatch in result shapes" in str(error)
    else:
        raise AssertionError("parts of the wrong shape were taken")


def batches_of_matrices():
    stacked = np.cos(np.arange(8 * 5 * 5, dtype=np.float32)).reshape(8, 5, 5)
    symmetric = stacked + stacked.transpose(0, 2, 1) + 9 * np.eye(5, dtype=np.float32)
    slope = jax.grad(lambda x: jnp.linalg.slogdet(x)[1].sum())  # with gathers and scatters of pivots
    for function in (jnp.linalg.cholesky, jnp.linalg.eigvalsh, lambda x: lax.linalg.qr(x)[1], slope):
        agree(lambda mesh, f=function: jax.jit(f, in_shardings=NamedSharding(mesh, P("x"))), symmetric, rtol=1e-4)
        cut = NamedSharding(next(meshes()), P("x"))
        program = jax.jit(function, in_shardings=cut).lower(symmetric).compile().as_text()
        assert "all-gather" not in str(program)  # each device works on its own matrices


if __name__ == "__main__":
    globals()[sys.argv[1]]()
