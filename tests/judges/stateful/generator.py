"""One random program about state by its number."""

from __future__ import annotations

import random
from dataclasses import dataclass
from importlib import import_module

import numpy as np

from tests.judges.programs.numbers import random_array
from tests.judges.programs.scene import Bits
from tests.judges.stateful.entry import arrange, root
from tests.judges.stateful.scene import Kind, StateScene
from xloom.hlo.builder import Builder
from xloom.hlo.dtype import DTYPES
from xloom.hlo.module import Module

_FAMILIES = ("branches", "calls", "groups", "kernel_calls", "lapack_calls", "loops", "updates")
for _name in _FAMILIES:  # each registers its own
    import_module(f"tests.judges.stateful.{_name}")

_LENGTHS = (1, 1, 2, 2, 3, 4, 5, 6, 8, 10, 14, 20)
_KINDS = (
    (Kind(Bits.EXACT, calls=False, rounded=False), 5),
    (Kind(Bits.EXACT, calls=True, rounded=False), 4),
    (Kind(Bits.ROUNDED, calls=False, rounded=True), 2),
    (Kind(Bits.ROUNDED, calls=True, rounded=True), 1),
)
_LARGER = (
    *((64,), (100,), (257,), (1000,), (3000,), (4, 64), (16, 33), (33, 65), (65, 33), (2, 300), (300, 2), (129, 1)),
    *((1, 129), (512, 3), (16, 100), (40, 70), (8, 8, 16), (3, 5, 70), (70, 4, 4)),
)
_WIDE = ((130, 257), (40_000,), (3, 64, 129), (2, 65_537))


@dataclass
class Program:
    """A module, the arguments to run it on, and the parameters that are given away."""

    module: Module
    arguments: list[np.ndarray]
    donated: tuple[int, ...]


def generate(seed: int, number: int) -> Program:
    """Program `number` of the sequence that `seed` names."""
    chance = random.Random(f"state {seed}:{number}")
    builder = Builder(f"state_{seed}_{number}", source_lines=False)
    scene = StateScene(builder, builder, chance)
    (scene.kind,) = chance.choices([k for k, _ in _KINDS], [w for _, w in _KINDS])
    if scene.kind.bits == Bits.EXACT:
        scene.special = chance.choice((0, 0, 0.05))
    if scene.flip(0.35):
        scene.larger = tuple(chance.sample(_LARGER, 2))
    if scene.flip(0.04):  # large enough for threads
        dims = chance.choice(_WIDE)
        for name in chance.choices(("s32", "f32", "u8", "f64", "s64", "pred"), k=2):
            scene.argument(random_array(scene.numbers, DTYPES[name], dims, 0))
    scene.grow(chance.choice(_LENGTHS) if scene.flip(0.97) else 60)
    module = builder.build(root(scene))
    return Program(module, scene.arguments, arrange(scene, module))
