"""Collectives of a program for one device."""

from __future__ import annotations

from tests.judges.programs.combiners import combiner
from tests.judges.programs.scene import FLOATS, INTEGERS, Scene, family
from xloom.hlo.sharding import ReplicaGroups

_ALONE = ReplicaGroups(((0,),))


@family(0.5)
def reducing(scene: Scene) -> None:
    """all-reduce of one or two arrays, or reduce-scatter."""
    x = scene.any("pred", *INTEGERS, *FLOATS, least_rank=1)
    operands = [x]
    attributes = {"to_apply": combiner(scene, x.dtype, 1).computation, "replica_groups": _ALONE}
    if scene.flip(0.3):
        dimension = scene.chance.randrange(x.shape.rank)
        scene.emit("reduce-scatter", x, shape=x.shape, dimensions=(dimension,), **attributes)
        return
    if scene.flip(0.3):
        operands.append(scene.any(x.dtype.name))
    scene.emit_many("all-reduce", *operands, **attributes)


@family(0.5)
def moving(scene: Scene) -> None:
    """all-gather, all-to-all, collective-permute and collective-broadcast, or the number of the device."""
    opcode = scene.chance.choice(
        ("all-gather", "all-to-all", "collective-permute", "collective-broadcast", "replica-id", "partition-id")
    )
    if opcode.endswith("-id"):
        scene.emit(opcode)
        return
    x = scene.any(least_rank=1)
    dimension = scene.chance.randrange(x.shape.rank)
    attributes = {
        "all-gather": {"replica_groups": _ALONE, "dimensions": (dimension,)},
        "all-to-all": {"replica_groups": _ALONE, "dimensions": (dimension,)},
        "collective-permute": {"source_target_pairs": scene.chance.choice((((0, 0),), ()))},
        "collective-broadcast": {"replica_groups": _ALONE},
    }[opcode]
    scene.emit(opcode, x, moves=True, shape=x.shape, **attributes)
