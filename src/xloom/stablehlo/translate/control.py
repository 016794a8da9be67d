"""Calls, loops and branches."""

from __future__ import annotations

from typing import Any

from xloom.hlo import dtype as dt
from xloom.hlo.computation import Computation
from xloom.hlo.instruction import Instruction
from xloom.hlo.shape import Shape, tuple_shape
from xloom.stablehlo.translate.rules import rule
from xloom.stablehlo.translate.scope import Captures, Scope, only_block


@rule("func.call", attributes="callee")
def _call(s: Scope, op: Any) -> None:
    callee = s.program.function(op.operation.attributes["callee"].value)
    operands = s.values(op.operands)
    results = list(op.results)
    if not results:  # whose tuple nobody reads, but a callee may have effects
        s.add("call", tuple_shape([]), operands, {"to_apply": callee})
        return
    s.emit(op, "call", {"to_apply": callee}, operands)


@rule("stablehlo.tuple")
def _tuple(s: Scope, op: Any) -> None:
    s.emit(op, "tuple")


@rule("stablehlo.get_tuple_element", attributes="index")
def _get_tuple_element(s: Scope, op: Any) -> None:
    s.emit(op, "get-tuple-element", {"index": op.operation.attributes["index"].value})


@rule("stablehlo.optimization_barrier")
def _optimization_barrier(s: Scope, op: Any) -> None:
    operands = s.values(op.operands)
    if operands:
        s.emit(op, "opt-barrier", operands=[s.tuple(operands)])


@rule("stablehlo.after_all", "stablehlo.create_token")
def _after_all(s: Scope, op: Any) -> None:
    s.emit(op, "after-all")


@rule("stablehlo.while")
def _while(s: Scope, op: Any) -> None:
    state = s.values(op.operands)
    captures = Captures(len(state))
    condition, body = (_Region(s, r, captures) for r in op.regions)
    whole = [*state, *captures.sources.values()]
    kept = [body.scope.value(value) for value in captures.sources]  # for the next step
    shape = tuple_shape([x.shape for x in whole])
    attrs = {
        "condition": condition.finish(condition.results[0], shape),
        "body": body.finish(body.pack([*body.results, *kept]), shape),
    }
    loop = s.add("while", shape, [s.add("tuple", shape, whole, name="tuple")], attrs)
    s.define_elements(list(op.results), loop)


@rule("stablehlo.case", "stablehlo.if")
def _case(s: Scope, op: Any) -> None:
    (index,) = s.values(op.operands)
    computations, operands = [], []
    for blocks in op.regions:
        captures = Captures(0)
        branch = _Region(s, blocks, captures)
        shape = tuple_shape([x.shape for x in captures.sources.values()])
        results = branch.results
        root = branch.pack(results) if len(results) != 1 else results[0]
        computations.append(branch.finish(root, shape))
        operands.append(s.add("tuple", shape, list(captures.sources.values()), name="tuple"))
    if index.shape.dtype is dt.pred:
        attrs: dict[str, Any] = {"true_computation": computations[0], "false_computation": computations[1]}
    else:
        attrs = {"branch_computations": tuple(computations)}
    if not len(op.results):
        s.add("conditional", tuple_shape([]), [index, *operands], attrs)
        return
    s.emit(op, "conditional", attrs, [index, *operands])


class _Region:
    """A region of one parameter, the tuple of its block's arguments and of what it reads from outside."""

    def __init__(self, s: Scope, blocks: Any, captures: Captures):
        block = only_block(blocks)
        self.scope = Scope(s.program, "region", s, captures)
        shape = tuple_shape([s.shape(a) for a in block.arguments])  # for now: captures come after
        self.scope.state = self.scope.add("parameter", shape, (), {"parameter_number": 0}, "arg_tuple")
        self.scope.define_elements(list(block.arguments), self.scope.state)
        self.results = self.scope.block(block)

    def pack(self, values: list[Instruction]) -> Instruction:
        """The tuple of values."""
        return self.scope.add("tuple", tuple_shape([x.shape for x in values]), values, name="tuple")

    def finish(self, root: Instruction, state: Shape) -> Computation:
        """The computation, of a state that is known by now."""
        assert self.scope.state is not None
        self.scope.state.shape = state
        return self.scope.finish(root)
