"""Translation validation: has a module after a pass the values of the module before? By the interpreter, on random
arguments."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from xloom.calls.registry import is_registered
from xloom.errors import EvaluationError, XloomError
from xloom.hlo.module import Module
from xloom.interpreter.bounds import RUNS, Bounds, leaves
from xloom.interpreter.custom_call import BUILT_IN
from xloom.interpreter.registry import Value
from xloom.interpreter.samples import random_arguments
from xloom.passes.base import Pass
from xloom.passes.comparison_outcomes import NotComparedError, WrongValueError, outcomes
from xloom.passes.hooks import difference, with_carried
from xloom.passes.shrinking import shrunk
from xloom.passes.trial_evaluation import LESS, MOST_WORK, Loops, TooMuchWork, plain, trial

if TYPE_CHECKING:
    from xloom.passes.compare import Compare

TRIPS = (None, 0, 1, 2, 3)
"""How often loops run: until they end, and, those that a pass has left, as if they were unrolled so many times."""
_PATIENCE = 8
"""How many times as much there may be to evaluate after a pass."""
_OUTSIDE = frozenset(("rng", "rng-get-and-update-state", "infeed", "outfeed", "recv", "recv-done", "send", "send-done"))
Trial = dict[str, Value]
Values = dict[tuple[int, int | None, Loops], Trial]
"""What a module gives: for the number of a sample, after so many iterations, of loops in common."""


def compare(options: Compare, before: Module, after: Module, pass_: Pass, what: str) -> None:
    """Raises WrongValueError where `after`, what `pass_` made of `before`, has other values."""
    if before.to_proto() == after.to_proto():
        outcomes["unchanged"] += 1
        return
    known, options.values = options.values, {}
    try:
        options.values = _compare(options, before, after, pass_, what, known)
        outcomes["compared"] += 1
    except TooMuchWork as error:
        small = shrunk(before)
        if small is None:
            raise NotComparedError(f"{error.message}, and no smaller sizes are known to fit", hint=LESS) from error
        after = small.clone("")
        pass_.run(after)
        try:
            _compare(options, small, after, pass_, f"{what}, on the module in small sizes,", {})
            outcomes["compared in small sizes"] += 1
        except TooMuchWork as again:
            raise NotComparedError(again.message, hint=again.hint) from again


def _compare(options: Compare, before: Module, after: Module, pass_: Pass, what: str, known: Values) -> Values:
    """Returns the values of `after`; those of `before` that are known need not be evaluated again."""
    old, new = with_carried(before), with_carried(after)
    for module in (old, new):
        _check_has_values(module, options.strict)
        if any(size > MOST_WORK >> 2 for size in _sizes(module)):
            raise TooMuchWork("there is too much to evaluate", hint=LESS)
    same = _entry(old) == _entry(new)
    if not same and type(pass_).arguments is Pass.arguments:
        raise NotComparedError(
            "it takes other arguments than before, or gives other results",
            hint="a pass that changes them says how: Pass.arguments and Pass.result",
        )
    loops = Loops.of(old, new)
    reason: XloomError | None = None
    values: Values = {}
    for k in range(options.samples):
        # every other sample has NaN, infinities, zeros and limits in it
        seed, edges = options.seed + k, k % 2 == 1
        arguments = random_arguments(old, seed, edges=edges, smaller=edges)
        for trips in TRIPS if loops.common and not k else (None,):
            pair, key = _Pair(old, new, pass_, arguments, loops, trips), (k, trips, loops)
            try:
                expected = known.get(key) or pair.before()
            except XloomError as error:  # which only says that there is nothing to compare with
                reason = reason or error
                continue
            found, values[key] = pair.difference(expected, options)
            if found:
                ended = "" if trips is None else f", and loops end after {trips} iterations"
                wrong = WrongValueError(
                    f"{what} changed the result: {found}",
                    hint=f"arguments: random_arguments(module, {seed}, edges={edges}, smaller={edges}){ended}; "
                    f"the module before:\n{old.to_text(print_large_constants=True)}",
                )
                wrong.before, wrong.arguments = old, arguments
                raise wrong
    if not values and reason is not None:
        raise reason if isinstance(reason, TooMuchWork) else NotComparedError(reason.message, where=reason.where)
    return values if same else {}


@dataclass(frozen=True)
class _Pair:
    """Two modules, and what is the same for both."""

    old: Module
    new: Module
    pass_: Pass
    arguments: Sequence[Value]
    loops: Loops
    trips: int | None

    def before(self, run: int = 0) -> Trial:
        """What the old module gives, in a run of other roundings."""
        return trial(self.old, self.arguments, self.loops, self.trips, run=run)

    def difference(self, expected: Trial, options: Compare) -> tuple[str, Trial]:
        """Where the new module differs first, and what it gives."""
        try:
            given = self.pass_.arguments(self.old, self.arguments)
            actual = trial(self.new, given, self.loops, self.trips, work=_PATIENCE * MOST_WORK)
            actual["result"] = self.pass_.result(self.old, actual["result"])
        except XloomError as error:
            return f"it has no value any more: {error.message}", {}
        return self._difference(expected, actual, options), actual

    def _difference(self, expected: Trial, actual: Trial, options: Compare) -> str:
        for place, value in expected.items():
            if place not in actual:
                if options.rounding and self._is_open(place):
                    continue
                return f"{place} was {value}, is none"
            found = difference(value, actual[place], options.rtol, place)
            if found and not (options.rounding and self._is_rounding(place, actual[place])):
                return found
            if found:
                outcomes["another rounding"] += 1
        more = [place for place in actual if place not in expected]
        if more and not (options.rounding and self._is_open(more[0])):
            return f"{more[0]} was none, is {actual[more[0]]}"
        return ""

    def _is_open(self, place: str) -> bool:
        """True when roundings decide whether the loop runs so often."""
        return len({place in self.before(run) for run in range(RUNS)}) > 1

    def _is_rounding(self, place: str, actual: Value) -> bool:
        """True for what the old module may also give."""
        runs: list[list[Value]] = []
        for run in range(RUNS):
            try:
                runs.append(leaves(self.before(run)[place]))
            except (KeyError, EvaluationError):
                return True  # roundings decide how often a loop runs
        got = leaves(actual)
        same = [(a.dtype, a.shape) for a in got] == [(a.dtype, a.shape) for a in runs[0]]
        return same and not any(
            Bounds(list(values)).wrong(value).any() for values, value in zip(zip(*runs, strict=True), got, strict=True)
        )


def _check_has_values(module: Module, calls: bool) -> None:
    """Raises NotComparedError for programs of several devices, of chance, and of the world outside."""
    if module.config.replica_count * module.config.num_partitions > 1:
        raise NotComparedError("it is a program of several devices", hint="compare the program of one device")
    for i in module.instructions:
        outside = i.opcode in _OUTSIDE
        if i.opcode == "custom-call":
            target = i["custom_call_target"]
            known = target in BUILT_IN or target.startswith("lapack_")
            outside = i["custom_call_has_side_effect"] or (not calls and (not known or is_registered(target)))
        if outside:
            raise NotComparedError(
                f"{i.name} is more than a value",
                where=i.name,
                hint="what it does outside would be done twice: compare the program without it",
            )


def _entry(module: Module) -> list[object]:
    return [plain(i.shape) for i in (*module.entry.parameters, module.entry.root)]


def _sizes(module: Module) -> Iterator[int]:
    return (leaf.size for i in module.instructions for _, leaf in i.shape.leaves() if leaf.is_array)
