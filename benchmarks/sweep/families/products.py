"""Products of matrices of all shapes, and what einsum makes of more dimensions."""

from functools import partial

import jax.numpy as jnp

from benchmarks.sweep.case import Family, array, size_name

PRODUCTS = Family("products")

_SIZES = (
    (8, 8, 8),
    (16, 16, 16),
    (33, 65, 17),
    (128, 128, 128),
    (384, 384, 384),
    (1, 512, 512),
    (512, 512, 1),
    (4, 1024, 256),
    (300, 7, 300),
    (7, 3000, 7),
    (2, 2, 100_000),
    (100_000, 3, 4),
    (1, 100_000, 1),
)
_STREAMED = ((1, 2048, 8192), (4000, 2048, 1), (2, 2048, 8192))
"""Of matrices that no cache holds."""
_PLAIN = "ij,jk->ik"
_TRANSPOSED = ("ij,kj->ik", "ji,jk->ik", "ji,kj->ik")
_TRANSPOSED_SIZES = ((128, 128, 128), (300, 7, 300))

_CONTRACTIONS = (
    ("bij,bjk->bik", (64, 32, 32), (64, 32, 32)),
    ("bij,bjk->bik", (1000, 4, 4), (1000, 4, 4)),
    ("bij,bj->bi", (1000, 16, 16), (1000, 16)),
    ("bhqd,bhkd->bhqk", (2, 8, 128, 64), (2, 8, 128, 64)),
    ("bqhd,bkhd->bhqk", (2, 128, 8, 64), (2, 128, 8, 64)),
    ("bhqk,bkhd->bqhd", (2, 8, 128, 128), (2, 128, 8, 64)),
    ("ijk,kl->ijl", (16, 64, 128), (128, 256)),
    ("i,j->ij", (1000,), (1000,)),
    ("i,i->", (100_000,), (100_000,)),
    ("ij,ij->i", (1000, 100), (1000, 100)),
    ("ij,ij->", (1000, 100), (1000, 100)),
    ("ij,ij->j", (1000, 100), (1000, 100)),
    ("abcd,cdef->abef", (8, 16, 8, 16), (8, 16, 16, 8)),
    ("bi,bj->bij", (256, 64), (256, 64)),
    ("bij,kj->bik", (50, 20, 30), (40, 30)),
    ("ij,jk->ki", (200, 300), (300, 100)),
    ("bnd,hde->bhne", (4, 64, 128), (8, 128, 32)),
    ("bi,ij,bj->b", (128, 64), (64, 64), (128, 64)),
)


def _add(equation: str, dtype: str, *shapes: tuple[int, ...]) -> None:
    name = f"{equation}-{dtype}-{'-'.join(size_name(s) for s in shapes)}"
    PRODUCTS.add(name, partial(jnp.einsum, equation), *(array(*s, dtype=dtype) for s in shapes))


for dtype in ("f32", "f64", "bf16", "f16", "c64", "s32", "s8"):
    for i, j, k in _SIZES:
        lengths = {"i": i, "j": j, "k": k}
        for equation in (_PLAIN, *_TRANSPOSED) if (i, j, k) in _TRANSPOSED_SIZES else (_PLAIN,):
            operands = equation.split("->")[0].split(",")
            _add(equation, dtype, *(tuple(lengths[letter] for letter in operand) for operand in operands))

for equation, *shapes in _CONTRACTIONS:
    for dtype in ("f32", "bf16", "f64"):
        _add(equation, dtype, *shapes)

for dtype in ("f32", "f64", "bf16"):
    for i, j, k in _STREAMED:
        _add(_PLAIN, dtype, (i, j), (j, k))
