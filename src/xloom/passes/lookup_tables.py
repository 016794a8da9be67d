"""Long expressions of one number of 16 bits, as tables of what they give for each of the 65,536 that there are.

A table is computed by each run, and what depends on no state is computed once before a loop, so that nothing is kept
between runs. An element then costs one load instead of an exponential or two and the roundings between them.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Container, Hashable
from dataclasses import dataclass

from xloom.hlo.computation import Computation
from xloom.hlo.dtype import DType, Kind, bf16, f16, s16, s32, u8, u16, u32
from xloom.hlo.instruction import Instruction
from xloom.hlo.module import Module
from xloom.hlo.shape import Shape, array_shape
from xloom.passes.base import Pass, pin_roots, register
from xloom.passes.dce import remove_dead
from xloom.passes.effects import Effects
from xloom.passes.loops import counted_trips
from xloom.passes.rewrite import Rewriter, editable_computations
from xloom.passes.structural_identity import StructuralIdentity
from xloom.passes.while_loop_invariant_code_motion import WhileLoopInvariantCodeMotion

_SIZE = 1 << 16
_SOURCES = frozenset([bf16, f16, s16, u16])
_WIDTHS: dict[int, DType] = {8: u8, 16: u16, 32: u32}
"""By bits of a result, the integers that hold it."""
_KINDS = frozenset([Kind.FLOAT, Kind.SIGNED, Kind.UNSIGNED])
_FORWARDING = frozenset(["bitcast", "copy", "reshape"])
_LONG = dict.fromkeys(
    [
        "acos", "acosh", "asin", "asinh", "atan2", "atanh", "cbrt", "cosh", "cosine", "power", "remainder", "sine",
        "sinh", "tan",
    ], 80,
) | dict.fromkeys(
    ["erf", "exponential", "exponential-minus-one", "log", "log-plus-one", "logistic", "tanh"], 35,
) | dict.fromkeys(["divide", "rsqrt", "sqrt"], 10)  # fmt: skip
"""About how many instructions they are; others are one."""
_SHORTER = dict.fromkeys(["exponential", "logistic", "tanh"], 15)
"""Those that are fewer where the result has 16 bits."""
_ROUNDED, _ROUNDING = frozenset([bf16, f16]), 8
"""Floats of 16 bits, and how many instructions it is to round to one. Between others they keep the digits of f32."""


@register
@dataclass(frozen=True)
class LookupTables(Pass):
    """Looks up what elementwise operators make of one number of 16 bits, in tables of all that there are.

    Where a computation does so to at least `elements` numbers, by at least `instructions` for each.
    """

    elements: int = 8 * _SIZE
    instructions: int = 45

    name = "lookup-tables"

    def run(self, module: Module) -> bool:
        """See the class."""
        pin_roots(module)
        runs = _runs(module)
        changed = [c for c in editable_computations(module) if c in runs and self._in(c, runs[c])]
        if any(c is not module.entry for c in changed):
            WhileLoopInvariantCodeMotion().run(module)
        return bool(changed)

    def _in(self, computation: Computation, runs: int) -> bool:
        if not any(i.shape.is_array and i.shape.dtype in _SOURCES and i.shape.size > 1 for i in computation):
            return False
        expressions = _Expressions(computation)
        alike: defaultdict[Hashable, list[Instruction]] = defaultdict(list)
        looked_up: set[Instruction] = set()
        for i in expressions.longest():
            if expressions.cost(i, looked_up) >= self.instructions:
                alike[expressions.key(i)].append(i)
                looked_up.add(i)
        rw, changed = Rewriter(computation), False
        for results in alike.values():
            times = runs if expressions.is_constant(results[0]) else 1
            if times * sum(i.shape.size for i in results) >= self.elements:
                changed = True
                table = expressions.table(rw, results[0])
                for i in results:
                    i.replace_all_uses_with(_looked_up(rw, table, expressions.sources[i], i))
        if changed:
            remove_dead(computation, Effects())
        return changed


class _Expressions:
    """What each instruction of a computation is, of one number of 16 bits and scalars alone."""

    def __init__(self, computation: Computation):
        self._computation = computation
        self._structure = StructuralIdentity()
        self._numbers: dict[Hashable, int] = {}
        self.sources: dict[Instruction, Instruction] = {}
        """The array that has the number; itself where there is none before it."""
        for i in computation.post_order():
            if (source := self._source(i)) is not None:
                self.sources[i] = source

    def _source(self, i: Instruction) -> Instruction | None:
        if not i.shape.is_array or i.shape.is_dynamic or i.shape.size == 1 or _is_scalar(i):
            return None
        if _is_for_each(i) and not i.has_control_dependencies:
            found = {self.sources.get(o) for o in i.operands if not _is_scalar(o)}
            if len(found) == 1 and (source := found.pop()) is not None:
                return source
        return i if i.shape.dtype in _SOURCES else None

    def longest(self) -> list[Instruction]:
        """The results that others than such expressions of the same number read; not what are tables themselves."""
        return [
            i
            for i, source in self.sources.items()
            if i is not source
            and source.opcode != "iota"
            and i.shape.dtype.bits in _WIDTHS
            and i.shape.dtype.kind in _KINDS
            and (i is self._computation.root or any(self.sources.get(user) is not source for user in i.users))
        ]

    def _parts(self, i: Instruction) -> list[Instruction]:
        """All that `i` is computed of, operands first, without the array that has the number."""
        parts: dict[Instruction, None] = {}
        stack = [(i, False)]
        while stack:
            part, is_done = stack.pop()
            if is_done:
                parts[part] = None
            elif part is not self.sources[i] and part not in parts:
                stack.append((part, True))
                stack.extend((o, False) for o in part.operands if not _is_scalar(o))
        return list(parts)

    def cost(self, i: Instruction, known: Container[Instruction] = ()) -> int:
        """About how many more instructions it takes to compute `i` in vectors than to round the number.

        What is `known` costs nothing, and all that it is made of.
        """
        count, stack, seen = 0, [i], {i}
        while stack:
            part = stack.pop()
            if part.opcode not in _FORWARDING:
                is_rounded = part.shape.dtype in _ROUNDED and (part is i or part.opcode == "convert")
                is_shorter = part.shape.dtype in _ROUNDED and part.opcode in _SHORTER
                count += (_SHORTER if is_shorter else _LONG).get(part.opcode, 1) + _ROUNDING * is_rounded
            for o in part.operands:
                if not (o in seen or o in known or o is self.sources[i] or _is_scalar(o)):
                    seen.add(o)
                    stack.append(o)
        # of what is computed here, and would keep the digits of f32
        is_exact = self.sources[i].op.elementwise and self.sources[i].opcode != "convert"
        return count - _ROUNDING * (is_exact and self.sources[i].shape.dtype in _ROUNDED)

    def is_constant(self, i: Instruction) -> bool:
        """True where all scalars in it are known."""
        scalars = [_scalar(o) for part in self._parts(i) for o in part.operands if _is_scalar(o)]
        return all(scalar.opcode == "constant" for scalar in scalars)

    def key(self, i: Instruction) -> Hashable:
        """Equal for results that are the same of the same number."""
        source = self.sources[i]
        numbers = {source: self._number(("source", source.shape.dtype.name))}
        for part in self._parts(i):
            if part.opcode in _FORWARDING:
                numbers[part] = numbers[part.operands[0]]
                continue
            operands = tuple(self._number_of(_scalar(o)) if _is_scalar(o) else numbers[o] for o in part.operands)
            numbers[part] = self._number(self._structure.key(part.clone((), shape=_line(part.shape)), operands))
        return numbers[i]

    def _number_of(self, scalar: Instruction) -> int:
        return self._number(self._structure.key(scalar, ()) if scalar.opcode == "constant" else scalar)

    def _number(self, key: Hashable) -> int:
        return self._numbers.setdefault(key, len(self._numbers))

    # table(f)[n] == bits(f(number(n)))
    def table(self, rw: Rewriter, i: Instruction) -> Instruction:
        """The bits of the result for each number, by the number's bits."""
        source = self.sources[i]
        bits = rw.make("iota", array_shape(u16, (_SIZE,)), iota_dimension=0)
        made = {source: _bits(rw, bits, source.shape.dtype)}
        for part in self._parts(i):
            if part.opcode in _FORWARDING:
                made[part] = made[part.operands[0]]
                continue
            shape = _line(part.shape)
            operands = [
                rw.make("broadcast", _line(o.shape), [_scalar(o)], dimensions=()) if _is_scalar(o) else made[o]
                for o in part.operands
            ]
            made[part] = self._computation.add(part.clone(operands, shape=shape))
        found = rw.converted(_bits(rw, made[i], _WIDTHS[i.shape.dtype.bits]), u32)
        return _shifted(rw, "shift-left", found, i.shape.dtype)


def _looked_up(rw: Rewriter, table: Instruction, source: Instruction, i: Instruction) -> Instruction:
    bits = _bits(rw, source, u16)
    if bits.shape.dims != i.shape.dims:
        bits = rw.make("reshape", i.shape.with_dtype(u16), [bits])
    held = rw.make(
        "gather",
        i.shape.with_dtype(u32),
        [table, rw.converted(bits, s32)],
        offset_dims=(),
        collapsed_slice_dims=(0,),
        start_index_map=(0,),
        index_vector_dim=i.shape.rank,
        slice_sizes=(1,),
    )
    held.metadata = i.metadata
    found = _shifted(rw, "shift-right-logical", held, i.shape.dtype)
    return _bits(rw, rw.converted(found, _WIDTHS[i.shape.dtype.bits]), i.shape.dtype)


def _shifted(rw: Rewriter, opcode: str, x: Instruction, dtype: DType) -> Instruction:
    """Between the bits of a result and the most significant ones of 32, of which processors gather vectors."""
    away = _WIDTHS[32].bits - dtype.bits
    return rw.make(opcode, x.shape, [x, rw.splat(x.shape, away)]) if away else x


def _bits(rw: Rewriter, x: Instruction, dtype: DType) -> Instruction:
    return x if x.shape.dtype is dtype else rw.make("bitcast-convert", x.shape.with_dtype(dtype), [x])


def _is_for_each(i: Instruction) -> bool:
    """True where elements are computed of those at the same place."""
    if i.opcode in _FORWARDING:
        return i.operands[0].shape.is_array and i.operands[0].shape.size == i.shape.size
    is_elementwise = i.op.elementwise or i.opcode == "bitcast-convert"
    if not is_elementwise or i.op.has_effect or i.sharding is not None:
        return False
    return all(o.shape.is_array and (o.shape.dims == i.shape.dims or _is_scalar(o)) for o in i.operands)


def _is_scalar(i: Instruction) -> bool:
    return i.shape.is_array and (i.opcode == "broadcast" or i.shape.size == 1) and _scalar(i).shape.is_scalar


def _scalar(i: Instruction) -> Instruction:
    return i.operands[0] if i.opcode == "broadcast" else i


def _line(shape: Shape) -> Shape:
    return array_shape(shape.dtype, (_SIZE,))


def _runs(module: Module) -> dict[Computation, int]:
    """How often the entry and what it enters is run, as far as that is known; 1 where it is not."""
    runs = {module.entry: 1}
    waiting = [module.entry]
    while waiting:
        computation = waiting.pop()
        for i in computation:
            times = runs[computation]
            if i.opcode == "while":
                entered, times = [i["body"]], times * (counted_trips(i) or 1)
            else:
                entered = list(i.called_computations) if i.opcode == "conditional" else []
            for callee in entered:
                if callee not in runs:
                    runs[callee] = times
                    waiting.append(callee)
    return runs
