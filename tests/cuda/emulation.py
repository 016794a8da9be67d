"""Runs programs on the emulated GPU and on the interpreter."""

from typing import Any

import numpy as np

import xloom as xl
from tests.judges.mismatch import mismatch
from xloom.codegen.buffer_values import leaf_shapes
from xloom.cuda.emulator.executable import emulated
from xloom.interpreter.bounds import bounds


def random_array(shape, generator):
    """Numbers of an array's type, small enough for sums and products of them."""
    if shape.dtype.name == "pred":
        return generator.integers(0, 2, shape.dims).astype(bool)
    if shape.dtype.is_integer:
        return generator.integers(0, 4, shape.dims).astype(shape.dtype.numpy)
    numbers = generator.standard_normal(shape.dims)
    if shape.dtype.is_complex:
        numbers = numbers + 1j * generator.standard_normal(shape.dims)
    return np.asarray(numbers).astype(shape.dtype.numpy)


def agrees(text, *arguments, target="sm_80", seed=0) -> Any:
    """What ran a module on the emulated GPU with the interpreter's values, within the bounds of rounding."""
    module = xl.parse(text) if isinstance(text, str) else text
    if not arguments:
        generator = np.random.default_rng(seed)
        arguments = [random_array(p.shape, generator) for p in module.entry.parameters]
    executable = emulated(module, target, seed=seed)
    got = leaves(executable(*arguments))
    assert len(got) == len(leaf_shapes(module.entry.root.shape))
    found = mismatch(bounds(module, arguments), got, None) if got else None
    assert found is None, found.message
    return executable


def leaves(value):
    """The arrays of a value."""
    if isinstance(value, tuple):
        return [leaf for element in value for leaf in leaves(element)]
    return [] if value is None else [np.asarray(value)]


def strategies(executable):
    """How the kernels of a program compute."""
    return [launch.kernel.strategy for launch in executable.program.launches]
