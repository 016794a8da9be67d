"""Puts a copy of a computation in the place of the instruction that calls or carries it."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

from xloom.hlo.attributes import Metadata
from xloom.hlo.computation import Computation
from xloom.hlo.instruction import Instruction
from xloom.hlo.shape import Shape
from xloom.passes.schedule import in_order

_FREE = frozenset({"constant", "iota"})  # waiting for others would mean nothing to them
_OF_THE_CALL = ("composite.", "inlineable")  # frontend attributes that say what the call itself is


@dataclass
class Inlined:
    """What came of a call: the value that stands for it, and the copies made, in order."""

    value: Instruction
    copies: list[Instruction] = field(default_factory=list)


def inline(call: Instruction, callee: Computation, prepare: Callable[[Instruction], None] | None = None) -> Inlined:
    """Copies `callee`'s instructions to where `call` is, with operands for parameters, and removes `call`.

    Operands and result keep the layouts that `callee` and `call` say, by copies where these differ. Instructions
    without metadata get the call's, the root also its sharding, and all of them its frontend attributes. What had to
    run before the call runs before every copy, what had to run after it after every copy. `prepare` sees each copy.
    The caller makes sure that the shapes agree and that the roots are pinned.
    """
    host = call.parent
    assert host is not None
    out: list[Instruction] = []
    values: dict[Instruction, Instruction] = {}
    for parameter in callee.parameters:
        operand = call.operands[parameter.attrs["parameter_number"]]
        values[parameter] = with_layout(operand, parameter.shape, out)
    ordered: set[Instruction] = set()  # the copies that already run after the call's predecessors
    for old in in_order(callee):
        if old.opcode == "parameter":
            continue
        new = host.add(old.clone([values[o] for o in old.operands]))
        values[old] = new
        out.append(new)
        new.attrs.pop("origin", None)  # the names in it are those of another program
        for before in old.control_predecessors:
            new.add_control_predecessor(values[before])
        if prepare is not None:
            prepare(new)
    value = values[callee.root]
    if call.sharding is not None and value.sharding != call.sharding and callee.root.opcode == "parameter":
        value = _copy(value, value.shape, out)
        value.sharding = call.sharding
    value = with_layout(value, call.shape, out)
    for new in out:
        _annotate(new, call)
        _wait(new, call, ordered)
    if value in out:
        value.sharding = value.sharding if value.sharding is not None else call.sharding
        if "origin" in call.attrs:
            value.attrs["origin"] = call.attrs["origin"]
    _release(call, out)
    call.drop_control_dependencies()
    call.replace_all_uses_with(value)
    host.remove(call)
    return Inlined(value, out)


def _annotate(new: Instruction, call: Instruction) -> None:
    if new.metadata == Metadata():
        new.metadata = call.metadata
    inherited = {k: v for k, v in call.frontend_attributes.items() if not k.startswith(_OF_THE_CALL)}
    if inherited:
        new.frontend_attributes = {**inherited, **new.frontend_attributes}


def _wait(new: Instruction, call: Instruction, ordered: set[Instruction]) -> None:
    """Makes `new` run after the call's predecessors, unless an earlier copy that it needs already does."""
    if not call.control_predecessors or new.opcode in _FREE:
        return
    if not any(before in ordered for before in (*new.operands, *new.control_predecessors)):
        for before in call.control_predecessors:
            new.add_control_predecessor(before)
    ordered.add(new)


def _release(call: Instruction, copies: Sequence[Instruction]) -> None:
    """Makes the call's successors run after every copy: it is enough to name those that no other copy follows."""
    made = set(copies)
    last = [
        new
        for new in copies
        if new.opcode not in _FREE and not any(after in made for after in (*new.users, *new.control_successors))
    ]
    for after in call.control_successors:
        for before in last or call.control_predecessors:
            after.add_control_predecessor(before)


def with_layout(value: Instruction, shape: Shape, out: list[Instruction]) -> Instruction:
    """`value` in the layout of `shape`, which is the same otherwise; what that takes is added, and noted in `out`."""
    if value.shape == shape or not (shape.is_array or shape.is_tuple):
        return value
    if is_copy_of(value, shape):
        return value.operands[0]
    if shape.is_array:
        return _copy(value, shape, out)
    parts = []
    for k, part in enumerate(shape.elements):
        element = _add(value, Instruction("get-tuple-element", "get-tuple-element", value.shape.elements[k], [value]))
        element.attrs["index"] = k
        out.append(element)
        parts.append(with_layout(element, part, out))
    whole = _add(value, Instruction("tuple", "tuple", shape, parts))
    out.append(whole)
    return whole


# copy(copy(x)) == x, in the layout of x
def is_copy_of(value: Instruction, shape: Shape) -> bool:
    """True for a copy of what has `shape`, layout included, and which nothing orders."""
    ordered = value.has_control_dependencies
    return value.opcode == "copy" and value.operands[0].shape == shape and not ordered


def _copy(value: Instruction, shape: Shape, out: list[Instruction]) -> Instruction:
    new = _add(value, Instruction("copy", "copy", shape, [value]))
    out.append(new)
    return new


def _add(beside: Instruction, new: Instruction) -> Instruction:
    assert beside.parent is not None
    return beside.parent.add(new)
