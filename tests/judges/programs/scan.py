"""scan: prefix scans, and bodies of any operators on slices."""

from __future__ import annotations

from tests.judges.programs.combiners import combiner
from tests.judges.programs.control import DEEPEST, enter, grow, leave
from tests.judges.programs.scene import FLOATS, INTEGERS, Bits, Scene, Value, family
from xloom.hlo.computation import Computation
from xloom.hlo.shape import Shape


def _slice(value: Value, dimension: int) -> Shape:
    dims = value.shape.dims
    return value.dtype[(*dims[:dimension], *dims[dimension + 1 :])]


def _scan(
    scene: Scene, inputs: list[Value], carries: list[Value], body: Computation, dimension: int, bits: Bits
) -> None:
    operands = [v.instruction for v in (*inputs, *carries)]
    instruction = scene.builder.scan(
        *operands,
        dimensions=(dimension,),
        num_carries=len(carries),
        is_reverse=scene.flip(0.3),
        is_associative=False,
        to_apply=body,
    )
    scene.unpack(instruction, bits)


@family(1)
def running_fold(scene: Scene) -> None:
    """Each prefix of an array reduced, and the whole."""
    x = scene.any("pred", *INTEGERS, *FLOATS, "c64", least_rank=1)
    dimension = scene.chance.randrange(x.shape.rank)
    if not x.shape.dims[dimension]:  # XLA cannot cut slices from one
        return
    shape = _slice(x, dimension)
    combine = combiner(scene, x.dtype, x.shape.dims[dimension])
    carry = scene.like(shape)
    builder = scene.module.computation("step")
    sum_ = builder.emit(combine.opcode, builder.parameter(shape), builder.parameter(shape))
    body = builder.finish(builder.tuple_(sum_, sum_))
    _scan(scene, [x], [carry], body, dimension, scene.outcome([x, carry], combine.rounds))


@family(1)
def scan_of_any(scene: Scene) -> None:
    """One or two arrays and up to two carries, through operators of any family."""
    if scene.depth >= DEEPEST:
        return
    x = scene.any(least_rank=1)
    dimension = scene.chance.randrange(x.shape.rank)
    if not 0 < x.shape.dims[dimension] <= 9:
        return
    inputs = [x]
    if scene.flip(0.3):
        inputs.append(scene.like(scene.dtype()[x.shape.dims]))
    carries = [scene.any() for _ in range(scene.chance.choice((0, 1, 1, 2)))]
    shapes = [*(_slice(v, dimension) for v in inputs), *(c.shape for c in carries)]
    inner = enter(scene, "step", shapes, False, Bits.ROUNDED)
    grow(inner)
    outputs = [v.shape for v in inner.chance.sample(inner.values, min(len(inner.values), scene.chance.choice((1, 2))))]
    outputs = [s for s in outputs if s.size * x.shape.dims[dimension] <= 2000 and s.rank >= dimension]
    results = [*outputs, *(c.shape for c in carries)]
    if results:
        _scan(scene, inputs, carries, leave(inner, results, True), dimension, Bits.ROUNDED)
