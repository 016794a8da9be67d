"""Makes a program on which two sides disagree as small as it goes, the disagreement kept."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Collection, Sequence

import numpy as np

from xloom.difference.sides import Recorder
from xloom.hlo.computation import Computation
from xloom.hlo.dtype import from_numpy
from xloom.hlo.instruction import Instruction, map_called
from xloom.hlo.literal import literal
from xloom.hlo.module import Module
from xloom.hlo.shape import Shape, array_shape
from xloom.interpreter.registry import Value

DISAGREES = "disagrees"
Verdict = Callable[[Module, Sequence[np.ndarray]], str]
"""Of a program: nothing, DISAGREES, or the known cause of its disagreement."""
Small = tuple[Module, list[np.ndarray]]

_TRIVIAL = frozenset(("parameter", "constant", "tuple", "get-tuple-element"))


def reduced(module: Module, arguments: Sequence[Value], verdict: Verdict) -> Small:
    """A part of the program that still disagrees; the interpreter's values stand for what was cut off.

    What has a known cause is cut off first, so that it does not hide the rest: the part that is returned has a known
    cause only if nothing else disagrees.
    """
    found = _reduced(module, module.entry, arguments, verdict)
    return found[0] if found else (module, list(arguments))


def _reduced(
    module: Module, computation: Computation, arguments: Sequence[Value], verdict: Verdict
) -> tuple[Small, bool] | None:
    """The part, and whether its cause is known."""
    values = computation_values(module, computation, arguments)
    excused: dict[Instruction, Small] = {}
    # an instruction alone, its operands arguments, and then constants: what is computed at compile time is code apart
    for folded, instruction in itertools.product((False, True), computation.post_order()):
        # how an array of dynamic size is returned is not the same everywhere
        if instruction.opcode in _TRIVIAL or instruction in excused or instruction.shape.is_dynamic:
            continue
        alone = _extract(instruction, values, instruction.operands, folded=folded)
        cause = verdict(*alone)
        if not cause:
            continue
        found = _inside(module, instruction, values, verdict) if cause == DISAGREES else (alone, True)
        small, known = found or (alone, False)
        if not known:
            return small, False
        excused[instruction] = small
    rest = _cut(computation, values, verdict, list(excused))
    if rest is not None:
        return rest
    return next(((small, True) for small in excused.values()), None)


def _inside(
    module: Module, instruction: Instruction, values: dict[Instruction, Value], verdict: Verdict
) -> tuple[Small, bool] | None:
    """Of an instruction that calls, a part of what it calls."""
    operands = [values[o] for o in instruction.operands]
    if instruction.opcode == "conditional":
        called = [(c, [v]) for c, v in zip(instruction.called_computations, operands[1:], strict=True)]
    elif instruction.opcode in ("call", "while"):
        called = [(c, operands) for c in instruction.called_computations]
    else:
        return None
    parts = [_reduced(module, computation, arguments, verdict) for computation, arguments in called]
    found = [part for part in parts if part is not None]
    return min(found, key=lambda part: part[1], default=None)


def _cut(
    computation: Computation, values: dict[Instruction, Value], verdict: Verdict, cut: list[Instruction]
) -> tuple[Small, bool] | None:
    """One output, with as many instructions as possible replaced by their values, those made first tried first."""
    root = computation.root
    roots = root.operands if root.opcode == "tuple" else (root,)
    known = None
    for output in dict.fromkeys(roots):
        if output in cut or output.shape.is_dynamic:
            continue
        small = _extract(output, values, cut)
        cause = verdict(*small)
        if cause != DISAGREES:
            known = known or ((small, True) if cause else None)
            continue
        for instruction in computation.post_order():
            if instruction.opcode in ("parameter", "tuple") or instruction is output:
                continue
            smaller = _extract(output, values, [*cut, instruction])
            smaller_cause = verdict(*smaller)
            if smaller_cause:
                cut, small, cause = [*cut, instruction], smaller, smaller_cause
        return small, cause != DISAGREES
    return known


def computation_values(
    module: Module, computation: Computation, arguments: Sequence[Value]
) -> dict[Instruction, Value]:
    """The interpreter's value of every instruction of one computation."""
    recorder = Recorder(module, computation=computation)
    recorder.call(computation, arguments)
    values = dict(zip(computation.parameters, arguments, strict=True))
    return {**values, **recorder.recorded}


def _extract(
    root: Instruction, values: dict[Instruction, Value], cut: Collection[Instruction], *, folded: bool = False
) -> Small:
    """The module that computes `root`, with parameters (or constants) in the places of `cut` and of the parameters."""
    module, entry = Module("reduced"), Computation("main")
    arguments: list[np.ndarray] = []
    copies: dict[Instruction, Instruction] = {}
    called: dict[Computation, Computation] = {}

    def argument(value: Value, shape: Shape) -> Instruction:
        if isinstance(value, tuple):
            parts = [argument(v, s) for v, s in zip(value, shape.elements, strict=True)]
            return entry.add(Instruction("tuple", "tuple", shape, parts, {}))
        if folded:
            held = literal(np.asarray(value))
            return entry.add(Instruction("constant", "constant", held.shape, (), {"literal": held}))
        arguments.append(np.asarray(value))
        number = len(arguments) - 1
        plain = array_shape(from_numpy(arguments[-1].dtype), arguments[-1].shape)
        return entry.add(Instruction(f"p{number}", "parameter", plain, (), {"parameter_number": number}))

    def callee(computation: Computation) -> Computation:
        if computation not in called:
            copy = computation.clone("", module)
            for instruction in copy:
                map_called(instruction, callee)
            called[computation] = copy
        return called[computation]

    def copy(instruction: Instruction) -> Instruction:
        if instruction in copies:
            return copies[instruction]
        if instruction.opcode == "parameter" or (instruction in cut and instruction is not root):
            new = instruction.clone([]) if instruction.opcode == "constant" else None
            copies[instruction] = entry.add(new) if new else argument(values[instruction], instruction.shape)
        else:
            new = instruction.clone([copy(o) for o in instruction.operands])
            map_called(new, callee)
            copies[instruction] = entry.add(new)
        return copies[instruction]

    entry.root = copy(root)
    module.add(entry, entry=True)
    return module, arguments


def size(module: Module) -> int:
    """How many instructions of the entry do something."""
    return sum(i.opcode not in _TRIVIAL for i in module.entry)
