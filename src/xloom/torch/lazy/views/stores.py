"""Values written to out= tensors, which may lie elsewhere in memory for it."""

from __future__ import annotations

from collections.abc import Sequence

import torch

from xloom.torch.lazy.recording.trace import Value
from xloom.torch.lazy.runtime.transfer import convert
from xloom.torch.lazy.tensor.geometry import Geometry
from xloom.torch.lazy.tensor.storage import Storage
from xloom.torch.lazy.tensor.tensor import XlaTensor, set_alias, tensor_on
from xloom.torch.lazy.views import view_values


def store(target: XlaTensor, value: Value, strides: Sequence[int] | None = None) -> None:
    """Writes to an out= tensor, which takes the value's shape and keeps its own dtype; `strides` if it is resized."""
    if not torch.can_cast(value.type.dtype, target.dtype):
        raise uncastable(value.type.dtype, target.dtype)
    value = convert(value, target.dtype)
    storage = target._alias.storage
    if value.type.dims == target._alias.type.dims:
        target._alias.write(value)
        return
    type = value.type if strides is None else value.type.with_strides(strides)
    if storage.type.size:  # others may have that memory
        resize_and_write(target, value, Geometry(type, int(target.storage_offset())))
    else:
        set_alias(target, tensor_on(Storage(type, value)))


def resize_and_write(target: XlaTensor, value: Value, to: Geometry) -> None:
    """Makes a tensor lie elsewhere in its memory, which may grow, and writes there."""
    view = view_values.resized(target._alias.storage, to)
    view.write(value)
    set_alias(target, tensor_on(view, to.offset))


def uncastable(own: torch.dtype, wanted: torch.dtype) -> RuntimeError:
    """The error for a result whose dtype the tensor that is written to does not take."""
    return RuntimeError(f"result type {_spelled(own)} can't be cast to the desired output type {_spelled(wanted)}")


def _spelled(dtype: torch.dtype) -> str:
    names = {torch.float32: "Float", torch.float64: "Double", torch.int64: "Long", torch.int32: "Int"}
    names |= {torch.complex64: "ComplexFloat", torch.complex128: "ComplexDouble", torch.bool: "Bool"}
    return names.get(dtype) or str(dtype).removeprefix("torch.").capitalize()
