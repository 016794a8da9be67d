"""cholesky, triangular-solve, fft and batch normalisation."""

from __future__ import annotations

import numpy as np

from tests.judges.programs.numbers import random_array
from tests.judges.programs.scene import Scene, Value, family
from xloom.hlo.dtype import DTYPES, DType, s32
from xloom.hlo.shape import Shape


def _matrices(scene: Scene, dtype: DType, least: int = 1) -> tuple[tuple[int, ...], int]:
    batch = scene.dims(scene.chance.choice((0, 0, 1, 2)), most=6)
    return batch, scene.chance.choice((least, 2, 3, 4, 5, 8))


def _triangle(scene: Scene, x: Value, lower: bool) -> Value:
    """The triangle that is defined, zeros in the other one."""
    dims, rank = x.shape.dims, x.shape.rank
    row, column = (scene.builder.iota(shape=s32[dims], iota_dimension=rank - k) for k in (2, 1))
    inside = scene.builder.compare(row, column, direction="GE" if lower else "LE")
    zeros = scene.filled(0, x.shape)
    root = scene.builder.select(inside, x.instruction, zeros.instruction)
    scene.values.remove(x)
    return scene.keep(root, x.bits)


@family(0.8)
def cholesky(scene: Scene) -> None:
    """Of matrices that are positive definite: a a* + n."""
    dtype = DTYPES[scene.chance.choice(("f32", "f32", "f64", "c64", "c128"))]
    batch, n = _matrices(scene, dtype)
    a = random_array(scene.numbers, dtype, (*batch, n, n), 0)
    wide = a.astype(np.complex128 if dtype.is_complex else np.float64)
    definite = wide @ np.conj(np.swapaxes(wide, -1, -2)) + n * np.eye(n)
    lower = scene.flip(0.6)
    factor = scene.emit("cholesky", scene.argument(definite.astype(dtype.numpy)), rounds=True, lower=lower)
    _triangle(scene, factor, lower)


@family(0.8)
def triangular_solve(scene: Scene) -> None:
    """With a diagonal that keeps the solution moderate."""
    dtype = DTYPES[scene.chance.choice(("f32", "f32", "f64", "c64", "c128"))]
    batch, n = _matrices(scene, dtype)
    a = random_array(scene.numbers, dtype, (*batch, n, n), 0) / n
    a = a + np.sign(np.real(np.einsum("...ii->...i", a)) + 0.5)[..., None] * 2 * np.eye(n)
    left = scene.flip(0.5)
    columns = scene.chance.choice((1, 2, 3, 7))
    b = scene.like(dtype[(*batch, n, columns) if left else (*batch, columns, n)])
    transposes = ("NO_TRANSPOSE", "TRANSPOSE", "ADJOINT")
    scene.emit(
        "triangular-solve",
        scene.argument(np.asarray(a).astype(dtype.numpy)),
        b,
        rounds=True,
        left_side=left,
        lower=scene.flip(0.5),
        unit_diagonal=scene.flip(0.3),
        transpose_a=scene.chance.choice(transposes),
    )


@family(1)
def fft(scene: Scene) -> None:
    """Every kind, of one to three dimensions."""
    kind = scene.chance.choice(("FFT", "IFFT", "RFFT", "IRFFT"))
    count = scene.chance.randint(1, 3)
    batch = scene.dims(scene.chance.choice((0, 1, 1)), most=6)
    lengths = tuple(scene.chance.choice((1, 2, 3, 4, 5, 6, 7, 8)) for _ in range(count))
    dtype = DTYPES[scene.chance.choice(("f32", "f64") if kind == "RFFT" else ("c64", "c128"))]
    tail = (*lengths[:-1], lengths[-1] // 2 + 1) if kind == "IRFFT" else lengths
    x = scene.like(dtype[(*batch, *tail)])
    scene.emit("fft", x, rounds=True, fft_type=kind, fft_length=lengths)


@family(0.8)
def batch_norm(scene: Scene) -> None:
    """Training, inference and gradient."""
    x = scene.any("f32", "f32", "f64", "bf16", least_rank=2)
    feature = scene.chance.randrange(x.shape.rank)
    row = Shape(x.dtype, (x.shape.dims[feature],))
    attributes = {"rounds": True, "epsilon": 0.01, "feature_index": feature}
    kind = scene.chance.choice(("training", "inference", "grad"))
    if 0 in x.shape.dims:
        return
    if kind == "training":
        scene.emit_many("batch-norm-training", x, scene.like(row), scene.like(row), **attributes)
        return
    variance = scene.emit("abs", scene.like(row))
    if kind == "inference":
        operands = (x, scene.like(row), scene.like(row), scene.like(row), variance)
        scene.emit("batch-norm-inference", *operands, **attributes)
    else:
        scene.emit_many(
            "batch-norm-grad", x, scene.like(row), scene.like(row), variance, scene.like(x.shape), **attributes
        )
