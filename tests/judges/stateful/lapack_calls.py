"""jaxlib's LAPACK by typed calls: matrices column by column, factors in the place of their operand, unread outputs."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from tests.judges.programs.numbers import random_array
from tests.judges.programs.scene import Bits, Value
from tests.judges.stateful.scene import StateScene, family
from xloom.hlo.attributes import Alias
from xloom.hlo.dtype import DTYPES, DType, s32
from xloom.hlo.shape import Layout, Shape, tuple_shape


@dataclass(frozen=True)
class Routine:
    """`results` are letters: a the operand's matrix, l and r singular vectors, v a vector, w one shorter, i, j integers."""

    name: str
    results: str
    attributes: str = "{}"
    square: bool = True
    definite: bool = False


ROUTINES = (
    Routine("getrf", "ajn", square=False),
    Routine("geqrf", "av", square=False),
    Routine("gesdd", "avlrn", "{mode = 83 : ui8}", square=False),
    Routine("syevd", "avn", "{mode = 86 : ui8, uplo = 76 : ui8}"),
    Routine("potrf", "an", "{uplo = 76 : ui8}", definite=True),
    Routine("gehrd", "awn", "{high = SIZE : i32, low = 1 : i32}"),
    Routine("sytrd", "avwwn", "{uplo = 76 : ui8}"),
)


@family(4, calls=True)
def lapack_call(scene: StateScene) -> None:
    """A factorisation of a matrix, or of a batch of them, given or computed."""
    routine = scene.chance.choice(ROUTINES)
    dtype = DTYPES[scene.chance.choice(("f32", "f64", "f64"))]
    rows, columns = (scene.chance.choice((1, 2, 3, 4, 5, 7, 33)) for _ in range(2))
    if routine.square:
        columns = rows
    batch = scene.chance.choice(((), (), (), (2,), (3,)))
    x = _matrix(scene, routine, dtype, (*batch, rows, columns))
    lies = _by_columns(x.shape)
    results = tuple_shape([_result(letter, dtype, batch, rows, columns) for letter in routine.results])
    made = scene.builder.custom_call(
        f"lapack_{'s' if dtype.bits == 32 else 'd'}{routine.name}_ffi",
        [x.instruction],
        results,
        opaque=routine.attributes.replace("SIZE", str(rows)),
        api_version="API_VERSION_TYPED_FFI",
        operand_layout_constraints=(lies,),
        output_to_operand_aliasing=(Alias((0,), 0, ()),),
    )
    for value in scene.unpack(made, Bits.ROUNDED):
        if scene.flip(0.5):
            scene.values.remove(value)


def _matrix(scene: StateScene, routine: Routine, dtype: DType, dims: tuple[int, ...]) -> Value:
    array = random_array(scene.numbers, dtype, dims, 0)
    if routine.definite:
        wide = array.astype(np.float64)
        array = (wide @ np.swapaxes(wide, -1, -2) + dims[-1] * np.eye(dims[-1])).astype(dtype.numpy)
    x = scene.argument(array)
    way = scene.chance.choice(("given", "doubled", "turned", "stored"))
    if way == "doubled":
        return scene.emit("multiply", x, scene.filled(2, x.shape))
    if way == "turned" and dims[-1] == dims[-2]:
        order = (*range(len(dims) - 2), len(dims) - 1, len(dims) - 2)
        return scene.emit("transpose", x, moves=True, dimensions=order)
    if way == "stored":
        return scene.emit("copy", x, moves=True)
    return x


def _by_columns(shape: Shape) -> Shape:
    order = list(range(shape.rank))
    order[-2:] = order[:-3:-1]
    return shape.with_layout(Layout(tuple(order[::-1])))


def _result(letter: str, dtype: DType, batch: tuple[int, ...], rows: int, columns: int) -> Shape:
    least = min(rows, columns)
    if letter in "alr":
        return _by_columns(dtype[(*batch, *{"a": (rows, columns), "l": (rows, least), "r": (least, columns)}[letter])])
    if letter in "vw":
        return dtype[(*batch, max(0, least - (letter == "w")))]
    return s32[(*batch, least)] if letter == "j" else s32[batch]
