"""A program whose values are checked as it runs: by native code, and by the interpreter where that has found something.

Native code first looks only at what NaNs end in. Where there is one that an argument or a constant may have had, it
runs again with code that asks of each instruction whether it makes one, and keeps to that if none does.
"""

from __future__ import annotations

import ctypes
import sys
from collections.abc import Callable, Collection, Iterable, Sequence
from typing import Any

import numpy as np

from xloom.codegen.buffer_values import leaf_shapes
from xloom.cpu.runtime.executable import CompiledMemoryStats, Executable
from xloom.cpu.runtime.interpreted_checks import interpret_checked
from xloom.errors import CheckError, XloomError
from xloom.hlo.instruction import Instruction
from xloom.hlo.module import Module
from xloom.hlo.non_finite import is_inexact
from xloom.hlo.shape import Shape
from xloom.interpreter.nested_values import nested
from xloom.interpreter.values import from_literal
from xloom.passes.effects import Effects
from xloom.passes.instrumentation import instrumented

_NOTHING: tuple[Any, ...] = ()


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
        self._has_some = any(map(_gives_non_finite, module.instructions))
        aliases = module.config.input_output_alias
        self._must_give = {a.parameter for a in aliases if a.must}
        self._may_overwrite = bool(aliases) or any(i.opcode == "custom-call" for i in module.instructions)
        """Whether runs on memory of the caller may lose arguments, or need the arrays that lie there."""
        self._result_bytes = 8 * len(leaf_shapes(self._result))

    @property
    def memory(self) -> CompiledMemoryStats:
        """What a run needs."""
        return self._executable.memory

    @property
    def outfeed(self) -> list[Any]:
        """What runs have fed out, in order."""
        return self._executable.outfeed

    def __call__(self, *arguments: Any, infeed: Iterable[Any] = _NOTHING, donated: Collection[int] = ()) -> Any:
        """As `Executable`; only arguments that must be given away lose their memory."""
        if self._must_give or infeed is not _NOTHING:
            kept = [np.array(a) if k in self._must_give else a for k, a in enumerate(arguments)]
            fed = list(infeed)
            values = self._executable(*arguments, infeed=fed, donated=self._must_give.intersection(donated))
        else:  # a short way: what is around it takes as long as a small program
            kept, fed, values = arguments, _NOTHING, self._executable(*arguments)
        if values[-1]:
            self._look(kept, fed)
        return values[:-1] if self._result.is_tuple else values[0]

    def call_into(self, arguments: Sequence[np.ndarray], results: Sequence[np.ndarray]) -> None:
        """As `Executable`, also for results that lie where arguments do."""
        given = [np.array(a) if any(np.may_share_memory(a, r) for r in results) else a for a in arguments]
        flag = np.zeros((), bool)
        self._executable.call_into(given, [*results, flag])
        if flag:
            self._look(self._nested(given), _NOTHING)

    def call_at(self, arguments: Any, results: Any) -> None:
        """As `Executable`."""
        if not self._may_overwrite:
            flag = ctypes.c_bool()
            made = bytes(memoryview(results).cast("B")[: self._result_bytes])
            self._executable.call_at(arguments, made + ctypes.addressof(flag).to_bytes(8, sys.byteorder))
            if not flag.value:
                return
        taken = _arrays_at(arguments, [leaf for shape in self._parameters for leaf in leaf_shapes(shape)])
        if self._may_overwrite:
            self.call_into(taken, _arrays_at(results, leaf_shapes(self._result)))
        else:
            self._look(self._nested(taken), _NOTHING)

    def _nested(self, arrays: Iterable[np.ndarray]) -> list[Any]:
        leaves = iter(arrays)
        return [nested(shape, leaves) for shape in self._parameters]

    def _look(self, arguments: Sequence[Any], infeed: Sequence[Any]) -> None:
        """Raises CheckError unless what native code has seen was there before."""
        why = ""
        if not self._is_exact:
            if not (self._has_some or any(_has_non_finite(a) for a in arguments)):
                why = self._interpret(arguments, infeed)
            exact = instrumented(self.module, self._checks, exact=True)
            assert exact is not None
            executable = self._compile(exact)
            *_, flag = executable(*arguments, infeed=infeed, donated=self._must_give)
            self._executable, self._is_exact = executable, True
            if not flag:
                return
        why = why or self._interpret(arguments, infeed)
        names = ", ".join(sorted(self._checks))
        raise CheckError(f"native code does what is checked for ({names})", where=self.module.name, hint=why)

    def _interpret(self, arguments: Sequence[Any], infeed: Sequence[Any]) -> str:
        """Raises CheckError that says where it happens; else why it does not."""
        try:
            interpret_checked(self.module, self._checks, arguments, infeed)
        except CheckError:
            raise
        except XloomError as error:
            return f"the interpreter, which would say where, cannot run the program: {error}"
        return "the interpreter, which rounds otherwise, does not do so"


def _gives_non_finite(instruction: Instruction) -> bool:
    """Whether NaNs or infinities begin with an instruction that does not make them."""
    if instruction.opcode == "constant":
        return _has_non_finite(from_literal(instruction.literal))
    return instruction.opcode == "bitcast-convert" and is_inexact(instruction.shape)


def _has_non_finite(value: Any) -> bool:
    if isinstance(value, tuple):
        return any(map(_has_non_finite, value))
    if not isinstance(value, np.ndarray) or value.dtype.kind in "biu":
        return False
    with np.errstate(all="ignore"):
        return not np.isfinite(value).all()


def _arrays_at(table: Any, shapes: Sequence[Shape]) -> list[np.ndarray]:
    addresses = np.frombuffer(table, np.uint64, len(shapes))
    found = []
    for address, shape in zip(addresses, shapes, strict=True):
        buffer: Any = (ctypes.c_char * shape.nbytes).from_address(int(address)) if shape.nbytes else b""
        found.append(np.frombuffer(buffer, shape.dtype.numpy).reshape(shape.dims))
    return found
