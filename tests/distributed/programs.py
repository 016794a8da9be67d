"""Programs on the devices of several processes, against NumPy: `programs.py PROCESS COUNT ADDRESS NAME ...`.

All run in one start of the processes; each says `ok NAME`, or what was wrong.
"""

import sys
import traceback
from functools import partial

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax
from jax.experimental import multihost_utils, serialize_executable, topologies
from jax.sharding import Mesh, NamedSharding
from jax.sharding import PartitionSpec as P

CUT = P("x", "y")


def mesh():
    return Mesh(np.array(jax.devices()).reshape(2, -1), ("x", "y"))


def array(value, spec=CUT):
    """A global array, of which each process makes its own pieces."""
    return jax.make_array_from_callback(value.shape, NamedSharding(mesh(), spec), lambda index: value[index])


def mapped(function, in_specs=CUT, out_specs=CUT):
    return jax.jit(jax.shard_map(function, mesh=mesh(), in_specs=in_specs, out_specs=out_specs, check_vma=False))


def agree(result, wanted, exact=True):
    """The pieces that are in this process are those of `wanted`."""
    assert result.shape == wanted.shape, (result.shape, wanted.shape)
    assert result.addressable_shards
    for shard in result.addressable_shards:
        piece = np.asarray(shard.data)
        if exact:
            np.testing.assert_array_equal(piece, wanted[shard.index])
        else:
            np.testing.assert_allclose(piece, wanted[shard.index], rtol=1e-5, atol=1e-6)


def numbers(*dims, dtype=np.float32):
    return np.sin(np.arange(np.prod(dims), dtype=np.float64)).reshape(dims).astype(dtype)


def blocks(value):
    """The pieces of an array that is cut by `CUT`, as [x, y, ...]."""
    _, n = mesh().devices.shape
    a, b = value.shape
    return value.reshape(2, a // 2, n, b // n).transpose(0, 2, 1, 3)


def joined(pieces):
    x, y, a, b = pieces.shape
    return pieces.transpose(0, 2, 1, 3).reshape(x * a, y * b)


def devices_of_all_processes():
    assert jax.process_count() == 2
    assert {d.process_index for d in jax.devices()} == {0, 1}
    assert [d.id for d in jax.devices()] == [0, 1, 2048, 2049]
    assert jax.local_devices() == [d for d in jax.devices() if d.process_index == jax.process_index()]


def sums():
    for dims in ((8, 4), (256, 512)):
        for dtype in (np.float32, jnp.bfloat16, np.int8, np.uint32, np.complex64):
            value = (numbers(*dims) * 8).astype(dtype)
            for axes, numpy_axes in (("x", 0), ("y", 1), (("x", "y"), (0, 1))):
                pieces = blocks(value)
                wide = pieces.astype(np.float32) if dtype is jnp.bfloat16 else pieces
                total = np.broadcast_to(wide.sum(numpy_axes, keepdims=True), pieces.shape)
                result = mapped(lambda x, a=axes: lax.psum(x, a))(array(value))
                wanted = joined(total).astype(value.dtype)
                if dtype in (np.int8, np.uint32):
                    agree(result, wanted)
                else:
                    for shard in result.addressable_shards:
                        found, here = (np.asarray(a).astype(np.complex64) for a in (shard.data, wanted[shard.index]))
                        np.testing.assert_allclose(found, here, rtol=2e-2 if dtype is jnp.bfloat16 else 1e-5, atol=1e-5)


def sums_in_the_order_of_devices():
    for dims in ((4, 2), (512, 256)):
        value = numbers(*dims) * 1e3
        rows = blocks(value).reshape(4, -1)
        total = rows[0]
        for row in rows[1:]:
            total = total + row
        pieces = np.broadcast_to(total, rows.shape).reshape(blocks(value).shape)
        agree(mapped(lambda x: lax.psum(x, ("x", "y")))(array(value)), joined(pieces))


def gathers():
    for dims in ((8, 4), (512, 512)):
        value = numbers(*dims)
        for axis in (0, 1):
            result = mapped(lambda x, a=axis: lax.all_gather(x, "x", axis=a, tiled=True), out_specs=P(None, "y"))
            pieces = blocks(value)
            parts = np.concatenate(list(pieces), axis=1 + axis)
            agree(result(array(value)), joined(parts[None]))
        everything = mapped(lambda x: lax.all_gather(x, ("x", "y")), out_specs=P())(array(value))
        agree(everything, blocks(value).reshape(4, dims[0] // 2, dims[1] // 2))


def scatters():
    for dims in ((8, 8), (512, 512)):
        value = numbers(*dims)
        result = mapped(lambda x: lax.psum_scatter(x, ("x", "y"), tiled=True), out_specs=P(("x", "y"), None))
        total = blocks(value).sum((0, 1), dtype=np.float32)
        agree(result(array(value)), total, exact=False)


def exchanges():
    for dims in ((16, 16), (512, 512)):
        value = numbers(*dims)
        for split, concat in ((0, 0), (0, 1), (1, 0), (1, 1)):
            f = mapped(lambda x, s=split, c=concat: lax.all_to_all(x, ("x", "y"), s, c, tiled=True))
            pieces = blocks(value).reshape(4, dims[0] // 2, dims[1] // 2)
            parts = [np.split(piece, 4, axis=split) for piece in pieces]
            moved = [np.concatenate([parts[s][r] for s in range(4)], axis=concat) for r in range(4)]
            moved = np.stack(moved).reshape(2, 2, *moved[0].shape)
            agree(f(array(value)), joined(moved))


def permutes():
    for dims in ((8, 4), (512, 512), (0, 4)):
        value = numbers(*dims)
        pieces = blocks(value).reshape(4, -1)
        for pairs in ([(0, 1), (1, 2), (2, 3), (3, 0)], [(0, 3)], [(3, 0), (0, 3)], [(0, 1), (2, 1 + 2)]):
            moved = np.zeros_like(pieces)
            for source, target in pairs:
                moved[target] = pieces[source]
            result = mapped(lambda x, p=pairs: lax.ppermute(x, ("x", "y"), p))(array(value))
            agree(result, joined(moved.reshape(blocks(value).shape)))


def in_loops_and_branches():
    value = numbers(8, 4)

    def body(k, x):
        x = lax.cond(k % 2 == 0, lambda: lax.psum(x, "x") * 0.5, lambda: lax.ppermute(x, "x", [(0, 1), (1, 0)]))
        return x + k

    result = mapped(lambda x: lax.fori_loop(0, 50, body, x))(array(value))
    pieces = blocks(value)
    for k in range(50):
        pieces = (pieces.sum(0, keepdims=True) * np.float32(0.5) + 0 * pieces) if k % 2 == 0 else pieces[::-1]
        pieces = pieces + np.float32(k)
    agree(result, joined(pieces), exact=False)


def one_way_in_loops():
    """More often than who sends goes on without an answer; what arrives goes with the header, behind it, and alone."""
    for dims in ((8, 4), (256, 64), (512, 512)):

        def body(k, x):
            return (x + lax.ppermute(x, ("x", "y"), [(0, 3)]) + k * lax.ppermute(x, ("x", "y"), [(2, 1)])) % 997

        result = mapped(lambda x, body=body: lax.fori_loop(0, 80, body, x))
        for shift in range(2):
            value = (np.arange(np.prod(dims), dtype=np.int32) * 7 + shift).reshape(dims)
            flat = blocks(value).reshape(4, -1)
            for k in range(80):
                moved = np.zeros_like(flat)
                moved[3], moved[1] = flat[0], k * flat[2]
                flat = (flat + moved) % 997
            agree(result(array(value)), joined(flat.reshape(blocks(value).shape)))


def partitioned():
    a, b = numbers(64, 32), numbers(32, 128)
    for spec_a, spec_b, spec_out in ((P("x", "y"), P("y", None), P("x", None)), (P("x"), P(None, "y"), P("x", "y"))):
        f = jax.jit(lambda a, b: jnp.tanh(a @ b), out_shardings=NamedSharding(mesh(), spec_out))
        agree(f(array(a, spec_a), array(b, spec_b)), np.tanh(a @ b), exact=False)
    total = jax.jit(lambda x: x.sum())(array(a))
    np.testing.assert_allclose(np.asarray(total), a.sum(), rtol=1e-5)


def of_one_process():
    """Programs of one process's devices are nobody else's business."""
    local = Mesh(np.array(jax.local_devices()), ("z",))
    value = numbers(2 + 2 * jax.process_index(), 4)
    f = jax.jit(jax.shard_map(lambda x: lax.psum(x, "z"), mesh=local, in_specs=P("z"), out_specs=P()))
    np.testing.assert_allclose(np.asarray(f(value)), value.reshape(2, -1, 4).sum(0), rtol=1e-6)
    if jax.process_index():
        for _ in range(3):
            f(value)


def of_some_devices():
    """Of a mesh that has one device of each process, in another order."""
    some = Mesh(np.array([jax.devices()[3], jax.devices()[0]]), ("z",))
    value = numbers(4, 4)
    x = jax.make_array_from_callback(value.shape, NamedSharding(some, P("z")), lambda index: value[index])
    f = jax.jit(
        jax.shard_map(
            lambda x: lax.all_gather(x, "z", tiled=True)[::-1],
            mesh=some,
            in_specs=P("z"),
            out_specs=P("z"),
            check_vma=False,
        )
    )
    result = f(x)
    for shard in result.addressable_shards:
        np.testing.assert_array_equal(np.asarray(shard.data), value[::-1])


def between_hosts():
    gathered = multihost_utils.process_allgather(np.full((3,), jax.process_index(), np.int32))
    np.testing.assert_array_equal(gathered, [[0] * 3, [1] * 3])
    said = multihost_utils.broadcast_one_to_all(np.float32(7 + jax.process_index()))
    assert said == 7
    multihost_utils.sync_global_devices("here")
    whole = multihost_utils.process_allgather(array(numbers(8, 4)), tiled=True)
    np.testing.assert_array_equal(whole, numbers(8, 4))


def many_at_once():
    """Runs that are all under way at once."""
    f = mapped(partial(lax.psum, axis_name=("x", "y")))
    x = array(np.ones((4, 4), np.float32))
    for _ in range(40):
        x = f(x) * 0.25
    agree(x, np.ones((4, 4), np.float32))


def to_devices_of_another_process():
    """`device_put` without a flag: small and large, cut, several at once, of all types."""
    cuts = [NamedSharding(Mesh(np.array(jax.local_devices(process_index=p)), "z"), P("z")) for p in range(2)]
    for dtype in (np.float32, jnp.bfloat16, jnp.int4, np.complex64, np.bool_):
        values = [np.arange(n).reshape(-1, 4).astype(dtype) for n in (0, 8, 1 << 12, 1 << 18)]
        moved = jax.device_put(jax.device_put(values, cuts[0]), cuts[1])
        for value, there in zip(values, moved, strict=True):
            assert len(there.addressable_shards) == (2 if jax.process_index() else 0)
            back = jax.device_put(there, cuts[0])
            for shard in (*there.addressable_shards, *back.addressable_shards):
                np.testing.assert_array_equal(np.asarray(shard.data), value[shard.index])


def along_a_pipeline():
    """Each stage runs on a process's devices, and gives away what it has got."""
    cuts = [NamedSharding(Mesh(np.array(jax.local_devices(process_index=p)), "z"), P("z")) for p in range(2)]
    stage = jax.jit(lambda x: x * 2 + 1, donate_argnums=0)
    x = jax.device_put(np.zeros((64, 32), np.float32), cuts[0])
    for k in range(10):
        if k % 2 == jax.process_index():
            x = stage(x)
        x = jax.device_put(x, cuts[(k + 1) % 2])
    for shard in x.addressable_shards:
        np.testing.assert_array_equal(np.asarray(shard.data), np.full((32, 32), 1023.0))


def what_is_not_sent():
    """Who was to receive it is told why: the sender's program has failed, or it sends something else."""
    meshes = [Mesh(np.array(jax.local_devices(process_index=p)), "z") for p in range(2)]
    first, second = (NamedSharding(each, P("z")) for each in meshes)

    def fail(x):
        raise ValueError("not this time")

    def received(x):
        there = jax.device_put(x, second)
        if jax.process_index():
            try:
                jax.block_until_ready(there)
            except jax.errors.JaxRuntimeError as error:
                return str(error)
        return ""

    x = jax.device_put(np.zeros((4, 3), np.float32), first)
    if not jax.process_index():
        called = jax.shard_map(
            lambda x: jax.pure_callback(fail, x, x), mesh=meshes[0], in_specs=P("z"), out_specs=P("z")
        )
        x = jax.jit(called)(x)
    wide = jax.device_put(np.zeros((4, 3 + jax.process_index()), np.float32), first)
    errors = received(x), received(wide)
    if jax.process_index():
        assert "process 0 failed, from which process 1 receives f32[2,3]" in errors[0], errors
        assert "not this time" in errors[0], errors
        assert "process 1 receives f32[2,4]" in errors[1], errors
        assert "process 0 sends f32[2,3]" in errors[1], errors


def all_kinds_in_loops_and_branches():
    """In `scan`, `while_loop` and `cond`, all between both processes."""
    value = numbers(8, 8)
    axes = ("x", "y")

    def kinds(x):
        n = lax.axis_size(axes)
        a = lax.all_gather(x, axes)[::-1].sum(0) / n
        b = lax.psum_scatter(jnp.concatenate([x] * n), axes, tiled=True)
        c = lax.all_to_all(jnp.stack([x] * n), axes, 0, 0).sum(0)
        d = lax.ppermute(x, axes, [(k, (k + 1) % n) for k in range(n)])
        e = lax.pmax(x, axes) - lax.pmin(x, axes) + lax.pmean(x, axes)
        return jnp.tanh(a + b + c + d + e)

    def scanned(x):
        return lax.scan(lambda x, k: (kinds(x) + k, None), x, jnp.arange(5.0))[0]

    def repeated(x):
        return lax.while_loop(lambda s: lax.psum(s[1], axes) < 20, lambda s: (kinds(s[0]), s[1] + 1), (x, 0))[0]

    def branched(x):
        return lax.cond(lax.psum(x.sum(), axes) > 1e9, lambda: x, lambda: kinds(x) - lax.axis_index("x"))

    def kinds_of(pieces, k=0.0):
        n, total = len(pieces), pieces.sum(0, dtype=np.float32)
        spread = pieces.max(0) - pieces.min(0) + total / n
        return np.tanh(total / n + total + total + np.roll(pieces, 1, 0) + spread) + np.float32(k)

    pieces = wanted = blocks(value).reshape(4, 4, 4)
    for k in range(5):
        wanted = kinds_of(wanted, k)
    agree(mapped(scanned)(array(value)), joined(wanted.reshape(2, 2, 4, 4)), exact=False)
    wanted = pieces
    for _ in range(5):
        wanted = kinds_of(wanted)
    agree(mapped(repeated)(array(value)), joined(wanted.reshape(2, 2, 4, 4)), exact=False)
    wanted = kinds_of(pieces).reshape(2, 2, 4, 4) - np.arange(2, dtype=np.float32)[:, None, None, None]
    agree(mapped(branched)(array(value)), joined(wanted), exact=False)


def callbacks():
    """Each process calls its own function, with what its devices have."""
    seen = []

    def double(x):
        seen.append(x.shape)
        return 2 * x

    value = numbers(8, 8)
    called = mapped(lambda x: lax.psum(jax.pure_callback(double, x, x), ("x", "y")))(array(value))
    total = np.broadcast_to(2 * blocks(value).sum((0, 1), keepdims=True), blocks(value).shape)
    agree(called, joined(total), exact=False)
    assert seen == [(4, 4)] * 2

    def told(x):
        jax.debug.callback(lambda x: seen.append(float(x)), x[0, 0])
        return lax.psum(x, "x")

    seen.clear()
    mapped(told)(array(value)).block_until_ready()
    jax.effects_barrier()
    first = [float(each[0, 0]) for each in blocks(value)[jax.process_index()]]
    assert sorted(seen) == sorted(first), (seen, first)


def for_a_topology():
    """Programs are compiled for the devices of all processes, without running, and for a topology out of bytes."""
    client = jax.devices()[0].client
    topology = topologies.TopologyDescription(jax.devices())
    assert [d.process_index for d in topology.devices] == [0, 0, 1, 1]
    sharding = NamedSharding(mesh(), CUT)
    shape = jax.ShapeDtypeStruct((8, 8), np.float32, sharding=sharding)
    f = jax.jit(jax.shard_map(lambda x: lax.psum(x, ("x", "y")), mesh=mesh(), in_specs=CUT, out_specs=P()))
    compiled = f.lower(shape).compile()
    value = numbers(8, 8)
    agree(compiled(array(value)), blocks(value).sum((0, 1)), exact=False)
    payload, *trees = serialize_executable.serialize(compiled)
    loaded = serialize_executable.deserialize_and_load(payload, *trees, execution_devices=jax.devices())
    agree(loaded(array(value)), blocks(value).sum((0, 1)), exact=False)
    assert client.process_index() == jax.process_index()


if __name__ == "__main__":
    process, count, address, *names = sys.argv[1:]
    # JAX ends processes whose heartbeats it misses, also where the machine has only stood still
    jax.distributed.initialize(address, int(count), int(process), heartbeat_timeout_seconds=3600)
    for name in names:
        try:
            globals()[name]()
            print("ok", name, flush=True)
        except Exception:
            print("failed", name, traceback.format_exc(), sep="\n", flush=True)
            sys.stdout.flush()
