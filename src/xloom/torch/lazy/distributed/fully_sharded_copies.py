"""What `fully_shard` copies before and after its collectives, as one recorded operator for all parameters of a module.

torch does so by a view and a copy for each of them, which is most of what there is to record in a step.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import accumulate
from typing import Any

from xloom.hlo.instruction import Instruction
from xloom.torch.dtypes import hlo_dtype
from xloom.torch.lazy.recording.operation import apply, record
from xloom.torch.lazy.recording.table import handles
from xloom.torch.lazy.tensor.storage import Storage
from xloom.torch.lazy.tensor.tensor import XlaTensor, tensor_of
from xloom.torch.lowering import Graph


@handles("fsdp.all_gather_copy_in.default")
def copy_in(args: Sequence[Any], kwargs: Mapping[str, Any] | None) -> tuple[XlaTensor, XlaTensor]:
    """All tensors, one behind the other. They need not lie in the output, which the collective writes to as a whole."""
    inputs, output, *_ = args
    values = [_memory(each).read() for each in inputs]
    return tensor_of(apply(_joined, hlo_dtype(output.dtype), *values)), output


@handles("fsdp.split_with_sizes_copy.default")
def copy_out(args: Sequence[Any], kwargs: Mapping[str, Any] | None) -> None:
    """[processes, all parameters] -> [processes, one] for each of them."""
    gathered, sizes, *_ = args
    outputs = [_memory(each) for each in (kwargs or {})["out"]]
    dims = tuple([each.type.dims for each in outputs])
    for output, value in zip(outputs, record(_cut, gathered._alias.read(), tuple(sizes), dims), strict=True):
        output.write(value)


def _memory(tensor: XlaTensor) -> Any:
    """What has the tensor's elements in their order, in other dimensions perhaps: all of its memory, if that does."""
    alias = tensor._alias
    storage = alias.storage
    is_all = (
        storage.__class__ is Storage
        and alias.moves_only
        and storage.type.dtype is alias.type.dtype
        and storage.type.size == alias.type.size
        and storage.type.row_major is storage.type
        and alias.type.row_major is alias.type
    )
    return storage if is_all else alias


def _joined(g: Graph, dtype: Any, *parts: Instruction) -> Instruction:
    return g.concat([g.cast(g.reshape_to(part, (part.shape.size,)), dtype) for part in parts], 0)


def _cut(g: Graph, x: Instruction, sizes: Sequence[int], dims: Sequence[tuple[int, ...]]) -> list[Instruction]:
    starts = accumulate(sizes, initial=0)
    return [
        g.reshape_to(g.slice_along(x, 1, start, start + size), to)
        for start, size, to in zip(starts, sizes, dims, strict=False)
    ]
