"""Collectives that reduce, as collectives that move data and loops that combine it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from xloom.hlo.attributes import PaddingDimension, SliceDimension
from xloom.hlo.computation import Computation
from xloom.hlo.dtype import f32, pred, s32, u32
from xloom.hlo.instruction import Instruction
from xloom.hlo.module import Module
from xloom.hlo.shape import array_shape, tuple_shape
from xloom.hlo.sharding import ReplicaGroups
from xloom.interpreter.collective import members_of
from xloom.passes.base import Pass, register
from xloom.passes.op_expansion import expand_ops
from xloom.passes.rewrite import Rewriter, RuleTable

rule = RuleTable()

LARGE = 1 << 16
"""Arrays of so many bytes or more: each member combines a part of them, and all get the parts afterwards."""


@register
class CollectiveExpansion(Pass):
    """Expands all-reduce and reduce-scatter in programs for several devices. Terms are combined in the group's order,
    so that all members have the same bits, at every run.
    """

    name = "collective-expansion"
    opcodes = rule.by_opcode

    def run(self, module: Module) -> bool:
        """See the class."""
        if module.config.replica_count * module.config.num_partitions == 1:
            return False
        return expand_ops(module, rule)


@dataclass(frozen=True)
class _Groups:
    """The groups of a collective, as devices numbered by replica, then partition."""

    lists: tuple[tuple[int, ...], ...]
    devices: int
    partitions: int

    @property
    def largest(self) -> int:
        return max(map(len, self.lists))

    @property
    def are_equal(self) -> bool:
        return len({len(group) for group in self.lists}) == 1


def _groups(i: Instruction) -> _Groups:
    assert i.parent is not None and i.parent.module is not None
    config = i.parent.module.config
    replicas, partitions = config.replica_count, config.num_partitions
    lists: dict[tuple[int, ...], None] = {}
    for me in [(r, p) for r in range(replicas) for p in range(partitions)]:
        members = members_of(i, me, replicas, partitions)
        lists[tuple(r * partitions + p for r, p in members)] = None
    return _Groups(tuple(lists), replicas * partitions, partitions)


def _who(groups: _Groups) -> dict[str, object]:
    """The attributes of an all-gather among the groups."""
    return {"replica_groups": ReplicaGroups(groups.lists), "channel_id": 1, "use_global_device_ids": True}


@rule("all-reduce")
def _all_reduce(i: Instruction, rw: Rewriter) -> Instruction | None:
    if any(o.shape.is_dynamic for o in i.operands):
        return None
    groups = _groups(i)
    if groups.largest == 1:
        return _packed(i, i.operands, rw)
    (first, *others) = i.operands
    if not others and first.shape.nbytes >= LARGE and groups.are_equal:
        return _packed(i, [_by_parts(first, i["to_apply"], groups, rw)], rw)
    rows = [rw.make("reshape", array_shape(o.shape.dtype, (1, *o.shape.dims)), [o]) for o in i.operands]
    shapes = [array_shape(o.shape.dtype, (groups.largest, *o.shape.dims)) for o in i.operands]
    shape = tuple_shape(shapes) if others else shapes[0]
    gathered = rw.make("all-gather", shape, rows, dimensions=(0,), **_who(groups))
    parts = [gathered]
    if others:
        parts = [rw.make("get-tuple-element", s, [gathered], index=k) for k, s in enumerate(shapes)]
    return _packed(i, [_reduced(part, i["to_apply"], groups, rw) for part in parts], rw)


def _by_parts(x: Instruction, region: Computation, groups: _Groups, rw: Rewriter) -> Instruction:
    dtype, n = x.shape.dtype, groups.largest
    length = -(-x.shape.size // n)
    flat = rw.make("reshape", array_shape(dtype, (x.shape.size,)), [x])
    missing = n * length - x.shape.size
    whole = array_shape(dtype, (n * length,))
    if missing:
        zero = rw.constant(array_shape(dtype, ()), 0)
        flat = rw.make("pad", whole, [flat, zero], padding=(PaddingDimension(0, missing),))
    rows = rw.make("reshape", array_shape(dtype, (n, length)), [flat])
    own = _reduced(_exchanged(rows, groups, rw), region, groups, rw)
    found = rw.make("all-gather", whole, [own], dimensions=(0,), **_who(groups))
    if missing:
        cut = (SliceDimension(0, x.shape.size),)
        found = rw.make("slice", array_shape(dtype, (x.shape.size,)), [found], slice=cut)
    return rw.make("reshape", array_shape(dtype, x.shape.dims), [found])


def _exchanged(rows: Instruction, groups: _Groups, rw: Rewriter) -> Instruction:
    """Row k of every member at member k. The groups of an all-to-all are numbers of partitions, or of replicas."""
    if groups.partitions == groups.devices:
        return rw.make(
            "all-to-all", rows.shape, [rows], dimensions=(0,), channel_id=1, replica_groups=ReplicaGroups(groups.lists)
        )
    if groups.partitions == 1:
        return rw.make("all-to-all", rows.shape, [rows], dimensions=(0,), replica_groups=ReplicaGroups(groups.lists))
    # no words for groups across both: everything, of which the own row is taken
    n, *dims = rows.shape.dims
    all_rows = array_shape(rows.shape.dtype, (n, n, *dims))
    row = rw.make("reshape", array_shape(rows.shape.dtype, (1, n, *dims)), [rows])
    everything = rw.make("all-gather", all_rows, [row], dimensions=(0,), **_who(groups))
    ranks = np.zeros(groups.devices, np.int32)
    for group in groups.lists:
        ranks[list(group)] = range(len(group))
    zero = rw.constant(array_shape(s32, ()), 0)
    starts = [zero, _of_device(ranks, groups, rw), *[zero] * len(dims)]
    shape = array_shape(rows.shape.dtype, (n, 1, *dims))
    column = rw.make("dynamic-slice", shape, [everything, *starts], dynamic_slice_sizes=shape.dims)
    return rw.make("reshape", rows.shape, [column])


def _of_device(table: np.ndarray, groups: _Groups, rw: Rewriter) -> Instruction:
    """The element of a table that belongs to this device."""
    scalar = array_shape(u32, ())
    replica, partition = (rw.make(opcode, scalar) for opcode in ("replica-id", "partition-id"))
    count = rw.constant(scalar, groups.partitions)
    number = rw.make("add", scalar, [rw.make("multiply", scalar, [replica, count]), partition])
    values = rw.constant(array_shape(s32, table.shape), table)
    one = rw.make("dynamic-slice", array_shape(s32, (1,)), [values, number], dynamic_slice_sizes=(1,))
    return rw.make("reshape", array_shape(s32, ()), [one])


# rows (x0, x1, ..) become ((x0 . x1) . ..); rows that no member has are left out; narrow floats are rounded once
def _reduced(rows: Instruction, region: Computation, groups: _Groups, rw: Rewriter) -> Instruction:
    n, *dims = rows.shape.dims
    dtype = rows.shape.dtype
    is_narrow = dtype.is_float and dtype.bits < f32.bits
    wide = f32 if is_narrow and region.root.opcode in ("add", "multiply") and _is_one_operator(region) else dtype

    def row(k: int) -> Instruction:
        return rw.converted(_row(rows, k, rw), wide)

    shape = array_shape(wide, dims)
    found = row(0)
    size = None
    if not groups.are_equal:
        sizes = np.ones(groups.devices, np.int32)
        for group in groups.lists:
            sizes[list(group)] = len(group)
        size = _of_device(sizes, groups, rw)
    for k in range(1, n):
        combined = _applied(region, [found, row(k)], rw)
        if size is not None and k >= min(map(len, groups.lists)):
            number = rw.constant(size.shape, k)
            here = rw.make("compare", array_shape(pred, ()), [size, number], direction="GT")
            everywhere = rw.make("broadcast", array_shape(pred, dims), [here], dimensions=())
            combined = rw.make("select", shape, [everywhere, combined, found])
        found = combined
    return rw.converted(found, dtype)


def _row(rows: Instruction, k: int, rw: Rewriter) -> Instruction:
    dims = rows.shape.dims
    cut = (SliceDimension(k, k + 1), *(SliceDimension(0, d) for d in dims[1:]))
    one = rw.make("slice", array_shape(rows.shape.dtype, (1, *dims[1:])), [rows], slice=cut)
    return rw.make("reshape", array_shape(rows.shape.dtype, dims[1:]), [one])


def _applied(region: Computation, operands: Sequence[Instruction], rw: Rewriter) -> Instruction:
    """The region on arrays instead of scalars."""
    root = region.root
    if _is_one_operator(region):
        return rw.make(root.opcode, operands[0].shape, operands, **root.attrs)
    shape = array_shape(root.shape.dtype, operands[0].shape.dims)
    return rw.make("map", shape, operands, dimensions=tuple(range(shape.rank)), to_apply=region)


def _is_one_operator(region: Computation) -> bool:
    return region.root.op.elementwise and list(region.root.operands) == region.parameters


@rule("reduce-scatter")
def _reduce_scatter(i: Instruction, rw: Rewriter) -> Instruction | None:
    groups = _groups(i)
    if any(o.shape.is_dynamic for o in i.operands) or not groups.are_equal:
        return None
    (dim,) = i["dimensions"]
    return _packed(i, [_scattered(x, dim, i["to_apply"], groups, rw) for x in i.operands], rw)


def _scattered(x: Instruction, dim: int, region: Computation, groups: _Groups, rw: Rewriter) -> Instruction:
    n, dims, dtype = groups.largest, x.shape.dims, x.shape.dtype
    if n == 1:
        return x
    split = (*dims[:dim], n, dims[dim] // n, *dims[dim + 1 :])
    cut = rw.make("reshape", array_shape(dtype, split), [x])
    order = (dim, *(d for d in range(len(split)) if d != dim))
    outside = array_shape(dtype, [split[d] for d in order])
    rows = rw.make("transpose", outside, [cut], dimensions=order)
    return _reduced(_exchanged(rows, groups, rw), region, groups, rw)


def _packed(i: Instruction, parts: Sequence[Instruction], rw: Rewriter) -> Instruction:
    if not i.shape.is_tuple:
        return parts[0]
    return rw.make("tuple", tuple_shape([p.shape for p in parts]), parts)
