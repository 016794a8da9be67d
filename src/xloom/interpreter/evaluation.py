"""Whole programs evaluated."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable
from typing import Any

from xloom.errors import EvaluationError
from xloom.hlo.expanded_size import overgrown_call
from xloom.hlo.module import Module
from xloom.interpreter.evaluator import Evaluator
from xloom.interpreter.registry import Value
from xloom.interpreter.values import from_argument, miscounted
from xloom.reentry import check_device

_MOST = 1 << 24
"""Instructions that calls may stand for: minutes of work."""


def evaluate(module: Module, *arguments: Any, infeed: Iterable[Value] = (), seed: int = 0) -> Value:
    """The entry computation's value: NumPy arrays, and tuples of them where the program returns tuples.

    `arguments` are NumPy arrays, literals, Python scalars or nested tuples, one per parameter. Raises ShapeError for
    arguments that do not fit, EvaluationError where the program has no value, CustomCallError where a call fails.
    """
    check_device("interpreter", module.name)
    parameters = module.entry.parameters
    if len(arguments) != len(parameters):
        raise miscounted(module.name, [(p.name, p.shape) for p in parameters], len(arguments))
    values = [from_argument(a, p.shape, p.name) for a, p in zip(arguments, parameters, strict=True)]
    overgrown = overgrown_call(module.entry, _MOST)
    if overgrown is not None:
        raise EvaluationError(
            f"this {overgrown[0].opcode} stands for {overgrown[1]} instructions: each call has several others in it",
            where=overgrown[0].name,
            hint="`xloom reduce` finds a smaller program of the kind; a loop stands for as many with one computation",
        )
    evaluator = Evaluator(module, seed=seed)
    evaluator.infeed = deque(infeed)
    return evaluator.call(module.entry, values)
