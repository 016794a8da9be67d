"""Between which numbers the integers of a module lie: an interval for all elements of an array.

Counters of loops have intervals of their own. With the counter i, i(0) = b, i' = i + c, c > 0, tested by i < n: in the
body b <= i <= max(n) - 1, as the test has held. Another element e' = e + d of the state has moved as often as i has:
e - e(0) = d (i - i(0)) / c. What a loop leaves as it was is what it was before the loop.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from xloom.hlo.call_graph import callees_first
from xloom.hlo.computation import Computation
from xloom.hlo.dtype import DType, Kind
from xloom.hlo.instruction import CALLERS, Instruction
from xloom.hlo.module import Module
from xloom.hlo.shape import Shape
from xloom.passes.loops import counted_trips, is_element
from xloom.trampoline import Nested, each, run

_LOOKED_AT = 1 << 12
"""Elements of a constant of which the least and the greatest are looked for."""


class Range(NamedTuple):
    """Integers from `low` to `high`; of preds, 0 and 1."""

    low: int
    high: int

    @property
    def single(self) -> int | None:
        """The only one, if there is one."""
        return self.low if self.low == self.high else None


Known = Range | tuple["Known", ...] | None
"""Of an array, of a tuple's elements; None where nothing is known."""


@dataclass(frozen=True)
class _Counter:
    """An element of a loop's state that grows by a constant in each iteration."""

    index: int
    step: int


@dataclass(frozen=True)
class _Test:
    """The body runs while a counter, which grows, is less than `end`: so many times at `most`."""

    counter: _Counter
    end: int
    most: int


def integer_ranges(module: Module) -> dict[Instruction, Range]:
    """The ranges of arrays of integers and preds of which more is known than their type."""
    reached = callees_first([module.entry])
    ranges = _Ranges(Counter(callee for c in reached for i in c for callee in i.called_computations))
    run(ranges.evaluate(module.entry, [None] * len(module.entry.parameters)))
    found = ((i, r) for i, r in ranges.known.items() if isinstance(r, Range) and r != whole(i.shape.dtype))
    return dict(found)


def whole(dtype: DType) -> Range:
    """All numbers of a type."""
    if dtype.kind is Kind.PRED:
        return Range(0, 1)
    if dtype.kind is Kind.SIGNED:
        return Range(-(1 << (dtype.bits - 1)), (1 << (dtype.bits - 1)) - 1)
    return Range(0, (1 << dtype.bits) - 1)


def _is_counted(shape: Shape) -> bool:
    return shape.is_array and (shape.dtype.is_integer or shape.dtype.kind is Kind.PRED)


class _Ranges:
    def __init__(self, callers: Counter[Computation]):
        self.known: dict[Instruction, Known] = {}
        self._callers = callers
        self._of_any: set[Computation] = set()
        """Computations that were evaluated for any parameters: once does for all their callers."""

    def evaluate(self, computation: Computation, parameters: Sequence[Known]) -> Nested[Known]:
        """The range of the root, where those of the parameters are known."""
        for instruction in computation.post_order():
            if instruction.opcode == "parameter":
                found = parameters[instruction["parameter_number"]]
            elif instruction.opcode == "while":
                found = yield self._while(instruction)
            elif instruction.opcode in CALLERS:
                found = yield self._called(instruction)
            else:
                found = self._of(instruction)
            if found is not None:
                self.known[instruction] = found
        return self.known.get(computation.root)

    def range(self, instruction: Instruction) -> Range:
        """Of an array of integers: all of its type, if nothing is known."""
        found = self.known.get(instruction)
        return found if isinstance(found, Range) else whole(instruction.shape.dtype)

    def _of(self, i: Instruction) -> Known:
        if i.opcode == "tuple":
            return tuple([self.known.get(o) for o in i._operands])
        if i.opcode == "get-tuple-element":
            found = self.known.get(i._operands[0])
            return found[i["index"]] if isinstance(found, tuple) and not isinstance(found, Range) else None
        rule = _RULES.get(i.opcode)
        if rule is None or not _is_counted(i.shape) or not i.shape.size or i.shape.is_dynamic:
            return None
        if not all([_is_counted(o.shape) for o in i._operands]):
            return None
        found = rule(i, [self.range(o) for o in i._operands])
        limits = whole(i.shape.dtype)
        if found is None or found.low < limits.low or found.high > limits.high:
            return None  # it may wrap
        return found

    # -- computations
    def _called(self, i: Instruction) -> Nested[Known]:
        if i.opcode in ("call", "conditional") and all(self._callers[c] == 1 for c in i.called_computations):
            given = i.operands[1:] if i.opcode == "conditional" else None
            operands = [i.operands if given is None else (given[k],) for k in range(len(i.called_computations))]
            known = [[self.known.get(o) for o in each_operands] for each_operands in operands]
            return _union((yield each(map(self.evaluate, i.called_computations, known))))
        yield each(map(self._for_any, i.called_computations))
        return None

    def _for_any(self, computation: Computation) -> Nested[None]:
        """Evaluates a computation of whose parameters nothing is known."""
        if computation not in self._of_any:
            self._of_any.add(computation)
            yield self.evaluate(computation, [None] * len(computation.parameters))

    def _while(self, loop: Instruction) -> Nested[Known]:
        condition, body = loop["condition"], loop["body"]
        first = self.known.get(loop.operands[0])
        if self._callers[condition] != 1 or self._callers[body] != 1 or not loop.shape.is_tuple:
            yield each(map(self._for_any, (condition, body)))
            return None
        count = len(loop.shape.elements)
        before = first if isinstance(first, tuple) and not isinstance(first, Range) else (None,) * count
        inside, tested, after = yield self._state(loop, before)
        yield self.evaluate(condition, [tested])
        yield self.evaluate(body, [inside])
        return after

    def _state(self, loop: Instruction, first: tuple[Known, ...]) -> Nested[tuple[tuple[Known, ...], ...]]:
        """The state's ranges in the body, in the condition, and after the loop."""
        root, (state,) = loop["body"].root, loop["body"].parameters
        kept: list[Known] = [None] * len(first)
        if root.opcode != "tuple":
            return tuple(kept), tuple(kept), tuple(kept)
        counters: list[_Counter] = []
        for k, value in enumerate(root.operands):
            if is_element(value, state) and value["index"] == k:
                kept[k] = first[k]
            elif (step := _step(value, state, k)) is not None and isinstance(first[k], Range):
                counters.append(_Counter(k, step))
        trips = counted_trips(loop)
        most, test = trips, None
        if trips is None:
            test = yield self._test(loop, counters, first, tuple(kept))
            most = test.most if test is not None else None
        inside, tested, after = list(kept), list(kept), list(kept)
        for counter in counters if most is not None else ():
            k, step, begin, limits = counter.index, counter.step, first[counter.index], whole(_type_of(loop, counter))
            assert isinstance(begin, Range) and most is not None
            behind = _moved(begin, step, 0, most)
            if limits.low <= behind.low and behind.high <= limits.high:
                inside[k], tested[k] = _moved(begin, step, 0, max(most - 1, 0)), behind
                after[k] = behind if trips is None else _moved(begin, step, trips, trips)
        if test is not None:  # which is what the counter of the test is below, wherever it begins
            k, begin, end = test.counter.index, first[test.counter.index], test.end
            assert isinstance(begin, Range)
            inside[k] = Range(begin.low, max(begin.low, end - 1))
            tested[k] = after[k] = Range(begin.low, max(begin.high, end - 1 + test.counter.step))
        return tuple(inside), tuple(tested), tuple(after)

    def _test(
        self, loop: Instruction, counters: Sequence[_Counter], first: tuple[Known, ...], kept: tuple[Known, ...]
    ) -> Nested[_Test | None]:
        """The test of one of the counters that ends the loop."""
        condition = loop["condition"]
        root = condition.root
        if any(i.opcode in CALLERS for i in condition):  # it is evaluated twice, and so would be what it calls
            return None
        yield self.evaluate(condition, [kept])
        if root.opcode != "compare" or root["direction"] not in ("LT", "LE"):
            return None
        left, right = root.operands
        for counter in counters:
            begin = first[counter.index]
            tested = is_element(left, condition.parameters[0]) and left["index"] == counter.index
            if not tested or counter.step <= 0 or not isinstance(begin, Range):
                continue
            end, greatest = self.range(right).high + (root["direction"] == "LE"), whole(left.shape.dtype).high
            if end - 1 + counter.step <= greatest:  # it does not wrap around before the test fails
                return _Test(counter, end, max(0, -(-(end - begin.low) // counter.step)))
        return None


def _type_of(loop: Instruction, counter: _Counter) -> DType:
    return loop.shape.elements[counter.index].dtype


def _moved(begin: Range, step: int, least: int, most: int) -> Range:
    """After at least and at most so many steps."""
    ends = step * least, step * most
    return Range(begin.low + min(ends), begin.high + max(ends))


def _step(value: Instruction, state: Instruction, index: int) -> int | None:
    """What is added to an element of the state, a constant."""
    if value.opcode not in ("add", "subtract") or not value.shape.is_scalar or not value.shape.dtype.is_integer:
        return None
    pairs = [value.operands] if value.opcode == "subtract" else [value.operands, value.operands[::-1]]
    for element, step in pairs:
        if is_element(element, state) and element["index"] == index and step.opcode == "constant":
            number = step.literal.array
            if number is not None:
                return -int(number) if value.opcode == "subtract" else int(number)
    return None


def _union(ranges: Sequence[Known]) -> Known:
    if any(r is None for r in ranges):
        return None
    if all(isinstance(r, Range) for r in ranges):
        return Range(min(r.low for r in ranges), max(r.high for r in ranges))  # type: ignore[union-attr]
    return tuple(map(_union, zip(*ranges, strict=True)))  # type: ignore[arg-type]


# -- operators
Rule = Callable[[Instruction, list[Range]], "Range | None"]
_RULES: dict[str, Rule] = {}


def _of(*opcodes: str) -> Callable[[Rule], Rule]:
    def register(rule: Rule) -> Rule:
        _RULES.update(dict.fromkeys(opcodes, rule))
        return rule

    return register


@_of("constant")
def _constant(i: Instruction, _: list[Range]) -> Range | None:
    array = i.literal.array
    if array is None or not 0 < array.size <= _LOOKED_AT:
        return None
    values = np.asarray(array).astype(object).reshape(-1)
    return Range(int(min(values)), int(max(values)))


@_of("iota")
def _iota(i: Instruction, _: list[Range]) -> Range:
    return Range(0, i.shape.dims[i["iota_dimension"]] - 1)


@_of("broadcast", "reshape", "transpose", "slice", "reverse", "copy", "dynamic-slice", "gather", "opt-barrier")
def _elements_of_the_first(i: Instruction, r: list[Range]) -> Range:
    return r[0]


@_of("concatenate")
def _elements_of_all(i: Instruction, r: list[Range]) -> Range:
    return Range(min(x.low for x in r), max(x.high for x in r))


@_of("pad", "dynamic-update-slice")
def _elements_of_two(i: Instruction, r: list[Range]) -> Range:
    return Range(min(r[0].low, r[1].low), max(r[0].high, r[1].high))


@_of("select")
def _select(i: Instruction, r: list[Range]) -> Range:
    chosen = r[1:] if r[0].single is None else [r[1 if r[0].single else 2]]
    return Range(min(x.low for x in chosen), max(x.high for x in chosen))


@_of("convert")
def _convert(i: Instruction, r: list[Range]) -> Range | None:
    if i.shape.dtype.kind is Kind.PRED:
        return None
    return r[0]


@_of("add")
def _add(i: Instruction, r: list[Range]) -> Range:
    return Range(r[0].low + r[1].low, r[0].high + r[1].high)


@_of("subtract")
def _subtract(i: Instruction, r: list[Range]) -> Range:
    return Range(r[0].low - r[1].high, r[0].high - r[1].low)


@_of("negate")
def _negate(i: Instruction, r: list[Range]) -> Range:
    return Range(-r[0].high, -r[0].low)


@_of("multiply")
def _multiply(i: Instruction, r: list[Range]) -> Range:
    corners = [x * y for x in r[0] for y in r[1]]
    return Range(min(corners), max(corners))


@_of("divide")
def _divide(i: Instruction, r: list[Range]) -> Range | None:
    if r[0].low < 0 or r[1].low <= 0:
        return None
    return Range(r[0].low // r[1].high, r[0].high // r[1].low)


@_of("remainder")
def _remainder(i: Instruction, r: list[Range]) -> Range | None:
    if r[1].low <= 0:
        return None
    most = r[1].high - 1
    return Range(max(r[0].low, -most) if r[0].low < 0 else 0, min(max(r[0].high, 0), most))


@_of("shift-right-arithmetic", "shift-right-logical")
def _shift_right(i: Instruction, r: list[Range]) -> Range | None:
    if r[1].low < 0 or r[1].high >= i.shape.dtype.bits or (i.opcode == "shift-right-logical" and r[0].low < 0):
        return None
    corners = [x >> k for x in r[0] for k in r[1]]
    return Range(min(corners), max(corners))


@_of("maximum")
def _maximum(i: Instruction, r: list[Range]) -> Range:
    return Range(max(r[0].low, r[1].low), max(r[0].high, r[1].high))


@_of("minimum")
def _minimum(i: Instruction, r: list[Range]) -> Range:
    return Range(min(r[0].low, r[1].low), min(r[0].high, r[1].high))


@_of("clamp")
def _clamp(i: Instruction, r: list[Range]) -> Range:
    # min(max(low, x), high)
    return Range(min(max(r[0].low, r[1].low), r[2].low), min(max(r[0].high, r[1].high), r[2].high))


@_of("and")
def _and(i: Instruction, r: list[Range]) -> Range | None:
    tops = [x.high for x in r if x.low >= 0]
    if not tops:
        return None
    ones = i.shape.dtype.kind is Kind.PRED and all(x.low == 1 for x in r)
    return Range(int(ones), min(tops))


@_of("or")
def _or(i: Instruction, r: list[Range]) -> Range | None:
    if any(x.low < 0 for x in r):
        return None
    # no bit above the highest of either
    return Range(max(x.low for x in r), (1 << max(x.high for x in r).bit_length()) - 1)


@_of("not")
def _not(i: Instruction, r: list[Range]) -> Range | None:
    return Range(1 - r[0].high, 1 - r[0].low) if i.shape.dtype.kind is Kind.PRED else None


@_of("abs")
def _abs(i: Instruction, r: list[Range]) -> Range:
    ends = abs(r[0].low), abs(r[0].high)
    return Range(0 if r[0].low <= 0 <= r[0].high else min(ends), max(ends))


@_of("compare")
def _compare(i: Instruction, r: list[Range]) -> Range | None:
    outcome = decided(i["direction"], *r)
    return None if outcome is None else Range(int(outcome), int(outcome))


def decided(direction: str, x: Range, y: Range) -> bool | None:
    """What comes of comparing any number of one range with any of another; None where both may."""
    if direction in ("GT", "GE"):
        return decided({"GT": "LT", "GE": "LE"}[direction], y, x)
    if direction == "NE":
        equal = decided("EQ", x, y)
        return None if equal is None else not equal
    if direction == "EQ":
        if x.high < y.low or y.high < x.low:
            return False
        return True if x.single is not None and x == y else None
    if direction == "LT":
        return True if x.high < y.low else False if x.low >= y.high else None
    return True if x.high <= y.low else False if x.low > y.high else None
