"""Makes a program that fails smaller, for as long as it fails."""

from __future__ import annotations

import time
from collections.abc import Callable, Collection, Iterator, Sequence
from dataclasses import replace

import jax
import numpy as np

from tests.judges.composed.program import Case, Program, Step, substituted

Fails = Callable[[Case], bool]


def reduced(case: Case, fails: Fails, seconds: float = 120) -> Case:
    """The smallest case that was found in that time."""
    until = time.monotonic() + seconds
    progress = True
    while progress:
        progress = False
        seen = _size(case)
        for candidate in _candidates(case):
            if time.monotonic() > until:
                return case
            if _size(candidate) < seen and fails(candidate):
                case, progress = candidate, True
                break
    return case


def _size(case: Case) -> tuple[int, int, int, int]:
    program = case.program
    return program.operators(), len(program.results), len(case.donated), _distance(program)


def _distance(program: Program) -> int:
    """How far behind its parameters values are that are read: a read of an earlier value is simpler."""
    reads = sum(program.results) + sum(sum(step.operands) for step in program.steps)
    return reads + sum(_distance(body) for step in program.steps for body in step.bodies)


def _candidates(case: Case) -> Iterator[Case]:
    program = case.program
    if len(program.results) > 1:
        for result in dict.fromkeys(program.results):
            yield _tidy(replace(case, program=replace(program, results=(result,))))
        for k in range(len(program.results)):
            rest = program.results[:k] + program.results[k + 1 :]
            yield _tidy(replace(case, program=replace(program, results=rest)))
    if case.donated:
        yield replace(case, donated=())
    values = _values(case)
    if values is not None:
        count = len(program.steps)
        sets = [range(count // 2), range(count // 4), *((k,) for k in range(count))]
        for cut in sets:
            if len(cut):
                yield _tidy(with_arguments(case, values, cut))
        kinds = [(v.shape, v.dtype) for v in values]
        for old in range(len(values) - 1, program.parameters - 1, -1):
            for new in range(old):
                if kinds[new] == kinds[old]:
                    yield _tidy(replace(case, program=substituted(program, old, new)))
    for k, step in enumerate(program.steps):
        for smaller in _smaller_bodies(step):
            steps = (*program.steps[:k], smaller, *program.steps[k + 1 :])
            yield _tidy(replace(case, program=replace(program, steps=steps)))


def _smaller_bodies(step: Step) -> Iterator[Step]:
    for k, body in enumerate(step.bodies):
        for smaller in _smaller_body(body):
            bodies = (*step.bodies[:k], smaller.without_dead_steps(), *step.bodies[k + 1 :])
            yield replace(step, bodies=bodies)


def _smaller_body(body: Program) -> Iterator[Program]:
    """What is not of the right type JAX does not take."""
    count = body.parameters + sum(s.count for s in body.steps)
    for old in range(count - 1, body.parameters - 1, -1):
        for new in range(old):
            yield substituted(body, old, new)
    for k, step in enumerate(body.steps):
        for smaller in _smaller_bodies(step):
            yield replace(body, steps=(*body.steps[:k], smaller, *body.steps[k + 1 :]))


def _tidy(case: Case) -> Case:
    """Without dead steps, and arguments that nobody reads."""
    program = case.program.without_dead_steps()
    read = {o for s in program.steps for o in s.operands} | set(program.results)
    kept = [k for k in range(program.parameters) if k in read]
    new = {old: k for k, old in enumerate(kept)}
    for numbers in program.numbers():
        for number in numbers:
            new[number] = len(new)
    steps = tuple(replace(s, operands=tuple(new[o] for o in s.operands)) for s in program.steps)
    return Case(
        Program(len(kept), steps, tuple(new[r] for r in program.results)),
        tuple(case.arguments[k] for k in kept),
        tuple(new[k] for k in case.donated if k in new),
    )


def with_arguments(case: Case, values: Sequence[np.ndarray], cut: Collection[int]) -> Case:
    """The case with what those steps return for arguments."""
    program = case.program
    numbers = program.numbers()
    arguments = list(case.arguments)
    new = {k: k for k in range(program.parameters)}
    for k in sorted(cut):
        for number in numbers[k]:
            new[number] = len(arguments)
            arguments.append(values[number])
    left = [k for k in range(len(program.steps)) if k not in cut]
    for k in left:
        for number in numbers[k]:
            new[number] = len(new)
    steps = tuple(replace(program.steps[k], operands=tuple(new[o] for o in program.steps[k].operands)) for k in left)
    return Case(Program(len(arguments), steps, tuple(new[r] for r in program.results)), tuple(arguments), case.donated)


def _values(case: Case) -> list[np.ndarray] | None:
    """All values of a program, by XLA:CPU."""
    count = case.program.parameters + sum(s.count for s in case.program.steps)
    function = replace(case.program, results=tuple(range(count))).function()
    device = jax.devices("cpu")[0]
    arguments = [jax.device_put(np.array(a), device) for a in case.arguments]
    try:
        return [np.asarray(v) for v in jax.jit(function)(*arguments)]
    except Exception:  # a program that XLA:CPU runs may become one that it does not run
        return None
