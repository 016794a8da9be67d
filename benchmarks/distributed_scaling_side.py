"""One process of `benchmarks.distributed_scaling`: `SIDE PROCESS COUNT PORT`; the first says what it took."""

from __future__ import annotations

import sys
import time

BEGUN = time.perf_counter()


def main() -> None:
    """Begins, and sums a number over all processes."""
    times = {}

    def mark(name: str, since: float) -> float:
        now = time.perf_counter()
        times[name] = now - since
        return now

    import jax
    import numpy as np
    from jax import lax
    from jax.sharding import Mesh, NamedSharding
    from jax.sharding import PartitionSpec as P

    now = mark("import", BEGUN)
    side, process, count, port = sys.argv[1:]
    if side == "gloo":
        jax.config.update("jax_cpu_collectives_implementation", "gloo")
    jax.distributed.initialize(f"localhost:{port}", int(count), int(process))
    assert len(jax.devices()) == int(count)
    now = mark("connect", now)
    mesh = Mesh(np.array(jax.devices()), "x")
    x = jax.make_array_from_process_local_data(NamedSharding(mesh, P("x")), np.ones(1, np.float32))
    total = jax.jit(jax.shard_map(lambda x: lax.psum(x, "x"), mesh=mesh, in_specs=P("x"), out_specs=P("x")))
    assert total(x).addressable_data(0)[0] == int(count)
    mark("sum", now)
    mark("all", BEGUN)
    if process == "0":
        for name, taken in times.items():
            print(f"started.{name} {taken}", flush=True)


if __name__ == "__main__":
    main()
