"""Call inlining, and branches that are known."""

from __future__ import annotations

from xloom.errors import PassError
from xloom.hlo.expanded_size import overgrown_call
from xloom.hlo.instruction import Instruction
from xloom.hlo.module import Module
from xloom.passes.base import Pass, pin_roots, register
from xloom.passes.call_expansion import expand_all
from xloom.passes.computation_inlining import inline
from xloom.passes.match import splat


@register
class CallInlining(Pass):
    """Puts called computations in the place of their calls; a conditional with a constant condition is a call.

    A call with a backend config, with the frontend attribute `inlineable="false"`, or to another thread, stays.
    The computations stay too, as they are where calls go deep: `dce` removes those that nothing calls any more.
    """

    name = "call-inlining"
    opcodes = ("call", "conditional", "map")  # of maps, only those that are too many to be expanded

    def run(self, module: Module) -> bool:
        """See the class."""
        overgrown = overgrown_call(module.entry)
        if overgrown is not None:
            call, count = overgrown
            raise PassError(
                f"this {call.opcode} stands for {count} instructions: each call has several others in it",
                where=f"%{call.name}",
                hint="run it with its calls: leave call-inlining out",
            )
        pin_roots(module)
        return expand_all(module, ("call", "conditional"), _inlined)


def _inlined(instruction: Instruction) -> list[Instruction] | None:
    """What a call leaves behind, or a branch that is known; None of what stays."""
    call = _known_branch(instruction) if instruction.opcode == "conditional" else instruction
    if call is None or call.opcode != "call" or (call is instruction and not _may_inline(call)):
        return None
    return inline(call, call["to_apply"], _own_async_computation).copies


def _own_async_computation(copy: Instruction) -> None:
    # XLA allows each asynchronous computation one caller
    if copy.opcode == "async-start":
        copy["calls"] = copy["calls"].clone()


def _may_inline(call: Instruction) -> bool:
    assert call.parent is not None
    if call["to_apply"].execution_thread != call.parent.execution_thread:
        return False
    return not call.backend_config and call.frontend_attributes.get("inlineable") not in ("false", "xla_late")


# conditional(c, x0, f0, x1, f1, ...) == call(xc, fc); c a constant; out of range means the last
def _known_branch(conditional: Instruction) -> Instruction | None:
    value = splat(conditional.operands[0])
    if value is None:
        return None
    branches = conditional.called_computations
    if conditional.operands[0].shape.dtype.name == "pred":
        index = 0 if value else 1
    else:
        index = int(value) if 0 <= int(value) < len(branches) else len(branches) - 1
    call = Instruction(
        "call", "call", conditional.shape, [conditional.operands[index + 1]], {"to_apply": branches[index]}
    )
    assert conditional.parent is not None
    conditional.parent.add(call)
    call.copy_annotations(conditional)
    call.backend_config = ""
    conditional.transfer_control_dependencies_to(call)
    conditional.replace_all_uses_with(call)
    conditional.parent.remove(conditional)
    return call
