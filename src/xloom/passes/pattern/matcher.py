"""Finds where a pattern matches: a search with backtracking over operand orders, choices and dimensions."""

from __future__ import annotations

from collections.abc import Collection, Iterator
from math import prod

from xloom.hlo.instruction import Instruction
from xloom.passes.pattern.candidates import Candidate, Candidates, is_bound
from xloom.passes.pattern.constraint import constant_differs
from xloom.passes.pattern.dims import of_result, of_turned_result
from xloom.passes.pattern.match import Match, Miss, Misses
from xloom.passes.pattern.operators import Goal, Goals, Mismatch
from xloom.passes.pattern.pattern import Variant, opcodes_of
from xloom.passes.pattern.views import core, is_view, wide

_MOST_STEPS = 50_000
_GIVEN_UP = Mismatch("the search was given up; there are too many orders of operands")


class Matcher:
    """Looks for one variant of a pattern at given places."""

    def __init__(self, variant: Variant):
        self.variant = variant
        self.roots = opcodes_of(variant.outputs[variant.anchor])
        self._begin(())

    def match(self, place: Instruction, outside: Collection[Instruction] = ()) -> Match | None:
        """The match that gives `place` as the anchor output; None, with the reason in `miss`, if there is none.

        The operators `outside` may be no part of it.
        """
        self._begin(outside)
        anchor = self.variant.anchor
        for found in self._match_output(Match(self.variant), anchor, place):
            rest = [k for k in range(len(self.variant.outputs)) if k != anchor]
            whole = self._match_rest(found, {anchor: place}, rest)
            if whole is not None:
                return whole
        return None

    def order_at(self, place: Instruction) -> tuple[int, ...] | None:
        """The order of the dimensions of a dot in which it would be the anchor output; None where there is none."""
        output = self.variant.outputs[self.variant.anchor]
        misses = self._misses
        self._begin(())
        wide_dims = wide(place.shape)
        for dims in of_turned_result(output.shape, place.shape):
            if self._search(Match(self.variant), [Goal(output, place, dims)]) is not None:
                moved = dict(zip(wide_dims, (d for entry in dims for d in entry.program), strict=True))
                return tuple(moved.get(k, k) for k in range(place.shape.rank))
        self._misses = misses
        return None

    @property
    def miss(self) -> Miss:
        """The farthest that the last `match` came, if it gave none."""
        return self._misses.farthest

    def _begin(self, outside: Collection[Instruction]) -> None:
        self._misses = Misses()
        self._candidates = Candidates(self.variant, self._misses, outside)
        self._steps = 0

    def _match_output(self, match: Match, number: int, place: Instruction) -> Iterator[Match]:
        output = self.variant.outputs[number]
        for dims in of_result(output.shape, place.shape) if place.shape.is_array else [None]:
            self._misses.about_dims = False
            begun = match.copy()
            if number == self.variant.anchor:
                begun.unused = sum(not entry.program for entry in dims or ())
            found = self._search(begun, [Goal(output, place, dims)])
            if found is not None:
                found.values.setdefault(output, (place, dims))  # a choice or a view, too
                yield found
            elif not self._misses.about_dims:
                return

    def _match_rest(self, match: Match, places: dict[int, Instruction], rest: list[int]) -> Match | None:
        if not rest:
            match.outputs = [places[k] for k in range(len(places))]
            return match
        number, *others = rest
        for place in self._places(match, self.variant.outputs[number]):
            for found in self._match_output(match, number, place):
                whole = self._match_rest(found, {**places, number: place}, others)
                if whole is not None:
                    return whole
        return None

    def _places(self, match: Match, output: Instruction) -> list[Instruction]:
        """Where another output may be: at its match if it is inside already, else among users of what is matched."""
        inner = core(output)
        if inner in match.values:
            return with_views(match.values[inner][0])
        opcodes = opcodes_of(output)
        seen: dict[Instruction, None] = dict.fromkeys([*match.operands.values(), *match.inside])
        found: dict[Instruction, None] = {}
        frontier = list(seen)
        for _ in range(self.variant.size + 1):
            frontier = [u for i in frontier for u in i.users if u not in seen]
            seen.update(dict.fromkeys(frontier))
            for user in frontier:
                if core(user).opcode in opcodes:
                    found.setdefault(user)
        return list(found)

    def _search(self, match: Match, goals: Goals) -> Match | None:
        while goals:
            self._steps += 1
            goal = goals.pop()
            if self._steps > _MOST_STEPS:
                self._misses.add(match, goal.pattern, goal.program, _GIVEN_UP)
                return None
            candidates = self._candidates.at(match, goal)
            if not candidates:
                return None
            if len(candidates) > 1:
                for candidate in candidates:
                    branch = match.copy()
                    if self._take(branch, goal, candidate):
                        found = self._search(branch, [*goals, *reversed(candidate.goals)])
                        if found is not None:
                            return found
                return None
            if not self._take(match, goal, candidates[0]):
                return None
            goals.extend(reversed(candidates[0].goals))
        for pattern, program in match.counts:
            reason = constant_differs(pattern, program, lambda name: _count(match, name))
            if reason:
                self._misses.add(match, pattern, program, Mismatch(reason))
                return None
        return match

    def _take(self, match: Match, goal: Goal, candidate: Candidate) -> bool:
        match.inside.update(dict.fromkeys(candidate.views))
        if candidate.choice is not None:
            match.choices[candidate.choice] = candidate.goals[0].pattern
        if candidate.operand is None:
            return True
        parameter = core(goal.pattern)
        bound = match.values.setdefault(parameter, (candidate.operand, candidate.dims))
        if bound[0] is not candidate.operand and is_bound(candidate, bound):
            match.aliases[candidate.operand] = bound[0]
            return True
        if bound != (candidate.operand, candidate.dims):
            reason = f"{candidate.operand.name} is not {bound[0].name}, which {parameter.name} already stands for"
            if bound[0] is candidate.operand:
                reason = f"{candidate.operand.name} is used with its dimensions in another order"
            self._misses.add(match, parameter, candidate.operand, Mismatch(reason, about_dims=True))
            return False
        match.operands[parameter] = candidate.operand
        return True


def with_views(value: Instruction) -> list[Instruction]:
    """`value`, and the views of it that may stand for it, nearest first."""
    found = [value]
    for instruction in found:
        found.extend(u for u in instruction.users if is_view(u) and u not in found)
    return found


def _count(match: Match, name: str) -> int | None:
    """How many elements the program's reduction for the pattern's `name` combines."""
    for pattern, (program, _) in match.values.items():
        if pattern.name == name and program.opcode == "reduce":
            return prod(program.operands[0].shape.dims[d] for d in program["dimensions"])
    return None
