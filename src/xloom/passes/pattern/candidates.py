"""What a search may go on with where a pattern's instruction is to stand for the program's."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass, replace

import numpy as np

from xloom.hlo.dtype import Kind
from xloom.hlo.instruction import Instruction
from xloom.hlo.literal import literal
from xloom.hlo.shape import Shape
from xloom.passes.match import splat
from xloom.passes.pattern.constraint import attributes_differ, constant_differs, counted, stands_for_any
from xloom.passes.pattern.dims import (
    Dims,
    along,
    identity,
    in_order,
    in_pairs,
    is_identity,
    sizes,
    taken_apart,
    through_program,
    without_broadcast,
)
from xloom.passes.pattern.gathers import dims_of_whole
from xloom.passes.pattern.match import Match, Misses
from xloom.passes.pattern.operators import (
    TAKE_JOINT,
    Goal,
    Goals,
    Mismatch,
    below_views,
    negated_opcode,
    operand_goals,
    reciprocal_goals,
)
from xloom.passes.pattern.pattern import Variant, is_choice, is_top, opcodes_of, varies_along
from xloom.passes.pattern.scalar_constants import as_constant
from xloom.passes.pattern.sorted_rows import top_of
from xloom.passes.pattern.views import are_equal_views, core, is_view, views_of


@dataclass
class Candidate:
    """One of several lists of goals to go on with."""

    goals: Goals
    operand: Instruction | None = None
    views: tuple[Instruction, ...] = ()
    dims: Dims = ()
    choice: Instruction | None = None


class Candidates:
    """For one variant of a pattern, in one search; the operators `outside` may be no part of a match."""

    def __init__(self, variant: Variant, misses: Misses, outside: Collection[Instruction]):
        self._variant = variant
        self._misses = misses
        self._outside = outside
        self._folded: dict[Instruction, tuple[Instruction, tuple[Instruction, ...]] | None] = {}
        self._tops: dict[tuple[Instruction, int], Instruction] = {}
        """What stands for the first of sorted rows, by the sort and how many: an operator in no computation."""

    def at(self, match: Match, goal: Goal) -> list[Candidate]:
        """What may be gone on with from a goal; none, with the reason among the misses, where it cannot be met."""
        pattern, program, negated = goal.pattern, goal.program, goal.negated
        try:
            dims = goal.dims
            views: list[Instruction] = []
            if dims is not None:
                pattern, program, dims = below_views(pattern, program, dims, views)
            if is_choice(pattern):
                goals = [Goal(o, program, dims, negated) for o in pattern.operands]
                return [Candidate([g], views=tuple(views), choice=pattern) for g in goals]
            # p == not q is not p == q
            if pattern.opcode == "not" and _is_truth(pattern) and (negated or core(program).opcode != "not"):
                match.values.setdefault(pattern, (program, dims))
                if negated:
                    match.negated[pattern] = None
                return [Candidate([Goal(pattern.operands[0], program, dims, not negated)], views=tuple(views))]
            if pattern.opcode == "parameter":
                if negated:
                    raise Mismatch(f"{program.name} is the negation of what {pattern.name} stands for")
                return self._operands(match, pattern, program, dims, views)
            while is_view(program) and dims is not None:
                if pattern.opcode == "constant" and pattern.shape.is_scalar:
                    dims = ()
                moved = through_program(dims, program) if dims else ()
                if moved is None:
                    moved = _before_broadcast(pattern, program, dims)
                if moved is None:
                    raise Mismatch(f"{program.name} arranges dimensions in another way", about_dims=True)
                views.append(program)
                program, dims = program.operands[0], moved
            dims = None if dims is None else in_pairs(dims, program.shape)
            if program.opcode == "not" and pattern.opcode != "not" and _is_truth(program):
                views.append(program)
                return [Candidate([Goal(pattern, program.operands[0], dims, not negated)], views=tuple(views))]
            goal = replace(goal, pattern=pattern, program=program, dims=dims)
            same = self._same_elements(program, dims) if dims is not None else None
            if same is None:
                return self._operator(match, goal, views)
            given, moved, rest = same
            looked_through = Candidate([replace(goal, program=given, dims=moved)], views=(*views, *rest))
            return [looked_through, *self._as_it_is(match, goal, views)]
        except Mismatch as mismatch:
            self._misses.add(match, pattern, program, mismatch)
            return []

    def _as_it_is(self, match: Match, goal: Goal, views: list[Instruction]) -> list[Candidate]:
        """The candidates where a pattern has such an operator itself, with a constant if it is `and` or `or`."""
        pattern = goal.pattern
        if pattern.opcode != goal.program.opcode:
            return []
        if pattern.opcode in ("and", "or") and not any(core(o).opcode == "constant" for o in pattern.operands):
            return []
        try:
            return self._operator(match.copy(), goal, list(views))
        except Mismatch:
            return []

    def _operator(self, match: Match, goal: Goal, views: list[Instruction]) -> list[Candidate]:
        """The candidates that match an operator, or a constant, with what is below the program's views."""
        pattern, program, dims = goal.pattern, goal.program, goal.dims
        if pattern.opcode == "constant":
            return self._constant(match, goal, views)
        opcode = negated_opcode(pattern) if goal.negated else pattern.opcode
        if is_top(pattern) and program.opcode == "slice":
            return [self._top(match, goal, views)]
        by_reciprocal = [] if dims is None or goal.negated else list(reciprocal_goals(pattern, program, dims))
        if opcode != program.opcode and not by_reciprocal:
            raise Mismatch(f"{program.name} is {program.opcode}, not {opcode}")
        if program in self._outside:
            raise Mismatch(f"others use {program.name}, too")
        if match.values.get(pattern) == (program, dims) and (pattern in match.negated) == goal.negated:
            return [Candidate([], views=tuple(views))]
        self._check_type(match, pattern, program)
        views.append(program)
        match.values.setdefault(pattern, (program, dims))
        if goal.negated:
            match.negated[pattern] = None
        if by_reciprocal:
            return [Candidate(goals, views=tuple(views)) for goals in by_reciprocal]
        if dims is not None and program.opcode == "iota":
            dims = along(dims, program["iota_dimension"])
        candidates = []
        missed = None
        apart = [dims] if dims is None or pattern.op.elementwise else list(taken_apart(dims, program.shape))
        if apart and dims is not None and dims not in apart and pattern.opcode in TAKE_JOINT:
            apart.insert(0, dims)
        if not apart:
            raise Mismatch(f"{program.name} is not broadcast where the pattern's is", about_dims=True)
        for known in apart:
            try:
                candidates.extend(
                    Candidate(goals, views=tuple(views))
                    for goals in operand_goals(pattern, program, known, goal.negated)
                )
            except Mismatch as mismatch:
                missed = mismatch
        if not candidates and missed is not None:
            raise missed
        if len(candidates) < 2:
            return candidates
        promising = [candidate for candidate in candidates if all(_may_match(g) for g in candidate.goals)]
        return promising or candidates[:1]

    def _top(self, match: Match, goal: Goal, views: list[Instruction]) -> Candidate:
        """The candidate where a program sorts rows and takes the first of them, and the pattern is of topk."""
        pattern, program = goal.pattern, goal.program
        found, wanted = top_of(program), pattern.operands[0]
        if found is None or pattern["index"] != found.index or not wanted["largest"]:
            raise Mismatch(f"{program.name} is slice, not the first of sorted rows")
        outside = next((i for i in found.inside if i in self._outside), None)
        if outside is not None:
            raise Mismatch(f"others use {outside.name}, too")
        self._check_type(match, pattern, program)
        same = found.sort, found.k
        if same not in self._tops:
            attributes = {"k": found.k, "largest": True}
            self._tops[same] = Instruction(found.sort.name, "topk", found.sort.shape, (), attributes)
        top, _ = match.values.setdefault(wanted, (self._tops[same], None))
        if top is not self._tops[same]:
            raise Mismatch(f"{program.name} is of other rows, or has another number of them")
        reason = attributes_differ(wanted, top)
        if reason:
            raise Mismatch(reason)
        match.values.setdefault(pattern, (program, goal.dims))
        mine, other = wanted.operands[0], found.sort.operands[0]
        rows = identity(mine.shape, other.shape)
        if rows is None or not is_identity(goal.dims):
            raise Mismatch(f"{program.name} is {program.shape}, not like {pattern.shape}", about_dims=True)
        return Candidate([Goal(mine, other, rows)], views=(*views, *found.inside))

    def _constant(self, match: Match, goal: Goal, views: list[Instruction]) -> list[Candidate]:
        """The candidate that matches a constant, or a scalar that the program computes from constants."""
        pattern, program = goal.pattern, goal.program
        self._check_type(match, pattern, program)
        folded = self._as_constant(program)
        if folded is None:
            raise Mismatch(f"{program.name} is {program.opcode}, not constant")
        constant, inside = folded
        if goal.negated:
            constant = _negation(constant)
        value = splat(constant)
        if goal.reciprocal:
            if not value:
                raise Mismatch(f"{program.name} has no reciprocal that is one number")
            value = np.float64(1 / float(value))
            constant = _scalar_constant(constant, value)
        if counted(pattern):
            match.counts.append((pattern, constant))
        reason = constant_differs(pattern, constant, lambda _: None)
        if reason:
            raise Mismatch(reason)
        if stands_for_any(pattern):
            if value is None or constant.shape.dtype.is_complex:
                match.arrays[program] = None
            elif match.constants.setdefault(pattern, value).tobytes() != value.tobytes():
                raise Mismatch(f"{program.name} is {value}, but {pattern.name} stood for {match.constants[pattern]}")
        if program.opcode != "constant":
            match.folded.update(dict.fromkeys(inside))
        return [Candidate([], views=(*views, *inside))]

    def _as_constant(self, program: Instruction) -> tuple[Instruction, tuple[Instruction, ...]] | None:
        """A constant of the value of `program` and what computes it; None when that is not constants alone."""
        if program.opcode == "constant":
            return program, (program,)
        if program not in self._folded:
            self._folded[program] = as_constant(program)
        return self._folded[program]

    def _is_constant(self, program: Instruction, value: bool) -> bool:
        """Whether all elements of truth values are one that is known, `value`."""
        known = self._as_constant(core(program))
        return known is not None and splat(known[0]) == value

    def _same_elements(self, program: Instruction, dims: Dims) -> tuple[Instruction, Dims, list[Instruction]] | None:
        """What a program's select, gather, `and` or `or` gives, and the rest of it: constants that do not matter."""
        given: Instruction | None = None
        moved: Dims | None = dims
        # select(true, a, b) == a
        if program.opcode == "select":
            condition = self._as_constant(core(program.operands[0]))
            chosen = None if condition is None else splat(condition[0])
            given, other = program.operands[1:] if chosen else program.operands[:0:-1]
            unused = [program.operands[0], other] if chosen is not None else []
        # x and true == x;  x or false == x
        elif program.opcode in ("and", "or") and _is_truth(program):
            unused = [o for o in program.operands if self._is_constant(o, program.opcode == "and")][:1]
            given = next((o for o in program.operands if o not in unused), None)
        elif program.opcode == "gather":
            given, moved = program.operands[0], dims_of_whole(program, dims)
            unused = [program.operands[1]] if moved is not None else []
        else:
            return None
        known = [self._as_constant(core(o)) for o in unused]
        if given is None or not unused or moved is None or any(k is None for k in known):
            return None
        rest = [program, *(i for o in unused for i in views_of(o)), *(i for k in known if k for i in k[1])]
        return given, moved, rest

    def _operands(
        self,
        match: Match,
        parameter: Instruction,
        program: Instruction,
        dims: Dims | None,
        views: list[Instruction],
    ) -> list[Candidate]:
        """The candidates for a parameter: `program`, or what is below views, nearest to the source first."""
        self._check_type(match, parameter, program)
        one_each = parameter.frontend_attributes.get("rank") == "exact"
        may_lack = parameter.frontend_attributes.get("rank") == "broadcast"
        whole = sizes(dims or (), program.shape)
        candidates: list[Candidate] = []
        while True:
            if dims is None:
                candidates.insert(0, Candidate([], program, tuple(views)))
            elif self._may_be(parameter, program):
                known = [
                    k
                    for k in taken_apart(dims, program.shape)
                    if in_order(k) and not (one_each and _has_several(k)) and not _in_part(k, program.shape, whole)
                ]
                candidates[:0] = [Candidate([], program, tuple(views), k) for k in known]
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
            same = [w for w in candidates if is_bound(w, bound)]
            if same:
                return same
        if not candidates:
            raise Mismatch(f"{program.name} is not like {parameter.shape}, with dimensions in that order", True)
        return candidates

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
        return not self._variant.exact or pattern.shape.to_text(False) == program.shape.to_text(False)


# f(broadcast(a), broadcast(b)) == broadcast(f(a, b))
def _before_broadcast(pattern: Instruction, view: Instruction, dims: Dims) -> Dims | None:
    """The correspondence below a view that broadcasts what the pattern has broadcast before; None if it is not so."""
    moved = through_program(without_broadcast(dims, view), view)
    after = {e.pattern: e.program for e in moved or ()}
    lost = [e.pattern for e in dims if e.pattern and e.program and not after.get(e.pattern)]
    return None if any(len(p) != 1 or varies_along(pattern, p[0]) for p in lost) else moved


def is_bound(candidate: Candidate, bound: tuple[Instruction, Dims | None]) -> bool:
    """True for what a parameter already stands for, or an equal view of the same value."""
    return candidate.operand is not None and candidate.dims == bound[1] and are_equal_views(candidate.operand, bound[0])


def _is_truth(instruction: Instruction) -> bool:
    return instruction.shape.is_array and instruction.shape.dtype.kind is Kind.PRED


def _scalar_constant(constant: Instruction, value: np.generic) -> Instruction:
    """A constant, in no computation, of another value: a scalar of its type."""
    made = literal(np.asarray(value).astype(constant.shape.dtype.numpy))
    return Instruction(constant.name, "constant", made.shape, (), {"literal": made})


def _negation(constant: Instruction) -> Instruction:
    """A constant, in no computation, of the other truth values."""
    if constant.literal.array is None:
        raise Mismatch(f"the value of {constant.name} is not in the text")
    value = literal(np.logical_not(constant.literal.array))
    return Instruction(constant.name, "constant", constant.shape, (), {"literal": value})


def _has_several(dims: Dims) -> bool:
    return any(len(e.program) > 1 for e in dims)


def _in_part(dims: Dims, shape: Shape, whole: dict[tuple[int, ...], int]) -> bool:
    """True where a part of a dimension is there: of a batch of heads, say, the batch alone."""
    return any(size not in (1, whole.get(key, size)) for key, size in sizes(dims, shape).items())


def _may_match(goal: Goal) -> bool:
    opcodes = opcodes_of(goal.pattern)
    program = core(goal.program)
    if goal.negated or program.opcode in ("not", "select", "gather", "and", "or") or "not" in opcodes:
        return True
    if program.opcode in ("divide", "multiply"):
        return not opcodes or not opcodes.isdisjoint(("divide", "multiply"))
    return not opcodes or program.opcode in opcodes or ("constant" in opcodes and program.shape.is_scalar)
