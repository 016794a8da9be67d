"""Programs of processes that have one device each: `one_device.py PROCESS COUNT ADDRESS NAME ...`, as `programs.py`.

What is brief runs in the caller's thread, if nothing else is under way; everything else in that of the device.
"""

import random
import sys
import threading
import traceback
from contextlib import suppress
from functools import cache

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax
from jax.sharding import Mesh, NamedSharding
from jax.sharding import PartitionSpec as P

from xloom.pjrt.executable import LoadedExecutable


def array(value):
    """Of which each process has a row."""
    return jax.make_array_from_process_local_data(sharding(), value[jax.process_index()][None])


def sharding():
    return NamedSharding(Mesh(np.array(jax.devices()), "x"), P("x"))


def mapped(function, **options):
    specs = P("x")
    f = jax.shard_map(function, mesh=sharding().mesh, in_specs=specs, out_specs=specs, check_vma=False)
    return jax.jit(f, **options)


def local(x):
    (shard,) = x.addressable_shards
    return np.asarray(shard.data)[0]


def numbers(*dims):
    return np.arange(np.prod((jax.process_count(), *dims)), dtype=np.float32).reshape(jax.process_count(), *dims)


@cache
def sum_of_all():
    return mapped(lambda x: lax.psum(x, "x"))


def total(x):
    return sum_of_all()(x)


@cache
def others():
    return mapped(lambda x: lax.ppermute(x, "x", [(0, 1), (1, 0)]))


@cache
def slow():
    """Nobody can tell how long it takes, so that it is never brief."""

    def body(state):
        k, x = state
        return k + 1, lax.psum(x, "x") * 0.5

    def loop(x):
        return lax.while_loop(lambda state: state[0] < 20 + 0 * state[1].astype(jnp.int32).min(), body, (0, x))[1]

    return mapped(loop)


def brief():
    value = numbers(4)
    x = array(value)
    for k in range(300):
        x = total(x + k)
        value = np.broadcast_to((value + k).sum(0, keepdims=True), value.shape) / 2
        x = x / 2
        np.testing.assert_array_equal(local(x), value[0])


def by_native_code():
    """Python sees none of a brief program's runs once it has seen the first ones."""
    x = array(numbers(4))
    for _ in range(2):
        jax.block_until_ready(total(x))
    launch, seen = LoadedExecutable.launch, []
    LoadedExecutable.launch = lambda *a, **k: (seen.append(a), launch(*a, **k))[1]
    for _ in range(10):
        jax.block_until_ready(total(x))
    LoadedExecutable.launch = launch
    assert not seen, f"Python began {len(seen)} of 10 runs"


def where_it_belongs():
    """What arrives where the copy of it belongs: with the header, behind it, and by parts along other dimensions."""
    n = jax.process_count()

    def all_kinds(x):
        x = x[0]
        rows = x.reshape(n, -1)
        gathered, both = lax.all_gather(x, "x"), lax.all_gather((x, -x), "x", axis=1)
        mixed = [lax.all_to_all(rows, "x", k, k, tiled=True) for k in range(2)]
        parts = lax.psum_scatter(rows, "x"), lax.psum_scatter(rows.T, "x", scatter_dimension=1)
        moved = lax.ppermute((x, x + 1), "x", [(k, (k + 1) % n) for k in range(n)])
        found = (gathered, both, mixed, lax.psum((x, 2 * x), "x"), parts, moved, lax.ppermute(x, "x", [(0, n - 1)]))
        return jax.tree.map(lambda leaf: leaf[None], found)

    me = jax.process_index()
    for size in (8, 2 << 10, 1 << 16):
        value = numbers(size)
        found = jax.tree.map(local, mapped(all_kinds)(array(value)))
        gathered, both, mixed, sums, parts, moved, last = found
        rows = value.reshape(n, n, -1)
        np.testing.assert_array_equal(gathered, value)
        np.testing.assert_array_equal(both, (value.T, -value.T))
        np.testing.assert_array_equal(mixed[0], rows[:, me])
        columns = rows.reshape(n, n, n, -1)[:, :, me]
        np.testing.assert_array_equal(mixed[1], columns.transpose(1, 0, 2).reshape(n, -1))
        np.testing.assert_array_equal(sums, (value.sum(0), 2 * value.sum(0)))
        np.testing.assert_array_equal(parts[0], rows[:, me].sum(0))
        np.testing.assert_array_equal(parts[1], rows[:, me].sum(0))
        np.testing.assert_array_equal(moved, (value[me - 1], value[me - 1] + 1))
        np.testing.assert_array_equal(last, value[0] if me == n - 1 else 0 * value[0])


def brief_and_slow():
    """In an order that both processes have."""
    order = random.Random(1)
    value = numbers(8)
    first = value[::-1]
    x, y = array(value), array(value)
    for k in range(200):
        what = order.choice(("total", "around", "slow", "wait"))
        if what == "total":
            y = total(y) * 0.5
            first = np.broadcast_to(first.sum(0) * np.float32(0.5), first.shape)
        elif what == "around":
            np.testing.assert_array_equal(local(others()(x)), value[1 - jax.process_index()])
        elif what == "slow":
            z = slow()(x)  # nobody waits for it yet
            if k % 3 == 0:
                np.testing.assert_allclose(local(z), value.sum(0) * 0.5)
        else:
            jax.block_until_ready(y)
    np.testing.assert_allclose(local(slow()(x)), value.sum(0) * 0.5)
    np.testing.assert_array_equal(local(y), numbers(8).sum(0) * 0.5)


def in_place():
    update = mapped(lambda x: x + lax.psum(x, "x"), donate_argnums=0)
    value, x = numbers(16), array(numbers(16))
    for _ in range(10):
        x, old = update(x), x
        assert old.is_deleted()
        value = value + value.sum(0, keepdims=True)
    np.testing.assert_array_equal(local(x), value[jax.process_index()])


def beside_programs_of_one_process():
    """Which other threads run meanwhile."""
    end = threading.Event()
    square = jax.jit(lambda x: (x @ x).sum())
    here = np.eye(50, dtype=np.float32)
    found = []

    def work():
        while not end.is_set():
            found.append(float(square(here)))

    threads = [threading.Thread(target=work) for _ in range(2)]
    for thread in threads:
        thread.start()
    x = array(numbers(4))
    for _ in range(200):
        np.testing.assert_array_equal(local(total(x)), numbers(4).sum(0))
    end.set()
    for thread in threads:
        thread.join()
    assert found
    assert set(found) == {50.0}


def refused():
    """A run that cannot begin lets the next ones pass."""
    twice = mapped(lambda x, y: lax.psum(x + y, "x"), donate_argnums=0)
    x = array(numbers(4))
    for _ in range(3):
        try:
            twice(x, x)
        except (ValueError, jax.errors.JaxRuntimeError):
            pass
        else:
            raise AssertionError("an array was given away, and read")
        x = array(numbers(4))
    np.testing.assert_array_equal(local(total(x)), numbers(4).sum(0))


def after_what_failed():
    """A run that has not begun, as its argument failed, lets the next ones pass."""

    def fail(value):
        raise ValueError("not this time")

    kind = jax.ShapeDtypeStruct((1, 4), np.float32)
    failing = mapped(lambda x: lax.psum(jax.pure_callback(fail, kind, x), "x"))
    x = array(numbers(4))
    jax.block_until_ready((total(x), slow()(x)))
    for _ in range(3):
        with suppress(jax.errors.JaxRuntimeError):  # as it is begun, where nothing else is under way
            failed = [failing(x)]
            failed += [slow()(failed[0]), total(failed[0])]
            jax.block_until_ready(failed)
    np.testing.assert_allclose(local(slow()(x)), numbers(4).sum(0) * 0.5)
    np.testing.assert_array_equal(local(total(x)), numbers(4).sum(0))


if __name__ == "__main__":
    process, count, address, *names = sys.argv[1:]
    # JAX ends processes whose heartbeats it misses, also where the machine has only stood still
    jax.distributed.initialize(address, int(count), int(process), heartbeat_timeout_seconds=3600)
    for name in names:
        try:
            globals()[name]()
            print("ok", name, flush=True)
        except BaseException:
            print("failed\n" + name + "\n" + traceback.format_exc(), flush=True)
            raise
    jax.distributed.shutdown()
