"""A sum of two processes in a loop, of which the second one is late; then a loop whose data go one way.

`traced.py PROCESS COUNT ADDRESS`
"""

import sys
import time

import jax
import numpy as np
from jax import lax
from jax.sharding import Mesh, NamedSharding
from jax.sharding import PartitionSpec as P

SLEEP = 3.0
"""Seconds by which the second one is late: more than the first one may be, by other work of the machine."""
process, count, address = sys.argv[1:]
# JAX ends processes whose heartbeats it misses, also where the machine has only stood still
jax.distributed.initialize(address, int(count), int(process), heartbeat_timeout_seconds=3600)
mesh = Mesh(np.array(jax.devices()), "x")
mine = np.ones((len(jax.local_devices()), 1 << 14), np.float32)
x = jax.make_array_from_process_local_data(NamedSharding(mesh, P("x")), mine)


@jax.jit
@jax.shard_map(mesh=mesh, in_specs=P("x"), out_specs=P("x"), check_vma=False)
def summed(x):
    return lax.fori_loop(0, 3, lambda _, x: lax.psum(x, "x"), x)


@jax.jit
@jax.shard_map(mesh=mesh, in_specs=P("x"), out_specs=P("x"), check_vma=False)
def passed(x):
    return lax.fori_loop(0, 5, lambda _, x: lax.ppermute(x, "x", [(0, 3)]), x)


passed(x).block_until_ready()
summed(x).block_until_ready()
if process == "1":
    time.sleep(SLEEP)
summed(x).block_until_ready()
jax.distributed.shutdown()
