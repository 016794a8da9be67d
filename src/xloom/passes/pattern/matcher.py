"""Finds where a pattern matches: a search with backtracking over operand orders, choices and dimensions."""

from __future__ import annotations

from collections.abc import Collection, Iterator
from dataclasses import dataclass, field
from math import prod

import numpy as np

from xloom.hlo.dtype import DType
from xloom.hlo.instruction import Instruction
from xloom.passes.match import splat
from xloom.passes.pattern.constraint import constant_differs, counted, stands_for_any
from xloom.passes.pattern.dims import Dims, along, in_order, of_result, taken_apart, through_program, without_broadcast
from xloom.passes.pattern.operators import Goal, Goals, Mismatch, below_views, operand_goals
from xloom.passes.pattern.pattern import Variant, is_choice, opcodes_of
from xloom.passes.pattern.scalar_constants import as_constant
from xloom.passes.pattern.views import core, is_view

_MOST_STEPS = 50_000


@dataclass
class Match:
    """Where a variant of a pattern was found."""

    variant: Variant
    outputs: list[Instruction] = field(default_factory=list)
    """The program's value for each output of the pattern."""
    operands: dict[Instruction, Instruction] = field(default_factory=dict)
    """The program's value for each parameter that the match reaches."""
    inside: dict[Instruction, None] = field(default_factory=dict)
    """Every instruction that the match replaces: operators, constants, and views between them."""
    values: dict[Instruction, tuple[Instruction, Dims | None]] = field(default_factory=dict)
    dtypes: dict[str, DType] = field(default_factory=dict)
    counts: list[tuple[Instruction, Instruction]] = field(default_factory=list)
    """Constants to check when all reductions are known."""
    constants: dict[Instruction, np.generic] = field(default_factory=dict)
    """The program's number for each constant of the pattern that stands for any, or for one of known value."""
    choices: dict[Instruction, Instruction] = field(default_factory=dict)
    """The operand of each choice of the pattern that matched."""
    arrays: dict[Instruction, None] = field(default_factory=dict)
    """The program's constants that stand for any value and are not one number: a call takes them as operands."""
    folded: dict[Instruction, None] = field(default_factory=dict)
    """Instructions inside that compute scalars from constants alone."""

    @property
    def size(self) -> int:
        """How many operators the match holds, views and constants not counted."""
        return sum(not is_view(i) and i.opcode != "constant" for i in self.inside)

    def copy(self) -> Match:
        """For a search that may come back."""
        return Match(
            self.variant,
            list(self.outputs),
            dict(self.operands),
            dict(self.inside),
            dict(self.values),
            dict(self.dtypes),
            list(self.counts),
            dict(self.constants),
            dict(self.choices),
            dict(self.arrays),
            dict(self.folded),
        )


@dataclass
class Miss:
    """The farthest that a failed search came."""

    matched: int = -1
    reason: str = ""
    pattern: Instruction | None = None
    program: Instruction | None = None


@dataclass
class _Candidate:
    """One of several lists of goals to go on with."""

    goals: Goals
    operand: Instruction | None = None
    views: tuple[Instruction, ...] = ()
    dims: Dims = ()
    choice: Instruction | None = None


class Matcher:
    """Looks for one variant of a pattern at given places."""

    def __init__(self, variant: Variant):
        self.variant = variant
        self.roots = opcodes_of(variant.outputs[variant.anchor])
        self.miss = Miss()
        self._steps = 0
        self._about_dims = False
        self._outside: Collection[Instruction] = ()
        self._folded: dict[Instruction, tuple[Instruction, tuple[Instruction, ...]] | None] = {}

    def match(self, place: Instruction, outside: Collection[Instruction] = ()) -> Match | None:
        """The match that gives `place` as the anchor output; None, with the reason in `miss`, if there is none.

        The operators `outside` may be no part of it.
        """
        self.miss = Miss()
        self._outside = outside
        self._folded = {}
        self._steps = 0
        anchor = self.variant.anchor
        for found in self._match_output(Match(self.variant), anchor, place):
            rest = [k for k in range(len(self.variant.outputs)) if k != anchor]
            whole = self._match_rest(found, {anchor: place}, rest)
            if whole is not None:
                return whole
        return None

    def _match_output(self, match: Match, number: int, place: Instruction) -> Iterator[Match]:
        output = self.variant.outputs[number]
        for dims in of_result(output.shape, place.shape) if place.shape.is_array else [None]:
            self._about_dims = False
            found = self._search(match.copy(), [Goal(output, place, dims)])
            if found is not None:
                yield found
            elif not self._about_dims:
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
            candidates = self._candidates(match, goal)
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
                self._missed(match, pattern, program, reason)
                return None
        return match

    def _take(self, match: Match, goal: Goal, candidate: _Candidate) -> bool:
        match.inside.update(dict.fromkeys(candidate.views))
        if candidate.choice is not None:
            match.choices[candidate.choice] = candidate.goals[0].pattern
        if candidate.operand is None:
            return True
        parameter = core(goal.pattern)
        bound = match.values.setdefault(parameter, (candidate.operand, candidate.dims))
        if bound != (candidate.operand, candidate.dims):
            reason = f"{candidate.operand.name} is not {bound[0].name}, which {parameter.name} already stands for"
            if bound[0] is candidate.operand:
                reason = f"{candidate.operand.name} is used with its dimensions in another order"
            self._missed(match, parameter, candidate.operand, reason, True)
            return False
        match.operands[parameter] = candidate.operand
        return True

    def _candidates(self, match: Match, goal: Goal) -> list[_Candidate]:
        pattern, program = goal.pattern, goal.program
        try:
            if self._steps > _MOST_STEPS:
                raise Mismatch("the search was given up; there are too many orders of operands")
            dims = goal.dims
            views: list[Instruction] = []
            if dims is not None:
                pattern, program, dims = below_views(pattern, program, dims, views)
            if is_choice(pattern):
                inside = tuple(views)
                return [_Candidate([Goal(o, program, dims)], views=inside, choice=pattern) for o in pattern.operands]
            if pattern.opcode == "parameter":
                return self._operands(match, pattern, program, dims, views)
            while is_view(program) and dims is not None:
                if pattern.opcode == "constant" and pattern.shape.is_scalar:
                    dims = ()
                moved = through_program(dims, program) if dims else ()
                if moved is None:
                    raise Mismatch(f"{program.name} arranges dimensions in another way", about_dims=True)
                views.append(program)
                program, dims = program.operands[0], moved
            return self._operator(match, pattern, program, dims, views)
        except Mismatch as mismatch:
            self._missed(match, pattern, program, mismatch.reason, mismatch.about_dims)
            return []

    def _operator(
        self, match: Match, pattern: Instruction, program: Instruction, dims: Dims | None, views: list[Instruction]
    ) -> list[_Candidate]:
        """The candidates that match an operator, or a constant, with what is below the program's views."""
        if pattern.opcode == "constant":
            return self._constant(match, pattern, program, views)
        if pattern.opcode != program.opcode:
            raise Mismatch(f"{program.name} is {program.opcode}, not {pattern.opcode}")
        if program in self._outside:
            raise Mismatch(f"others use {program.name}, too")
        if match.values.get(pattern) == (program, dims):
            return [_Candidate([], views=tuple(views))]
        self._check_type(match, pattern, program)
        views.append(program)
        match.values.setdefault(pattern, (program, dims))
        if dims is not None and program.opcode == "iota":
            dims = along(dims, program["iota_dimension"])
        candidates = []
        missed = None
        apart = [dims] if dims is None or pattern.op.elementwise else list(taken_apart(dims))
        if not apart:
            raise Mismatch(f"{program.name} is not broadcast where the pattern's is", about_dims=True)
        for known in apart:
            try:
                candidates.extend(
                    _Candidate(goals, views=tuple(views)) for goals in operand_goals(pattern, program, known)
                )
            except Mismatch as mismatch:
                missed = mismatch
        if not candidates and missed is not None:
            raise missed
        if len(candidates) < 2:
            return candidates
        promising = [candidate for candidate in candidates if all(_may_match(g) for g in candidate.goals)]
        return promising or candidates[:1]

    def _constant(
        self, match: Match, pattern: Instruction, program: Instruction, views: list[Instruction]
    ) -> list[_Candidate]:
        """The candidate that matches a constant, or a scalar that the program computes from constants."""
        self._check_type(match, pattern, program)
        constant, inside = program, (program,)
        if program.opcode != "constant":
            if program not in self._folded:
                self._folded[program] = as_constant(program)
            folded = self._folded[program]
            if folded is None:
                raise Mismatch(f"{program.name} is {program.opcode}, not constant")
            constant, inside = folded
        if counted(pattern):
            match.counts.append((pattern, constant))
        reason = constant_differs(pattern, constant, lambda _: None)
        if reason:
            raise Mismatch(reason)
        if stands_for_any(pattern):
            value = splat(constant)
            if value is None or constant.shape.dtype.is_complex:
                match.arrays[program] = None
            elif match.constants.setdefault(pattern, value).tobytes() != value.tobytes():
                raise Mismatch(f"{program.name} is {value}, but {pattern.name} stood for {match.constants[pattern]}")
        if program.opcode != "constant":
            match.folded.update(dict.fromkeys(inside))
        return [_Candidate([], views=(*views, *inside))]

    def _operands(
        self,
        match: Match,
        parameter: Instruction,
        program: Instruction,
        dims: Dims | None,
        views: list[Instruction],
    ) -> list[_Candidate]:
        """The candidates for a parameter: `program`, or what is below views, nearest to the source first."""
        self._check_type(match, parameter, program)
        one_each = parameter.frontend_attributes.get("rank") == "exact"
        may_lack = parameter.frontend_attributes.get("rank") == "broadcast"
        candidates = []
        while True:
            if dims is None:
                candidates.append(_Candidate([], program, tuple(views)))
            elif self._may_be(parameter, program):
                known = [k for k in taken_apart(dims) if in_order(k) and not (one_each and _has_several(k))]
                candidates.extend(_Candidate([], program, tuple(views), k) for k in known)
            if dims is None or not is_view(program):
                break
            moved = through_program(dims, program)
            if moved is None and may_lack:
                moved = through_program(without_broadcast(dims, program), program)
            if moved is None:
                break
            views.append(program)
            program, dims = program.operands[0], moved
        if parameter in match.values:
            bound = match.values[parameter]
            same = [w for w in candidates if (w.operand, w.dims) == bound]
            if same:
                return same
        if not candidates:
            raise Mismatch(f"{program.name} is not like {parameter.shape}, with dimensions in that order", True)
        return candidates[::-1]

    def _check_type(self, match: Match, pattern: Instruction, program: Instruction) -> None:
        mine, other = pattern.shape, program.shape
        if not self._may_be(pattern, program) and pattern.opcode not in ("parameter", "constant"):
            raise Mismatch(f"{program.name} is {other.to_text(False)}, not {mine.to_text(False)}", about_dims=True)
        if mine.is_array != other.is_array:
            raise Mismatch(f"{program.name} is {other.to_text(False)}, not like {mine.to_text(False)}")
        if not mine.is_array:
            return
        if mine.dtype.kind is not other.dtype.kind:
            raise Mismatch(f"{program.name} is {other.dtype.name}, not {mine.dtype.name}")
        known = match.dtypes.setdefault(mine.dtype.name, other.dtype)
        if known != other.dtype:
            raise Mismatch(f"{program.name} is {other.dtype.name}, but {mine.dtype.name} stood for {known.name}")

    def _may_be(self, pattern: Instruction, program: Instruction) -> bool:
        return not self.variant.exact or pattern.shape.to_text(False) == program.shape.to_text(False)

    def _missed(
        self, match: Match, pattern: Instruction, program: Instruction, reason: str, about_dims: bool = False
    ) -> None:
        self._about_dims |= about_dims
        matched = sum(p.opcode != "parameter" for p in match.values)
        if matched > self.miss.matched:
            self.miss = Miss(matched, reason, pattern, program)


def with_views(value: Instruction) -> list[Instruction]:
    """`value`, and the views of it that may stand for it, nearest first."""
    found = [value]
    for instruction in found:
        found.extend(u for u in instruction.users if is_view(u) and u not in found)
    return found


def _has_several(dims: Dims) -> bool:
    return any(len(program) > 1 for _, program in dims)


def _may_match(goal: Goal) -> bool:
    opcodes = opcodes_of(goal.pattern)
    program = core(goal.program)
    return not opcodes or program.opcode in opcodes or ("constant" in opcodes and program.shape.is_scalar)


def _count(match: Match, name: str) -> int | None:
    """How many elements the program's reduction for the pattern's `name` combines."""
    for pattern, (program, _) in match.values.items():
        if pattern.name == name and program.opcode == "reduce":
            return prod(program.operands[0].shape.dims[d] for d in program["dimensions"])
    return None
