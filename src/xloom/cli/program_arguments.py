"""The arguments that the commands run programs with: of files, or random."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from xloom.errors import ShapeError, XloomError
from xloom.hlo.module import Module
from xloom.interpreter.registry import Value
from xloom.interpreter.values import random_argument

_ARRAY, _ARCHIVE = b"\x93NUMPY", b"PK"
"""What files of numpy.save and numpy.savez begin with."""


def program_arguments(module: Module, inputs: Sequence[str], seed: int) -> list[Value]:
    """Arrays of files, then random ones. Raises ShapeError where there are more files than parameters."""
    parameters = module.entry.parameters
    if len(inputs) > len(parameters):
        raise ShapeError(f"{len(inputs)} inputs for {len(parameters)} parameters", where=module.name)
    given = [_read(path, p.shape.dtype.numpy) for path, p in zip(inputs, parameters, strict=False)]
    generator = np.random.default_rng(seed)
    return given + [random_argument(p.shape, generator) for p in parameters[len(inputs) :]]


def _read(path: str, dtype: np.dtype) -> np.ndarray:
    with open(path, "rb") as file:
        if not file.read(len(_ARRAY)).startswith((_ARRAY, _ARCHIVE)):  # NumPy would speak of pickled data
            raise XloomError(f"{path} is not an array: it is no .npy file", hint="write it with numpy.save")
    try:
        array = np.load(path, mmap_mode="r")  # no memory for what the header says before there is such a file
    except OSError:
        raise
    except Exception as error:  # NumPy's reader lets those of Python's own parser through
        raise XloomError(f"{path} is not an array: {error}", hint="write it with numpy.save") from error
    if not isinstance(array, np.ndarray):
        raise XloomError(f"{path} holds several arrays", hint="write each with numpy.save, and give one --input each")
    array = np.array(array)
    # .npy files hold bfloat16 and its like as raw bytes
    return array.view(dtype) if array.dtype.kind == "V" and array.dtype.itemsize == dtype.itemsize else array
