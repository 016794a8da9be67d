"""What goes wrong between processes: `faults.py PROCESS COUNT PORT FAULT...`, one after another.

Each process that lives says what it got, and what the same sum gives afterwards if all live.
"""

import os
import signal
import sys
import time

import jax
import numpy as np
from jax import lax
from jax._src import distributed
from jax.sharding import Mesh, NamedSharding
from jax.sharding import PartitionSpec as P


def array(width=4, rows=1):
    sharding = NamedSharding(Mesh(np.array(jax.devices()), "x"), P("x"))
    count = len(jax.local_devices())
    return jax.make_array_from_process_local_data(sharding, np.ones((count * rows, width), np.float32))


def mapped(function):
    mesh = Mesh(np.array(jax.devices()), "x")
    return jax.jit(jax.shard_map(function, mesh=mesh, in_specs=P("x"), out_specs=P("x"), check_vma=False))


def total(value):
    return mapped(lambda x: lax.psum(x, "x"))(value)


def meet(name):
    """Without a collective, whose patience is what is tested."""
    client = distributed.global_state.client
    assert client is not None
    client.wait_at_barrier(name, 60_000)


def dies():
    if jax.process_index():
        os.kill(os.getpid(), signal.SIGKILL)
    return total(array())


def dies_while_data_moves():
    """The second part of a large sum comes after the death."""
    if jax.process_index():

        def end(value):
            os.kill(os.getpid(), signal.SIGKILL)
            return value

        jax.pure_callback(end, jax.ShapeDtypeStruct((), np.float32), np.float32(0))
    return mapped(lambda x: lax.all_gather(lax.psum(x, "x"), "x").sum(0))(array(1 << 20))


def stops():
    if jax.process_index():
        os.kill(os.getpid(), signal.SIGSTOP)
    return total(array())


def is_slow():
    if jax.process_index():
        time.sleep(5)
    return total(array())


def is_slow_with_much():
    if jax.process_index():
        time.sleep(5)
    return total(array(1 << 18))


def ends():
    if jax.process_index():
        sys.exit(0)
    return total(array())


def ends_by_an_error():
    if jax.process_index():
        raise ZeroDivisionError
    return total(array())


def goes_on_without():
    """One of the processes leaves a program out."""
    if jax.process_index():
        return None
    return total(array())


def other_order():
    gathered = mapped(lambda x: lax.all_gather(x, "x")[0])
    return (gathered if jax.process_index() else total)(array())


def other_shape():
    return total(array(4 + jax.process_index()))


def other_large_shape():
    return total(array((1 << 16) + 4 * jax.process_index()))


def raises():
    def fail(value):
        if jax.process_index():
            raise ValueError("not this time")
        return value

    kind = jax.ShapeDtypeStruct((1, 4), np.float32)
    return mapped(lambda x: lax.psum(jax.pure_callback(fail, kind, x), "x"))(array())


FATAL = ("dies", "dies_while_data_moves", "stops", "ends", "ends_by_an_error", "goes_on_without")
"""After these there is nothing to go on with."""


def attempt(fault):
    begun = time.monotonic()
    try:
        jax.block_until_ready(globals()[fault]())
        found = "no error"
    except jax.errors.JaxRuntimeError as error:
        found = str(error)
    print(f"{fault}: {time.monotonic() - begun:.1f} s {found}", flush=True)


if __name__ == "__main__":
    process, count, port, *faults = sys.argv[1:]
    jax.distributed.initialize(f"localhost:{port}", int(count), int(process))
    mapped(lambda x: lax.psum(x, "x")).lower(array()).compile()
    meet("before")
    np.asarray(total(array()).addressable_data(0))
    fault = ""
    for fault in faults:
        attempt(fault)
        if fault not in FATAL:
            meet(fault)
            print(f"{fault}: afterwards", np.asarray(total(array()).addressable_data(0))[0, 0], flush=True)
            meet(f"after {fault}")
    if fault not in FATAL:
        jax.distributed.shutdown()  # all at once: JAX ends who sees the first one go
    os._exit(0)  # the others do not wait for who has died
