"""Outlining: what matches a pattern becomes a custom call that carries the matched HLO."""

from __future__ import annotations

import sys
from dataclasses import dataclass, field
from typing import Any

from xloom.calls.acceptance import refusal
from xloom.calls.match_description import MatchDescription
from xloom.calls.registry import ABIS, Registration, registered
from xloom.errors import PassError, near
from xloom.hlo.call_graph import callees_first
from xloom.hlo.computation import Computation
from xloom.hlo.instruction import Instruction, map_called
from xloom.hlo.module import Module
from xloom.hlo.names import sanitize
from xloom.hlo.shape import Shape, results_shape
from xloom.hlo.stack_frames import keep_used_frames
from xloom.passes.base import Pass, pin_roots, register
from xloom.passes.call_inlining import CallInlining
from xloom.passes.call_layouts import RESULT, CallLayouts, explicit
from xloom.passes.computation_inlining import with_layout
from xloom.passes.effects import Effects
from xloom.passes.pattern.bindings import UnboundError, bound_values, version_of
from xloom.passes.pattern.hints import hint_of_miss, hint_of_refusal
from xloom.passes.pattern.match import Match, Miss
from xloom.passes.pattern.matcher import Matcher, with_views
from xloom.passes.pattern.pattern import Pattern
from xloom.passes.pattern.region import Refusal, Region, is_dead_part, operands_first, region
from xloom.passes.pattern.report import Found, NearMiss, Place, report_text
from xloom.passes.pattern.sources import find_pattern
from xloom.passes.pattern.views import is_view
from xloom.passes.transposed_result import turn, turn_back
from xloom.passes.tuple_simplification import TupleSimplification

_MOST_TRIES = 4
_RUNS_CALLEES = frozenset({"call", "while", "conditional"})


@dataclass
class Outlined:
    """What outlining did: the matches that became calls, and the places that nearly matched."""

    found: list[Found] = field(default_factory=list)
    missed: list[NearMiss] = field(default_factory=list)


@register
@dataclass(frozen=True)
class Outline(Pass):
    """Replaces each match of a pattern by a custom call to `target` that carries the matched HLO.

    `pattern` is a name of the library (gelu, softmax, ...), one given with `add_pattern`, or the path of a .hlo file.
    The call's operands are what the pattern's parameters stand for. Its backend config says what was matched, by name,
    and has under the name `hlo` a module that computes what the match computed, so that `expand` undoes it: attributes
    of a typed call, JSON otherwise. Matches that a registered kernel does not take (its `when`) stay as they are.
    `escaping` makes values inside that others use outputs of the call, where they are else a reason not to outline;
    `report` prints matches and near misses on standard error. `api_version` is one of original, status-returning,
    status-returning-unified and typed-ffi, by default what the kernel is known to have, else original.

    Operands and results are row-major, by copies where the program has them otherwise, and constrained to be. `layouts`
    is as-is for those of the program, or names what is to be otherwise: `layouts="k={2,3,1,0},result={0,1}"`, by
    default as the kernel asks for.
    """

    name = "outline"
    pattern: str
    target: str
    escaping: bool = False
    report: bool = False
    api_version: str = ""
    layouts: str = ""

    def run(self, module: Module) -> bool:
        """See the class. Raises PassError when there is no such pattern."""
        pattern = find_pattern(self.pattern)
        done = outline_pattern(
            module,
            pattern,
            self.target,
            escaping=self.escaping,
            api_version=self.api_version,
            layouts=self.layouts,
        )
        if self.report:
            print(report_text(pattern.name, self.target, done.found, done.missed), file=sys.stderr)
        return bool(done.found)


def outline_pattern(
    module: Module,
    pattern: Pattern,
    target: str,
    *,
    escaping: bool = False,
    api_version: str = "",
    layouts: str = "",
) -> Outlined:
    """Outlines in place, as the pass does, and says what matched and what nearly did. Raises as the pass does.

    Calls of functions are inlined first, where that finds more. Matches do not overlap: those that end last are
    taken first. A near miss has at least two instructions and half of the pattern; where there is neither match nor
    near miss, the farthest that the search came is given.
    """
    kernels = [kernel for kernel in registered() if kernel.name == target]
    wanted = layouts or next((kernel.layouts for kernel in kernels if kernel.layouts), "")
    operands = tuple(dict.fromkeys(p.name for variant in pattern.variants for p in variant.parameters))
    callee = _Callee(target, kernels, _version(api_version, kernels), CallLayouts.parse(wanted), operands)
    matchers = [Matcher(v) for v in pattern.variants]
    if _calls(module) and not any(_calls(variant.module) for variant in pattern.variants):
        plain, inlined = module.clone(""), module.clone("")
        _inline(inlined)
        with_calls, without = (_search(each, pattern, matchers, callee, escaping) for each in (plain, inlined))
        if not without.found and not with_calls.found:
            return without
        if len(without.found) > len(with_calls.found):
            _inline(module)
    return _search(module, pattern, matchers, callee, escaping)


def _inline(module: Module) -> None:
    """Puts functions in the place of their calls, and their results in the place of parts of tuples of them."""
    CallInlining().run(module)
    TupleSimplification().run(module)


def _calls(module: Module) -> bool:
    return any(i.opcode == "call" for i in module.instructions)


def _search(module: Module, pattern: Pattern, matchers: list[Matcher], callee: _Callee, escaping: bool) -> Outlined:
    pin_roots(module)
    done = Outlined()
    effects = Effects()
    for computation in _plain_computations(module):
        _Search(computation, pattern, matchers, callee, effects, escaping).run(done)
    near = [miss for miss in done.missed if miss.matched >= 2 and 2 * miss.matched >= miss.of]
    if not near and not done.found:
        near = sorted(done.missed, key=lambda miss: miss.matched / miss.of)[-1:]
    done.missed = near
    return done


def _plain_computations(module: Module) -> list[Computation]:
    """The computations that run as they are: not those of fusions, reductions and the like."""
    other = {
        callee
        for top in module.computations
        for i in top
        if i.opcode not in _RUNS_CALLEES
        for callee in callees_first(i.called_computations)
    }
    return [c for c in callees_first([module.entry]) if c not in other]


@dataclass(frozen=True)
class _Callee:
    """What the calls call: a target, the kernels that have its name, and how they are called."""

    target: str
    kernels: list[Registration]
    api_version: str
    layouts: CallLayouts
    operands: tuple[str, ...]
    """What the pattern calls operands: a match may have some of them only."""


def _version(wanted: str, kernels: list[Registration]) -> str:
    known = {kernel.abi for kernel in kernels if kernel.abi is not None}
    abi = wanted or (known.pop() if len(known) == 1 else "original")
    if abi not in ABIS:
        raise PassError(f"there is no api_version {abi!r}", hint=near(abi, ABIS) or f"one of: {', '.join(ABIS)}")
    return ABIS[abi]


@dataclass(frozen=True)
class _Taken:
    """A match that a call can replace: what the call holds and says; of the match what Match says."""

    part: Region
    description: MatchDescription
    size: int
    unused: int
    aliases: dict[Instruction, Instruction]


class _Search:
    """Looks for a pattern in one computation, and outlines what it finds."""

    def __init__(
        self,
        computation: Computation,
        pattern: Pattern,
        matchers: list[Matcher],
        callee: _Callee,
        effects: Effects,
        escaping: bool,
    ):
        self.computation = computation
        self.pattern = pattern
        self.matchers = matchers
        self.callee = callee
        self.effects = effects
        self.escaping = escaping
        self.unused = 0
        """The least that a reading which the pattern does not allow has no use for, where the search is now."""

    def run(self, done: Outlined) -> None:
        """Replaces what matches, last first, each before the next is looked for, and notes it in `done`."""
        missed: list[tuple[Instruction, NearMiss]] = []
        for anchor in reversed(self.computation.post_order()):
            if anchor.parent is None:
                continue  # part of a match
            found = self._at(anchor)
            if isinstance(found, NearMiss):
                missed.append((anchor, found))
            elif found is not None:
                for alias, operand in found.aliases.items():
                    alias.replace_all_uses_with(operand)
                done.found.append(Found(Place.of(found.part.outputs[0]), found.size, found.description))
                _replace(self.computation, found.part, found.description, self.callee)
        done.missed += [miss for anchor, miss in missed if anchor.parent is not None]

    def _at(self, anchor: Instruction) -> _Taken | NearMiss | None:
        """What becomes of the match at `anchor` or a view of it; of several near misses the nearest.

        Of several ways to read the same computation (heads as a batch, queries as heads) that with a use for most of
        the pattern's dimensions counts: where this is not what the pattern requires, no other is.
        """
        best: NearMiss | None = None
        chosen: _Taken | None = None
        self.unused = sys.maxsize
        for matcher in self.matchers:
            if anchor.opcode not in matcher.roots:
                continue
            for place in _places(matcher, anchor):
                found = self._with(matcher, place)
                if not isinstance(found, _Taken):
                    best = _nearer(best, found)
                elif chosen is None or found.unused < chosen.unused:
                    chosen = found
                if chosen is not None and not chosen.unused:
                    return chosen
        if chosen is None and anchor.opcode == "dot" and self.unused == sys.maxsize:
            chosen = self._turned(anchor)
        return chosen if chosen is not None and chosen.unused <= self.unused else best

    def _turned(self, anchor: Instruction) -> _Taken | None:
        """The match that gives a dot with its dimensions in another order; it is then also there in that order."""
        for matcher in self.matchers:
            order = matcher.order_at(anchor) if anchor.opcode in matcher.roots else None
            if order is None:
                continue
            turned = turn(anchor, order)
            found = self._with(matcher, turned)
            if isinstance(found, _Taken):
                return found
            turn_back(turned)
        return None

    def _with(self, matcher: Matcher, place: Instruction) -> _Taken | NearMiss | None:
        """What a matcher finds at `place`. What others use is tried as an operand, if the pattern has one there."""
        size = matcher.variant.size
        best: NearMiss | None = None
        outside: set[Instruction] = set()
        while (match := matcher.match(place, outside)) is not None:
            found = self._taken(match, place)
            if isinstance(found, _Taken):
                return found
            if found.required:
                self.unused = min(self.unused, match.unused)
            stands = Place.of(found.place)
            best = best or NearMiss(Place.of(place), size, size, found.reason, stands, None, hint_of_refusal(found))
            if not found.escapes or found.place in outside or len(outside) == _MOST_TRIES:
                return best
            outside.add(found.place)
        return best or _near_miss(place, matcher, matcher.miss)

    def _taken(self, match: Match, place: Instruction) -> _Taken | Refusal:
        """What a call would hold and say, or why there is none."""
        part = region(match, self.effects, self.escaping)
        if isinstance(part, Refusal):
            return part
        module = match.variant.module
        try:
            values = bound_values(match)
        except UnboundError as error:
            return Refusal(str(error), place, required=True)
        version = version_of(module)
        description = MatchDescription(self.pattern.name, version, module.entry.name, part.names, values)
        refused = next(filter(None, (refusal(kernel, description) for kernel in self.callee.kernels)), "")
        return (
            Refusal(refused, place) if refused else _Taken(part, description, match.size, match.unused, match.aliases)
        )


def _places(matcher: Matcher, anchor: Instruction) -> list[Instruction]:
    """Where a match may end: what the pattern itself arranges is best looked for behind the program's views."""
    value, *views = with_views(anchor)
    variant = matcher.variant
    return [*views, value] if is_view(variant.outputs[variant.anchor]) else [value, *views]


def _near_miss(place: Instruction, matcher: Matcher, miss: Miss) -> NearMiss | None:
    if miss.pattern is None or miss.program is None:
        return None
    size = matcher.variant.size
    matched = max(0, min(miss.matched, size - 1))
    hint = hint_of_miss(miss.pattern, miss.program)
    return NearMiss(Place.of(place), matched, size, miss.reason, Place.of(miss.program), str(miss.pattern), hint)


def _nearer(one: NearMiss | None, other: NearMiss | None) -> NearMiss | None:
    if one is None or other is None:
        return one or other
    return other if other.matched * one.of > one.matched * other.of else one


def _replace(computation: Computation, part: Region, description: MatchDescription, callee: _Callee) -> None:
    """Puts a call that carries `part` in its place."""
    assert computation.module is not None
    carried = _carried(part, description.pattern, computation.module)
    call = _call(computation, part, carried.entry.root.shape, callee)
    hlo = carried.to_text(print_large_constants=True)
    call.backend_config = description.to_text(hlo, typed=callee.api_version == ABIS["typed-ffi"])
    call.metadata = part.outputs[0].metadata
    call.sharding = part.outputs[0].sharding if len(part.outputs) == 1 else None
    inside = set(part.inside)
    for number, output in enumerate(part.outputs):
        value = call
        if len(part.outputs) > 1:
            shape = call.shape.elements[number]
            value = Instruction(output.name, "get-tuple-element", shape, [call], {"index": number})
            value.metadata = output.metadata
            computation.add(value)
        value = with_layout(value, output.shape, [])
        for user in output.users:
            for k, operand in enumerate(user.operands):
                if operand is output and user not in inside:
                    user.replace_operand(k, value)
        if computation.root is output:
            computation.root = value
    for instruction in reversed(operands_first(part.inside)):
        for user in filter(is_dead_part, instruction.users):
            computation.remove(user)
        if instruction.is_dead:
            computation.remove(instruction)


def _call(computation: Computation, part: Region, result: Shape, callee: _Callee) -> Instruction:
    """The call, with operands and result in the layouts that it is to have; adds it and what that takes."""
    results = [RESULT] if len(part.outputs) == 1 else [f"{RESULT}.{k}" for k in range(len(part.outputs))]
    unknown = callee.layouts.unknown([*part.names, *callee.operands, *results])
    if unknown:
        known = ", ".join([*dict.fromkeys([*part.names, *callee.operands]), *results])
        raise PassError(f"there is no operand {unknown[0]!r} to lay out", where=callee.target, hint=f"it has: {known}")
    placed: dict[tuple[Instruction, Shape], Instruction] = {}
    operands = []
    for name, operand in zip(part.names, part.operands, strict=True):
        shape = callee.layouts.of(name, operand.shape)
        key = operand, shape
        if key not in placed:
            placed[key] = with_layout(operand, shape, [])
        operands.append(placed[key])
    attributes: dict[str, Any] = {"custom_call_target": callee.target}
    if callee.api_version != ABIS["original"]:
        attributes["api_version"] = callee.api_version
    shape = callee.layouts.of(RESULT, result)
    if not callee.layouts.as_is:
        shape = explicit(shape)
        attributes["operand_layout_constraints"] = tuple(explicit(operand.shape) for operand in operands)
    return computation.add(Instruction(callee.target, "custom-call", shape, operands, attributes))


def _carried(part: Region, name: str, host: Module) -> Module:
    """The module that computes the outputs of `part` from its operands."""
    name = sanitize(name)  # a function's may be <lambda>
    module = Module(name)
    entry = Computation(f"{name}.entry")
    values: dict[Instruction, Instruction] = {}
    for number, (operand, parameter) in enumerate(zip(part.operands, part.names, strict=True)):
        new = Instruction(parameter, "parameter", operand.shape, (), {"parameter_number": number})
        values.setdefault(operand, entry.add(new))
    for old in operands_first(part.inside):
        new = values[old] = entry.add(old.clone([values[o] for o in old.operands]))
        new.attrs.pop("origin", None)  # the names in it are those of another program
    outputs = [values[o] for o in part.outputs]
    root = outputs[0]
    if len(outputs) > 1:
        root = entry.add(Instruction("outputs", "tuple", results_shape([o.shape for o in outputs]), outputs))
    entry.root = root
    clones: dict[Computation, Computation] = {}
    for computation in callees_first([entry])[:-1]:
        clone = clones[computation] = computation.clone("", module)
        for instruction in clone:
            map_called(instruction, clones.__getitem__)
    for instruction in entry:
        map_called(instruction, clones.__getitem__)
    module.add(entry, entry=True)
    module.stack_frames = host.stack_frames
    keep_used_frames(module)
    return module
