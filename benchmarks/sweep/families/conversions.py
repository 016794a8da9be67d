"""From every type to every other."""

from functools import partial

from jax import lax

from benchmarks.sweep.case import SMALL, TYPES, WIDE, Family, array

CONVERSIONS = Family("conversions")

_TYPES = ("f32", "f64", "bf16", "f16", "s32", "s8", "u8", "s64", "pred")

for source in _TYPES:
    for target in _TYPES:
        if source != target:
            convert = partial(lax.convert_element_type, new_dtype=TYPES[target])
            wide = TYPES[target] in WIDE
            CONVERSIONS.add(f"{source}-{target}", convert, array(1024, 1024, dtype=source), wide=wide)

for small in SMALL:
    for other in ("f32", "bf16", "f16"):
        for source, target in ((small, other), (other, small)):
            convert = partial(lax.convert_element_type, new_dtype=TYPES[target])
            CONVERSIONS.add(f"{source}-{target}", convert, array(1024, 4096, dtype=source))
