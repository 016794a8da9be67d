"""`compare="each"`: a backend's programs, one instruction or kernel after another, each held against the CPU's code."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from xloom.codegen.buffer_values import leaf_shapes
from xloom.cpu.runtime.executable import CompiledMemoryStats
from xloom.errors import CustomCallError, EvaluationError, LoweringError, UnsupportedError, XloomError
from xloom.hlo.excerpt import excerpt
from xloom.hlo.instruction import Instruction
from xloom.hlo.module import Module
from xloom.hlo.stack_frames import place
from xloom.interpreter.evaluator import Evaluator
from xloom.interpreter.nested_values import leaves, with_each
from xloom.interpreter.registry import Value
from xloom.passes.runner import run_passes
from xloom.pjrt.backend_result_checks import checked
from xloom.pjrt.compiler import Compiler, CpuCompiler, Launch, Program
from xloom.pjrt.interpreted import InterpreterCompiler
from xloom.sim.tolerance import first_difference

_PASSED_ON = frozenset(
    ("call", "while", "conditional", "tuple", "get-tuple-element", "opt-barrier", "domain", "add-dependency")
    + ("after-all", "async-start", "async-update", "async-done", "constant")
)
"""What the host does: it passes values on, or says which instructions come next."""
_OF_THE_WORLD = frozenset(("rng", "rng-get-and-update-state", "infeed", "outfeed", "recv", "recv-done", "send"))


class DifferenceError(EvaluationError):
    """A device's value is too far from the CPU's. Act: look at the code for the instruction that `where` names."""


class Stepwise:
    """A program that a backend runs instruction by instruction, on the values that it gave itself."""

    def __init__(self, compiler: Compiler, module: Module):
        """Raises UnsupportedError for programs of several devices."""
        config = module.config
        if config.replica_count * config.num_partitions > 1:
            raise UnsupportedError('compare="each" is for programs of one device', where=module.name)
        self._compiler = compiler
        self._module = compiler.optimized(module)
        leaves = [leaf for p in module.entry.parameters for leaf in leaf_shapes(p.shape)]
        results = leaf_shapes(module.entry.root.shape)
        self.memory = CompiledMemoryStats(sum(s.nbytes for s in leaves), sum(s.nbytes for s in results), 0, 0)
        self._programs: dict[Instruction, tuple[Program, Program | None]] = {}
        self._known: dict[str, tuple[Program, Program | None]] = {}

    def run(self, arguments: Sequence[Any], launch: Launch) -> Any:
        """Runs it. Raises DifferenceError at the first instruction whose value is too far from the CPU's."""
        compiler, device = self._compiler, launch.device
        steps = _Steps(
            self._module, compiler.computes, lambda instruction, operands: self._step(instruction, operands, launch)
        )
        given = [with_each(a, lambda v: compiler.to_host(v, device)) for a in arguments]
        return with_each(steps.call(self._module.entry, given), lambda v: compiler.to_device(v, device))

    def rendezvous(self) -> None:
        """None: programs of one device have no collectives."""

    def _step(self, instruction: Instruction, operands: Sequence[Value], launch: Launch) -> Value:
        compiler, device = self._compiler, launch.device
        by_operand = dict(zip(instruction.operands, operands, strict=True))  # as an excerpt takes them
        dense = [with_each(o, lambda v: np.asarray(v, order="C")) for o in by_operand.values()]
        try:
            mine, reference = self._programs.get(instruction) or self._made(instruction)
            found = mine.run([with_each(o, lambda v: compiler.to_device(v, device)) for o in dense], launch)
        except XloomError as error:  # which names the first instruction with this program
            error.where = place(instruction)
            raise
        found = _shaped(with_each(found, lambda v: compiler.to_host(v, device)), instruction)
        if reference is not None:
            self._check(instruction, found, reference.run(dense, Launch()))
        return found

    def _check(self, instruction: Instruction, found: Value, expected: Value) -> None:
        tolerance = self._compiler.tolerance(instruction)
        pairs = zip(leaves(found), leaves(expected), strict=True)
        for number, (got, wanted) in enumerate(pairs):
            if not isinstance(got, np.ndarray):
                continue
            difference = first_difference(got, wanted, tolerance)
            if difference is not None:
                part = f" result {number}" if isinstance(found, tuple) else ""
                allowed = f", where {tolerance.ulps:g} are allowed" if np.isfinite(difference.ulps) else ""
                raise DifferenceError(
                    f"{self._compiler.platform_name}'s {instruction.opcode}{part} differs from the CPU's: "
                    f"{instruction.name}{difference}{allowed}",
                    where=place(instruction),
                    hint="the operands are those that the device gave; `Compiler.tolerance` says what is allowed",
                )

    def _made(self, instruction: Instruction) -> tuple[Program, Program | None]:
        alone = excerpt([instruction], "step").module
        for each in alone.entry:  # equal instructions are one program
            each.name = "r" if each.opcode != "parameter" else each.name
        text = alone.to_text(print_metadata=False, print_large_constants=True)
        if text not in self._known:
            self._known[text] = self._compiler.compile(alone), _reference(instruction, alone)
        self._programs[instruction] = self._known[text]
        return self._known[text]


def _reference(instruction: Instruction, alone: Module) -> Program | None:
    """The CPU's program for it; None for what has more effects than its value, or has no code but the device's."""
    if instruction.opcode in _OF_THE_WORLD or instruction.attrs.get("custom_call_has_side_effect"):
        return None
    module = alone.clone("")
    run_passes(module, "expand", verify=False)
    try:
        return CpuCompiler().compile(module)
    except LoweringError:
        return InterpreterCompiler().compile(module)
    except CustomCallError:
        return None


class _Steps(Evaluator):
    """Evaluates a module, of which `step` does the instructions that the backend computes."""

    def __init__(
        self,
        module: Module,
        computes: Callable[[Instruction], bool],
        step: Callable[[Instruction, Sequence[Value]], Value],
    ):
        super().__init__(module)
        self._computes, self._step = computes, step

    def apply(self, instruction: Instruction, operands: Sequence[Value]) -> Value:
        """See Evaluator."""
        if instruction.opcode in _PASSED_ON or not self._computes(instruction):
            return super().apply(instruction, operands)
        return self._step(instruction, operands)


def _shaped(found: Value, instruction: Instruction) -> Value:
    """What an instruction gave. Raises EvaluationError unless it is of its shape."""
    shapes = instruction.shape.elements if instruction.shape.is_tuple else [instruction.shape]
    values = found if isinstance(found, tuple) else (found,)
    if len(values) == len(shapes):
        for value, shape in zip(values, shapes, strict=True):
            if not isinstance(value, tuple):
                checked(value, shape.with_default_layout(), True, "gave {}", place(instruction))
    return found
