"""Whether a backend gives what the program says: whoever reads its results goes by that, and past their end if need be.

What native code of our own gives needs no look.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from xloom.errors import EvaluationError
from xloom.hlo.shape import Shape

if TYPE_CHECKING:
    from xloom.pjrt.memory_space import MemorySpace

_HINT = "a program's run gives an array for each result of the module, of its type and dimensions, and takes such ones"


def checked_results(
    value: Any, shapes: Sequence[Shape], spaces: Sequence[MemorySpace], module: str, *, is_tuple: bool
) -> list[Any]:
    """What a program's run gave, one value per result. Raises EvaluationError where the module says otherwise."""
    if not is_tuple:
        value = (value,)
    elif not isinstance(value, tuple | list):
        raise _wrong(f"gave {_text(value)}, which is no tuple", module)
    if len(value) != len(shapes):
        raise _wrong(f"gave {len(value)} results of {len(shapes)}", module)
    return [
        _received(v, shape, space, f"gave {{}} as result {k}", module)
        for k, (v, shape, space) in enumerate(zip(value, shapes, spaces, strict=True))
    ]


def _received(value: Any, shape: Shape, space: MemorySpace, what: str, module: str) -> Any:
    """A result in the memory that it is to be in. Raises EvaluationError where a device keeps it that is another."""
    device = space.device.default_memory
    if device.is_host or not shape.is_array or (space.is_host and isinstance(value, np.ndarray | np.generic)):
        return checked(value, shape, space.is_host, what, module)
    if not device.holds(value):
        raise _wrong(f"{what.format(_text(value))}, which is not in the memory of {space.device}", module)
    value = checked(value, shape, False, what, module)
    return checked(device.get(value), shape, True, what, module) if space.is_host else value


def arguments_on_device(values: Sequence[Any], shapes: Sequence[Shape], device: MemorySpace, module: str) -> list[Any]:
    """The arguments as the device keeps them, those of the host's memory copied there.

    Raises EvaluationError unless they are such as the module has parameters for.
    """
    for k, (value, shape) in enumerate(zip(values, shapes, strict=True)):
        if shape.is_array and not _fits(value, shape.in_memory()):
            raise _wrong(f"was given {_text(value)} for parameter {k}", module, shape)
    if device.is_host:
        return list(values)
    pairs = zip(values, shapes, strict=True)
    return [v if not s.is_array or device.holds(v) else device.put(v) for v, s in pairs]


def checked(value: Any, shape: Shape, on_host: bool, what: str, module: str) -> Any:
    """A value, row-major if the host can read it. Raises EvaluationError unless it is of that shape."""
    if not shape.is_array:
        return value
    if on_host and isinstance(value, np.generic):
        value = np.asarray(value)
    if (on_host and not isinstance(value, np.ndarray)) or not _fits(value, shape.in_memory()):
        raise _wrong(what.format(_text(value)), module, shape)
    return np.asarray(value, order="C") if on_host else value


def _fits(value: Any, shape: Shape) -> bool:
    """False where a value's own dimensions or type are others; what a device holds may have none."""
    dims, dtype = getattr(value, "shape", None), getattr(value, "dtype", None)
    if isinstance(dims, tuple):
        if len(dims) != len(shape.dims):
            return False
        for k, (size, bound) in enumerate(zip(dims, shape.dims, strict=True)):
            if size != bound and not (shape.is_dynamic_dimension(k) and size < bound):
                return False
    return not isinstance(dtype, np.dtype) or dtype == shape.dtype.numpy


def _text(value: Any) -> str:
    dims, dtype = getattr(value, "shape", None), getattr(value, "dtype", None)
    if isinstance(dims, tuple) and dtype is not None:
        return f"{dtype}[{','.join(map(str, dims))}]"
    return f"a {type(value).__name__}"


def _wrong(what: str, module: str, shape: Shape | None = None) -> EvaluationError:
    said = f", where the module says {shape}" if shape is not None else ""
    return EvaluationError(f"the backend's program {what}{said}", where=module, hint=_HINT)
