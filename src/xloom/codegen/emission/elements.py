"""Nodes to LLVM IR: loads, indices, operators, reductions."""

from __future__ import annotations

from collections.abc import Callable, Container, Iterable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from functools import reduce
from typing import Any, TypeGuard

from llvmlite import ir

from xloom.codegen.buffer_values import leaf_shapes
from xloom.codegen.emission.accumulators import Merging, State, Sum, accumulators
from xloom.codegen.loop_ir.affine import Affine, Var, range_of
from xloom.codegen.loop_ir.nodes import (
    AccumulatorValue,
    BufferValue,
    Clamp,
    Condition,
    Constant,
    If,
    Index,
    Load,
    Node,
    Op,
    Quotient,
    Reduced,
    Reduction,
    walk,
)
from xloom.codegen.loop_ir.pieces import holds
from xloom.hlo.dtype import Kind, bf16, f16, f32, s64
from xloom.llvm import element_access, types
from xloom.llvm.intrinsics import intrinsic
from xloom.llvm.loop import Hint, hints_for, loop
from xloom.llvm.scalar import conversion
from xloom.llvm.scalar.elementwise import choose
from xloom.llvm.scalar.identity_value import identity_value
from xloom.llvm.scalar.rules import ROUNDED, RULES
from xloom.llvm.types import I32, I64, Complex, Value
from xloom.trampoline import Nested, each, run

Pointers = Callable[[BufferValue], ir.Value]
_LITTLE = 16
"""Nodes that take less time than a branch of which one in two is not foreseen."""


class ElementEmitter:
    """Emits nodes at the place of the builder; what is emitted once is used again where it is still valid."""

    def __init__(
        self,
        b: ir.IRBuilder,
        pointers: Pointers,
        address: Callable[[BufferValue, Affine], Affine],
        is_wider: Callable[[BufferValue], bool] = lambda _: False,
        stored: Container[int] = (),
    ):
        self.b = b
        self.pointers = pointers
        self.address = address
        self.is_wider = is_wider
        """Whether an array of narrow floats has elements of f32."""
        self.stored = stored
        """The identities of nodes that arrays keep in their own types: all who read them see the same digits."""
        self.vars: dict[Var, ir.Value] = {}
        self.arguments: dict[int, Value] = {}
        self.staged: dict[int, tuple[ir.Value, ir.Value]] = {}
        """Loads whose elements lie in local memory: where, and at which index at present."""
        self.ranges: dict[Var, tuple[int, int]] = {}
        """Least and greatest values that variables have at present, where that is less than all of them."""
        self.decided: dict[Condition, bool] = {}
        """Which conditions of guards hold at present, and which do not."""
        self.innermost: Var | None = None
        self._scopes: list[dict[Any, Any]] = [{}]

    @contextmanager
    def scope(self) -> Iterator[None]:
        """What is emitted inside is forgotten afterwards: it does not dominate what follows."""
        self._scopes.append({})
        try:
            yield
        finally:
            self._scopes.pop()

    @contextmanager
    def known(self, values: Mapping[int, Value | Sequence[Value]]) -> Iterator[None]:
        """A scope in which nodes have values already, and reductions all of theirs, by their identities."""
        with self.scope():
            self._scopes[-1].update(values)
            yield

    def unbind(self, variables: Iterable[Var]) -> None:
        """Makes variables 0: those of loops that are joined with another, which counts for both."""
        for var in variables:
            self.vars.pop(var, None)

    # -- values: what is deep in the program is so on a trampoline
    def value(self, node: Node) -> Value:
        """The node's value in registers."""
        return run(self._value(node))

    def wider(self, node: Node) -> Value:
        """The value with all digits that it is computed with, for arithmetic in f32."""
        return run(self._wider(node))

    def to_store(self, node: Node) -> Value:
        """The value, as it lies in memory where that is not widened first to be narrowed then."""
        return run(self._narrow(node) if _is_narrowed(node) else self._value(node))

    def index(self, expression: Affine) -> ir.Value:
        """An index expression as an i64."""
        return run(self._index(expression))

    def address_of(self, node: Load) -> ir.Value:
        """The index of the element that a load is of, in its array."""
        return run(self._address_of(node))

    def _value(self, node: Node) -> Nested[Value]:
        for scope in reversed(self._scopes):
            if id(node) in scope:
                return scope[id(node)]
        value = yield self._emit(node)
        self._scopes[-1][id(node)] = value
        return value

    def _wider(self, node: Node) -> Nested[Value]:
        if not self._has_more_digits(node):
            return (yield self._value(node))
        for scope in reversed(self._scopes):
            if (id(node), "wider") in scope:
                return scope[id(node), "wider"]
        value = self._scopes[-1][id(node), "wider"] = yield self._emit_wider(node)
        return value

    def _has_more_digits(self, node: Node) -> bool:
        if isinstance(node, Load):
            return self.is_wider(node.source)
        return isinstance(node, Op) and node.has_excess_precision and id(node) not in self.stored

    def _emit_wider(self, node: Node) -> Nested[Value]:
        if isinstance(node, Op):
            return (yield self._applied(node))
        assert isinstance(node, Load)
        pointer = self.pointers(node.source)
        return element_access.load(self.b, pointer, f32, (yield self._address_of(node)))

    def _narrow(self, node: Op) -> Nested[ir.Value]:
        for scope in reversed(self._scopes):
            if (id(node), "narrow") in scope:
                return scope[id(node), "narrow"]
        value = (yield self._value(node.operands[0])) if node.opcode == "convert" else (yield self._applied(node))
        narrow = conversion.narrow_result(self.b, value, node.operator)
        self._scopes[-1][id(node), "narrow"] = narrow
        return narrow

    def _applied(self, node: Op) -> Nested[Value]:
        values = yield each(map(self._wider if node.takes_excess_precision else self._value, node.operands))
        return RULES[node.opcode](self.b, node.operator, *values)

    def _index(self, expression: Affine) -> Nested[ir.Value]:
        # dynamic parts and outer loops first: what does not change in an inner loop is then computed outside it
        terms = sorted(expression.terms, key=lambda t: (t[0].node is None, t[0].number))
        out: ir.Value | None = None
        for var, factor in terms:
            value = self.vars.get(var) if var.node is None else (yield self._value(var.node))
            if value is None:
                continue
            term = value if factor == 1 else self.b.mul(value, types.i64(factor), flags=["nsw"])
            out = term if out is None else self.b.add(out, term, flags=["nsw"])
        if out is None:
            return types.i64(expression.const)
        return self.b.add(out, types.i64(expression.const), flags=["nsw"]) if expression.const else out

    def _emit(self, node: Node) -> Nested[Value]:
        b = self.b
        if self._has_more_digits(node):
            return conversion.rounded_result(b, (yield self._wider(node)), node.dtype)
        if _is_narrowed(node):
            return conversion.widen(b, (yield self._narrow(node)), node.dtype)
        if isinstance(node, Op):
            value = yield self._applied(node)
            return conversion.rounded_result(b, value, node.dtype) if node.has_excess_precision else value
        if id(node) in self.staged:
            return element_access.load(b, self.staged[id(node)][0], node.dtype, self.staged[id(node)][1])
        if isinstance(node, Load):
            pointer = self.pointers(node.source)
            return element_access.load(b, pointer, node.dtype, (yield self._address_of(node)))
        if isinstance(node, Constant):
            return types.constant(node.value, node.dtype)
        if isinstance(node, Index):
            value = yield self._index(node.value)
            return value if node.dtype is s64 else low_half(b, value)
        if isinstance(node, Quotient):
            value = yield self._index(node.value)
            return b.urem(value, I64(node.by)) if node.remainder else b.udiv(value, I64(node.by))
        if isinstance(node, Clamp):
            return (yield self._bounded(node))
        if isinstance(node, AccumulatorValue):
            return self.arguments[id(node)]
        if isinstance(node, If):
            return (yield self._guard(node))
        assert isinstance(node, Reduced)
        return (yield self._reduction(node.reduction))[node.number]

    def _address_of(self, node: Load) -> Nested[ir.Value]:
        return self._index(self.address(node.source, node.address))

    def _bounded(self, node: Clamp) -> Nested[Value]:
        b, dtype = self.b, node.operand.dtype
        value = yield self._value(node.operand)
        if dtype.bits < 64:
            value = conversion.converted(b, value, dtype, s64)
        high = I64(node.high)
        if dtype.kind is Kind.UNSIGNED:
            return intrinsic(b, "umin", value, high)
        return intrinsic(b, "smax", intrinsic(b, "smin", value, high), I64(0))

    def _condition(self, node: If) -> Nested[ir.Value | bool]:
        """Whether a guard's conditions hold: True or False where that is known."""
        b = self.b
        tests: list[ir.Value] = []
        for condition in node.conditions:
            expression, low, high = condition
            least, greatest = range_of(expression, self.ranges)
            known = self.decided.get(condition, holds(condition, (least, greatest)))
            if known is False:
                return False
            if known:
                continue
            if least < low:
                tests.append(b.icmp_signed(">=", (yield self._index(expression)), I64(low)))
            if greatest >= high:
                tests.append(b.icmp_signed("<", (yield self._index(expression)), I64(high)))
        return reduce(b.and_, tests) if tests else True

    def _guard(self, node: If) -> Nested[Value]:
        b = self.b
        condition = yield self._condition(node)
        if isinstance(condition, bool):
            return (yield self._value(node.then if condition else node.otherwise))
        chosen = yield self._choice(node)
        if chosen is not None:
            source, apart, along = chosen
            index = b.add(apart, (yield self._index(along)), flags=["nsw"]) if along.terms else apart
            return element_access.load(b, self.pointers(source), node.dtype, index)
        if (isinstance(node.then, Constant) and isinstance(node.otherwise, Constant)) or self._is_for_all(node):
            first, second = (yield self._value(node.then)), (yield self._value(node.otherwise))
            return choose(b, condition, first, second)
        with b.if_else(condition) as (then, otherwise):
            with then, self.scope():
                first = yield self._value(node.then)
                first_block = b.block
            with otherwise, self.scope():
                second = yield self._value(node.otherwise)
                second_block = b.block
        return phi(b, first, first_block, second, second_block)

    def _is_for_all(self, node: If) -> bool:
        """Whether both sides may be computed, and are little: no processor foresees which one data ask for."""
        if not any(v.node is not None for expression, _, _ in node.conditions for v, _ in expression.terms):
            return False
        parts = walk([node.then, node.otherwise])
        if len(parts) > _LITTLE or not all(isinstance(n, Load | Constant | If | Op | Clamp) for n in parts):
            return False
        return all(self._is_inside(n) and id(n) not in self.staged for n in parts if isinstance(n, Load))

    def _is_inside(self, load: Load) -> bool:
        """Whether there is an element to load wherever variables are, guards or none."""
        unbound = {v: (0, 0) for v, _ in load.address.terms if v.node is None and v not in self.vars}
        least, greatest = range_of(load.address, {**unbound, **self.ranges})
        return least >= 0 and greatest < leaf_shapes(load.source[0].shape)[load.source[1]].size

    def _choice(self, node: Node) -> Nested[tuple[BufferValue, ir.Value, Affine] | None]:
        """Where a load is from, or a guard between loads of one array: its index is chosen rather than its value.

        That is the sum of an index that does not change in the innermost loop, which alone is chosen, and of what does:
        of a choice between two sums of both, LLVM does not see that neighbours are side by side. None where the
        innermost loop decides, and where an index is loaded itself of which there may be none if a guard does not hold.
        """
        if isinstance(node, Load) and id(node) not in self.staged:
            inside = walk([v.node for v, _ in node.address.terms if v.node is not None])
            if any(isinstance(n, Load) and not self._is_inside(n) for n in inside):
                return None
            address = self.address(node.source, node.address)
            along = tuple(term for term in address.terms if term[0] is self.innermost)
            apart = tuple(term for term in address.terms if term[0] is not self.innermost)
            return node.source, (yield self._index(Affine(address.const, apart))), Affine(0, along)
        if not isinstance(node, If) or any(c[0].factor(self.innermost) for c in node.conditions if self.innermost):
            return None
        condition = yield self._condition(node)
        if isinstance(condition, bool):
            return (yield self._choice(node.then if condition else node.otherwise))
        first, second = (yield self._choice(node.then)), (yield self._choice(node.otherwise))
        if first is None or second is None or first[0] != second[0]:
            return None
        if first[2] == second[2]:
            return first[0], self.b.select(condition, first[1], second[1]), first[2]
        whole = []
        for _, apart, along in (first, second):
            whole.append(self.b.add(apart, (yield self._index(along)), flags=["nsw"]))
        return first[0], self.b.select(condition, *whole), Affine(0, ())

    # -- reductions in the middle of an expression
    def _reduction(self, reduction: Reduction) -> Nested[list[Value]]:
        key = id(reduction)
        for scope in reversed(self._scopes):
            if key in scope:
                return scope[key]
        with self.scope():
            state = accumulators(self.b, reduction)
            for accumulator, value in zip(state, (yield each(map(self._value, reduction.inits))), strict=True):
                accumulator.start(value)
            with self.loops(reduction.vars):
                yield self._accumulate_element(reduction, state)
        results = [a.result() for a in state]
        self._scopes[-1][key] = results
        return results

    def initial_values(self, reduction: Reduction) -> list[Value]:
        """What a reduction starts from."""
        return run(each(map(self._value, reduction.inits)))

    def identity_values(self, reduction: Reduction) -> list[Value]:
        """What a piece of a reduction starts from: initial values only where no identity value is known."""
        dtype = reduction.inits[0].dtype
        number = identity_value(reduction.plain, dtype)
        return self.initial_values(reduction) if number is None else [types.constant(number, dtype)]

    @contextmanager
    def loops(self, variables: Sequence[Var]) -> Iterator[None]:
        """Loops over variables, outermost first; what is emitted is their body."""
        with ExitStack() as stack:
            for var in variables[:-1]:
                self.vars[var] = stack.enter_context(loop(self.b, 0, var.size, name=var.name))
            for var in variables[-1:]:
                stack.enter_context(self.innermost_loop(var, I64(0), types.i64(var.size), hints_for(var.size)))
            stack.enter_context(self.scope())
            yield

    @contextmanager
    def innermost_loop(
        self, var: Var, begin: ir.Value, end: ir.Value, hints: Sequence[Hint], step: int = 1
    ) -> Iterator[None]:
        """A loop over `var`; what is emitted is its body."""
        with loop(self.b, begin, end, step, name=var.name, hints=hints) as value:
            self.vars[var] = value
            yield

    def accumulate(self, reduction: Reduction, state: Sequence[State]) -> None:
        """The next element into a reduction's accumulators."""
        run(self._accumulate_element(reduction, state))

    def _accumulate_element(self, reduction: Reduction, state: Sequence[State]) -> Nested[None]:
        representation = state[0].representation
        if isinstance(representation, Merging):
            (accumulator,), (element,) = state, reduction.elements
            read = self._wider if isinstance(representation, Sum) else self._value
            value = representation.encoded(self.b, (yield read(element)))
            accumulator.set(representation.with_element(self.b, accumulator.get(), value))
            return
        yield self._accumulate(reduction, state, reduction.in_order or reduction.bodies)

    def _accumulate(self, reduction: Reduction, state: Sequence[State], bodies: Sequence[Node]) -> Nested[None]:
        with self.scope():
            for argument, accumulator in zip(reduction.arguments, state, strict=True):
                self.arguments[id(argument)] = accumulator.get()
            results = yield each(map(self._value, bodies))
        for accumulator, result in zip(state, results, strict=True):
            accumulator.set(result)

    def combine(self, reduction: Reduction, state: Sequence[State], values: Sequence[Value]) -> None:
        """What other accumulators have got, into a reduction's accumulators."""
        representation = state[0].representation
        if isinstance(representation, Merging):
            (accumulator,), (value,) = state, values
            accumulator.set(representation.merged(self.b, accumulator.get(), value))
            return
        with self.scope():
            self._scopes[-1].update({id(e): v for e, v in zip(reduction.elements, values, strict=True)})
            run(self._accumulate(reduction, state, reduction.bodies))


def low_half(b: ir.IRBuilder, index: ir.Value) -> ir.Value:
    """The low half of an index: of a sum, the sum of halves, so that vectors of them are not made of wider ones."""
    if isinstance(index, ir.Instruction) and index.opname == "add":
        return b.add(*[low_half(b, operand) for operand in index.operands])
    return b.trunc(index, I32)


def phi(b: ir.IRBuilder, x: Value, x_block: ir.Block, y: Value, y_block: ir.Block) -> Value:
    """A value that is `x` when control comes from one block and `y` from the other."""
    if isinstance(x, Complex):
        parts = zip(x, y, strict=True)
        return Complex(*(phi(b, first, x_block, second, y_block) for first, second in parts))
    value = b.phi(x.type)
    value.add_incoming(x, x_block)
    value.add_incoming(y, y_block)
    return value


def _is_narrowed(node: Node) -> TypeGuard[Op]:
    """True of floats of 8 bits and fewer that are made of f32: what is too large for them is an infinity, or a NaN."""
    if not isinstance(node, Op) or not node.dtype.is_float or node.dtype.bits > 8:
        return False
    return node.opcode in ROUNDED or (node.opcode == "convert" and node.operands[0].dtype in (bf16, f16, f32))
