"""What integers cannot be: tests that always come out the same, bounds that are never reached."""

from __future__ import annotations

from collections.abc import Sequence

from xloom.hlo.instruction import Instruction
from xloom.hlo.module import Module
from xloom.passes.algebra import RULES
from xloom.passes.base import Pass, register
from xloom.passes.integer_ranges import Range, decided, integer_ranges, whole
from xloom.passes.rewrite import Rewriter, RuleTable, rewrite

_INDICES = {"dynamic-slice": 1, "dynamic-update-slice": 2}
"""The first operand that is an index."""


@register
class IntegerRangeSimplification(Pass):
    """Removes tests and bounds that the ranges of integers decide, such as those of loops' counters."""

    name = "integer-range-simplification"
    opcodes = ("compare", "maximum", "minimum", "clamp", "remainder", *_INDICES)

    def run(self, module: Module) -> bool:
        """See the class."""
        if not any(map(_may_gain, module.instructions)):
            return False
        ranges = integer_ranges(module)
        rules = _rules(ranges)
        changed = bool(ranges) and rewrite(module, rules)
        if changed:  # what used the tests is simpler then
            rewrite(module, RuleTable(rules, RULES))
        return changed


def _may_gain(i: Instruction) -> bool:
    """Whether a rule could be for it: of most programs none is, and nothing need be known of their integers."""
    if i.opcode in ("compare", "maximum", "minimum", "clamp", "remainder"):
        is_test_of_loop = i.opcode == "compare" and i.parent is not None and i.parent.root is i
        return i._operands[1].shape.dtype.is_integer and not is_test_of_loop
    return i.opcode in _INDICES and any(index.opcode == "convert" for index in i._operands[_INDICES[i.opcode] :])


def _rules(ranges: dict[Instruction, Range]) -> RuleTable:
    """The rules, which know these ranges; of instructions that they make themselves nothing is known."""
    rule = RuleTable()

    def range_of(i: Instruction) -> Range:
        return ranges.get(i) or whole(i.shape.dtype)

    def both(i: Instruction) -> tuple[Range, Range] | None:
        x, y = i.operands
        return (range_of(x), range_of(y)) if x in ranges or y in ranges else None

    # (x < y) == true where max(x) < min(y), and so on
    @rule("compare")
    def _decided(i: Instruction, rw: Rewriter) -> Instruction | None:
        if not i.operands[0].shape.dtype.is_integer:
            return None
        found = both(i)
        outcome = decided(i["direction"], *found) if found else None
        return None if outcome is None else rw.splat(i.shape, outcome)

    # max(x, y) == x where min(x) >= max(y)
    @rule("maximum", "minimum")
    def _bounded(i: Instruction, rw: Rewriter) -> Instruction | None:
        if not i.shape.dtype.is_integer or (found := both(i)) is None:
            return None
        x, y = found
        if i.opcode == "minimum":
            x, y = y, x
        return i.operands[0] if x.low >= y.high else i.operands[1] if y.low >= x.high else None

    # clamp(a, x, b) == x where max(a) <= x <= min(b)
    @rule("clamp")
    def _inside(i: Instruction, rw: Rewriter) -> Instruction | None:
        if not i.shape.dtype.is_integer:
            return None
        low, x, high = map(range_of, i.operands)
        fits = low.high <= x.low and x.high <= high.low
        return i.operands[1] if fits and i.operands[1].shape == i.shape else None

    # x % y == x where 0 <= x < min(y)
    @rule("remainder")
    def _less(i: Instruction, rw: Rewriter) -> Instruction | None:
        if not i.shape.dtype.is_integer or (found := both(i)) is None:
            return None
        x, y = found
        return i.operands[0] if x.low >= 0 and x.high < y.low else None

    # dynamic-slice(x, convert(i)) == dynamic-slice(x, i) where i has the same value in the other type
    @rule("dynamic-slice", "dynamic-update-slice")
    def _unconverted(i: Instruction, rw: Rewriter) -> Instruction | None:
        first = _INDICES[i.opcode]
        indices = _without_converts(i.operands[first:], range_of, rw)
        if indices is None:
            return None
        i.set_operands((*i.operands[:first], *indices))
        return i

    return rule


def _without_converts(indices: Sequence[Instruction], range_of, rw: Rewriter) -> list[Instruction] | None:
    """The same indices before they were converted, all of one type; None where there is nothing to gain."""
    found: list[Instruction] = []
    for index in indices:
        source = index.operands[0] if index.opcode == "convert" else index
        if source is not index:
            limits, values = whole(index.shape.dtype), range_of(source)
            if not source.shape.dtype.is_integer or values.low < limits.low or values.high > limits.high:
                return None
        found.append(source)
    types = {f.shape.dtype for f, i in zip(found, indices, strict=True) if f is not i}
    if len(types) != 1:
        return None
    (dtype,) = types
    for k, index in enumerate(found):
        if index.shape.dtype is dtype:
            continue
        number = index.literal.array if index.opcode == "constant" else None
        if number is None or not whole(dtype).low <= int(number) <= whole(dtype).high:
            return None
        found[k] = rw.constant(index.shape.with_dtype(dtype), int(number))
    return found
