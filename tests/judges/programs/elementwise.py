"""Elementwise operators of every element type."""

from __future__ import annotations

from tests.judges.programs.numbers import integer_range
from tests.judges.programs.scene import (
    COMPLEX,
    FLOATS,
    INTEGERS,
    NARROW_FLOATS,
    SIGNED,
    TINY_INTEGERS,
    Bits,
    Scene,
    Value,
    family,
)

_TRANSCENDENTAL = (
    *("acos", "acosh", "asin", "asinh", "atanh", "cbrt", "cosine", "cosh", "erf", "exponential"),
    *("exponential-minus-one", "log", "log-plus-one", "logistic", "rsqrt", "sine", "sinh", "sqrt", "tan", "tanh"),
)
_COMPLEX_FUNCTIONS = (
    *("cosine", "cosh", "exponential", "exponential-minus-one", "log", "log-plus-one", "logistic", "rsqrt", "sine"),
    *("sinh", "sqrt", "tan", "tanh"),
)
_POSITIVE = ("log", "sqrt", "rsqrt", "log-plus-one", "acosh")
_UNIT = ("acos", "asin", "atanh")
_GROWING = ("exponential", "exponential-minus-one", "sinh", "cosh", "tan", "sine", "cosine")
_SMALL_FLOATS = NARROW_FLOATS[:2]


def clamped(scene: Scene, x: Value, low: float, high: float) -> Value:
    """`x` within bounds (a NaN stays)."""
    return scene.emit("clamp", scene.scalar(low, x.dtype), x, scene.scalar(high, x.dtype))


@family(5)
def transcendental(scene: Scene) -> None:
    """A function of floats, mostly where it is defined and does not overflow."""
    opcode = scene.chance.choice(_TRANSCENDENTAL)
    x = scene.any(*FLOATS, *_SMALL_FLOATS)
    if scene.flip(0.85):
        if opcode in _POSITIVE:
            x = scene.emit("abs", x)
            if opcode == "acosh":
                x = scene.emit("add", x, scene.filled(1, x.shape), rounds=True)
        elif opcode in _UNIT:
            x = clamped(scene, x, -1, 1)
        elif opcode in _GROWING:
            x = clamped(scene, x, -4, 4)
    scene.emit(opcode, x, rounds=True)


@family(1)
def complex_transcendental(scene: Scene) -> None:
    """A function of finite complex numbers."""
    x = scene.like(scene.dtype(*COMPLEX)[scene.dims()])
    scene.emit(scene.chance.choice(_COMPLEX_FUNCTIONS), x, rounds=True)


@family(2)
def complex_parts(scene: Scene) -> None:
    """To and from complex numbers."""
    if scene.flip(0.5):
        x = scene.any("f32", "f64")
        scene.emit("complex", x, scene.like(x.shape), moves=True)
    else:
        x = scene.any(*COMPLEX)
        opcode = scene.chance.choice(("real", "imag", "abs"))
        scene.emit(opcode, x, rounds=opcode == "abs", moves=opcode != "abs")


@family(2)
def rounding(scene: Scene) -> None:
    """To integral values, and signs: they jump, so of exact values only."""
    x = scene.any(*FLOATS, *_SMALL_FLOATS, exact=Bits.EXACT)
    scene.emit(
        scene.chance.choice(("ceil", "floor", "round-nearest-even", "round-nearest-afz", "sign", "is-finite")), x
    )


@family(3)
def unary(scene: Scene) -> None:
    """Of any number: abs, negate, sign of integers, copies."""
    opcode = scene.chance.choice(("abs", "negate", "sign", "copy"))
    names = SIGNED if opcode in ("abs", "sign") else (*INTEGERS, *TINY_INTEGERS)
    names = names if opcode == "sign" else (*names, *FLOATS, *_SMALL_FLOATS)
    scene.emit(opcode, scene.any(*names), moves=opcode == "copy")


@family(2)
def bit_counts(scene: Scene) -> None:
    """not, popcnt, count-leading-zeros."""
    opcode = scene.chance.choice(("not", "popcnt", "count-leading-zeros"))
    scene.emit(opcode, scene.any(*INTEGERS, *(("pred",) if opcode == "not" else ())))


@family(8)
def float_arithmetic(scene: Scene) -> None:
    """Two operands, floats."""
    x = scene.any(*FLOATS, *_SMALL_FLOATS)
    opcode = scene.chance.choice(("add", "subtract", "multiply", "divide", "maximum", "minimum", "add", "multiply"))
    y = x if scene.flip(0.05) else scene.like(x.shape)
    scene.emit(opcode, x, y, rounds=opcode not in ("maximum", "minimum"))


@family(1)
def float_powers(scene: Scene) -> None:
    """power and atan2."""
    x = scene.any(*FLOATS)
    y = scene.like(x.shape)
    if scene.flip(0.5):
        scene.emit("atan2", x, y, rounds=True)
        return
    if scene.flip(0.85):
        x, y = scene.emit("abs", x), clamped(scene, y, -3, 3)
    scene.emit("power", x, y, rounds=True)


@family(0.7)
def float_remainder(scene: Scene) -> None:
    """remainder jumps, so of exact values only."""
    x = scene.any(*FLOATS, exact=Bits.EXACT)
    scene.emit("remainder", x, scene.like(x.shape, Bits.EXACT))


@family(1.5)
def complex_arithmetic(scene: Scene) -> None:
    """Two operands, complex."""
    x = scene.any(*COMPLEX)
    opcode = scene.chance.choice(("add", "subtract", "multiply", "divide"))
    scene.emit(opcode, x, scene.like(x.shape), rounds=True)


@family(6)
def integer_arithmetic(scene: Scene) -> None:
    """Two operands, integers of any width."""
    x = scene.any(*INTEGERS, *TINY_INTEGERS)
    opcode = scene.chance.choice(
        ("add", "subtract", "multiply", "divide", "remainder", "maximum", "minimum", "and", "or", "xor", "power")
    )
    y = x if scene.flip(0.05) else scene.like(x.shape)
    scene.emit(opcode, x, y)


@family(2)
def shifts(scene: Scene) -> None:
    """By counts inside and outside the width."""
    x = scene.any(*INTEGERS)
    y = scene.like(x.shape)
    if scene.flip(0.6):
        y = scene.emit("and", y, scene.filled(min(x.dtype.bits - 1, integer_range(x.dtype)[1]), x.shape))
    scene.emit(scene.chance.choice(("shift-left", "shift-right-logical", "shift-right-arithmetic")), x, y)


@family(2)
def logic(scene: Scene) -> None:
    """Two preds."""
    x = scene.any("pred")
    scene.emit(
        scene.chance.choice(("and", "or", "xor", "maximum", "minimum", "add", "multiply")), x, scene.like(x.shape)
    )


@family(4)
def compare(scene: Scene) -> None:
    """Of exact values, also by total order."""
    x = scene.any(exact=Bits.EXACT)
    y = scene.like(x.shape, Bits.EXACT)
    direction = scene.chance.choice(("EQ", "NE", "LT", "LE", "GT", "GE") if not x.dtype.is_complex else ("EQ", "NE"))
    if x.bits == y.bits == Bits.GIVEN and x.dtype.name in FLOATS and scene.flip(0.2):
        scene.emit("compare", x, y, direction=direction, type="TOTALORDER")
    else:
        scene.emit("compare", x, y, direction=direction)


@family(4)
def select(scene: Scene) -> None:
    """By a scalar or an array."""
    x = scene.any()
    chooser = scene.any("pred", rank=0) if scene.flip(0.2) else scene.like(scene.dtype("pred")[x.shape.dims])
    scene.emit("select", chooser, x, scene.like(x.shape), moves=True)


@family(2)
def clamp(scene: Scene) -> None:
    """Between scalars or arrays, in any order."""
    x = scene.any(*INTEGERS, *FLOATS, *TINY_INTEGERS)
    shape = x.shape if scene.flip(0.5) else x.dtype[()]
    scene.emit("clamp", scene.like(shape), x, scene.like(shape))
