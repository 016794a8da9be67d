"""Random connected parts of random programs as patterns, outlined and expanded again."""

import random
from dataclasses import dataclass

from tests.judges.programs import generate
from tests.passes.pattern.roundtrip import expanded, same
from xloom.errors import PassError
from xloom.hlo.call_graph import callees_first
from xloom.hlo.computation import Computation
from xloom.hlo.instruction import Instruction, map_called
from xloom.hlo.module import Module
from xloom.interpreter import evaluate
from xloom.passes import outline_pattern, run_passes
from xloom.passes.effects import Effects
from xloom.passes.hooks import difference
from xloom.passes.pattern import Pattern, pattern_of


def part_of(module: Module, chance: random.Random) -> dict[Instruction, None]:
    """Some instruction of the entry, and some of what it is computed from."""
    candidates = [i for i in module.entry if i.opcode not in ("parameter", "constant", "tuple")]
    if not candidates:
        return {}
    depth = chance.choice((0.7, 0.9, 1.0))
    tops = chance.sample(candidates, min(4, len(candidates)))
    return max((_reached(top, depth, chance) for top in tops), key=len)


def _reached(top: Instruction, depth: float, chance: random.Random) -> dict[Instruction, None]:
    chosen = {top: None}
    stack = [top]
    while stack:
        for operand in stack.pop().operands:
            if operand.opcode != "parameter" and operand not in chosen and chance.random() < depth:
                chosen[operand] = None
                stack.append(operand)
    return chosen


def is_whole(part: dict[Instruction, None]) -> bool:
    """True when nothing but the last value leaves the part, and nothing in it has an effect."""
    top = next(iter(part))
    effects = Effects()
    alone = all(i is top or (not i.is_root and all(u in part for u in i.users)) for i in part)
    return alone and not any(effects.of(i) or i.op.has_effect for i in part)


def name_branches(module: Module) -> None:
    """Says true and false where a conditional has a predicate, as text must."""
    for instruction in module.instructions:
        if instruction.opcode == "conditional" and instruction.operands[0].shape.dtype.name == "pred":
            branches = instruction.called_computations
            instruction.attrs = {"true_computation": branches[0], "false_computation": branches[1]}


def as_pattern(part: dict[Instruction, None], exact: bool) -> Pattern | None:
    """The part with parameters for what it needs; None if it computes nothing."""
    module = Module("part")
    entry = Computation("part")
    copies: dict[Instruction, Instruction] = {}
    order = [i for i in next(iter(part)).parent.post_order() if i in part]  # type: ignore[union-attr]
    for old in order:
        for operand in old.operands:
            if operand not in part and operand not in copies:
                number = {"parameter_number": sum(c.opcode == "parameter" for c in copies.values())}
                copies[operand] = entry.add(Instruction(f"in.{operand.name}", "parameter", operand.shape, (), number))
        copies[old] = entry.add(old.clone([copies[o] for o in old.operands]))
    entry.root = copies[next(iter(part))]
    clones: dict[Computation, Computation] = {}
    for computation in callees_first([entry])[:-1]:
        clones[computation] = computation.clone("", module)
        for instruction in clones[computation]:
            map_called(instruction, clones.__getitem__)
    for instruction in entry:
        map_called(instruction, clones.__getitem__)
    module.add(entry, entry=True)
    if exact:
        module.frontend_attributes["shapes"] = "exact"
    try:
        return pattern_of(module, "part")
    except PassError:
        return None


@dataclass(frozen=True)
class Outcome:
    """What became of a program: matches that were outlined, and what is wrong, or an empty string."""

    found: int
    wrong: str


def outline_and_expand(seed: int, *, values: bool) -> Outcome | None:
    """Outlines a part of generated program `seed` and expands it: it must be found, and the module be what it was.

    `values` compares those of both modules, too. None when the program has no part that is a pattern.
    """
    program = generate(77, seed)
    run_passes(program.module, "dce")
    name_branches(program.module)
    chance = random.Random(seed)
    part = part_of(program.module, chance)
    pattern = as_pattern(part, chance.random() < 0.5) if part else None
    if pattern is None:
        return None
    module = program.module.clone("")
    done = outline_pattern(module, pattern, "Part", escaping=chance.random() < 0.3)
    found = len(done.found)
    if is_whole(part) and not found:
        return Outcome(0, f"the part is not found: {done.missed}")
    run_passes(module, "")  # verifies
    back = expanded(module)
    if not same(back, program.module):
        return Outcome(found, "the expanded module is another")
    if found and values:
        expected = evaluate(program.module, *program.arguments)
        wrong = difference(expected, evaluate(back, *program.arguments))
        return Outcome(found, f"its values are others: {wrong}" if wrong else "")
    return Outcome(found, "")
