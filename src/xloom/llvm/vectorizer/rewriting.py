"""Loops over vectors in the place of loops over elements."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from llvmlite import ir
from llvmlite.ir import instructions as kinds

from xloom.llvm.folding_builder import FoldingBuilder
from xloom.llvm.intrinsics import overloaded
from xloom.llvm.masked_lanes import addresses_of, leading_lanes, masked_gather, masked_load, masked_store
from xloom.llvm.target import Target
from xloom.llvm.types import I64
from xloom.llvm.vectorizer.address_distance import distance
from xloom.llvm.vectorizer.copied_arrays import call_instead, is_copied
from xloom.llvm.vectorizer.innermost_loops import innermost_loops
from xloom.llvm.vectorizer.loads_apart import LoadsApart
from xloom.llvm.vectorizer.loop_facts import MOST_BYTES, LoopFacts, facts_of
from xloom.llvm.vectorizer.not_plain import NotPlain
from xloom.llvm.vectorizer.store_pairs import store_interleaved
from xloom.llvm.vectorizer.widening import Widening, arguments_of, bytes_of
from xloom.llvm.vectors import constant_vector, first_lanes, shuffled, splat, uniform

_CHAINS = 8
"""Vectors that are accumulated in side by side, which hide that each addition waits for the one before."""
_SIDE_BY_SIDE = 4
"""Vectors of a sum, or of a small loop, that are done side by side if nobody says how many."""
_SMALL = 8
"""Instructions of a loop that is small."""
_GATHERS = 2
"""Vectors of a larger loop, if elements of them come from anywhere: one waits for memory meanwhile."""


def vectorized(functions: Iterable[ir.Function], target: Target, *, short: bool, every: bool = False) -> bool:
    """Makes loops over vectors of functions' innermost loops: of all, or, giving False, of none.

    Of `short` functions each step does but one vector, for less code. With `every`, none are made either where a loop
    is to stay scalar or has vectors already, or where there is no loop.
    """
    if target.registers.nbytes < 32:
        return False
    todo = []
    try:
        for function in functions:
            todo += [facts_of(loop) for loop in innermost_loops(function, every=every)]
    except NotPlain:
        return False
    if every and not todo:
        return False
    if not short and todo and all(facts.only_moves for facts in todo):
        if not all(map(is_copied, todo)):
            return False
        for facts in todo:
            call_instead(facts, _clone)
        return True
    for facts in todo:
        _plan(facts, target, short).rewrite()
    return True


def bind(function: ir.Function, arguments: Mapping[int, int]) -> None:
    """Makes constants of the arguments (i64) with these numbers, inside the function."""
    known = {id(function.args[k]): I64(number) for k, number in arguments.items()}
    for block in function.blocks:
        for i in block.instructions:
            if isinstance(i, kinds.PhiInstr):
                i.incomings = [(known.get(id(value), value), source) for value, source in i.incomings]
            elif any(id(o) in known for o in i.operands):
                i.operands = [known.get(id(o), o) for o in i.operands]
                if isinstance(i, kinds.GEPInstr):
                    i.pointer, *i.indices = i.operands


def _plan(facts: LoopFacts, target: Target, short: bool) -> _VectorLoop:
    count = facts.loop.count
    lanes = target.registers.nbytes * 8 // facts.bits
    if count is not None:
        lanes = min(lanes, _power(max(1, count)))
    chains = len(facts.variables.accumulators)
    some = _GATHERS if facts.has_gathers else 1
    wanted = facts.loop.interleaved or (_SIDE_BY_SIDE if chains or facts.cost <= _SMALL else some)
    most = MOST_BYTES * 8 // (lanes * facts.bits * (2 if facts.pairs else 1))
    several = max(1, min(wanted, most, _CHAINS // max(1, chains)))
    if short:
        several = 1
    elif count is not None:
        several = max(1, min(several, count // lanes))
    return _VectorLoop(facts, lanes, 1 << (several.bit_length() - 1), has_masks=target.registers.nbytes == 64)


class _VectorLoop:
    """What a loop becomes: steps of several vectors, then of one of which lanes may be left out, or of elements."""

    def __init__(self, facts: LoopFacts, lanes: int, several: int, *, has_masks: bool):
        self._facts, self._loop = facts, facts.loop
        self._lanes, self._several = lanes, several
        self._has_masks = has_masks

    def rewrite(self) -> None:
        """Puts the new loops in the place of the old one."""
        loop = self._loop
        function = loop.head.function
        block = loop.before
        block.instructions.pop()
        block.terminator = None
        b = FoldingBuilder(block)
        part = None
        for part in list(self._parts(b)):  # where they begin is computed before the first one
            enter, after = function.append_basic_block("vector"), function.append_basic_block("vector.done")
            if part.steps is None:
                b.cbranch(b.icmp_signed("<", part.begin, part.end), enter, after)
            else:
                b.branch(enter)
            _Steps(self._facts, enter, part).emit(after)
            b = FoldingBuilder(after)
        if part and loop.count is None and not self._has_masks:  # the old loop does what is left
            b.branch(loop.head)
            loop.variable.incomings = [
                (value, source) if source in loop.body else (part.end, b.block)
                for value, source in loop.variable.incomings
            ]
            return
        b.branch(loop.done)
        for old in (loop.head, *loop.body):
            function.blocks.remove(old)

    @property
    def _is_repeatable(self) -> bool:
        """True when iterations that are done twice leave what they did before."""
        return not (self._facts.variables.accumulators or self._facts.reads_written)

    def _parts(self, b: ir.IRBuilder) -> Iterator[_Part]:
        """The loops one after another; in `b`, where they begin."""
        loop, lanes = self._loop, self._lanes
        wide = lanes * self._several
        begin, end, step, count = loop.begin, loop.end, loop.step, loop.count
        if count is None:
            whole = _whole_steps(b, begin, end, wide * step)
            if self._has_masks:
                yield _Part(wide, begin, whole)
                yield _Part(lanes, whole, end, masked=True)
                return
            nearly = _whole_steps(b, begin, end, lanes * step)
            yield _Part(wide, begin, whole)
            yield _Part(lanes, whole, nearly)
            return
        done, at = 0, begin
        goes_back = count >= lanes and self._is_repeatable  # for the rest: what follows waits long for masked stores
        fewer = [] if self._has_masks or goes_back else [1 << k for k in reversed(range(lanes.bit_length() - 1))]
        for each in (wide, lanes, *fewer):
            steps = (count - done) // each
            if steps:
                done += steps * each
                start, at = at, b.add(begin, I64(done * step), flags=["nsw"])
                yield _Part(each, start, at, steps)
        if done < count and goes_back:
            yield _Part(lanes, b.add(begin, I64((count - lanes) * step), flags=["nsw"]), end, 1)
        elif done < count:
            last = _power(count - done)
            yield _Part(last, at, end, 1, masked=last > count - done)


@dataclass(frozen=True)
class _Part:
    """A loop from `begin` to `end`, of so many lanes and, where that is known, steps."""

    lanes: int
    begin: ir.Value
    end: ir.Value
    steps: int | None = None
    masked: bool = False
    """Some lanes of the last step are idle."""


class _Steps:
    """A loop of which each step does so many iterations; in `enter`, what does not change is computed before it."""

    def __init__(self, facts: LoopFacts, enter: ir.Block, part: _Part):
        self._facts = facts
        self._part = part
        self._enter = FoldingBuilder(enter)
        self._lanes = part.lanes
        self._blocks = {block: enter.function.append_basic_block("vector.body") for block in facts.loop.body}
        """Of the body, what is for several iterations."""
        self._b = FoldingBuilder(self._blocks[facts.loop.body[0]])
        self._widening = Widening(self._b, part.lanes)
        self._values: dict[int, ir.Value] = {}
        """By identity: vectors, or of what grows steadily the first lane's value."""
        self._vectors: dict[tuple[int, ir.Block], ir.Value] = {}
        """By identity, and the block where they are."""

    def emit(self, after: ir.Block) -> None:
        """Emits the loop, which goes on to `after`; of a single step, the step."""
        facts, b, begin, end = self._facts, self._b, self._part.begin, self._part.end
        loop, body, entry = facts.loop, b.block, self._enter.block
        once = self._part.steps == 1
        variable = begin if once else b.phi(I64, loop.variable.name)
        self._values[id(loop.variable)] = variable
        states = []
        for accumulator in facts.variables.accumulators:
            kind = self._widening.vector(accumulator.operator.type)
            state = first = uniform(kind, _identity(accumulator.kind, accumulator.operator.type))
            if not once:
                state = b.phi(kind, "sum")
                state.add_incoming(first, entry)
            self._values[id(accumulator.load)] = state
            states.append(state)
        left = self._left(variable) if self._part.masked else None
        mask = self._mask(left)
        for block in loop.body:
            self._emit_block(block, mask, left)
        self._enter.branch(body)
        merged = []
        for accumulator, state in zip(facts.variables.accumulators, states, strict=True):
            value = self._values[id(accumulator.operator)]
            merged.append(value if mask is None else b.select(mask, value, state))
        if not once:
            following = b.add(variable, I64(self._lanes * loop.step), flags=["nsw"])
            variable.add_incoming(begin, entry)
            for phi, value in ((variable, following), *zip(states, merged, strict=True)):
                phi.add_incoming(value, b.block)
            done = b.append_basic_block("vector.sum") if merged else after
            b.cbranch(b.icmp_signed("<", following, end), body, done)
            if not merged:
                return
            b.position_at_end(done)
        for accumulator, value in zip(facts.variables.accumulators, merged, strict=True):
            self._merge(accumulator, value)
        b.branch(after)

    def _emit_block(self, block: ir.Block, mask: ir.Value | None, left: ir.Value | int | None) -> None:
        b, new = self._b, self._blocks
        b.position_at_end(new[block])
        for i in self._facts.loop.instructions_of(block):
            self._emit(i, mask, left)
        end = block.instructions[-1]
        if isinstance(end, kinds.ConditionalBranch):
            condition, yes, no = end.operands
            b.cbranch(self._scalar(condition), new[yes], new[no])
        elif block is not self._facts.loop.body[-1]:
            b.branch(new[end.operands[0]])

    def _left(self, variable: ir.Value) -> ir.Value | int:
        """How many iterations there are before the end is reached."""
        b, loop = self._b, self._facts.loop
        if self._part.steps == 1 and loop.count is not None:
            return loop.count % self._lanes
        rest = b.sub(self._part.end, variable, flags=["nsw"])
        if loop.step > 1:
            rest = b.sdiv(b.add(rest, I64(loop.step - 1)), I64(loop.step))
        return rest

    def _mask(self, left: ir.Value | int | None) -> ir.Value | None:
        if left is None:
            return None
        return first_lanes(self._lanes, left) if isinstance(left, int) else leading_lanes(self._b, self._lanes, left)

    def _merge(self, accumulator: Any, vector: ir.Value) -> None:
        """All lanes into the variable."""
        b, kind = self._b, accumulator.kind
        element = accumulator.operator.type
        before = b.load(accumulator.pointer, typ=element)
        if self._lanes == 1:
            whole = vector
        elif kind in ("fadd", "fmul"):
            name = f"vector.reduce.{kind}"
            start = ir.Constant(element, _identity(kind, element))
            whole = overloaded(b, name, [vector.type], element, [start, vector])
            whole.fastmath.add("reassoc")
        else:
            whole = overloaded(b, f"vector.reduce.{kind}", [vector.type], element, [vector])
        b.store(_clone(b, accumulator.operator, [before, whole]), accumulator.pointer)

    def _emit(self, i: Any, mask: ir.Value | None, left: ir.Value | int | None) -> None:
        facts, b = self._facts, self._b
        stride = facts.stride(i)
        variables = facts.variables
        if id(i) in variables.loads or id(i) in variables.stores:
            return
        if isinstance(i, kinds.StoreInstr):
            value, pointer = self._vector(i.operands[0]), self._scalar(i.operands[1])
            align = i.align or bytes_of(i.operands[0].type)
            if self._lanes > 1 and facts.is_of_pair(i):
                self._store_pair(i, align, left)
            elif mask is None:
                b.store(value, pointer, align=align)
            else:
                masked_store(b, value, pointer, mask, align)
        elif stride is not None:
            made = _clone(self._enter if stride == 0 else b, i, [self._scalar(o) for o in arguments_of(i)])
            self._values[id(i)] = made
        elif isinstance(i, kinds.PhiInstr):
            self._values[id(i)] = merged = b.phi(self._widening.vector(i.type))
            for value, block in i.incomings:
                merged.add_incoming(self._vector(value), self._blocks[block])
        elif isinstance(i, kinds.GEPInstr) and self._lanes > 1:
            self._values[id(i)] = self._addresses(i)
        elif isinstance(i, kinds.GEPInstr) or (self._lanes == 1 and isinstance(i, kinds.LoadInstr)):
            self._values[id(i)] = _clone(b, i, [self._scalar(o) for o in arguments_of(i)])
        elif isinstance(i, kinds.LoadInstr) and facts.stride(i.operands[0]) is None:
            rest, align = uniform(self._widening.vector(i.type), 0), i.align or bytes_of(i.type)
            self._values[id(i)] = masked_gather(b, self._vector(i.operands[0]), mask, rest, align)
        elif isinstance(i, kinds.LoadInstr):
            pointer, kind = self._scalar(i.operands[0]), self._widening.vector(i.type)
            align = i.align or bytes_of(i.type)
            if facts.stride(i.operands[0]) == 0:
                made = splat(b, _clone(b, i, [pointer]), self._lanes)
            elif self._lanes > 1 and (apart := facts.apart(i)) < 0:
                made = self._backwards(pointer, kind, mask, align)
            elif self._lanes > 1 and apart > 1:
                made = LoadsApart(b, pointer, i.type, apart, left).vector(self._lanes)
            elif mask is None:
                made = b.load(pointer, typ=kind, align=align)
            else:
                made = masked_load(b, pointer, mask, uniform(kind, 0), align)
            self._values[id(i)] = made
        else:
            self._values[id(i)] = self._widening.operate(i, [self._vector(o) for o in arguments_of(i)])

    def _addresses(self, i: Any) -> ir.Value:
        """The addresses of elements that are anywhere; what all lanes have in common is added to that of the array."""
        pointer, index = self._scalar(i.pointer), self._facts.seen(i.indices[0])
        while getattr(index, "opname", "") == "add":
            same, index_ = sorted(index.operands, key=lambda o: self._facts.stride(o) is None)
            if self._facts.stride(same) != 0:
                break
            pointer, index = self._enter.gep(pointer, [self._scalar(same)], source_etype=i.source_etype), index_
        return addresses_of(self._b, pointer, self._vector(index), i.source_etype)

    def _backwards(self, pointer: ir.Value, kind: ir.Type, mask: ir.Value | None, align: int) -> ir.Value:
        """Elements each of which lies before the one of the iteration before."""
        b, order = self._b, range(self._lanes)[::-1]
        lowest = b.gep(pointer, [I64(1 - self._lanes)], inbounds=True, source_etype=kind.element)
        if mask is None:
            read = b.load(lowest, typ=kind, align=align)
        else:
            read = masked_load(b, lowest, shuffled(b, mask, order), uniform(kind, 0), align)
        return shuffled(b, read, order)

    def _store_pair(self, later: Any, align: int, left: ir.Value | int | None) -> None:
        """Two stores side by side, where the later one is."""
        earlier = self._facts.pairs.get(id(later))
        if earlier is None:
            return
        goes_on = (distance(earlier.operands[1], later.operands[1]) or 0) > 0
        first, second = (earlier, later) if goes_on else (later, earlier)
        values = [self._vector(store.operands[0]) for store in (first, second)]
        store_interleaved(self._b, values, self._scalar(first.operands[1]), align, left)

    def _scalar(self, operand: ir.Value) -> ir.Value:
        """What does not change, or the first lane of what grows steadily."""
        operand = self._facts.seen(operand)
        return self._values.get(id(operand), operand)

    def _vector(self, operand: ir.Value) -> ir.Value:
        """An operand in all lanes."""
        operand = self._facts.seen(operand)
        stride = self._facts.stride(operand)
        if stride is None:
            return self._values[id(operand)]
        block = self._b.block if stride else self._enter.block
        known = self._vectors.get((id(operand), block))
        if known is None:
            value = self._scalar(operand)
            if isinstance(value, ir.Constant):
                known = uniform(self._widening.vector(value.type), value.constant)
            else:
                known = splat(self._enter if stride == 0 else self._b, value, self._lanes)
            if stride and self._lanes > 1:
                steps = constant_vector([k * stride for k in range(self._lanes)], value.type)
                known = self._b.add(known, steps)
            self._vectors[id(operand), block] = known
        return known


def _whole_steps(b: ir.IRBuilder, begin: ir.Value, end: ir.Value, size: int) -> ir.Value:
    """Up to where there are whole steps from `begin`, each of that size."""
    length = b.sub(end, begin, flags=["nsw"])
    whole = b.mul(b.sdiv(length, I64(size)), I64(size), flags=["nsw"])
    return b.add(begin, b.select(b.icmp_signed(">", length, I64(0)), whole, I64(0)), flags=["nsw"])


def _power(number: int) -> int:
    """The least power of two that is no less."""
    return 1 << (number - 1).bit_length()


def _identity(kind: str, element: Any) -> Any:
    if kind in ("fadd", "fmul"):
        return -0.0 if kind == "fadd" else 1.0
    high = (1 << (element.width - 1)) - 1
    return {
        "add": 0, "or": 0, "xor": 0, "mul": 1, "and": -1, "umax": 0, "umin": -1, "smax": -high - 1, "smin": high,
    }[kind]  # fmt: skip


def _clone(b: ir.IRBuilder, i: Any, operands: Sequence[ir.Value]) -> ir.Value:
    """The same of other operands."""
    if isinstance(i, kinds.GEPInstr):
        return b.gep(operands[0], list(operands[1:]), inbounds=i.inbounds, source_etype=i.source_etype)
    if isinstance(i, kinds.LoadInstr):
        made = b.load(operands[0], typ=i.type, align=i.align)
        made.metadata.update(i.metadata)
        return made
    if i.opname in ("add", "sub", "mul"):
        return getattr(b, i.opname)(*operands, flags=i.flags)  # those of constants are folded
    return Widening(b, 1).operate(i, operands)
