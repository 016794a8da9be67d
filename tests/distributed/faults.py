"""What goes wrong between processes: `faults.py PROCESS COUNT ADDRESS FAULT...`, one after another.

Each process that lives says what it got, and what the same sum gives afterwards if all live.
"""

import itertools
import os
import signal
import subprocess
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


def ready(function, value):
    """A call of the program, which all processes have compiled: what is tested is patience with runs alone."""
    program = mapped(function).lower(value).compile()
    meet(f"compiled {next(numbers)}")
    begun.append(time.monotonic())
    return lambda: program(value)


def total(width=4):
    return ready(lambda x: lax.psum(x, "x"), array(width))


LIMIT = float(os.environ["XLOOM_DISTRIBUTED_TIMEOUT"])
LATE = 3.0
"""Seconds after the time-out at which who is late comes: by then the other has given up, on a busy machine too."""
numbers = itertools.count()
begun = []
"""When all had compiled a program, the last one last."""


def meet(name):
    """Without a collective, whose patience is what is tested."""
    client = distributed.global_state.client
    assert client is not None
    client.wait_at_barrier(name, 600_000)


def dies():
    run = total()
    if jax.process_index():
        os.kill(os.getpid(), signal.SIGKILL)
    return run()


def dies_while_data_moves():
    """The second part of a large sum comes after the death."""
    run = ready(lambda x: lax.all_gather(lax.psum(x, "x"), "x").sum(0), array(1 << 20))
    if jax.process_index():

        def end(value):
            os.kill(os.getpid(), signal.SIGKILL)
            return value

        jax.pure_callback(end, jax.ShapeDtypeStruct((), np.float32), np.float32(0))
    return run()


def stops():
    run = total()
    if jax.process_index():
        os.kill(os.getpid(), signal.SIGSTOP)
        time.sleep(600)  # another thread may have taken the signal, and this one would go on until all are stopped
    return run()


def stands_still():
    """Both do for longer than the time-out, as does all else on a machine that is stopped; the second comes late.

    What counts as waiting, before, for the standstill and after it, is far from the time-out: machines have other work.
    So is the second one's start from the time when it is stopped, which a shell may be late to do.
    """
    run = total()
    late = jax.process_index()
    me = os.getpid()
    subprocess.Popen(["sh", "-c", f"sleep 0.2; kill -STOP {me}; sleep {2 * LIMIT + late / 4}; kill -CONT {me}"])
    if late:
        time.sleep(LIMIT)
    return run()


def is_slow():
    run = total()
    if jax.process_index():
        time.sleep(LIMIT + LATE)
    return run()


def is_slow_with_much():
    run = total(1 << 18)
    if jax.process_index():
        time.sleep(LIMIT + LATE)
    return run()


def is_slow_for_several():
    """The first of them waits, in the caller's thread or the device's, and the others for their turn."""
    runs = [total(width) for width in (4, 5, 6)]
    if jax.process_index():
        time.sleep(LIMIT + LATE)
    return [run() for run in runs][-1]


def is_slow_for_what_is_launched_later():
    """After the first has failed, and before anybody has asked for its result: the other fails by its error."""
    first, second = total(1 << 20), total(4)  # of a large one the device's thread waits for the other
    if jax.process_index():
        time.sleep(LIMIT + LATE)
        return [first(), second()][-1]
    kept = first()
    time.sleep(max(0.0, begun[-1] + LIMIT + 1 - time.monotonic()))
    result = second()
    del kept
    return result


def is_ahead():
    """The second of three waits for the last; the first has what it needs of the second, and waits for that then."""
    around, run = ready(lambda x: lax.ppermute(x, "x", [(2, 1), (1, 0)]), array()), total()
    if jax.process_index() == 2:
        os.kill(os.getpid(), signal.SIGKILL)
    jax.block_until_ready(around())
    return run()


def ends():
    run = total()
    if jax.process_index():
        sys.exit(0)
    return run()


def ends_by_an_error():
    run = total()
    if jax.process_index():
        raise ZeroDivisionError
    return run()


def ends_after_an_error():
    try:
        jax.block_until_ready(other_shape())
    except jax.errors.JaxRuntimeError:
        return ends()
    raise AssertionError("two shapes were added")


def goes_on_without():
    """One of the processes leaves a program out."""
    run = total()
    if jax.process_index():
        return None
    return run()


def other_order():
    if jax.process_index():
        return ready(lambda x: lax.all_gather(x, "x")[0], array())()
    return total()()


def other_shape():
    return total(4 + jax.process_index())()


def other_large_shape():
    return total((1 << 16) + 4 * jax.process_index())()


def other_middle_shape():
    """What follows a header that does not fit is taken for nothing else, even by a run whose tags are the same."""
    try:
        return jax.block_until_ready(total(MIDDLE + 4 * jax.process_index())())
    finally:
        run = ready(lambda x: lax.psum(2 * x, "x"), array(MIDDLE))
        for _ in range(RUNS):
            assert (np.asarray(run().addressable_data(0)) == 4).all()


MIDDLE = 1 << 14
"""Elements of which a half is sent at once, but not in the message of the header."""
RUNS = 4100
"""After these tags have come again."""


def leaves_a_loop():
    """The first sends more often than the other receives, and does not wait for it each time."""

    def body(_, x):
        return lax.ppermute(x, "x", [(0, 1)])

    def function(x):
        return lax.psum(lax.fori_loop(0, 100 - 90 * lax.axis_index("x"), body, x), "x")

    return ready(function, array())()


def raises():
    def fail(value):
        if jax.process_index():
            raise ValueError("not this time")
        return value

    kind = jax.ShapeDtypeStruct((1, 4), np.float32)
    return ready(lambda x: lax.psum(jax.pure_callback(fail, kind, x), "x"), array())()


NETWORK = {
    "network_is_cut": 4,
    "network_is_cut_while_data_moves": 1 << 22,
    "network_comes_back": 4,
    "network_loses": 1 << 19,
}
"""What who has started the processes does to their network, while sums of so many elements are formed."""


def ask(what):
    """Waits until that has been done to the network."""
    print(f"network: {what}", flush=True)
    sys.stdin.readline()


FATAL = (
    "dies",
    "dies_while_data_moves",
    "stops",
    "is_ahead",
    "ends",
    "ends_by_an_error",
    "ends_after_an_error",
    "goes_on_without",
)
"""After these there is nothing to go on with."""


def attempt(fault):
    run = total(NETWORK[fault]) if fault in NETWORK else globals()[fault]
    if fault in NETWORK:
        ask(f"before {fault}")
    try:
        result = jax.block_until_ready(run())
        found = "no error"
        if fault in NETWORK:
            assert all((np.asarray(shard.data) == 2).all() for shard in result.addressable_shards)
    except jax.errors.JaxRuntimeError as error:
        found = str(error)
    print(f"{fault}: {time.monotonic() - begun[-1]:.1f} s {found}", flush=True)
    if fault in NETWORK:
        ask(f"after {fault}")


if __name__ == "__main__":
    process, count, address, *faults = sys.argv[1:]
    # JAX ends processes whose heartbeats it misses, also where the machine has only stood still
    jax.distributed.initialize(address, int(count), int(process), heartbeat_timeout_seconds=3600)
    np.asarray(total()().addressable_data(0))
    fault = ""
    for fault in faults:
        attempt(fault)
        if fault not in FATAL:
            meet(fault)
            print(f"{fault}: afterwards", np.asarray(total()().addressable_data(0))[0, 0], flush=True)
            meet(f"after {fault}")
    if fault not in FATAL:
        jax.distributed.shutdown()  # all at once: JAX ends who sees the first one go
    os._exit(0)  # the others do not wait for who has died
