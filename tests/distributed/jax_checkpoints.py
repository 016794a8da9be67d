"""A checkpoint of one number of processes in another one: `jax_checkpoints.py PROCESS COUNT ADDRESS FOLDER WHAT`.

Orbax writes arrays that are cut over all devices, along either dimension, and one that all devices have; they are read
as they are, and cut the other way.
"""

import sys
from pathlib import Path

import jax
import numpy as np
import orbax.checkpoint as ocp  # pyright: ignore[reportMissingImports]
from jax.sharding import Mesh, NamedSharding
from jax.sharding import PartitionSpec as P

SPECS = {"rows": P("x", None), "columns": P(None, "x"), "everywhere": P()}
OTHERS = {"rows": P(None, "x"), "columns": P(), "everywhere": P("x", None)}


def values() -> dict[str, np.ndarray]:
    numbers = np.random.default_rng(0)
    return {name: numbers.normal(size=(8, 16)).astype(np.float32) for name in SPECS}


def main(folder: str, what: str) -> None:
    mesh = Mesh(np.array(jax.devices()), "x")
    wanted = values()
    with ocp.StandardCheckpointer() as checkpointer:
        if what == "save":
            state = {
                name: jax.make_array_from_callback(x.shape, NamedSharding(mesh, SPECS[name]), x.__getitem__)
                for name, x in wanted.items()
            }
            checkpointer.save(Path(folder) / "state", state)
            return
        for specs in (SPECS, OTHERS):
            like = {
                name: jax.ShapeDtypeStruct(x.shape, x.dtype, sharding=NamedSharding(mesh, specs[name]))
                for name, x in wanted.items()
            }
            found = checkpointer.restore(Path(folder) / "state", like)
            for name, x in wanted.items():
                assert found[name].sharding.is_equivalent_to(like[name].sharding, 2), (name, found[name].sharding)
                for shard in found[name].addressable_shards:
                    np.testing.assert_array_equal(shard.data, x[shard.index])
                total = jax.jit(lambda x: x.sum(), out_shardings=NamedSharding(mesh, P()))(found[name])
                np.testing.assert_allclose(total, x.sum(), rtol=1e-5, atol=1e-5)


if __name__ == "__main__":
    process, count, address, folder, what = sys.argv[1:]
    if count != "1":
        jax.distributed.initialize(address, int(count), int(process))
    assert jax.process_count() == int(count)
    main(folder, what)
    print("ok", what, flush=True)
