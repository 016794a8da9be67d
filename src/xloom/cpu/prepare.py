"""What is done to a module before it is planned."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from xloom.codegen.fusion.dot_operands import fuse_products
from xloom.codegen.ops import ROWS, Role, Trait, having
from xloom.errors import LoweringError
from xloom.hlo.computation import Computation
from xloom.hlo.expanded_size import overgrown_call
from xloom.hlo.instruction import Instruction, map_called
from xloom.hlo.module import Module
from xloom.passes import Pass, parse_pipeline, run_passes
from xloom.passes.built_in_custom_calls import expand_built_in_calls
from xloom.passes.custom_call_order import keep_effects_in_order, keep_names
from xloom.passes.dce import remove_unreachable_computations
from xloom.passes.inline import inline
from xloom.passes.lapack_custom_calls import expand_lapack_calls
from xloom.passes.outside_in import expand_from_outside, is_deep

PIPELINE = (
    "async-simplification,collective-simplification,collective-expansion,batch-norm-expansion,linear-algebra-widening,call-inlining,"
    "tuple-simplification,algebraic-simplification,layout-simplification,constant-folding,while-loop-simplification,"
    "choice-sinking,mask-sharing,cse,dce"
)

INLINED = having(Trait.INLINED)


def prepared(module: Module) -> Module:
    """A copy of `module` in the form that the planner takes: no calls, no fusions, nothing that is not needed."""
    overgrown = overgrown_call(module.entry)
    if overgrown is not None:
        call, size = overgrown
        raise LoweringError(
            f"this {call.opcode} stands for {size} instructions: each call has several others in it",
            where=f"{call.name} {call.metadata.location}".strip(),
            hint="put what is called often into a loop",
        )
    module = module.clone()
    run_passes(module, [*map(_Step, _FIRST), *parse_pipeline(PIPELINE)], verify=False)
    # of simplified computations, which some scans need not be loops in, and where products are found
    if any(report.changed for report in run_passes(module, "scan-expansion,product-blocking", verify=False)):
        run_passes(module, PIPELINE, verify=False)
    run_passes(module, [*map(_Step, _LAST)], verify=False)
    for computation in module.computations:
        for instruction in computation:
            if instruction.shape.is_dynamic:
                raise LoweringError(
                    f"an array of dynamic size: {instruction.shape}",
                    where=f"{instruction.name} {instruction.metadata.location}".strip(),
                    hint="run the program on the interpreter: xloom.evaluate",
                )
    return module


@dataclass(frozen=True)
class _Step(Pass):
    """What every module goes through, and is no pass to be asked for."""

    name = "preparation"
    function: Callable[[Module], None]

    def run(self, module: Module) -> bool:
        """Does it."""
        self.function(module)
        return True

    def __str__(self) -> str:
        return self.function.__name__.strip("_").replace("_", " ")


def _separate(module: Module) -> None:
    """Gives each loop and branch computations of its own, and zeros of its own: their arrays have their own memory."""
    taken: set[Computation] = set()

    def own(computation: Computation) -> Computation:
        computation = computation.clone() if computation in taken else computation
        taken.add(computation)
        return computation

    stack = [module.entry]
    while stack:
        computation = stack.pop()
        for instruction in computation.instructions:
            if instruction.opcode == "scatter":
                _fill_for(computation, instruction)
            if ROWS[instruction.opcode].role is Role.CONTROL:
                for state in instruction.operands:
                    if state.opcode == "tuple":
                        _fill_for(computation, state)
                map_called(instruction, own)
                stack.extend(instruction.called_computations)


def _fill_for(computation: Computation, user: Instruction) -> None:
    """Makes equal numbers anew for each array that begins with them, so that none is a copy."""
    for k, numbers in enumerate(user.operands):
        if numbers.opcode != "broadcast" or numbers.operands[0].opcode != "constant":
            continue
        if len(numbers.users) > 1 or user.operands.count(numbers) > 1:
            user.replace_operand(k, computation.add(numbers.clone()))


def _inline_all(module: Module) -> None:
    if is_deep(module.entry, INLINED):
        expand_from_outside(module.entry, _inlined)
        remove_unreachable_computations(module)
        return
    for computation in module.computation_post_order():
        for instruction in computation.instructions:
            _inlined(instruction)


def _inlined(instruction: Instruction) -> list[Instruction] | None:
    if instruction.opcode not in INLINED:
        return None
    return inline(instruction, instruction.called_computations[0]).copies


_FIRST = (keep_effects_in_order, keep_names, expand_built_in_calls, expand_lapack_calls, _inline_all)
_LAST = (fuse_products, _separate)
