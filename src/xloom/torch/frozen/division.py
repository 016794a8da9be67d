"""A module in two: what is computed of some of its parameters alone, and all else, which is given that."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass

from xloom.hlo.computation import Computation
from xloom.hlo.instruction import Instruction
from xloom.hlo.module import Module
from xloom.hlo.shape import tuple_shape
from xloom.passes import run_passes

_COPIES = frozenset({"reshape", "get-tuple-element", "tuple", "bitcast"})
"""What has the memory of its operand."""


@dataclass(frozen=True)
class Division:
    """Two modules of what was one."""

    weights: Module
    """Of `taken`, parameters of the whole: a tuple of what is computed of them."""
    rest: Module
    """Of `kept`, parameters of the whole, and behind them the elements of that tuple: the result."""
    taken: list[int]
    kept: list[int]


def computed_of(computation: Computation, static: Collection[int]) -> set[Instruction]:
    """What is computed of these parameters and constants alone, the parameters among it."""
    found: set[Instruction] = set()
    weightless: set[Instruction] = set()
    for i in computation.post_order():
        if i.opcode == "parameter":
            if i["parameter_number"] in static:
                found.add(i)
        elif not i._operands:
            if i.opcode in ("constant", "iota"):
                weightless.add(i)
        elif i.has_control_dependencies or i.opcode in _CALLS:
            continue
        elif all(o in found or o in weightless for o in i._operands) and i.opcode not in _EFFECTS:
            (found if any(o in found for o in i._operands) else weightless).add(i)
    return found


_CALLS = frozenset({"while", "conditional", "call", "custom-call", "fusion", "async-start"})
_EFFECTS = frozenset({"custom-call", "rng", "rng-bit-generator", "rng-get-and-update-state", "infeed", "outfeed"})


def divided(module: Module, static: Collection[int]) -> Division | None:
    """The two parts; None where nothing is computed of the static parameters that is worth being kept."""
    static_values = computed_of(module.entry, static)
    given: dict[Instruction, None] = {}
    for i in module.entry.post_order():
        if i in static_values and i.opcode != "parameter":
            continue
        for operand in i._operands:
            if operand in static_values:
                _keep(operand, static_values, given)
    if module.entry.root in static_values or not given:
        return None
    numbers = {i["parameter_number"]: i for i in module.entry.parameters}
    weights, rest = module.clone("weights"), module.clone("")
    places = {old: k for k, old in enumerate(module.entry)}
    taken = _cut(weights, [list(weights.entry)[places[i]] for i in given])
    others = list(rest.entry)
    count = len(numbers)
    for k, i in enumerate(given):
        new = rest.entry.add(Instruction(f"kept.{k}", "parameter", i.shape, (), {"parameter_number": count + k}))
        others[places[i]].replace_all_uses_with(new)
    run_passes(rest, "dce", verify=False)
    kept = _renumbered(rest, range(count))
    return Division(weights, rest, taken, kept)


def spelled(module: Module) -> str:
    """What a module computes, whatever its instructions' names are."""
    copy = module.clone("")
    for k, i in enumerate(copy.entry.post_order()):
        i.name = f"v{k}"
    return copy.to_text(print_large_constants=True, print_metadata=False)


def _keep(value: Instruction, static: Collection[Instruction], given: dict[Instruction, None]) -> None:
    """Notes what is to be kept of a value: its operands where it is as quickly made of them, or in their memory."""
    stack = [value]
    while stack:
        i = stack.pop()
        if i not in static or i.opcode == "parameter":
            continue
        largest = max(o.shape.nbytes if o.shape.is_array else 0 for o in i._operands)
        if not i.shape.is_array or i.opcode in _COPIES or i.shape.nbytes > largest:
            stack += i._operands
        else:
            given[i] = None


def _cut(module: Module, values: list[Instruction]) -> list[int]:
    """Makes these the result. The numbers that the parameters had that are left."""
    entry = module.entry
    entry.root = entry.add(Instruction("kept", "tuple", tuple_shape([v.shape for v in values]), values))
    run_passes(module, "dce", verify=False)
    return _renumbered(module, range(len(entry.parameters)))


def _renumbered(module: Module, old: range) -> list[int]:
    """Removes unused parameters of those that have `old` numbers, and numbers the others anew."""
    entry, left = module.entry, []
    for parameter in sorted(entry.parameters, key=lambda p: p["parameter_number"]):
        number = parameter["parameter_number"]
        if number in old and parameter.is_dead:
            entry.remove(parameter)
            continue
        if number in old:
            left.append(number)
        parameter["parameter_number"] = len(left) - 1 if number in old else number - len(old) + len(left)
    module.config.parameter_layouts = None
    module.config.result_layout = None
    return left
