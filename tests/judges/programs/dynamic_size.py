"""Arrays of bounded dynamic size, within the program: what comes out of each family is static."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from tests.judges.programs.combiners import combiner
from tests.judges.programs.scene import FLOATS, INTEGERS, Bits, Scene, Value, family
from xloom.hlo.attributes import PaddingDimension
from xloom.hlo.instruction import Instruction


def _same(scene: Scene, x: Instruction) -> Instruction:
    return scene.builder.emit(scene.chance.choice(("negate", "copy")), x)


def _paired(scene: Scene, x: Instruction) -> Instruction:
    opcode = scene.chance.choice(("maximum", "minimum"))
    return scene.builder.emit(opcode, x, scene.builder.emit("negate", x))


def _transposed(scene: Scene, x: Instruction) -> Instruction:
    order = list(range(x.shape.rank))
    scene.chance.shuffle(order)
    return scene.builder.transpose(x, dimensions=tuple(order))


def _reversed(scene: Scene, x: Instruction) -> Instruction:
    return scene.builder.reverse(x, dimensions=(scene.chance.randrange(x.shape.rank),))


def _joined(scene: Scene, x: Instruction) -> Instruction:
    return scene.builder.concatenate(x, x, dimensions=(scene.chance.randrange(x.shape.rank),))


def _padded(scene: Scene, x: Instruction) -> Instruction:
    edge = scene.builder.constant(np.ones((), x.shape.dtype.numpy))
    padding = [PaddingDimension(scene.chance.choice((0, 1)), scene.chance.choice((0, 0, 2))) for _ in x.shape.dims]
    return scene.builder.pad(x, edge, padding=tuple(padding))


_STEPS: tuple[Callable[[Scene, Instruction], Instruction], ...] = (
    _same,
    _paired,
    _transposed,
    _reversed,
    _joined,
    _padded,
)


def _cut(scene: Scene) -> tuple[Value, Instruction]:
    """An array, and the same with one dimension cut to a run-time size."""
    x = scene.any(*FLOATS, *INTEGERS, least_rank=1)
    dimension = scene.chance.randrange(x.shape.rank)
    count = np.asarray(scene.chance.randint(0, x.shape.dims[dimension]), np.int32)
    size = scene.argument(count)
    cut = scene.builder.set_dimension_size(x.instruction, size.instruction, dimensions=(dimension,))
    for _ in range(scene.chance.randint(0, 3)):
        if cut.shape.size <= 2000:
            cut = scene.chance.choice(_STEPS)(scene, cut)
    return x, cut


@family(1)
def reduced_to_static(scene: Scene) -> None:
    """Folded along all dynamic dimensions."""
    x, cut = _cut(scene)
    combine = combiner(scene, x.dtype, cut.shape.size)
    kept = scene.chance.sample(range(cut.shape.rank), scene.chance.randint(0, cut.shape.rank - 1))
    dimensions = tuple(k for k in range(cut.shape.rank) if k not in kept or cut.shape.is_dynamic_dimension(k))
    identity_value = scene.builder.constant(combine.identity_value)
    result = scene.builder.reduce(cut, identity_value, dimensions=dimensions, to_apply=combine.computation)
    scene.keep(result, scene.outcome([x], combine.rounds))


@family(0.4)
def run_time_size(scene: Scene) -> None:
    """The size itself."""
    _, cut = _cut(scene)
    dimension = scene.chance.randrange(cut.shape.rank)
    scene.keep(scene.builder.get_dimension_size(cut, dimensions=(dimension,)), Bits.GIVEN)


@family(0.6)
def product_of_cut(scene: Scene) -> None:
    """A matrix product that contracts a dynamic dimension."""
    dtype = scene.dtype("f32", "f64", "s32")
    rows, depth, columns = (scene.chance.choice((1, 2, 3, 6, 9)) for _ in range(3))
    lhs, rhs = scene.like(dtype[rows, depth]), scene.like(dtype[depth, columns])
    size = scene.argument(np.asarray(scene.chance.randint(0, depth), np.int32)).instruction
    left = scene.builder.set_dimension_size(lhs.instruction, size, dimensions=(1,))
    right = scene.builder.set_dimension_size(rhs.instruction, size, dimensions=(0,))
    result = scene.builder.dot(left, right, lhs_contracting_dims=(1,), rhs_contracting_dims=(0,))
    scene.keep(result, scene.outcome([lhs, rhs], True))
