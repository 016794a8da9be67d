"""A program through one of xloom's doors, against the CPU; and cut down, where they disagree."""

from __future__ import annotations

import logging
import warnings
from collections.abc import Callable, Iterator
from dataclasses import replace
from functools import partial
from typing import Any

import torch
from torch._dynamo import guards

from tests.judges.child import Case, Skipped
from tests.judges.torch_composed.generator import generate
from tests.judges.torch_composed.program import Leaf, Outcome, Program, on_host, run
from tests.judges.torch_composed.rounding import References
from xloom.errors import LoweringError, UnsupportedError

_TRIES = 150
"""Of programs, while one is cut down."""


def outcomes(program: Program, door: str, backend: str = "xloom") -> Iterator[Outcome]:
    """What a door gives, the first time and once more."""
    function: Callable[..., Any] = program.function()
    if door == "compile":
        torch._dynamo.reset()
        function = torch.compile(function, backend=backend, dynamic=False)
    else:
        import xloom.torch  # noqa: F401
    place = partial(torch.Tensor.to, device="xla") if door == "device" else torch.Tensor.clone
    for _ in range(2):
        yield run(program, function, place)


def complaint(program: Program, door: str, backend: str = "xloom") -> str:
    """What a door has wrong of a program, or nothing. Raises where the CPU does not run it."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        theirs = References(program)
        try:
            for found in outcomes(program, door, backend):
                if door == "compile":
                    _as_graphs_may(found, theirs.first)
                wrong = theirs.disagreement(found)
                if wrong:
                    return wrong
        except Exception as error:
            while error.__cause__ is not None:
                error = error.__cause__  # type: ignore[assignment]
            if theirs.may_fail(error):
                return ""
            what = f"{type(error).__name__}: {error}"
            refuses = isinstance(error, (UnsupportedError, LoweringError)) or "LoweringError" in what
            return f"{'refused: ' if refuses else ''}{what}"[:400]
    return ""


def _as_graphs_may(found: Outcome, theirs: Outcome) -> None:
    """Graphs may give what is the same in one memory, and zeros as the gradient of what nothing depends on."""
    found.shared = theirs.shared
    for k, (ours, wanted) in enumerate(zip(found.gradients, theirs.gradients, strict=True)):
        if wanted is None and ours is not None and not ours.any():
            found.gradients[k] = None


def made(seed: int, door: str) -> Program | None:
    """The program of a seed for a door; none where the CPU does not run it."""
    return generate(seed, writes_overlap=door == "device")


def judged(seed: int, door: str, cut: bool = False) -> str:
    """The complaint about the program of a seed, with the program, or cut down; nothing if it is right."""
    program = made(seed, door)
    if program is None:
        raise Skipped("the CPU does not run it")
    found = complaint(program, door)
    if not found:
        return ""
    if door == "compile" and not found.startswith("refused") and complaint(program, door, "aot_eager"):
        raise Skipped(f"torch's own graphs of it are wrong: {found}")
    if not cut:
        return found
    program, found = cut_down(program, door, found)
    return f"{found}\n{program.text()}"


def cases(item: tuple[str, int], cut: bool = False) -> Iterator[Case]:
    """The program of a seed through a door."""
    door, seed = item
    torch.set_num_threads(1)
    warnings.simplefilter("ignore")
    logging.disable(logging.CRITICAL)  # of what torch refuses while graphs are traced
    # a time that torch only logs: to take it, it writes over the caches for each graph, a tenth of what that costs
    guards.profile_guard_manager = lambda *_: 0.0  # type: ignore[attr-defined]
    yield str(seed), partial(judged, seed, door, cut)


def cuts(item: tuple[str, int]) -> Iterator[Case]:
    """The same, cut down."""
    return cases(item, cut=True)


def cut_down(program: Program, door: str, found: str) -> tuple[Program, str]:
    """A smaller program with a complaint of the same kind, and that complaint."""
    kind = found.startswith(("result", "leaf", "gradient", "memory"))
    tries = 0

    def still(candidate: Program) -> str:
        nonlocal tries
        tries += 1
        try:
            new = complaint(candidate, door)
        except Exception:  # the CPU does not run it
            return ""
        return new if new.startswith(("result", "leaf", "gradient", "memory")) == kind else ""

    progress = True
    while progress and tries < _TRIES:
        progress = False
        for candidate in _smaller(program):
            if tries >= _TRIES:
                break
            new = still(candidate)
            if new:
                program, found, progress = candidate, new, True
                break
    return program, found


def _smaller(program: Program) -> Iterator[Program]:
    if program.backward:
        plain = tuple(replace(leaf, differentiable=False) for leaf in program.leaves)
        yield replace(program, backward=False, leaves=plain)
    if len(program.results) > 1:
        for each in program.results:
            yield replace(program, results=(each,))
    needed = _needed(program)
    if len(needed) < len(program.steps):
        yield replace(program, steps=tuple(needed))
    used = _used(program)
    if len(used.leaves) < len(program.leaves):
        yield used
    count = len(program.steps)
    for size in (count // 2, count // 4, 1):
        for start in range(0, count, max(size, 1)):
            gone = program.steps[start : start + max(size, 1)]
            if _readers(program, gone):
                continue
            yield replace(program, steps=tuple(s for s in program.steps if s not in gone))
    for step in program.steps:
        if step.out is not None:
            value = _value(program, step)
            if value is not None:
                yield value


def _readers(program: Program, gone: tuple[Any, ...]) -> bool:
    made = {step.out for step in gone if step.out is not None}
    used = {k for step in program.steps if step not in gone for k in step.operands} | set(program.results)
    return bool(made & used)


def _needed(program: Program) -> list[Any]:
    """Steps that a result may come from: by operands, or by writes."""
    wanted, kept = set(program.results), []
    for step in reversed(program.steps):
        if step.writes or step.out in wanted:
            wanted |= set(step.operands)
            kept.append(step)
    return kept[::-1]


def _value(program: Program, step: Any) -> Program | None:
    """The program with what a step makes as one more leaf; None if that is no fewer steps."""
    count = len(program.leaves)
    try:
        (value,) = replace(program, results=(step.out,), steps=_until(program, step)).function()(
            *[leaf.make().detach() for leaf in program.leaves]
        )
    except Exception:
        return None
    leaf = Leaf(str(value.dtype).removeprefix("torch."), tuple(value.shape), value=on_host(value))

    def moved(k: int) -> int:
        return count if k == step.out else k + 1 if k >= count else k

    steps = tuple(
        replace(s, operands=tuple(map(moved, s.operands)), out=None if s.out is None else moved(s.out))
        for s in program.steps
        if s is not step
    )
    smaller = replace(program, leaves=(*program.leaves, leaf), steps=steps, results=tuple(map(moved, program.results)))
    kept = tuple(_needed(smaller))
    return replace(smaller, steps=kept) if len(kept) < len(program.steps) - 1 or not step.operands else None


def _used(program: Program) -> Program:
    """Without leaves that nothing reads."""
    read = {k for step in program.steps for k in step.operands} | set(program.results)
    kept = [k for k in range(len(program.leaves)) if k in read]
    if program.backward:
        kept = [k for k in range(len(program.leaves)) if k in read or program.leaves[k].differentiable]
    gone = len(program.leaves) - len(kept)

    def moved(k: int) -> int:
        return kept.index(k) if k < len(program.leaves) else k - gone

    steps = tuple(
        replace(s, operands=tuple(map(moved, s.operands)), out=None if s.out is None else moved(s.out))
        for s in program.steps
    )
    leaves = tuple(program.leaves[k] for k in kept)
    return replace(program, leaves=leaves, steps=steps, results=tuple(map(moved, program.results)))


def _until(program: Program, step: Any) -> tuple[Any, ...]:
    return program.steps[: program.steps.index(step) + 1]
