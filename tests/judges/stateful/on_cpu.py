"""A program on the CPU compiler, with all that holds whatever it computes."""

from __future__ import annotations

import os
from collections.abc import Sequence
from importlib import import_module

import numpy as np

from xloom.environment import NUM_THREADS
from xloom.hlo.module import Module
from xloom.hlo.shape import Shape
from xloom.interpreter.bounds import leaves
from xloom.interpreter.registry import Value
from xloom.passes.row_major_entry import has_permuted_entry

_CHECK = "XLOOM_CHECK"


class Differs(Exception):
    """A run that is not as it should be whatever the program computes."""


def on_one_thread(module: Module, arguments: Sequence[np.ndarray]) -> list[np.ndarray]:
    """The results of one run, in a process that has one thread."""
    os.environ[NUM_THREADS.name] = "1"
    return _Runs(module, arguments).results()


def on_cpu(module: Module, arguments: Sequence[np.ndarray]) -> list[np.ndarray]:
    """The results. Raises Differs where arguments change, or another run has other results."""
    os.environ.setdefault(_CHECK, "buffers")
    runs = _Runs(module, arguments)
    results = runs.results()
    runs.check_the_same("in a second run", results, runs.results())
    donated = given_away(module)
    if donated:
        runs.check_the_same("when arguments are given away", results, runs.results(donated))
    return results


def given_away(module: Module) -> list[int]:
    """The parameters that may be: those of aliases and donors."""
    config = module.config
    return sorted({*(a.parameter for a in config.input_output_alias), *(n for n, _ in config.buffer_donors)})


class _Runs:
    """A compiled program, with arrays that lie as its header says."""

    def __init__(self, module: Module, arguments: Sequence[np.ndarray]):
        xloom = import_module("xloom")
        self._parameters, self._result = module.parameter_shapes, module.result_shape
        if has_permuted_entry(module):
            module = module.clone()
            xloom.run_passes(module, "row-major-entry")
        self._compiled = xloom.compile(module)
        self._arguments = [_lying(a, s) for a, s in zip(arguments, self._parameters, strict=True)]

    def results(self, donated: Sequence[int] = ()) -> list[np.ndarray]:
        """Of a run, the arguments not given away being as they were."""
        given = [np.array(a) if k in donated else a for k, a in enumerate(self._arguments)]
        before = [a.tobytes() for a in given]
        results = leaves(self._compiled(*given, donated=donated) if donated else self._compiled(*given))
        kept = [k for k in range(len(given)) if k not in donated]
        for k in kept:
            if given[k].tobytes() != before[k]:
                raise Differs(f"argument {k} is changed")
            if any(np.may_share_memory(r, given[k]) for r in results):
                raise Differs(f"a result lies in argument {k}, which is not given away")
        for k, result in enumerate(results):
            if any(np.may_share_memory(result, other) for other in results[:k]):
                raise Differs(f"result {k} lies where another does")
        shapes = [s for _, s in self._result.leaves()]
        return [np.array(_read(r, s)) for r, s in zip(results, shapes, strict=True)]

    def check_the_same(self, when: str, results: list[np.ndarray], again: list[np.ndarray]) -> None:
        """Raises Differs unless each result is the same to the bit."""
        for k, (first, second) in enumerate(zip(results, again, strict=True)):
            if first.tobytes() != second.tobytes():
                at = next(
                    at for at in np.ndindex(first.shape) if first[at].tobytes() != second[at].tobytes()
                )  # a NaN too
                raise Differs(f"output {k} is another one {when}: at {list(at)} {second[at]} for {first[at]}")


def _lying(array: Value, shape: Shape) -> np.ndarray:
    """The row-major array that is byte for byte the array in its layout."""
    return np.array(np.asarray(array).transpose(shape.major_to_minor), order="C")


def _read(array: np.ndarray, shape: Shape) -> np.ndarray:
    """The inverse of `_lying`."""
    order = shape.major_to_minor
    return array.transpose([order.index(d) for d in range(len(order))])
