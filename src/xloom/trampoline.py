"""Recursion of any depth: programs are as deep as their authors like, Python's stack is not.

A recursive function is written as a generator that yields each nested call and gets its result:

    def _depth(shape: Shape) -> Nested[int]:
        found = 0
        for element in shape.elements:
            found = max(found, (yield _depth(element)))
        return found + 1

`run(_depth(shape))` is its value.
"""

from __future__ import annotations

from collections.abc import Generator, Iterable
from typing import Any, TypeVar

T = TypeVar("T")
Nested = Generator[Any, Any, T]
"""A call that may have others in it, which it yields."""


def run(call: Nested[T]) -> T:
    """What a call returns; the calls in it wait on a list rather than on Python's stack."""
    waiting: list[Nested[Any]] = []
    result: Any = None
    failure: BaseException | None = None
    while True:
        try:
            nested = call.send(result) if failure is None else call.throw(failure)
        except StopIteration as end:
            if not waiting:
                return end.value
            call, result, failure = waiting.pop(), end.value, None
        except BaseException as error:
            if not waiting:
                raise
            call, failure = waiting.pop(), error
        else:
            waiting.append(call)
            call, result, failure = nested, None, None


def each(calls: Iterable[Nested[T]]) -> Nested[list[T]]:
    """What several calls return, one after another."""
    results = []
    for call in calls:
        results.append((yield call))  # noqa: PERF401 - no comprehension may yield
    return results
