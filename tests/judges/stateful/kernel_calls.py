"""Custom calls of kernels in C and Python: layouts, outputs that are operands, unread outputs, tuples, scratch."""

from __future__ import annotations

from tests.judges.programs.scene import Value
from tests.judges.stateful.kernels import ABIS, KERNELS, register, target
from tests.judges.stateful.scene import StateScene, family
from xloom.hlo.attributes import Alias
from xloom.hlo.dtype import s64, u8
from xloom.hlo.instruction import Instruction
from xloom.hlo.shape import Layout, Shape, tuple_shape

register()

_TYPES = ("pred", "s8", "s16", "s32", "s64", "u8", "u16", "u32", "u64", "f32", "f64", "bf16", "f16", "c64", "c128")


@family(14, calls=True)
def kernel_call(scene: StateScene) -> None:
    """One call."""
    call_on(scene, scene.any(*_TYPES, exact=scene.kind.bits))


def call_on(scene: StateScene, x: Value) -> list[Value]:
    """The results of a call of a random kernel on `x`; now and then one is kept from being read."""
    kernel = scene.chance.choice(KERNELS)
    abi = scene.chance.choice([a for a in ABIS if kernel != "pair" or a != "typed"])
    lies = _lies(scene, x.shape)
    arrays, shapes = [x], [lies]
    if kernel in ("both", "pair"):
        y = scene.like(x.shape, x.bits) if scene.flip(0.5) else scene.any(x.dtype.name, exact=x.bits)
        arrays.append(y)
        shapes.append(lies if y.shape == x.shape and scene.flip(0.7) else _lies(scene, y.shape))
    results = {"turn": shapes, "ends": shapes, "fork": [lies, lies], "spare": [lies, u8[8,]]}.get(kernel, list(shapes))
    aliases = _aliases(scene, kernel, shapes, results)
    counts = [x.dtype.bytes, x.shape.size, 8 if kernel == "spare" else arrays[-1].shape.size, len(arrays) - 1]
    operands, taken = _operands(scene, kernel, arrays, shapes, scene.builder.constant(counts, s64))
    made = scene.builder.custom_call(
        target(kernel, abi),
        operands,
        tuple_shape(results) if len(results) > 1 else results[0],
        api_version=ABIS[abi],
        operand_layout_constraints=taken,
        opaque="{}" if abi == "typed" else "",
        output_to_operand_aliasing=aliases,
    )
    values = scene.unpack(made, max(a.bits for a in arrays))
    if len(values) > 1 and scene.flip(0.6):
        unread = scene.chance.randrange(2) if kernel != "spare" or scene.flip(0.2) else 1
        scene.values.remove(values.pop(unread))
    return values


def _lies(scene: StateScene, shape: Shape) -> Shape:
    """The shape with some order of dimensions, column by column more often than not."""
    order = list(range(shape.rank))
    if scene.flip(0.4):
        scene.chance.shuffle(order)
    elif scene.flip(0.5):
        order.reverse()
    return shape.with_layout(Layout(tuple(order[::-1])))


def _aliases(scene: StateScene, kernel: str, shapes: list[Shape], results: list[Shape]) -> tuple[Alias, ...]:
    """Outputs that are operands; of a kernel that changes some elements it must be."""
    found: list[Alias] = []
    free = list(range(len(shapes)))
    for k, result in enumerate(results):
        fitting = [n for n in free if str(shapes[n]) == str(result)]
        if not fitting or not (kernel == "ends" or scene.flip(0.6)):
            continue
        number = scene.chance.choice(fitting)
        free.remove(number)
        index = (k,) if len(results) > 1 else ()
        found.append(Alias(index, 1, (number,)) if kernel == "pair" else Alias(index, 1 + number, ()))
    return tuple(found)


def _operands(
    scene: StateScene, kernel: str, arrays: list[Value], shapes: list[Shape], counts: Instruction
) -> tuple[list[Instruction], tuple[Shape, ...]]:
    given = [a.instruction for a in arrays]
    if kernel == "pair":
        return [counts, scene.builder.tuple_(*given)], (counts.shape, tuple_shape(shapes))
    return [counts, *given], (counts.shape, *shapes)
