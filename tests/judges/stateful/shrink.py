"""Makes a program on which something is wrong smaller, loops and branches included, while it is wrong."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Sequence

import numpy as np

from tests.judges.stateful.scene import leaves
from xloom.errors import EvaluationError, XloomError
from xloom.hlo.computation import Computation
from xloom.hlo.instruction import Instruction
from xloom.hlo.literal import literal
from xloom.hlo.module import Module
from xloom.hlo.shape import Shape
from xloom.hlo.verify.module import verify
from xloom.interpreter import Evaluator
from xloom.interpreter.registry import Value
from xloom.passes import run_passes
from xloom.passes.inline import inline

Program = tuple[Module, list[np.ndarray]]
Change = Callable[[Module], object]

_CLEAN = ("tuple-simplification,dce", "", None)
"""Passes before what nothing reads is removed, or None: it stays. The first that leave wrong what is are taken."""


def shrunk(
    module: Module, arguments: list[np.ndarray], wrong: Callable[[Module, list[np.ndarray]], bool], seconds: float
) -> Program:
    """The smallest such program that is found in that time."""
    until = time.monotonic() + seconds
    best, clean = (module, list(arguments)), None
    for clean in _CLEAN:
        tidy = _changed(best, lambda m: None, clean)
        if tidy is not None and wrong(*tidy):
            best = tidy
            break
    at = failed = 0
    while True:
        changes = list(_changes(best[0]))
        if failed >= len(changes):
            return best
        at %= len(changes)
        if time.monotonic() > until:
            return best
        smaller = _changed(best, changes[at], clean)
        if smaller is not None and _size(smaller[0]) < _size(best[0]) and wrong(*smaller):
            best, failed = smaller, 0  # and on from here: what was tried before it is tried last
        else:
            at, failed = at + 1, failed + 1


def _size(module: Module) -> tuple[int, ...]:
    """What is made smaller: instructions, with loops and calls first, then what the header says, then numbers."""
    config = module.config
    opcodes = [i.opcode for i in module.instructions]
    read = sum(not i.is_dead for i in module.instructions)
    header = len(config.input_output_alias) + len(config.buffer_donors) + (config.parameter_layouts is not None)
    control = sum(o in ("while", "conditional", "call") for o in opcodes)
    results = len(leaves(module.entry.root.shape))
    trips = sum(abs(int(i.literal.value)) for i in module.instructions if _is_count(i))
    return control, read + len(opcodes) + results, header, trips


def _is_count(i: Instruction) -> bool:
    return i.opcode == "constant" and i.shape.is_array and not i.shape.rank and i.shape.dtype.is_integer


def _changed(program: Program, change: Change, clean: str | None) -> Program | None:
    """A valid program that ends, after the change, without what it leaves unread."""
    module, arguments = program[0].clone(""), list(program[1])
    try:
        change(module)
        if clean is not None:
            run_passes(module, clean, verify=False)
            _sweep(module)
        arguments = _without_unread(module, arguments)
        verify(module)
        _Limited(module).call(module.entry, arguments)
    except (XloomError, KeyError, IndexError, ValueError, StopIteration, AttributeError):
        return None
    return module, arguments


class _Limited(Evaluator):
    """Raises EvaluationError for a program that goes on and on: its loop has lost its counter."""

    steps = 20_000

    def apply(self, instruction: Instruction, operands: Sequence[Value]) -> Value:
        self.steps -= 1
        if not self.steps:
            raise EvaluationError("it does not end")
        return super().apply(instruction, operands)


def _sweep(module: Module) -> None:
    """Removes what nothing reads, and nothing else."""
    for computation in module.computations:
        for instruction in reversed(computation.instructions):
            if instruction.opcode != "parameter" and instruction.is_dead:
                computation.remove(instruction)
    called = {c for i in module.instructions for c in i.called_computations}
    for computation in module.computations:
        if computation is not module.entry and computation not in called:
            module.remove(computation)


def _without_unread(module: Module, arguments: list[np.ndarray]) -> list[np.ndarray]:
    """Removes parameters that nothing reads, where the header says nothing of parameters."""
    config, entry = module.config, module.entry
    if config.input_output_alias or config.buffer_donors or config.parameter_layouts:
        return arguments
    kept = []
    for parameter, argument in zip(entry.parameters, arguments, strict=True):
        if parameter.users or parameter is entry.root:
            parameter.attrs["parameter_number"] = len(kept)
            kept.append(argument)
        else:
            entry.remove(parameter)
    return kept


def _changes(module: Module) -> Iterator[Change]:
    """Ways to make the program smaller, the largest steps first."""
    for field, empty in (("input_output_alias", []), ("buffer_donors", []), ("parameter_layouts", None)):
        if getattr(module.config, field):
            yield lambda m, field=field, empty=empty: _set_header(m, field, empty)
    root = module.entry.root
    if root.opcode == "tuple" and (count := len(root.operands)) > 1:
        parts = [(0, count // 2), (count // 2, count), *((k, k + 1) for k in range(count))]
        for part in dict.fromkeys(parts):
            yield lambda m, part=part: _results(m, range(*part))
        for k in range(count):
            yield lambda m, k=k: _results(m, [n for n in range(count) if n != k])
    for n, computation in reversed(list(enumerate(module.computations))):
        if _calls_nothing_in_control(module, computation):
            continue
        for k, instruction in reversed(list(enumerate(computation.instructions))):
            yield from _of_instruction(n, k, instruction)


def _calls_nothing_in_control(module: Module, computation: Computation) -> bool:
    """True for comparators and combiners, which are left as they are."""
    if computation is module.entry:
        return False
    return not any(
        computation in i.called_computations
        for i in module.instructions
        if i.opcode in ("while", "conditional", "call")
    )


def _of_instruction(n: int, k: int, instruction: Instruction) -> Iterator[Change]:
    def at(m: Module) -> Instruction:
        return m.computations[n].instructions[k]

    if instruction.is_dead and instruction.opcode != "parameter":
        yield lambda m: m.computations[n].remove(at(m))
        return
    if instruction.opcode == "while":
        yield lambda m: at(m).replace_all_uses_with(at(m).operands[0])
        for element in range(len(instruction.shape.elements)):
            yield lambda m, element=element: _drop_state(at(m), element)
    if instruction.opcode == "conditional":
        for branch in range(len(instruction.operands) - 1):
            yield lambda m, branch=branch: _take_branch(at(m), branch)
    if instruction.opcode == "call":
        yield lambda m: inline(at(m), at(m).called_computations[0])
    if instruction.opcode == "tuple":
        for number, operand in enumerate(instruction.operands):
            for other in _alike(instruction, operand):
                yield lambda m, number=number, other=other: at(m).replace_operand(
                    number, m.computations[n].instructions[other]
                )
        return
    if instruction.shape.is_array and instruction.opcode not in ("parameter", "constant", "get-tuple-element"):
        yield lambda m: _put_zeros(at(m))
        for other in _alike(instruction, instruction):
            yield lambda m, other=other: at(m).replace_all_uses_with(m.computations[n].instructions[other])
    if _is_count(instruction):
        value = int(instruction.literal.value)
        for smaller in dict.fromkeys((0, 1, value // 2)):
            if abs(smaller) < abs(value):
                yield lambda m, smaller=smaller: _put_number(at(m), smaller)
    if instruction.opcode in ("parameter", "get-tuple-element") and instruction.shape.is_array and instruction.users:
        yield lambda m: _put_zeros(at(m))


def _alike(before: Instruction, wanted: Instruction) -> Iterator[int]:
    """Places of simpler values of the same shape that are there before an instruction."""
    assert before.parent is not None
    if wanted.opcode == "get-tuple-element" and wanted.operands[0].opcode == "parameter":
        return
    operands = [o for o in wanted.operands if o.shape.is_array]
    for k, other in enumerate(before.parent.instructions):
        if other is before:
            return
        simple = other.opcode in ("parameter", "get-tuple-element") or other in operands
        if simple and other is not wanted and other.shape.is_array and other.shape.compatible(wanted.shape):
            yield k


def _set_header(module: Module, field: str, value: object) -> None:
    setattr(module.config, field, value)
    if field == "parameter_layouts":
        module.config.result_layout = None


def _results(module: Module, numbers: Sequence[int]) -> None:
    module.config.input_output_alias, module.config.result_layout, module.config.parameter_layouts = [], None, None
    root = module.entry.root
    kept = [root.operands[k] for k in numbers]
    if len(kept) == 1:
        module.entry.root = kept[0]
        return
    shape = Shape(root.shape.dtype, (), (), None, tuple(o.shape for o in kept))
    module.entry.root = module.entry.add(Instruction("results", "tuple", shape, kept))


def _zeros(computation: Computation, shape: Shape) -> Instruction:
    number = literal(np.zeros((), shape.dtype.numpy))
    constant = computation.add(Instruction("zero", "constant", number.shape, (), {"literal": number}))
    if not shape.rank:
        return constant
    return computation.add(Instruction("zeros", "broadcast", shape, [constant], {"dimensions": ()}))


def _put_zeros(instruction: Instruction) -> None:
    assert instruction.parent is not None
    instruction.replace_all_uses_with(_zeros(instruction.parent, instruction.shape.with_default_layout()))


def _put_number(instruction: Instruction, number: int) -> None:
    instruction.attrs["literal"] = literal(np.asarray(number, instruction.shape.dtype.numpy))


def _take_branch(conditional: Instruction, number: int) -> None:
    assert conditional.parent is not None
    operand, branch = conditional.operands[1 + number], conditional.called_computations[number]
    call = Instruction("call", "call", conditional.shape, [operand], {"to_apply": branch})
    conditional.parent.replace(conditional, call)
    inline(call, branch)


def _drop_state(loop: Instruction, number: int) -> None:
    """Removes an element that neither condition nor body reads but to hand it on, and that nobody reads."""
    for computation in loop.called_computations:
        (state,) = computation.parameters
        parts = [u for u in state.users if u["index"] == number]
        allowed = computation.root.operands[number] if computation.root.opcode == "tuple" else None
        if any(u is not computation.root for part in parts for u in part.users):
            raise IndexError(number)
        if any(p is not allowed and computation.root in p.users for p in parts):
            raise IndexError(number)
    if any(u.opcode != "get-tuple-element" or u["index"] == number for u in loop.users):
        raise IndexError(number)
    init = loop.operands[0]
    body_root = loop["body"].root
    if init.opcode != "tuple" or body_root.opcode != "tuple" or loop.is_root:
        raise IndexError(number)
    elements = tuple(e for k, e in enumerate(init.shape.elements) if k != number)
    shape = Shape(init.shape.dtype, (), (), None, elements)
    for tuple_ in (init, body_root):
        rest = [o for k, o in enumerate(tuple_.operands) if k != number]
        new = Instruction(tuple_.name, "tuple", shape, rest)
        assert tuple_.parent is not None
        tuple_.parent.add(new)
        if tuple_ is body_root:
            tuple_.parent.root = new
        else:
            loop.replace_operand(0, new)
    loop.shape = shape
    for owner in (loop, *(c.parameters[0] for c in loop.called_computations)):
        owner.shape = shape
        for part in owner.users:
            if part.opcode == "get-tuple-element" and part["index"] > number:
                part.attrs["index"] = part["index"] - 1
