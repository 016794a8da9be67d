"""Pieces of a loop that do the same with other arrays: code for one, and tables of where they begin and load from."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from itertools import pairwise

from llvmlite import ir

from xloom.codegen.loop_ir.affine import Var
from xloom.codegen.loop_ir.pieces import Piece
from xloom.cpu.loops.emission import Elements
from xloom.cpu.loops.phases import Phases
from xloom.llvm.loop import AS_OFTEN, allocate, loop
from xloom.llvm.types import I64, POINTER


@contextmanager
def each_range(code: Phases, elements: Elements, piece: Piece) -> Iterator[tuple[ir.Value, ir.Value]]:
    """For each range of a piece, where it begins and ends; what is emitted inside loads from its arrays."""
    if len(piece.ranges) == 1:
        [(low, high)] = piece.ranges
        yield I64(low), I64(high)
        return
    b = elements.b
    begins, ends = (_table(b, I64, [I64(r[side]) for r in piece.ranges]) for side in (0, 1))
    with loop(b, 0, len(piece.ranges), name="range", hints=AS_OFTEN) as k, _arrays(code, elements, piece, k):
        yield _at(b, begins, I64, k), _at(b, ends, I64, k)


def in_pieces(code: Phases, elements: Elements, pieces: Sequence[Piece], at: ir.Value) -> Iterator[tuple[int, int]]:
    """The first range of each piece; what is emitted meanwhile is done where the piece has iteration `at`."""
    b = elements.b
    if all(len(piece.ranges) == 1 for piece in pieces):
        for [(low, high)] in (piece.ranges for piece in pieces):
            with b.if_then(b.icmp_unsigned("<", b.sub(at, I64(low)), I64(high - low))), elements.scope():
                yield low, high
        return
    places = sorted((low, p, k) for p, piece in enumerate(pieces) for k, (low, _) in enumerate(piece.ranges))
    number = _range_of(b, [low for low, _, _ in places], at)
    piece_at, range_at = (_at(b, _table(b, I64, [I64(place[n]) for place in places]), I64, number) for n in (1, 2))
    for p, piece in enumerate(pieces):
        with b.if_then(b.icmp_signed("==", piece_at, I64(p))), _arrays(code, elements, piece, range_at):
            yield piece.ranges[0]


def _range_of(b: ir.IRBuilder, begins: Sequence[int], at: ir.Value) -> ir.Value:
    """The number of the range that has `at`."""
    sizes = {after - low for low, after in pairwise(begins)}
    if len(sizes) > 1:
        return _last_below(b, _table(b, I64, [*map(I64, begins)]), len(begins), at)
    number = b.udiv(at, I64(sizes.pop()))  # the last may be shorter or longer
    return b.select(b.icmp_unsigned("<", number, I64(len(begins))), number, I64(len(begins) - 1))


def _last_below(b: ir.IRBuilder, begins: ir.Value, count: int, at: ir.Value) -> ir.Value:
    """The last of so many ascending entries that is not above `at`, as the first is not, by halves."""
    found = I64(0)
    step = 1 << (count.bit_length() - 1)
    while step:
        following = b.add(found, I64(step), flags=["nsw", "nuw"])
        exists = b.icmp_unsigned("<", following, I64(count))
        begin = _at(b, begins, I64, b.select(exists, following, I64(0)))
        found = b.select(b.and_(exists, b.icmp_signed("<=", begin, at)), following, found)
        step //= 2
    return found


@contextmanager
def _arrays(code: Phases, elements: Elements, piece: Piece, k: ir.Value) -> Iterator[None]:
    """Loads are from the arrays of range number `k`."""
    b = elements.b
    found = {}
    for number, source in enumerate(dict.fromkeys(source for moved in piece.moved for source in moved)):
        places = [moved.get(source, (source, 0)) for moved in piece.moved]
        arrays = _table(b, POINTER, [code.pointers[array] for array, _ in places])
        displacements = _table(b, I64, [I64(by) for _, by in places])
        var = Var(f"displacement.{number}", 1, None, -2 - number)
        elements.vars[var] = _at(b, displacements, I64, k)
        found[source] = _at(b, arrays, POINTER, k), var
    with code.moved(found), elements.scope():
        yield


def _table(b: ir.IRBuilder, kind: ir.Type, values: Sequence[ir.Value]) -> ir.Value:
    """Local memory that has these values from the function's entry on."""
    table = allocate(b, kind, len(values))
    with b.goto_block(b.function.entry_basic_block):
        for k, value in enumerate(values):
            b.store(value, b.gep(table, [I64(k)], inbounds=True, source_etype=kind))
    return table


def _at(b: ir.IRBuilder, table: ir.Value, kind: ir.Type, k: ir.Value) -> ir.Value:
    return b.load(b.gep(table, [k], inbounds=True, source_etype=kind), typ=kind)
