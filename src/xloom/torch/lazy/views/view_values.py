"""The value of a view from its base's, and the base's value after a write to the view."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import lru_cache, partial
from itertools import accumulate
from typing import Any, NamedTuple

import numpy as np
import torch

from xloom.hlo import dtype as dt
from xloom.hlo.instruction import Instruction
from xloom.hlo.shape import array_shape
from xloom.torch.lazy.recording.operation import apply
from xloom.torch.lazy.recording.signature import Number
from xloom.torch.lazy.recording.trace import Value
from xloom.torch.lazy.runtime import device_client
from xloom.torch.lazy.tensor.array_type import ArrayType, array_type
from xloom.torch.lazy.tensor.geometry import Geometry, extent
from xloom.torch.lazy.tensor.storage import Alias, Grown, Storage, View
from xloom.torch.lazy.views.stretches import Stretch
from xloom.torch.lowering import Graph, Scalar, lower
from xloom.torch.strides import elements, inverse


class ViewMeta(NamedTuple):
    """How a view comes from its base, and how a written view goes back there."""

    forward: Callable[[Value], Value]
    inverse: Callable[[Alias, Value], Value]
    """Takes the base itself, which is not read where all of it is overwritten."""
    moves_only: bool = True
    """Elements go where they are, unchanged."""
    changes: Any = None
    """The operator that changes each of them, its own inverse."""


_RESHAPES = {"view", "_reshape_alias", "squeeze", "unsqueeze", "_unsafe_view"}
_PERMUTES = {"t", "transpose", "permute", "numpy_T"}
_INVERSE_OPERATORS = {
    "_conj": torch.ops.aten._conj.default,
    "_neg_view": torch.ops.aten._neg_view.default,
    "view_as_real": torch.ops.aten.view_as_complex.default,
    "view_as_complex": torch.ops.aten.view_as_real.default,
}


def view_metas(
    op: Any, source: Geometry, rest: Sequence[Any], kwargs: Mapping[str, Any], results: Sequence[Geometry]
) -> list[ViewMeta]:
    """How each result of a view operator comes from its source, and goes back there."""
    name = op._schema.name.removeprefix("aten::")
    own, dims = source.type, source.type.dims
    if not results:  # the parts of nothing
        return []
    if own.dtype is not results[0].type.dtype and name == "view":
        return [_bits(own.dtype, results[0].type.dtype)]
    if name in _INVERSE_OPERATORS:
        return [_changed(op, _INVERSE_OPERATORS[name])]
    if name in _RESHAPES:
        return [_reshaped(dims, results[0].type.dims)]
    if name in _PERMUTES:
        return [_permuted(_order(op, len(dims), rest))]
    if name == "expand":
        type = results[0].type
        if type.size == own.size:
            return [_reshaped(dims, type.dims)]
        return [
            ViewMeta(
                lambda base: apply(_expand, base, type.dims), _refused if type.size else lambda base, _: base.read()
            )
        ]
    if name == "unfold" and dims and rest[1] <= _FEW_OF_A_WINDOW and results[0].type.size:
        dim, size, step = rest
        (meta,) = [_elements(source, result) for result in results]
        return [meta._replace(forward=lambda base: apply(_windows, base, dim % len(dims), size, step))]
    starts = _starts(op, dims, rest, kwargs, results)
    if starts is not None:
        return [_box(dims, result.type.dims, *start) for result, start in zip(results, starts, strict=True)]
    return [_elements(source, result) for result in results]


def of_memory(storage: Storage, result: Geometry, through: Iterable[Any] = ()) -> View:
    """A view of a storage by strides, as elements of the result's dtype, and through what changes each of them."""
    if storage.is_untouched and storage.type.size != result.type.size:
        # Memory that is divided among tensors mostly outlives the program that first writes to it, as the buckets of
        # gradients do. What it has before is an argument then, or the next program would be another one.
        storage.make = partial(device_client.zeros, storage.type.row_major)
    base = storage if storage.type.dtype is result.type.dtype else _memory_as(storage, result.type.dtype)
    if base is storage and is_stretch(storage.type, result):
        view: View = Stretch(storage, result.type, result.offset)
    else:
        view = View(base, result.type, *_part_of_memory(base.type, result))
    for op in through:
        view = View(view, result.type, *_changed(op, op))
    return view


def is_stretch(own: ArrayType, result: Geometry) -> bool:
    """Whether a result is a dense part of a memory of one dimension, and not all of it."""
    type = result.type
    return own.row_major is own and len(own.dims) == 1 and type.order is not None and 0 < type.size < own.size


@lru_cache(maxsize=4096)
def _part_of_memory(own: ArrayType, result: Geometry) -> ViewMeta:
    """How a result comes from all of a memory of type `own`."""
    type = result.type
    if not type.size or own.order is None or type.order is None:
        return _elements(Geometry(own, 0), result)
    if not result.offset and own.row_major is own and type.row_major is type and own.size == type.size:
        return _reshaped(own.dims, type.dims)
    where = (own.order, result.offset, type.dims, type.order)
    return ViewMeta(
        lambda base: apply(_stretch, base, *where), lambda base, new: apply(_put_stretch, base.read(), new, *where)
    )


def changes(through: frozenset[Any], result: Geometry) -> frozenset[Any] | None:
    """What of that changes each element of a result; None if some more than others.

    Of conjugates the real parts, which are even, are as they were, and the imaginary ones are negated.
    """
    conjugates = torch.ops.aten._conj.default
    if conjugates not in through or result.type.dtype.is_complex:
        return through
    if any(stride % 2 for size, stride in zip(result.type.dims, result.type.strides, strict=True) if size > 1):
        return None
    through -= {conjugates}
    return through ^ {torch.ops.aten._neg_view.default} if result.offset % 2 else through


def _memory_as(storage: Storage, dtype: torch.dtype) -> View:
    """All elements in the order of memory, their bits as those of another dtype."""
    own = storage.type
    flat = of_memory(storage, Geometry(array_type(own.dtype, (own.size,)), 0))
    size = own.size * own.dtype.itemsize // dtype.itemsize
    return View(flat, array_type(dtype, (size,)), *_bits(own.dtype, dtype))


def _changed(op: Any, back: Any) -> ViewMeta:
    """Elements changed by an operator that another one takes back."""
    changes = op if op is back else None
    return ViewMeta(lambda base: apply(_lowered, base, op), lambda _, new: apply(_lowered, new, back), False, changes)


def _bits(own: torch.dtype, other: torch.dtype) -> ViewMeta:
    op = torch.ops.aten.view.dtype
    return ViewMeta(lambda base: apply(_lowered, base, op, other), lambda _, new: apply(_lowered, new, op, own), False)


_ALL = ViewMeta(lambda base: base, lambda _, new: new)
"""The base as it is."""


def _reshaped(dims: tuple[int, ...], to: tuple[int, ...]) -> ViewMeta:
    if dims == to:
        return _ALL
    return ViewMeta(lambda base: apply(_reshape, base, to), lambda _, new: apply(_reshape, new, dims))


def _permuted(order: tuple[int, ...]) -> ViewMeta:
    """Result dimension i is dimension order[i] of the base."""
    back = inverse(order)
    return ViewMeta(lambda base: apply(_transpose, base, order), lambda _, new: apply(_transpose, new, back))


def _order(op: Any, rank: int, rest: Sequence[Any]) -> tuple[int, ...]:
    order = list(range(rank))
    if op._schema.name == "aten::permute":
        return tuple([k % rank for k in rest[0]])
    if op._schema.name == "aten::transpose" and rank:
        a, b = rest
        order[a], order[b] = order[b], order[a]
        return tuple(order)
    return tuple(order[::-1])


def _starts(
    op: Any, dims: Sequence[int], rest: Sequence[Any], kwargs: Mapping[str, Any], results: Sequence[Geometry]
) -> list[tuple[int, int, int]] | None:
    """Of views that are ranges of one dimension, for each result: the dimension, the start, the step."""
    given = dict(zip([a.name for a in op._schema.arguments[1:]], rest, strict=False)) | dict(kwargs)
    name = op._schema.name.removeprefix("aten::")
    dim = given.get("dim", 0)
    dim += len(dims) if dim < 0 else 0
    if name == "select":
        return [(dim, Number(given["index"] % dims[dim]), 1)]
    if name == "slice":
        start = given.get("start") or 0
        start += dims[dim] if start < 0 else 0
        return [(dim, Number(min(max(start, 0), dims[dim])), given.get("step") or 1)]
    if name == "unbind":
        return [(dim, Number(k), 1) for k in range(len(results))]
    if name in ("split", "split_with_sizes"):
        sizes = [result.type.dims[dim] for result in results]
        return [(dim, Number(start), 1) for start in accumulate(sizes[:-1], initial=0)]
    return None


def _box(dims: tuple[int, ...], to: tuple[int, ...], dim: int, start: int, step: int) -> ViewMeta:
    if dims == to and step == 1:
        return _ALL
    size = 1 if len(to) < len(dims) else to[dim]
    put_at = start if step == 1 else int(start)
    return ViewMeta(
        lambda base: apply(_taken, base, dim, start, size, step, to),
        lambda base, new: apply(_put, base.read(), new, dim, put_at, size, step),
    )


_FEW_OF_A_WINDOW = 8
"""So many elements of windows are put together; more are gathered by where they lie, which is another program for each
size."""


def _elements(source: Geometry, result: Geometry) -> ViewMeta:
    """Any view at all, by the addresses of its elements."""
    steps = zip(result.type.dims, result.type.strides, strict=True)
    repeats = result.type.size and any(size > 1 and not stride for size, stride in steps)
    put = _refused if repeats else lambda base, new: apply(_scattered, base.read(), new, source, result)
    return ViewMeta(lambda base: apply(_gathered, base, source, result), put)


def resized(storage: Storage, wanted: Geometry) -> View:
    """A view of the memory, which grows if it is too small: what lies there stays, and zeros come after it."""
    storage = storage.storage
    dtype, own = wanted.type.dtype, storage.type
    need = -(-extent(wanted) * dtype.itemsize // own.dtype.itemsize)
    if need > own.size:
        flat = of_memory(storage, Geometry(array_type(own.dtype, (own.size,)), 0))
        larger = Storage(array_type(own.dtype, (need,)), apply(_lengthened, flat.read(), need))
        larger.version = storage.version
        storage.make = of_memory(larger, Geometry(own, 0))  # type: ignore[assignment]
        storage.__class__ = Grown
        storage = larger
    return of_memory(storage, wanted)


# -- what is recorded


def _lowered(g: Graph, base: Instruction, op: Any, *rest: Any) -> Instruction:
    return lower(g, op, (base, *rest), {})


def _reshape(g: Graph, base: Instruction, dims: tuple[int, ...]) -> Instruction:
    return g.reshape_to(base, dims)


def _transpose(g: Graph, base: Instruction, order: tuple[int, ...]) -> Instruction:
    return g.permute(base, order)


def _expand(g: Graph, base: Instruction, dims: tuple[int, ...]) -> Instruction:
    return g.expand(base, dims)


def _refused(base: Alias, new: Value) -> Value:
    raise RuntimeError(
        "unsupported operation: more than one element of the written-to tensor refers to a single memory location. "
        "Please clone() the tensor before performing the operation."
    )


def _taken(
    g: Graph, base: Instruction, dim: int, start: int | Scalar, size: int, step: int, dims: tuple[int, ...]
) -> Instruction:
    length = (size - 1) * step + 1 if size else 0
    if isinstance(start, Scalar):
        sizes = [length if k == dim else d for k, d in enumerate(base.shape.dims)]
        base = g.dynamic_slice(base, *_corner(g, len(sizes), dim, start), dynamic_slice_sizes=sizes)
        start = 0
    limit = start + length
    return g.reshape_to(g.slice_along(base, dim, start, limit, step), dims)


def _windows(g: Graph, base: Instruction, dim: int, size: int, step: int) -> Instruction:
    """All windows of that many elements along a dimension: the first element of each, the second one, and so on."""
    count = (base.shape.dims[dim] - size) // step + 1
    parts = [g.slice_along(base, dim, k, k + (count - 1) * step + 1, step) for k in range(size)]
    rows = [g.reshape_to(part, (*part.shape.dims, 1)) for part in parts]
    return g.concat(rows, len(base.shape.dims))


def _corner(g: Graph, rank: int, dim: int, start: int | Scalar) -> list[Instruction]:
    zero, at = g.scalar(0, dt.s32), g.scalar(start, dt.s32)
    return [at if k == dim else zero for k in range(rank)]


def _put(g: Graph, base: Instruction, new: Instruction, dim: int, start: Any, size: int, step: int) -> Instruction:
    dims = list(base.shape.dims)
    if not size:
        return base
    if size == dims[dim]:
        return g.reshape_to(new, dims)
    part = [size if k == dim else d for k, d in enumerate(dims)]
    new = g.reshape_to(new, part)
    if step == 1:
        return g.dynamic_update_slice(base, new, *_corner(g, len(dims), dim, start))
    after = dims[dim] - start - (size - 1) * step - 1
    padding = [(start, after, step - 1) if k == dim else (0, 0, 0) for k in range(len(dims))]
    mask = g.pad_with(g.full(part, True, dt.pred), padding, False)
    return g.select(mask, g.pad_with(new, padding, 0), base)


def _places(source: Geometry, result: Geometry) -> np.ndarray:
    """Which of the source's elements, in row-major order, each element of the result is."""
    mine, wanted = (elements(each.type.dims, each.type.strides, each.offset) for each in (source, result))
    number = np.zeros(max(mine.max(initial=0), wanted.max(initial=0)) + 1, np.int32)
    number[mine] = np.arange(len(mine))
    return number[wanted][:, None]


def _gathered(g: Graph, base: Instruction, source: Geometry, result: Geometry) -> Instruction:
    dims = result.type.dims
    if not math.prod(dims):
        return g.full(dims, 0, base.shape.dtype)
    flat = g.reshape_to(base, (base.shape.size,))
    indices = g.literal(_places(source, result))
    found = g.gather(
        flat,
        indices,
        offset_dims=(),
        collapsed_slice_dims=(0,),
        start_index_map=(0,),
        index_vector_dim=1,
        slice_sizes=(1,),
    )
    return g.reshape_to(found, dims)


def _scattered(g: Graph, base: Instruction, new: Instruction, source: Geometry, result: Geometry) -> Instruction:
    if not new.shape.size:
        return base
    flat, places = g.reshape_to(new, (new.shape.size,)), _places(source, result)
    if result.type.overlaps:  # what is written last stays
        places, last = np.unique(places[::-1], return_index=True)
        places = places[:, None]
        flat = g.gather(
            flat,
            g.literal((new.shape.size - 1 - last).astype(np.int32)[:, None]),
            offset_dims=(),
            collapsed_slice_dims=(0,),
            start_index_map=(0,),
            index_vector_dim=1,
            slice_sizes=(1,),
        )
    dtype = base.shape.dtype
    take = g.subcomputation("replace")
    scalar = array_shape(dtype, ())
    take.parameter(scalar)
    replace = take.finish(take.parameter(scalar))
    done = g.scatter(
        g.reshape_to(base, (base.shape.size,)),
        g.literal(places),
        flat,
        update_window_dims=(),
        inserted_window_dims=(0,),
        scatter_dims_to_operand_dims=(0,),
        index_vector_dim=1,
        to_apply=replace,
    )
    return g.reshape_to(done, base.shape.dims)


def _lengthened(g: Graph, flat: Instruction, size: int) -> Instruction:
    return g.pad_with(flat, [(0, size - flat.shape.size)], 0)


# memory of a storage whose dimensions lie there in one order, and a stretch of it as a tensor whose lie in another


def _memory(g: Graph, base: Instruction, order: tuple[int, ...]) -> Instruction:
    return g.reshape_to(g.permute(base, order), (base.shape.size,))


def _from_memory(g: Graph, flat: Instruction, dims: tuple[int, ...], order: tuple[int, ...]) -> Instruction:
    return g.permute(g.reshape_to(flat, [dims[k] for k in order]), inverse(order))


def _stretch(
    g: Graph, base: Instruction, own: tuple[int, ...], start: int, dims: tuple[int, ...], order: tuple[int, ...]
) -> Instruction:
    flat = g.slice_along(_memory(g, base, own), 0, start, start + math.prod(dims), 1)
    return _from_memory(g, flat, dims, order)


def _put_stretch(
    g: Graph,
    base: Instruction,
    new: Instruction,
    own: tuple[int, ...],
    start: int,
    dims: tuple[int, ...],
    order: tuple[int, ...],
) -> Instruction:
    flat = g.dynamic_update_slice(_memory(g, base, own), _memory(g, new, order), g.scalar(start, dt.s32))
    return _from_memory(g, flat, base.shape.dims, own)
