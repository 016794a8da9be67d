"""A program that gives one more result: whether what is checked has happened."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection, Iterable, Mapping
from types import MappingProxyType

from xloom.hlo.computation import Computation
from xloom.hlo.dtype import s32
from xloom.hlo.index_operands import index_arithmetic, index_operands
from xloom.hlo.instruction import Instruction, map_called
from xloom.hlo.module import InputOutputAlias, Module
from xloom.hlo.non_finite import KINDS, NAN, has_non_finite_constant, is_inexact, made_by
from xloom.hlo.poisoned_results import POISONED, used_leaves
from xloom.hlo.shape import Shape, array_shape, tuple_shape
from xloom.passes.base import pin_roots
from xloom.passes.dce import remove_unreachable_computations
from xloom.passes.instrumentation.coverage import Leaves, covered_leaves, covered_state, joined_results
from xloom.passes.instrumentation.likely_loops import likely_loops
from xloom.passes.instrumentation.predicates import FLAG, Predicates, logical_or
from xloom.passes.loops import element_of, is_element
from xloom.passes.rewrite import Rewriter
from xloom.passes.runner import run_passes

_NUMBER = array_shape(s32, ())
_FIRST = "effect-ordering,call-naming,inlining,async-simplification,call-inlining,tuple-simplification,dce"


def instrumented(module: Module, checks: Collection[str], *, exact: bool) -> Module | None:
    """A copy of `module` whose result is a tuple of the elements of its own, and pred[]: true if something happened.

    `checks` are names of `xloom.checks.VALUE_CHECKS`. Unless it is to be `exact`, only what NaNs end in is looked at,
    and it also says so of those that the arguments have. Results take the memory only of arguments whose header says
    that they must. None where there is nothing to check.
    """
    copy = module.clone("")
    copy.config.is_scheduled = False
    run_passes(copy, _FIRST, verify=False)
    pin_roots(copy)
    flag = _Instrumentation(copy, frozenset(checks), exact).flag_of(copy.entry, frozenset())
    return None if flag is None else _with_result(copy, flag)


def numbered(module: Module, checks: Collection[str]) -> tuple[Module, list[Instruction]] | None:
    """As `instrumented` and exact, with s32[] instead: 0, or the number, from 1, of the first instruction that did it.

    With those instructions of the entry, by number; of a loop that is all that it does. What collectives make of the
    elements of several devices is not looked at: what they get may be another device's.
    """
    copy = module.clone("")
    copy.config.is_scheduled = False
    run_passes(copy, _FIRST, verify=False)
    pin_roots(copy)
    flags = _Instrumentation(copy, frozenset(checks), exact=True).flags_of(copy.entry)
    if not flags:
        return None
    make = Rewriter(copy.entry)
    number = make.constant(_NUMBER, 0)
    for k, (_, flag) in reversed([*enumerate(flags)]):
        number = make.make("select", _NUMBER, [flag, make.constant(_NUMBER, k + 1), number])
    return _with_result(copy, number), [instruction for instruction, _ in flags]


def _with_result(copy: Module, flag: Instruction) -> Module:
    """The module with one more result, a scalar."""
    entry, config = copy.entry, copy.config
    is_tuple = entry.root.shape.is_tuple
    if config.result_layout is not None:
        config.result_layout = tuple_shape([*_elements_of(config.result_layout), flag.shape])
    config.input_output_alias = [
        InputOutputAlias(a.output_index if is_tuple else (0,), a.parameter, a.parameter_index, a.must)
        for a in config.input_output_alias
        if a.must
    ]
    config.buffer_donors = []
    entry.root = _with_flag(entry, entry.root, flag)
    remove_unreachable_computations(copy)
    return copy


class _Instrumentation:
    def __init__(self, module: Module, checks: frozenset[str], exact: bool):
        self._module = module
        self._kinds = checks & KINDS
        self._checks = checks
        self._exact = exact
        self._or = logical_or(module)

    def flag_of(self, computation: Computation, result: Leaves) -> Instruction | None:
        """pred[] in a computation, in which and in whose loops and branches it also adds what these need.

        None where there is nothing to look at; `result` are the leaves of the result that are covered.
        """
        flags = [flag for _, flag in self.flags_of(computation, result, likely_loops(computation.post_order()))]
        return Predicates(computation, self._or).either(flags) if flags else None

    def flags_of(
        self,
        computation: Computation,
        result: Leaves = frozenset(),
        loops: Mapping[Instruction, object] = MappingProxyType({}),
    ) -> list[tuple[Instruction, Instruction]]:
        """Instructions, and pred[] for each; one of several whose `loops` are the same."""
        make = Predicates(computation, self._or)
        order = computation.post_order()
        covered = {} if self._exact or not self._kinds else covered_leaves(computation, result, self._kinds)
        arithmetic = index_arithmetic(computation) if "overflow" in self._checks else set()
        flags: list[tuple[Instruction, Instruction]] = []
        joined = frozenset() if self._exact else joined_results(computation, self._kinds)
        together: defaultdict[object, list[Instruction]] = defaultdict(list)
        for instruction in order:
            leaves = covered.get(instruction, frozenset())
            if instruction.opcode == "while":
                found = self._while(instruction, leaves)
            elif instruction.opcode == "conditional":
                found = self._conditional(instruction, leaves)
            else:
                values = self._values(make, instruction, leaves, instruction in joined)
                if instruction in loops:
                    together[loops[instruction]] += values
                    values = []
                found = [make.any(each) for each in [*values, *self._others(make, instruction, arithmetic)]]
            if found:
                flags.append((instruction, make.either(found)))
        return flags + [(each[0], make.any(make.either(each))) for each in together.values() if each]

    def _others(self, make: Predicates, instruction: Instruction, arithmetic: set[Instruction]) -> list[Instruction]:
        """Where indices are out of range or overflow, and what is not written."""
        found: list[Instruction] = []
        if "oob" in self._checks:
            for use in index_operands(instruction):
                found += make.out_of_range(instruction.operands[use.number], use)
        if "unwritten" in self._checks and instruction.opcode == "custom-call":
            instruction.frontend_attributes = {**instruction.frontend_attributes, POISONED: "true"}
            found += [make.poison(_leaf(instruction, index)) for index in used_leaves(instruction)]
        if instruction in arithmetic:
            found.append(make.overflows(instruction))
        return found

    def _values(self, make: Predicates, instruction: Instruction, covered: Leaves, joins: bool) -> list[Instruction]:
        """Where NaNs and infinities are, or are made; also those of arrays that it `joins`."""
        kinds = self._kinds if joins else made_by(instruction) & self._kinds
        if not kinds:
            return []
        found = []
        for index, shape in instruction.shape.leaves():
            if index in covered or not is_inexact(shape) or not shape.size:
                continue
            leaf = _leaf(instruction, index)
            if self._exact or has_non_finite_constant(instruction):
                found += [make.made(instruction, leaf, kind) for kind in sorted(kinds)]
            else:
                found.append(make.nan(leaf) if kinds == {NAN} else make.not_finite(leaf))
        return found

    def _while(self, loop: Instruction, covered: Leaves) -> list[Instruction]:
        state = covered_state(loop, covered, self._kinds) if covered else covered
        host = loop.parent
        assert host is not None
        # the condition has no result for a flag: what it computes is computed once more for that
        asked = loop["condition"].clone("")
        question = self.flag_of(asked, frozenset())
        if question is not None:
            asked.root = question
        body = loop["body"].clone("")
        (old,) = body.parameters
        before = None if question is None else body.add(Instruction("call", "call", FLAG, [old], {"to_apply": asked}))
        inside = self.flag_of(body, state)
        flags = [each for each in (inside, before) if each is not None]
        if not flags:
            return []
        shape = tuple_shape([*_elements_of(old.shape), FLAG])
        taken = _take(body, shape)
        make = Predicates(body, self._or)
        body.root = _with_flag(body, body.root, make.either([element_of(taken, len(shape.elements) - 1), *flags]))
        condition = loop["condition"].clone("")
        _take(condition, shape)
        (start,) = loop.operands
        initial = _with_flag(host, start, Predicates(host, self._or).constant(FLAG, False))
        attrs = {**loop.attrs, "body": body, "condition": condition}
        new = _replaced(host, loop, Instruction(loop.name, "while", shape, [initial], attrs))
        flags = [element_of(new, len(shape.elements) - 1)]
        if question is not None:
            end = _without_flag(new, old.shape)
            flags.append(host.add(Instruction("call", "call", FLAG, [end], {"to_apply": asked})))
        return flags

    def _conditional(self, conditional: Instruction, covered: Leaves) -> list[Instruction]:
        branches = {c: c.clone("") for c in conditional.called_computations}
        flags = {c: self.flag_of(branch, covered) for c, branch in branches.items()}
        if not any(flag is not None for flag in flags.values()):
            return []
        for c, branch in branches.items():
            flag = flags[c]
            if flag is None:
                flag = Predicates(branch, self._or).constant(FLAG, False)
            branch.root = _with_flag(branch, branch.root, flag)
        shape = tuple_shape([*_elements_of(conditional.shape), FLAG])
        host = conditional.parent
        assert host is not None
        new = Instruction(conditional.name, "conditional", shape, conditional.operands, dict(conditional.attrs))
        map_called(new, branches.__getitem__)
        _replaced(host, conditional, new)
        return [element_of(new, len(shape.elements) - 1)]


def _leaf(value: Instruction, index: Iterable[int]) -> Instruction:
    for k in index:
        value = element_of(value, k)
    return value


def _elements_of(shape: Shape) -> Iterable[Shape]:
    return shape.elements if shape.is_tuple else [shape]


def _with_flag(computation: Computation, value: Instruction, flag: Instruction) -> Instruction:
    """(its elements, flag)"""
    if value.opcode == "tuple":
        parts = [*value.operands]
    else:
        parts = [element_of(value, k) for k in range(len(value.shape.elements))] if value.shape.is_tuple else [value]
    shape = tuple_shape([*_elements_of(value.shape), flag.shape])
    return computation.add(Instruction("tuple", "tuple", shape, [*parts, flag]))


def _without_flag(value: Instruction, shape: Shape) -> Instruction:
    """The value of a shape that `_with_flag` has made a tuple with one more element."""
    if not shape.is_tuple:
        return element_of(value, 0)
    assert value.parent is not None
    parts = [element_of(value, k) for k in range(len(shape.elements))]
    return value.parent.add(Instruction("tuple", "tuple", shape, parts))


def _take(computation: Computation, shape: Shape) -> Instruction:
    """Gives a computation with one parameter another one, whose shape has a flag more."""
    (old,) = computation.parameters
    return _replaced(computation, old, Instruction(old.name, "parameter", shape, (), {"parameter_number": 0}))


def _replaced(computation: Computation, old: Instruction, new: Instruction) -> Instruction:
    """Puts an instruction that gives a flag more in the place of one, and returns it."""
    computation.add(new)
    new.metadata = old.metadata
    old.transfer_control_dependencies_to(new)
    for user in old.users if old.shape.is_tuple else ():
        if is_element(user, old):
            user.replace_operand(0, new)
    if old.users or old is computation.root:
        old.replace_all_uses_with(_without_flag(new, old.shape))
    computation.remove(old)
    return new
