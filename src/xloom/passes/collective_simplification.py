"""Collectives of a program for one device: there is one participant, so they move nothing."""

from __future__ import annotations

from collections.abc import Sequence

from xloom.hlo.attributes import PaddingDimension, SliceDimension
from xloom.hlo.dtype import pred
from xloom.hlo.instruction import Instruction
from xloom.hlo.module import Module
from xloom.hlo.shape import array_shape, tuple_shape
from xloom.passes.base import Pass, register
from xloom.passes.op_expansion import expand_ops
from xloom.passes.rewrite import Rewriter, RuleTable

rule = RuleTable()


@register
class CollectiveSimplification(Pass):
    """Replaces collectives by what one device gets: its own operands, or zeros where nothing arrives.

    Only in a module of one replica and one partition. Collectives whose group names other devices stay, and so do
    asynchronous ones, which `async-simplification` makes plain.
    """

    name = "collective-simplification"
    opcodes = rule.by_opcode

    def run(self, module: Module) -> bool:
        """See the class."""
        if module.config.replica_count != 1 or module.config.num_partitions != 1:
            return False
        return expand_ops(module, rule)


def _is_alone(i: Instruction) -> bool:
    """True when no other device is in the device's group."""
    return all(len(numbers) == 1 for numbers in _groups(i) if 0 in numbers)


def _groups(i: Instruction) -> list[list[int]]:
    groups = i["replica_groups"]
    return [] if groups is None else groups.groups(1)


def _packed(i: Instruction, parts: Sequence[Instruction], rw: Rewriter) -> Instruction | None:
    """`parts` as the value of `i`; None if they are no such value."""
    shape = tuple_shape([p.shape for p in parts]) if i.shape.is_tuple else parts[0].shape
    if not shape.compatible(i.shape):
        return None
    return rw.make("tuple", shape, parts) if i.shape.is_tuple else parts[0]


# x, gathered, reduced, scattered or exchanged among one device, is x
@rule("all-gather", "all-reduce", "all-to-all", "reduce-scatter")
def _identity(i: Instruction, rw: Rewriter) -> Instruction | None:
    return _packed(i, i.operands, rw) if _is_alone(i) else None


# collective-broadcast(x) == x where the device is the first of its group, 0 where others are in groups
@rule("collective-broadcast")
def _broadcast(i: Instruction, rw: Rewriter) -> Instruction | None:
    groups = _groups(i)
    if groups and not any(0 in numbers for numbers in groups):
        return _zeros(i, rw)
    return _packed(i, i.operands, rw) if _is_alone(i) else None


# collective-permute(x) == x where the device sends to itself, else 0
@rule("collective-permute")
def _permute(i: Instruction, rw: Rewriter) -> Instruction | None:
    if i["slice_sizes"]:
        return None
    return _packed(i, i.operands, rw) if (0, 0) in map(tuple, i["source_target_pairs"]) else _zeros(i, rw)


def _zeros(i: Instruction, rw: Rewriter) -> Instruction | None:
    if any(o.shape.is_dynamic for o in i.operands):
        return None
    return _packed(i, [rw.splat(o.shape, 0) for o in i.operands], rw)


@rule("replica-id", "partition-id")
def _first(i: Instruction, rw: Rewriter) -> Instruction | None:
    return rw.constant(i.shape, 0)


# each update k writes rows input_offsets[k] ... of the data, send_sizes[k] of them, at output_offsets[k]
@rule("ragged-all-to-all")
def _ragged(i: Instruction, rw: Rewriter) -> Instruction | None:
    data, output, input_offsets, send_sizes, output_offsets, _ = i.operands
    if not _is_alone(i) or data.shape.is_dynamic or output.shape.is_dynamic:
        return None
    if not output.shape.size or not data.shape.size:
        return output
    rows = output.shape.dims[0]
    # with `rows` rows around the data, any update is one slice of the output's shape whose rows are in place
    padded = array_shape(data.shape.dtype, (data.shape.dims[0] + 2 * rows, *data.shape.dims[1:]))
    config = (PaddingDimension(rows, rows), *[PaddingDimension(0, 0)] * (padded.rank - 1))
    source = rw.make("pad", padded, [data, rw.constant(array_shape(data.shape.dtype, ()), 0)], padding=config)
    result = output
    for k in range(input_offsets.shape.dims[0]):
        start, size, target = (_element(x, k, rw) for x in (input_offsets, send_sizes, output_offsets))
        result = _updated(result, source, (start, size, target), rw)
    return result


def _updated(
    output: Instruction, source: Instruction, update: tuple[Instruction, Instruction, Instruction], rw: Rewriter
) -> Instruction:
    start, size, target = update
    scalar = start.shape
    shape = array_shape(output.shape.dtype, output.shape.dims)
    rows = rw.constant(scalar, shape.dims[0])
    first = rw.make("add", scalar, [rw.make("subtract", scalar, [start, target]), rows])
    zeros = [rw.constant(scalar, 0)] * (shape.rank - 1)
    moved = rw.make("dynamic-slice", shape, [source, first, *zeros], dynamic_slice_sizes=shape.dims)
    numbers = array_shape(scalar.dtype, shape.dims)
    row = rw.make("iota", numbers, iota_dimension=0)
    end = rw.make("add", scalar, [target, size])
    low, high = (rw.make("broadcast", numbers, [x], dimensions=()) for x in (target, end))
    inside = array_shape(pred, shape.dims)
    after = rw.make("compare", inside, [row, low], direction="GE")
    before = rw.make("compare", inside, [row, high], direction="LT")
    return rw.make("select", shape, [rw.make("and", inside, [after, before]), moved, output])


def _element(vector: Instruction, k: int, rw: Rewriter) -> Instruction:
    one = array_shape(vector.shape.dtype, (1,))
    part = rw.make("slice", one, [vector], slice=(SliceDimension(k, k + 1, 1),))
    return rw.make("reshape", array_shape(vector.shape.dtype, ()), [part])
