"""Changes of element type."""

from __future__ import annotations

from tests.judges.programs.scene import (
    COMPLEX,
    FLOATS,
    INTEGERS,
    NARROW_FLOATS,
    TINY_INTEGERS,
    Bits,
    Scene,
    family,
)

_WIDTHS = {
    8: ("s8", "u8"),
    16: ("s16", "u16", "bf16", "f16"),
    32: ("s32", "u32", "f32"),
    64: ("s64", "u64", "f64"),
}


@family(4)
def convert(scene: Scene) -> None:
    """Between any two types; from a float to an integer or a narrow float, exact values only: it jumps."""
    names = ("pred", *INTEGERS, *TINY_INTEGERS, *FLOATS, *NARROW_FLOATS)
    target = scene.dtype(*names, *COMPLEX)
    smooth = target.is_complex or target.name in FLOATS
    x = scene.any(*names, *(COMPLEX if target.is_complex else ()), exact=Bits.ROUNDED if smooth else Bits.EXACT)
    if x.dtype is not target:
        scene.convert(x, target)


@family(1.5)
def bitcast_convert(scene: Scene) -> None:
    """To a type as wide, half as wide (a new minor dimension), or twice as wide (one less)."""
    x = scene.any(*(n for names in _WIDTHS.values() for n in names), exact=Bits.GIVEN)
    width, dims = x.dtype.bits, x.shape.dims
    choices = [(width, dims)]
    if width > 8:
        choices.append((width // 2, (*dims, 2)))
    if width < 64 and dims and dims[-1] == 2:
        choices.append((2 * width, dims[:-1]))
    bits, dims = scene.chance.choice(choices)
    target = scene.dtype(*_WIDTHS[bits])
    scene.emit("bitcast-convert", x, moves=True, shape=target[dims])


@family(1)
def reduce_precision(scene: Scene) -> None:
    """To any number of bits, of exact values only: it jumps. (Without a mantissa NaN may become infinite.)"""
    x = scene.any(*FLOATS, exact=Bits.EXACT)
    exponent, mantissa = scene.chance.choice(((5, 10), (8, 7), (4, 3), (5, 2), (8, 23), (2, 1), (11, 52), (3, 1)))
    scene.emit("reduce-precision", x, exponent_bits=exponent, mantissa_bits=mantissa)
