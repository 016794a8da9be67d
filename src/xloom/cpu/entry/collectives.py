"""Collectives that move data: members of a group meet, read each other's operands, and meet again before they go on.

Devices are numbered by replica, then partition. What reduces has become these and loops by `collective-expansion`.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING

from llvmlite import ir

from xloom.codegen.buffer_values import leaf_shapes
from xloom.codegen.buffers.allocation import BufferAllocation
from xloom.codegen.schedule.thunks import ScheduledComputation
from xloom.cpu.entry.collective_sites import CollectiveSite, Landing, Read
from xloom.cpu.entry.main_function import BROKEN
from xloom.cpu.runtime.threads.rendezvous_ir import CELL_BYTES, MEMORY, NUMBER, PARTITION, REPLICA, WAIT
from xloom.errors import LoweringError
from xloom.hlo.instruction import Instruction
from xloom.hlo.shape import Shape
from xloom.hlo.stack_frames import source_line
from xloom.interpreter.collective import Device, members_of, mode_of
from xloom.llvm.constant_table import constant_table
from xloom.llvm.loop import loop
from xloom.llvm.types import I1, I8, I32, I64, POINTER, VOID

if TYPE_CHECKING:
    from xloom.cpu.entry.function import EntryBuilder


_WAIT = ir.FunctionType(I32, [POINTER, I64, I64, I64, POINTER])
_FROM_ONE = ("collective-broadcast", "collective-permute")
_NOBODY = -1
"""The rank of a device that is in none of the groups."""


@dataclass(frozen=True)
class Row:
    """What one device must know of a collective."""

    group: int
    size: int
    rank: int
    source: int
    """Who it gets data from, where that is one device."""
    members: tuple[int, ...]


_GROUP, _SIZE, _RANK, _SOURCE, _MEMBERS = range(5)


def device_counts(instruction: Instruction) -> tuple[int, int]:
    """Replicas and partitions of the program that an instruction is in."""
    assert instruction.parent is not None and instruction.parent.module is not None
    config = instruction.parent.module.config
    return config.replica_count, config.num_partitions


def rows_of(instruction: Instruction) -> list[Row]:
    """What each device must know of a collective, by number."""
    replicas, partitions = device_counts(instruction)
    devices = [(r, p) for r in range(replicas) for p in range(partitions)]
    permutes = instruction.opcode == "collective-permute"
    groups = [
        _all_numbers(instruction, d, replicas, partitions)
        if permutes
        else members_of(instruction, d, replicas, partitions)
        for d in devices
    ]
    numbers = {members: k for k, members in enumerate(dict.fromkeys(map(tuple, groups)))}
    rows = []
    for me, group in zip(devices, groups, strict=True):
        members = [devices.index(d) for d in group]
        source = _source(instruction, me, group, members)
        rows.append(Row(numbers[tuple(group)], len(group), group.index(me), source, tuple(members)))
    return rows


def _all_numbers(instruction: Instruction, me: Device, replicas: int, partitions: int) -> list[Device]:
    if instruction.attrs.get("channel_id") is not None:
        return [(me[0], n) for n in range(partitions)]
    return [(n, me[1]) for n in range(replicas)]


def _source(instruction: Instruction, me: Device, group: Sequence[Device], members: Sequence[int]) -> int:
    if instruction.opcode == "collective-broadcast":
        groups = instruction.attrs.get("replica_groups")
        listed = [n for g in groups.groups(1) for n in g] if groups is not None and groups.lists else []
        number = me[0] if mode_of(instruction) == "cross_replica" else me[1]
        return members[0] if not listed or number in listed else _NOBODY
    if instruction.opcode == "collective-permute":
        mine = group.index(me)
        found = [s for s, t in instruction["source_target_pairs"] if t == mine and s < len(group)]
        return members[found[0]] if found else _NOBODY
    return _NOBODY


def own_rank(entry: EntryBuilder, instruction: Instruction) -> ir.Value:
    """The rank of this device in its group of a collective, computed where `entry` emits."""
    name = entry.module.get_unique_name("ranks")
    table = constant_table(entry.module, name, I64, [row.rank for row in rows_of(instruction)])
    b = entry.b
    return b.load(b.gep(table, [_word(entry, NUMBER)], inbounds=True, source_etype=I64), typ=I64)


def _word(entry: EntryBuilder, index: int) -> ir.Value:
    """A word of the participant, by its index: NUMBER, REPLICA and so on."""
    b = entry.b
    return b.load(b.gep(entry.participant, [I64(index)], inbounds=True, source_etype=I64), typ=I64)


class _Collective:
    """The code of one collective, between its two barriers."""

    def __init__(
        self, entry: EntryBuilder, instruction: Instruction, reads: Sequence[Read], landings: Sequence[Landing]
    ):
        self.entry, self.b, self.participant = entry, entry.b, entry.participant
        rows = rows_of(instruction)
        self.members = max(len(row.members) for row in rows)
        width = _MEMBERS + self.members
        numbers = []
        for number, row in enumerate(rows):
            filled = (*row.members, *[number] * (self.members - len(row.members)))
            numbers += [row.group, row.size, row.rank, row.source, *filled]
        table = constant_table(entry.module, entry.module.get_unique_name("members"), I64, numbers)
        b = self.b
        offset = b.mul(_word(entry, NUMBER), I64(width))
        self._row = b.gep(table, [offset], inbounds=True, source_etype=I64)
        self._row.type = POINTER
        self._op = len(entry.program.collectives)
        entry.program.collectives.append(_site(instruction, rows, reads, landings))
        allocations = [entry.assignment.of((o, 0)) for o in instruction._operands]
        self.targets = _targets(entry, instruction)
        self._mine = entry.table([*map(entry.pointer, allocations), *(target for target, _, _ in self.targets)])
        left = I64((self._op * (CELL_BYTES + 8) + CELL_BYTES) * len(rows))
        memory = b.load(b.gep(self.participant, [I64(MEMORY)], inbounds=True, source_etype=I64), typ=POINTER)
        self._left = b.gep(memory, [left], inbounds=True, source_etype=I8)

    def number(self, index: int | ir.Value) -> ir.Value:
        """A number of the device's row."""
        index = index if isinstance(index, ir.Value) else I64(index)
        return self.b.load(self.b.gep(self._row, [index], inbounds=True, source_etype=I64), typ=I64)

    def wait(self, *, arrives: bool) -> None:
        """A barrier: waits for the other members of the group; ends the program with BROKEN if one will never come.

        Who arrives leaves its operands and results; when all are there, operands of other processes are too.
        """
        b = self.b
        function = b.load(b.gep(self.participant, [I64(WAIT)], inbounds=True, source_etype=I64), typ=POINTER)
        function.type = _WAIT.as_pointer()  # llvmlite must know what it calls
        arguments = [self.participant, I64(self._op), self.number(_GROUP), self.number(_SIZE)]
        arguments.append(self._mine if arrives else POINTER(None))
        failed = b.icmp_signed("!=", b.call(function, arguments), I32(0))
        with b.if_then(failed, likely=False):
            b.ret(I32(BROKEN))

    def operand(self, device: ir.Value, index: int | ir.Value) -> ir.Value:
        """The address of a device's operand."""
        b = self.b
        table = b.load(b.gep(self._left, [device], inbounds=True, source_etype=POINTER), typ=POINTER)
        index = index if isinstance(index, ir.Value) else I64(index)
        return b.load(b.gep(table, [index], inbounds=True, source_etype=POINTER), typ=POINTER)

    def member(self, k: ir.Value) -> ir.Value:
        """The number of member k."""
        return self.number(self.b.add(k, I64(_MEMBERS)))

    def copy(self, target: ir.Value, source: ir.Value, nbytes: ir.Value | int) -> None:
        """Copies `nbytes` bytes by memcpy, unless they have arrived where they belong."""
        memcpy = self.entry.declared("llvm.memcpy.p0.p0.i64", ir.FunctionType(VOID, [POINTER, POINTER, I64, I1]))
        size = nbytes if isinstance(nbytes, ir.Value) else I64(nbytes)
        with self.b.if_then(self.b.icmp_unsigned("!=", target, source)):
            self.b.call(memcpy, [target, source, size, I1(0)])

    def at(self, pointer: ir.Value, offset: ir.Value) -> ir.Value:
        """The pointer `offset` bytes behind another."""
        return self.b.gep(pointer, [offset], inbounds=True, source_etype=I8)


@contextmanager
def _collective(
    entry: EntryBuilder, instruction: Instruction, reads: Sequence[Read], landings: Sequence[Landing] = ()
) -> Iterator[_Collective]:
    collective = _Collective(entry, instruction, reads, landings)
    collective.wait(arrives=True)
    yield collective
    collective.wait(arrives=False)


def _site(
    instruction: Instruction, rows: Sequence[Row], reads: Sequence[Read], landings: Sequence[Landing]
) -> CollectiveSite:
    shapes = [instruction.shape, *(o.shape for o in instruction._operands)]
    what = f"{instruction.opcode} {' '.join(shape.to_text(layout=False) for shape in shapes)}"
    line = source_line(instruction)
    groups = tuple(dict.fromkeys(row.members for row in rows))
    sources = tuple(row.source for row in rows) if instruction.opcode in _FROM_ONE else ()
    # what it was in the program that the user wrote, and what it is now
    name = instruction.metadata.op_name or instruction.name
    kind = f"{instruction.opcode} {shapes[0].to_text(layout=False)}"
    signature = f"{what} {groups} {sources} {[tuple(read) for read in reads]}"
    operands = len(instruction._operands)
    return CollectiveSite(name, line, kind, signature, groups, operands, tuple(reads), sources, tuple(landings))


def _whole(instruction: Instruction, operands: Sequence[int] | None = None) -> list[Read]:
    """All of the operands, or of some of them."""
    numbers = range(len(instruction._operands)) if operands is None else operands
    return [Read(k, instruction._operands[k].shape.nbytes) for k in numbers]


def _targets(entry: EntryBuilder, instruction: Instruction) -> list[tuple[ir.Value, BufferAllocation, Shape]]:
    shapes = leaf_shapes(instruction.shape)
    allocations = [entry.assignment.allocations[instruction, k] for k in range(len(shapes))]
    return [(entry.pointer(a), a, shape) for a, shape in zip(allocations, shapes, strict=True)]


def _block_bytes(shape: Shape, dim: int) -> tuple[int, int]:
    """How many blocks there are before a dimension, and the bytes from there on."""
    return math.prod(shape.dims[:dim]), math.prod(shape.dims[dim:]) * shape.dtype.numpy.itemsize


def _all_gather(entry: EntryBuilder, schedule: ScheduledComputation, instruction: Instruction) -> None:
    (dim,) = instruction["dimensions"]
    blocks = [_block_bytes(operand.shape, dim) for operand in instruction._operands]
    landings = [Landing(k, k, source_step=nbytes) for k, (count, nbytes) in enumerate(blocks) if count == 1]
    with _collective(entry, instruction, _whole(instruction), landings) as m:
        for index, ((target, _, _), (count, nbytes)) in enumerate(zip(m.targets, blocks, strict=True)):
            if not count or not nbytes:
                continue
            with loop(m.b, 0, m.members, name="member") as k:
                source = m.operand(m.member(k), index)
                with loop(m.b, 0, count, name="block") as o:
                    number = m.b.add(m.b.mul(o, I64(m.members)), k)
                    m.copy(m.at(target, m.b.mul(number, I64(nbytes))), m.at(source, m.b.mul(o, I64(nbytes))), nbytes)


def _parts(instruction: Instruction) -> tuple[list[Read], list[Landing]]:
    """A part of each operand a member, or one of the operands."""
    first = instruction._operands[0].shape
    if not instruction["dimensions"]:
        return [Read(0, first.nbytes, operand_step=1)], [Landing(0, 0, operand_step=1, result_step=1)]
    (dim,) = instruction["dimensions"]
    members = max(row.size for row in rows_of(instruction))
    reads, landings = [], []
    for k, operand in enumerate(instruction._operands):
        count, whole = _block_bytes(operand.shape, dim)
        part = whole // members
        reads.append(Read(k, part, count, whole, step=part))
        if count == 1:
            landings.append(Landing(k, k, source_step=part, reader_step=-part))
    return reads, landings


def _all_to_all(entry: EntryBuilder, schedule: ScheduledComputation, instruction: Instruction) -> None:
    dims = instruction["dimensions"]
    with _collective(entry, instruction, *_parts(instruction)) as m:
        b, rank = m.b, m.number(_RANK)
        for index, (target, allocation, shape) in enumerate(m.targets):
            if not allocation.nbytes:
                continue
            if not dims:
                m.copy(target, m.operand(m.member(I64(index)), rank), allocation.nbytes)
                continue
            count, whole = _block_bytes(shape, dims[0])
            nbytes = whole // m.members
            with loop(b, 0, m.members, name="member") as k:
                source = m.operand(m.member(k), index)
                with loop(b, 0, count, name="block") as o:
                    start = b.mul(o, I64(whole))
                    to, origin = (b.add(start, b.mul(part, I64(nbytes))) for part in (k, rank))
                    m.copy(m.at(target, to), m.at(source, origin), nbytes)


def _from_one(entry: EntryBuilder, schedule: ScheduledComputation, instruction: Instruction) -> None:
    if instruction.attrs.get("slice_sizes") or instruction.attrs.get("has_dynamic_root"):
        raise LoweringError(f"this form of {instruction.opcode} has no native code", where=instruction.name)
    landings = [Landing(k, k) for k in range(len(instruction._operands))]
    with _collective(entry, instruction, _whole(instruction), landings) as m:
        source = m.number(_SOURCE)
        is_there = m.b.icmp_signed(">=", source, I64(0))
        for index, (target, allocation, _) in enumerate(m.targets):
            if not allocation.nbytes:  # another process, which sends nothing, has no table of operands here
                continue
            with m.b.if_else(is_there) as (found, nobody):
                with found:
                    m.copy(target, m.operand(source, index), allocation.nbytes)
                with nobody:
                    entry.clear(allocation)


def _ragged(entry: EntryBuilder, schedule: ScheduledComputation, instruction: Instruction) -> None:
    """Updates that do not fit are not made."""
    data, output, offsets = instruction._operands[:3]
    ((_, allocation, shape),) = _targets(entry, instruction)
    row_bytes = math.prod(shape.dims[1:]) * shape.dtype.numpy.itemsize
    integer = ir.IntType(8 * offsets.shape.dtype.numpy.itemsize)
    with _collective(entry, instruction, _whole(instruction, (0, 2, 3, 4))) as m:
        b, rank, ((target, _, _),) = m.b, m.number(_RANK), m.targets
        entry.copy(allocation, entry.assignment.of((output, 0)))
        each = offsets.shape.size // m.members
        with loop(b, 0, m.members, name="member") as k:
            member = m.member(k)
            source = m.operand(member, 0)
            with loop(b, 0, each, name="update") as j:
                index = b.add(b.mul(rank, I64(each)), j)

                def number(operand: int, index: ir.Value = index, member: ir.Value = member) -> ir.Value:
                    pointer = b.gep(m.operand(member, operand), [index], inbounds=True, source_etype=integer)
                    value = b.load(pointer, typ=integer)
                    return value if integer.width == 64 else b.sext(value, I64)

                start, size, to = number(2), number(3), number(4)
                fits = b.icmp_signed(">", size, I64(0))
                for begin, rows in ((start, data.shape.dims[0]), (to, shape.dims[0])):
                    fits = b.and_(fits, b.icmp_signed(">=", begin, I64(0)))
                    fits = b.and_(fits, b.icmp_signed("<=", b.add(begin, size), I64(rows)))
                with b.if_then(fits):
                    into, origin = (b.mul(v, I64(row_bytes)) for v in (to, start))
                    m.copy(m.at(target, into), m.at(source, origin), b.mul(size, I64(row_bytes)))


def _own_number(entry: EntryBuilder, schedule: ScheduledComputation, instruction: Instruction) -> None:
    word = REPLICA if instruction.opcode == "replica-id" else PARTITION
    entry.b.store(entry.b.trunc(_word(entry, word), I32), entry.of((instruction, 0)))


COLLECTIVES = {
    "all-gather": _all_gather,
    "all-to-all": _all_to_all,
    "collective-broadcast": _from_one,
    "collective-permute": _from_one,
    "partition-id": _own_number,
    "ragged-all-to-all": _ragged,
    "replica-id": _own_number,
}
"""Thunks of programs for several devices."""
