"""A compiled program: NumPy arrays in, NumPy arrays out."""

from __future__ import annotations

import ctypes
from collections import deque
from collections.abc import Callable, Collection, Iterable, Sequence
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Any

import numpy as np

from xloom.calls.buffers import ALIGNMENT
from xloom.codegen.buffer_values import leaf_shapes
from xloom.codegen.buffers.input_output_aliases import aliases
from xloom.codegen.thresholds import POOLED
from xloom.cpu.custom_calls.run import Run, call_error
from xloom.cpu.entry.main_function import INTERRUPTED, MAIN
from xloom.cpu.runtime.dispatch import MISFIT, Call, address_of, dispatch, struct_offsets_match
from xloom.cpu.runtime.memory_pool import Block, MemoryPool
from xloom.cpu.runtime.threads import pool
from xloom.errors import EvaluationError, LoweringError, UnsupportedError
from xloom.hlo.lazy_module import declaration_of
from xloom.hlo.module import Module
from xloom.hlo.shape import Shape
from xloom.interpreter.nested_values import arrays, nested
from xloom.interpreter.registry import TOKEN
from xloom.interpreter.values import from_argument, miscounted
from xloom.trace import watch

if TYPE_CHECKING:
    from xloom.codegen.buffers.assignment import BufferAssignment
    from xloom.cpu.entry.emitted_program import EmittedProgram
    from xloom.cpu.runtime.serialized_executable import LinkedExecutable

_MAIN = ctypes.CFUNCTYPE(ctypes.c_int32, *[ctypes.c_void_p] * 4, ctypes.py_object)
_NOTHING: deque[Any] = deque()
_MOST_DIMENSIONS = 64
"""Of NumPy's arrays."""
_is_traced = False
"""Whether a trace is being taken: a global of this file, which costs a run without one next to nothing."""


def _note_trace(is_taken: bool) -> None:
    global _is_traced
    _is_traced = is_taken


watch(_note_trace)


@dataclass(frozen=True)
class CompiledMemoryStats:
    """Bytes that a run needs: of arguments, results, constants, and temporary arrays (the arena)."""

    argument_bytes: int
    result_bytes: int
    constant_bytes: int
    temporary_bytes: int
    rendezvous_bytes: int = 0
    """Of what the devices of one run share."""
    aliased_bytes: int = 0
    """Of results that lie where an argument does, if the caller gives it away."""
    largest: str = ""
    """The largest temporary array: its name, and its shape."""

    @staticmethod
    def of(assignment: BufferAssignment, program: EmittedProgram) -> CompiledMemoryStats:
        """The bytes that an assigned and emitted program needs."""
        return CompiledMemoryStats(
            sum(allocation.nbytes for allocation in assignment.arguments),
            sum(allocation.nbytes for allocation in assignment.results),
            sum(leaf.nbytes for leaf in assignment.constant_arrays) + sum(map(len, program.tables)),
            program.arena_bytes,
            program.rendezvous_bytes,
            sum(result.nbytes for result, _ in assignment.input_output_aliases),
            assignment.largest,
        )

    @property
    def peak_bytes(self) -> int:
        """All of them, what is both an argument and a result counted once."""
        needed = self.argument_bytes + self.result_bytes + self.constant_bytes + self.temporary_bytes
        return needed - self.aliased_bytes


@dataclass(frozen=True)
class Direct:
    """What native code needs to run a program without Python.

    `main` takes tables of the addresses of row-major arrays: arguments, results, constants; then the arena."""

    main: int
    constants: int
    arena_bytes: int
    aliases: list[tuple[int, int]]
    """The results that may lie where an argument does that is given away, by number."""
    owner: Any
    """What the addresses are of."""


class Executable:
    """A program compiled to native code, ready to run: `y = executable(a, b)`. `xl.compile` makes it.

    Arguments are NumPy arrays, or what NumPy makes one of without another dtype (Python scalars take the parameter's),
    of the parameters' dims and dtypes: `module.parameter_shapes`. Arrays that are not row-major are copied. Results are
    new arrays of `module.result_shape`, nested tuples of them where that is a tuple. It may be called from several
    threads at once. `memory` has the bytes that a run needs: `executable.memory.peak_bytes`.
    """

    hidden: Sequence[tuple[str, Shape]] = ()
    """Arguments after those that the module has parameters for."""
    timed: Callable[[], Executable | None] = staticmethod(lambda: None)
    """Gives the same program with a clock around its kernels, which runs in its place while a trace is taken."""

    def __init__(self, module: Module, image: LinkedExecutable, key: str | None = None):
        self.module = module
        self.key = key
        """What its machine code is kept under, if it is."""
        self.memory = image.memory
        self._pool = MemoryPool(partial(_needed_for, module, image.memory))  # which does not refer to the executable
        self._image = image
        self._main = image.library.function(MAIN, _MAIN)
        declaration = declaration_of(module)
        self._parameters = [*((p.name, p.shape) for p in declaration.entry.parameters), *self.hidden]
        self._leaves = [leaf for _, shape in self._parameters for leaf in leaf_shapes(shape)]
        for leaf in (*self._leaves, *leaf_shapes(declaration.entry.root.shape)):
            if leaf.rank > _MOST_DIMENSIONS:
                hint = f"reshape it: arrays of NumPy have at most {_MOST_DIMENSIONS}"
                raise LoweringError(f"an argument or result of {leaf.rank} dimensions", where=module.name, hint=hint)
        self._plain = all(shape.is_array for _, shape in self._parameters)
        self._dtypes = [s.dtype.numpy for s in self._leaves]
        self._result_shape = declaration.entry.root.shape
        self._results = [(s.dims, s.dtype.numpy, s.nbytes) for s in leaf_shapes(self._result_shape)]
        self._calls = image.calls
        self._makers = [
            self._pool.maker(*result, aligned=k in image.aligned_results) for k, result in enumerate(self._results)
        ]
        self._aligned_results = image.aligned_results
        self._aliases = aliases(declaration)
        self._must_give = {a.parameter for a in self._aliases if a.must}
        self.outfeed: list[Any] = []
        """What runs have fed out, in order."""
        self._constant_table = _table([a.ctypes.data for a in image.constants])
        arena_bytes = image.memory.temporary_bytes
        self._arena = self._pool.taker(arena_bytes)
        self._spare = list[Block]()
        """Small arenas of runs that are over; what a program calls may look at its own for longer."""
        self._spares = 0 < arena_bytes < POOLED and not self._calls
        self._argument_table = ctypes.c_void_p * max(1, len(self._leaves))
        self._result_table = ctypes.c_void_p * max(1, len(self._results))
        self._is_one = self._result_shape.is_array
        self._is_flat = all(e.is_array for e in self._result_shape.elements)
        self._dispatch = None
        if self._plain and not self._must_give and struct_offsets_match():
            rows = [(dtype, shape.dims) for dtype, (_, shape) in zip(self._dtypes, self._parameters, strict=True)]
            constants = ctypes.addressof(self._constant_table)
            self._call = Call(self.main_address, constants, rows, len(self._results))
            self._dispatch = dispatch()

    def __call__(self, *arguments: Any, infeed: Iterable[Any] = (), donated: Collection[int] = ()) -> Any:
        """The result for `arguments`, one per parameter: an array, or nested tuples of arrays.

        `infeed` are the values that the program's infeeds take, in order. `donated` are the numbers of arguments that
        the caller gives away: results that the module's header aliases with them take their memory, if it can be
        written to. Raises ShapeError for arguments that do not fit, CustomCallError where a call fails: nothing after
        it runs.
        """
        if _is_traced and (timed := self.timed()) is not None:
            return timed(*arguments, infeed=infeed, donated=donated)
        if len(arguments) != len(self._parameters):
            raise miscounted(self.module.name, self._parameters, len(arguments))
        queue = deque(infeed) if self._calls else _NOTHING
        if self._dispatch is not None:
            outputs = self._outputs(self._outputs_in(arguments, donated) if donated else {})
            try:
                arena = self._spare.pop() if self._spares else self._arena()
            except IndexError:  # so many runs at once as never before
                arena = self._arena()
            run = self._started(arguments, outputs, arena, queue) if self._calls else None
            number = self._dispatch(self._call.address, arguments, outputs, arena.address, run)
            if self._spares:
                self._spare.append(arena)
            if number == 0:
                return outputs[0] if self._is_one else self._value(outputs)
            if number != MISFIT:
                return self._finished(number, run, outputs, arena)
        inputs = self._inputs(arguments)
        return self._run(inputs, queue, self._outputs_in(inputs, donated))

    @property
    def calls_outside(self) -> bool:
        """Whether it calls code that is not its own, which `call_at` cannot."""
        return bool(self._calls)

    @property
    def direct(self) -> Direct | None:
        """How to run it without Python; None where calls, tuples or memory that must be given away need it."""
        if self._image.needs_run or not self._plain or self._must_give:
            return None
        return Direct(
            self.main_address,
            ctypes.addressof(self._constant_table),
            self.memory.temporary_bytes,
            [(alias.result, alias.argument) for alias in self._aliases],
            self,
        )

    def failure(self, number: int) -> BaseException:
        """What went wrong in a `direct` run of this thread, whose `main` has returned `number`."""
        return pool().interrupts.taken() if number == INTERRUPTED else call_error(self._calls[number - 1], None)

    @property
    def main_address(self) -> int:
        """Of its native main function."""
        return self._image.library.address(MAIN)

    def call_at(self, arguments: Any, results: Any, *, main: Callable[..., int] | None = None) -> None:
        """Runs it on memory that the caller answers for: tables of the addresses of row-major arrays, one per leaf.

        `main` runs its main function in a way of its own. Raises UnsupportedError when the program calls code outside,
        which needs the arrays themselves.
        """
        if self._calls:
            raise UnsupportedError(
                f"{self.module.name} calls code that is not its own",
                hint="call it with arrays, or by call_into: such code sees the arrays themselves",
            )
        if _is_traced and (timed := self.timed()) is not None:
            timed.call_at(arguments, results)
            return
        arena = self._arena()
        if (main or self._main)(arguments, results, self._constant_table, arena.address, None) == INTERRUPTED:
            raise pool().interrupts.taken()

    def call_into(self, arguments: Sequence[np.ndarray], results: Sequence[np.ndarray]) -> None:
        """Runs it on row-major arrays, with results in arrays that the caller has made, one per leaf."""
        if _is_traced and (timed := self.timed()) is not None:
            timed.call_into(arguments, results)
            return
        self._run(list(arguments), deque(), dict(enumerate(results)))

    def _outputs(self, aliased: dict[int, np.ndarray]) -> tuple[np.ndarray, ...]:
        """Memory for the results, but for those that have some."""
        if not aliased:
            return tuple([make() for make in self._makers])
        return tuple([aliased[k] if k in aliased else make() for k, make in enumerate(self._makers)])

    def _run(self, inputs: list[np.ndarray], infeed: deque[Any], aliased: dict[int, np.ndarray]) -> Any:
        pointers = self._argument_table(*[a.__array_interface__["data"][0] for a in inputs])
        outputs = self._outputs(aliased)
        results = self._result_table(*[a.__array_interface__["data"][0] for a in outputs])
        arena = self._arena()
        run = self._started(inputs, outputs, arena, infeed) if self._calls else None
        number = self._main(pointers, results, self._constant_table, arena.address, run)
        return self._finished(number, run, outputs, arena)

    def _outputs_in(self, inputs: Sequence[Any], donated: Collection[int]) -> dict[int, np.ndarray]:
        """The results that lie in arguments that are given away, by number."""
        found: dict[int, np.ndarray] = {}
        for alias in self._aliases:
            array = inputs[alias.argument]
            is_aliased = alias.parameter in donated and type(array) is np.ndarray and array.flags.carray
            if is_aliased and alias.result in self._aligned_results:
                address = address_of(array) if struct_offsets_match() else array.__array_interface__["data"][0]
                is_aliased = address % ALIGNMENT == 0
            if is_aliased:
                dims, dtype, nbytes = self._results[alias.result]
                if array.shape == dims and array.dtype is dtype:
                    found[alias.result] = array
                elif array.nbytes == nbytes:
                    found[alias.result] = array.reshape(-1).view(np.uint8).view(dtype).reshape(dims)
            elif alias.must:
                raise EvaluationError(
                    "An input was configured to be must-alias at compile time but not donated at runtime: "
                    f"parameter {alias.parameter}",
                    where=self.module.name,
                    hint="name it in donated=, and pass memory that can be written to",
                )
        return found

    def _started(
        self, inputs: Sequence[np.ndarray], outputs: Sequence[np.ndarray], arena: Block, infeed: deque[Any]
    ) -> Run:
        return Run(inputs, outputs, self._image.constants, arena, infeed, self.outfeed)

    def _finished(self, number: int, run: Run | None, outputs: tuple[np.ndarray, ...], arena: Block) -> Any:
        if number == INTERRUPTED:
            raise pool().interrupts.taken()
        if number:
            raise call_error(self._calls[number - 1], run)
        return self._value(outputs)

    def _value(self, outputs: tuple[np.ndarray, ...]) -> Any:
        if not self._result_shape.is_tuple:
            return outputs[0] if outputs else TOKEN
        return outputs if self._is_flat else nested(self._result_shape, iter(outputs))

    def _inputs(self, arguments: tuple[Any, ...]) -> list[np.ndarray]:
        if self._plain:
            found = []
            for argument, (name, shape), dtype in zip(arguments, self._parameters, self._dtypes, strict=True):
                if not (
                    type(argument) is np.ndarray
                    and argument.dtype == dtype
                    and argument.shape == shape.dims
                    and argument.flags.c_contiguous
                ):
                    argument = _contiguous(from_argument(argument, shape, name))
                found.append(argument)
            return found
        values = [from_argument(a, s, n) for a, (n, s) in zip(arguments, self._parameters, strict=True)]
        return [_contiguous(leaf) for value in values for leaf in arrays(value)]


def _needed_for(module: Module, memory: CompiledMemoryStats, nbytes: int) -> str:
    """What of so many bytes a run needs."""
    for k, shape in enumerate(leaf_shapes(declaration_of(module).entry.root.shape)):
        if shape.nbytes == nbytes:
            return f"result {k} of {module.name}, {shape.to_text(layout=False)}"
    return f"temporary arrays of {module.name}, the largest {memory.largest}"


def _contiguous(array: Any) -> np.ndarray:
    return np.asarray(array, order="C")


def _table(addresses: list[int]) -> Any:
    return (ctypes.c_void_p * max(1, len(addresses)))(*addresses)
