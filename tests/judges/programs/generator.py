"""One random program by its number."""

from __future__ import annotations

import random
from dataclasses import dataclass
from importlib import import_module

import numpy as np

from tests.judges.programs.scene import FAMILIES, Scene
from xloom.hlo.builder import Builder
from xloom.hlo.instruction import Instruction
from xloom.hlo.module import InputOutputAlias, Module

for _name in (
    *("collective", "control", "conversion", "convolution", "custom_call", "dot", "dynamic", "dynamic_size"),
    *("elementwise", "gather", "grouped_dot", "layout", "linear_algebra", "random_bits", "reduce", "scan", "scatter"),
    *("sort", "windows"),
):  # each registers its families
    import_module(f"tests.judges.programs.{_name}")

LENGTHS = (1, 1, 2, 3, 4, 6, 8, 12, 18, 25)
MOST_OUTPUTS = 6


@dataclass
class Program:
    """A module and the arguments to run it on."""

    module: Module
    arguments: list[np.ndarray]


def generate(seed: int, number: int, most: int = LENGTHS[-1]) -> Program:
    """Program `number` of the sequence that `seed` names, of about `most` instructions at most."""
    chance = random.Random(f"{seed}:{number}")
    builder = Builder(f"program_{seed}_{number}", source_lines=False)
    scene = Scene(builder, builder, chance)
    grow(scene, min(most, chance.choice(LENGTHS)))
    module = builder.build(_root(scene))
    if scene.flip(0.3):
        _alias(scene, module)
    return Program(module, scene.arguments)


def grow(scene: Scene, length: int) -> None:
    """Adds instructions of random families until there are `length`."""
    families = list(FAMILIES.values())
    weights = [weight for _, weight in families]
    made = 0
    for _ in range(4 * length):
        if made >= length:
            break
        before = len(scene.values)
        function = scene.chance.choices(families, weights)[0][0]
        function(scene)
        new = scene.values[before:]
        made += sum(v.instruction.opcode not in ("parameter", "constant", "get-tuple-element") for v in new)


def _alias(scene: Scene, module: Module) -> None:
    """Lets results take the memory of parameters of their shape."""
    root = module.entry.root
    results = {(k,): o.shape for k, o in enumerate(root.operands)} if root.opcode == "tuple" else {(): root.shape}
    free = list(module.entry.parameters)
    scene.chance.shuffle(free)
    for index, shape in results.items():
        parameter = next((p for p in free if (p.shape.dtype, p.shape.dims) == (shape.dtype, shape.dims)), None)
        if parameter is not None and scene.flip(0.8):
            free.remove(parameter)
            number = parameter["parameter_number"]
            module.config.input_output_alias.append(InputOutputAlias(index, number, ()))


def _root(scene: Scene) -> Instruction:
    unused = [v for v in scene.values if not v.instruction.users]
    chosen = unused if len(unused) <= MOST_OUTPUTS else scene.chance.sample(unused, MOST_OUTPUTS)
    if not chosen:
        chosen = [scene.chance.choice(scene.values)] if scene.values else [scene.new(scene.dtype()[()])]
    if scene.flip(0.2):
        chosen = [*chosen, scene.chance.choice(scene.values)]
    if len(chosen) == 1 and scene.flip(0.7):
        return chosen[0].instruction
    return scene.builder.tuple_(*(v.instruction for v in chosen))
