"""A program whose values are checked as it runs: by native code, and by the interpreter where that has found something.

Native code first looks only at what NaNs end in. Where there is one, it runs again with code that asks of each
instruction whether it makes one, and keeps to that if none does: arguments may have NaNs, and masks infinities.
"""

from __future__ import annotations

import ctypes
from collections.abc import Callable, Collection, Iterable, Sequence
from typing import Any

import numpy as np

from xloom.codegen.buffer_values import leaf_shapes
from xloom.cpu.runtime.executable import CompiledMemoryStats, Executable, nested
from xloom.errors import CheckError, XloomError
from xloom.hlo.module import Module
from xloom.hlo.shape import Shape
from xloom.interpreter.first_fault import evaluate_checked
from xloom.passes.effects import Effects
from xloom.passes.instrumentation import instrumented


def checked(
    module: Module, checks: Collection[str], compile: Callable[[Module], Executable]
) -> Executable | CheckedExecutable:
    """A program that is checked, if there is something to check. `compile` makes native code."""
    has_effects = Effects().of_computation(module.entry)  # which are not to happen twice
    program = instrumented(module, checks, exact=has_effects)
    if program is None:
        return compile(module)
    return CheckedExecutable(module, checks, compile, compile(program), is_exact=has_effects)


class CheckedExecutable:
    """Runs as `Executable` does. Raises CheckError where the program does what it is checked for."""

    key = None
    """No machine code is kept under the module that it comes from."""

    def __init__(
        self,
        module: Module,
        checks: Collection[str],
        compile: Callable[[Module], Executable],
        executable: Executable,
        *,
        is_exact: bool,
    ):
        """`executable` is the module `instrumented`, and exact if it says so."""
        self.module = module
        self._checks, self._compile = checks, compile
        self._executable, self._is_exact = executable, is_exact
        self._parameters = [p.shape for p in module.entry.parameters]
        self._result = module.entry.root.shape
        self._must_give = {a.parameter for a in module.config.input_output_alias if a.must}

    @property
    def memory(self) -> CompiledMemoryStats:
        """What a run needs."""
        return self._executable.memory

    @property
    def outfeed(self) -> list[Any]:
        """What runs have fed out, in order."""
        return self._executable.outfeed

    def __call__(self, *arguments: Any, infeed: Iterable[Any] = (), donated: Collection[int] = ()) -> Any:
        """As `Executable`; only arguments that must be given away lose their memory."""
        kept = [np.array(a) if k in self._must_give else a for k, a in enumerate(arguments)]
        fed = list(infeed)
        *values, flag = self._executable(*arguments, infeed=fed, donated=self._must_give.intersection(donated))
        if flag:
            self._look(kept, fed)
        return tuple(values) if self._result.is_tuple else values[0]

    def call_into(self, arguments: Sequence[np.ndarray], results: Sequence[np.ndarray]) -> None:
        """As `Executable`, also for results that lie where arguments do."""
        given = [np.array(a) if any(np.may_share_memory(a, r) for r in results) else a for a in arguments]
        flag = np.zeros((), bool)
        self._executable.call_into(given, [*results, flag])
        if flag:
            leaves = iter(given)
            self._look([nested(shape, leaves) for shape in self._parameters], [])

    def call_at(self, arguments: Any, results: Any) -> None:
        """As `Executable`."""
        taken = [leaf for shape in self._parameters for leaf in leaf_shapes(shape)]
        self.call_into(_arrays_at(arguments, taken), _arrays_at(results, leaf_shapes(self._result)))

    def _look(self, arguments: Sequence[Any], infeed: Sequence[Any]) -> None:
        """Raises CheckError unless what native code has seen was there before."""
        if not self._is_exact:
            exact = instrumented(self.module, self._checks, exact=True)
            assert exact is not None
            executable = self._compile(exact)
            *_, flag = executable(*arguments, infeed=infeed, donated=self._must_give)
            self._executable, self._is_exact = executable, True
            if not flag:
                return
        try:
            evaluate_checked(self.module, *arguments, checks=self._checks, infeed=infeed)
            why = "the interpreter, which rounds otherwise, does not do so"
        except CheckError:
            raise
        except XloomError as error:
            why = f"the interpreter, which would say where, cannot run it: {error.message}"
        names = ", ".join(sorted(self._checks))
        raise CheckError(f"native code does what is checked for ({names})", where=self.module.name, hint=why)


def _arrays_at(table: Any, shapes: Sequence[Shape]) -> list[np.ndarray]:
    addresses = np.frombuffer(table, np.uint64, len(shapes))
    found = []
    for address, shape in zip(addresses, shapes, strict=True):
        buffer = (ctypes.c_char * shape.nbytes).from_address(int(address)) if shape.nbytes else b""
        found.append(np.frombuffer(buffer, shape.dtype.numpy).reshape(shape.dims))
    return found
