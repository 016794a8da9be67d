"""What to do about a place that nearly matched: the pass or option that would help, where there is one."""

from __future__ import annotations

from xloom.hlo.instruction import Instruction
from xloom.passes.carried_hlo import carries_hlo
from xloom.passes.match import splat
from xloom.passes.pattern.constraint import attributes_differ
from xloom.passes.pattern.region import Refusal

_PASSES = {
    "call": "run call-inlining first",
    "fusion": "run fusion-inlining{custom=true} first",
    "get-tuple-element": "run tuple-simplification first",
    "tuple": "run tuple-simplification first",
}


def hint_of_refusal(refusal: Refusal) -> str:
    """The option that would let a match be cut out, or an empty string."""
    return "escaping=true makes it an output of the call" if refusal.escapes else ""


def hint_of_miss(pattern: Instruction, program: Instruction) -> str:
    """What would make `program` match where the pattern has `pattern`, or an empty string."""
    if program.opcode != pattern.opcode:
        if carries_hlo(program):
            return f"run expand{{target={program['custom_call_target']}}} first: the call carries HLO"
        if pattern.opcode == "constant" and not program.operands:
            return "" if program.opcode != "parameter" else "a parameter of the pattern matches any value"
        return _PASSES.get(program.opcode, "")
    if pattern.opcode == "constant":
        if splat(program) is None:
            return "run algebraic-simplification,constant-folding first, or make it a parameter of the pattern"
        return 'frontend_attributes={value="any"} on the pattern\'s constant lets it be any, and binds it'
    if attributes_differ(pattern, program):
        return 'frontend_attributes={NAME="any"} or NAME="this|that" in the pattern allows other attributes'
    return ""
