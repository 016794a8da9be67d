"""Where a NaN, or what is not finite, surely shows again, so that it need not be looked for at once.

A leaf of a value is covered when each such element of it gives one in a value that is looked at: that of an instruction
which makes them itself, and so is looked at or covered in turn.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator

from xloom.hlo.computation import Computation
from xloom.hlo.instruction import Instruction
from xloom.hlo.non_finite import has_non_finite_constant, is_inexact, made_by, passes_on

Leaves = frozenset[tuple[int, ...]]
"""Leaves of a shape, by tuple index."""

_NONE: Leaves = frozenset()
_SAME = frozenset(("opt-barrier", "add-dependency", "domain"))
_JOINS = frozenset(("concatenate", "dynamic-update-slice", "scatter"))


def covered_leaves(computation: Computation, result: Leaves, kinds: Collection[str]) -> dict[Instruction, Leaves]:
    """For each instruction the leaves of its value that are covered, where those of the computation's `result` are."""
    found: dict[Instruction, Leaves] = {}
    whole = joined_results(computation, kinds)
    states: dict[Instruction, Leaves] = {}
    for instruction in reversed(computation.post_order()):
        leaves = set(result if instruction is computation.root else ())
        for user in instruction.users:
            for number in user._places_of(instruction):
                is_looked_at = user in whole or _is_looked_at(user, kinds)
                leaves.update(_through(user, number, found[user], states.get(user, _NONE), kinds, is_looked_at))
        found[instruction] = frozenset(leaves)
        if instruction.opcode == "while":
            states[instruction] = covered_state(instruction, found[instruction], kinds)
    return found


def joined_results(computation: Computation, kinds: Collection[str]) -> frozenset[Instruction]:
    """Results that arrays are joined in, or written into, and that are looked at instead of these.

    What is looked at in an array that is fused with its user is computed twice; the result is there to be read.
    """
    root = computation.root
    results = root.operands if root.opcode == "tuple" else [root]
    return frozenset(r for r in results if r.opcode in _JOINS and is_inexact(r.shape) and _is_mostly_made(r, kinds))


def _is_mostly_made(result: Instruction, kinds: Collection[str]) -> bool:
    made = [
        operand.shape.size
        for number, operand in enumerate(result.operands)
        if operand.op.elementwise and _is_looked_at(operand, kinds) and passes_on(result, number, kinds)
    ]
    return 2 * sum(made) >= result.shape.size > 0


def covered_state(loop: Instruction, result: Leaves, kinds: Collection[str]) -> Leaves:
    """The leaves of a loop's state that are covered at the begin of each iteration, and at its end."""
    body = loop["body"]
    (state,) = body.parameters
    leaves = result
    while leaves:  # what one iteration passes on to the next, which does so in turn
        kept = leaves & covered_leaves(body, leaves, kinds)[state]
        if kept == leaves:
            break
        leaves = kept
    return leaves


def _through(
    user: Instruction, number: int, value: Leaves, state: Leaves, kinds: Collection[str], is_looked_at: bool
) -> Iterator[tuple[int, ...]]:
    """The leaves of an operand that are covered as those of the user's value are."""
    if user.opcode == "tuple":
        yield from (leaf[1:] for leaf in value if leaf[0] == number)
    elif user.opcode == "get-tuple-element":
        yield from ((user["index"], *leaf) for leaf in value)
    elif user.opcode in _SAME:
        yield from value if number == 0 else _NONE
    elif user.opcode == "while":
        yield from state
    elif user.shape.is_array and (value or is_looked_at) and passes_on(user, number, kinds):
        yield ()


def _is_looked_at(user: Instruction, kinds: Collection[str]) -> bool:
    """Whether all that its value has is, unless it is covered: of a constant infinity it is asked what it makes."""
    return bool(made_by(user) & frozenset(kinds)) and not has_non_finite_constant(user)
