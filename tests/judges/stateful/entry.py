"""The entry of a program: what it returns, how its arrays lie, which memory it is given."""

from __future__ import annotations

from tests.judges.programs.scene import Value
from tests.judges.stateful.scene import StateScene
from xloom.hlo.instruction import Instruction
from xloom.hlo.module import InputOutputAlias, Module
from xloom.hlo.shape import Layout, Shape, tuple_shape

_MOST_RESULTS = (7, 7, 7, 30)


def root(scene: StateScene) -> Instruction:
    """What nobody reads, and more: values that others read, some twice, parameters as they are."""
    unused = [v for v in scene.values if not v.instruction.users and v.instruction.opcode != "constant"]
    most = scene.chance.choice(_MOST_RESULTS)
    chosen: list[Value] = unused if len(unused) <= most else scene.chance.sample(unused, most)
    values = scene.values or [scene.new(scene.dtype()[()])]
    chosen = [*chosen, *scene.chance.choices(values, k=scene.chance.choice((0, 0, 1, 2)))] or [values[-1]]
    parameters = [v for v in values if v.instruction.opcode == "parameter"]
    if parameters and scene.flip(0.2):
        chosen.append(scene.chance.choice(parameters))
    if scene.flip(0.2):
        chosen.append(scene.chance.choice(chosen))
    scene.chance.shuffle(chosen)
    if len(chosen) == 1 and scene.flip(0.7):
        return chosen[0].instruction
    return scene.builder.tuple_(*(v.instruction for v in chosen))


def arrange(scene: StateScene, module: Module) -> tuple[int, ...]:
    """Gives the module layouts, aliases and donors; the parameters that are given away."""
    if scene.flip(0.25):
        module.config.parameter_layouts = [_lies(scene, p.shape) for p in module.entry.parameters]
        module.config.result_layout = _lies(scene, module.entry.root.shape)
    given: list[int] = []
    if scene.flip(0.5):
        given += _alias(scene, module)
    if scene.flip(0.3):
        for number in range(len(module.entry.parameters)):
            if number not in given and scene.flip(0.4):
                module.config.buffer_donors.append((number, ()))
                given.append(number)
    return tuple(given)


def _lies(scene: StateScene, shape: Shape) -> Shape:
    if shape.is_tuple:
        return tuple_shape([_lies(scene, e) for e in shape.elements])
    order = list(range(shape.rank))
    if scene.flip(0.5):
        scene.chance.shuffle(order)
    return shape.with_layout(Layout(tuple(order)) if shape.rank else None)


def _alias(scene: StateScene, module: Module) -> list[int]:
    """Lets results take the memory of parameters that lie as they do."""
    results = module.result_shape
    leaves = {(k,): s for k, s in enumerate(results.elements)} if results.is_tuple else {(): results}
    free = list(enumerate(module.parameter_shapes))
    scene.chance.shuffle(free)
    given = []
    for index, shape in leaves.items():
        found = next(((n, s) for n, s in free if str(s) == str(shape)), None)
        if found is not None and scene.flip(0.8):
            free.remove(found)
            module.config.input_output_alias.append(InputOutputAlias(index, found[0], ()))
            given.append(found[0])
    return given
