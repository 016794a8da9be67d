"""A program on GPUs: what it has on each of them, and its runs, which give their device work and do not wait."""

from __future__ import annotations

import threading
from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import partial

import numpy as np

from xloom import checks
from xloom.codegen.buffer_values import leaf_shapes
from xloom.cuda.driver.results import DriverError
from xloom.cuda.kernel import ALIGNMENT
from xloom.cuda.lower import lowered
from xloom.cuda.program import Launch
from xloom.cuda.run_time import transfers
from xloom.cuda.run_time.arrays import CudaArray
from xloom.cuda.run_time.collectives import Place, exchange
from xloom.cuda.run_time.conditional_graphs import ConditionalGraph
from xloom.cuda.run_time.custom_calls import CallsInStream
from xloom.cuda.run_time.device import CudaDevice
from xloom.cuda.run_time.graphs import FEWEST, MOST, Graphs
from xloom.cuda.run_time.memory import Block, Lent
from xloom.cuda.run_time.tape import (
    Rows,
    TapeBranch,
    TapeCall,
    TapeCollective,
    TapeCountedLoop,
    TapeLoop,
    TapeStep,
    tape_of,
)
from xloom.cuda.run_time.tape_runner import tape_runner
from xloom.hlo.module import Module
from xloom.interpreter.nested_values import arrays
from xloom.llvm.target import Target

_NAMED = 3
"""So many kernels an error names that cannot say which of them failed."""


@dataclass
class _OnDevice:
    """What a program keeps on a device."""

    constants: Block
    functions: np.ndarray
    """i64, the CUfunction of each of the tape's kernels."""
    graphs: Graphs | None
    """Of programs with so many launches that they are worth while."""
    arena: Block | None
    """Of those, one for all runs, so that it is at the same address."""
    numbers: dict[tuple[int, int], Block] = field(default_factory=dict)
    """Replica and partition in memory, each u32, for each that it was."""


@dataclass
class _Run:
    """One run: where its arrays are, and what it is given to."""

    device: CudaDevice
    functions: int
    """The address of the table of functions."""
    bases: np.ndarray
    """i64, the addresses that the tape's pointers count from."""
    place: Place
    entries: np.ndarray = field(init=False)
    calls: CallsInStream = field(init=False)

    def __post_init__(self) -> None:
        names = ("cuLaunchKernel", "cuMemcpyDtoDAsync_v2")
        self.entries = np.array([self.device.driver.address(name) for name in names], np.int64)
        self.calls = CallsInStream(self.device)

    def address(self, pointer: np.ndarray) -> int:
        """What a row of the tape's pointers points to."""
        base, offset = pointer
        return int(self.bases[base] + offset)


class CudaExecutable:
    """A module on GPUs of one kind."""

    def __init__(self, module: Module, target: Target):
        """Raises LoweringError for what has no kernels."""
        self.name = module.name
        self.program = lowered(module, target)
        assignment = self.program.assignment
        values = [constant.literal.value for constant in assignment.constants]
        given = [np.ascontiguousarray(leaf).tobytes() for value in values for leaf in arrays(value)]
        self.tape = tape_of(self.program, given)
        self.results = leaf_shapes(module.entry.root.shape)
        """The shapes of the leaves of the result."""
        self._aliases = {r.number: a.number for r, a in assignment.input_output_aliases}
        self._devices: dict[CudaDevice, _OnDevice] = {}
        self._loading = threading.Lock()

    @property
    def decides(self) -> bool:
        """Whether a run may wait for the device: the host reads what its loops and branches depend on, where no graph
        of the same arrays does, or launches more kernels than a device's queue holds."""
        return self.tape.decides or (self.tape.nodes or 0) > MOST

    def run(
        self,
        device: CudaDevice,
        arguments: Sequence[CudaArray],
        donated: frozenset[int] = frozenset(),
        place: Place | None = None,
        into: Sequence[Lent] | None = None,
    ) -> list[CudaArray]:
        """Gives a device the program's work, for the leaves of its arguments; the leaves of its result come later.

        The results may take the memory of arguments that are `donated`, or are made in the memory `into`. Of a program
        for several devices, `place` says which of them it is; each has a thread that runs it. Raises DriverError for
        what is refused, or what went wrong before, and OutOfMemoryError.
        """
        with device:
            ours = self._on(device)
            # what others lend may lie anywhere
            arguments = [a if a.pointer % ALIGNMENT == 0 else transfers.copied(a, device) for a in arguments]
            for argument in arguments:
                device.follow(device.compute, argument.completion)
            results = self._results(device, arguments, donated) if into is None else list(into)
            arena = ours.arena or device.memory.allocate(self.program.arena_bytes)
            pointers = [each.pointer for each in (*arguments, *results, arena, ours.constants)]
            place = place or Place()
            bases = np.array([*pointers, 0, self._numbers(device, ours, place)], np.int64)
            run = _Run(device, ours.functions.ctypes.data, bases, place)
            if ours.graphs is not None and not checks.is_checked("launches"):
                make = partial(self._conditional_graph, run) if self.tape.decides else None
                ours.graphs.launch(run.bases.tobytes(), partial(self._do, self.tape.steps, run), make)
            else:
                self._do(self.tape.steps, run, device.compute)
            done = device.record(device.compute, self._where)
            return [
                CudaArray(device, block, shape.dims, shape.dtype.numpy, done)
                for block, shape in zip(results, self.results, strict=True)
            ]

    def _results(
        self, device: CudaDevice, arguments: Sequence[CudaArray], donated: frozenset[int]
    ) -> list[Block | Lent]:
        found: list[Block | Lent] = []
        for number, shape in enumerate(self.results):
            argument = self._aliases.get(number)
            if argument is not None and argument in donated:
                found.append(arguments[argument].block)
            else:
                found.append(device.memory.allocate(shape.nbytes))
        return found

    def _on(self, device: CudaDevice) -> _OnDevice:
        """What it has on a device, brought there the first time."""
        with self._loading:
            if device not in self._devices:
                self._devices[device] = self._brought(device)
            return self._devices[device]

    def _numbers(self, device: CudaDevice, ours: _OnDevice, place: Place) -> int:
        """The address of a run's numbers; null where there is one device."""
        if place.meeting is None:
            return 0
        key = place.replica, place.partition
        with self._loading:
            if key not in ours.numbers:
                ours.numbers[key] = _uploaded(device, np.array(key, np.uint32).view(np.uint8))
            return ours.numbers[key].pointer

    def _brought(self, device: CudaDevice) -> _OnDevice:
        makes: dict[int, str] = {}
        for launch, row in zip(self.tape.made_from, self.tape.rows, strict=True):
            if isinstance(launch, Launch):
                makes.setdefault(int(row[0]), launch.makes)
        functions = [device.modules.function(k, makes[n]) for n, k in enumerate(self.tape.kernels)]
        block = _uploaded(device, np.frombuffer(self.tape.constants, np.uint8))
        nodes = self.tape.nodes
        is_worth_while = nodes is not None and FEWEST <= nodes <= MOST
        has_graphs = is_worth_while and (not self.tape.decides or device.driver.has_conditional_nodes)
        arena = device.memory.allocate(self.program.arena_bytes) if has_graphs else None
        return _OnDevice(block, np.array(functions, np.int64), Graphs(device) if has_graphs else None, arena)

    def _conditional_graph(self, run: _Run) -> int:
        made = ConditionalGraph(
            run.device, lambda rows, stream: self._rows(rows, run, stream), lambda p: run.address(self.tape.pointers[p])
        )
        return made.made(self.tape.steps)

    # -- steps
    def _do(self, steps: Sequence[TapeStep], run: _Run, stream: int) -> None:
        """Gives a stream of the device these steps: the one that computes, unless all of them are rows and counted."""
        for step in steps:
            if isinstance(step, Rows):
                self._rows(step, run, stream)
            elif isinstance(step, TapeCountedLoop):
                for _ in range(step.trips):
                    self._do(step.body, run, stream)
            elif isinstance(step, TapeLoop):
                self._do(step.condition, run, stream)
                while self._read(step.predicate, run, np.dtype(np.uint8)):
                    self._do(step.body, run, stream)
                    self._do(step.condition, run, stream)
            elif isinstance(step, TapeCollective):
                operands, results = (
                    [run.address(self.tape.pointers[p]) for p in part] for part in (step.operands, step.results)
                )
                exchange(run.device, run.place, step.step, operands, results)
            elif isinstance(step, TapeCall):
                operands, results = (
                    [0 if p is None else run.address(self.tape.pointers[p]) for p in part]
                    for part in (step.operands, step.results)
                )
                run.calls.make(step.call, operands, results)
            else:
                self._do(step.branches[self._chosen(step, run)], run, stream)

    def _rows(self, rows: Rows, run: _Run, stream: int) -> None:
        if not checks.is_checked("launches"):
            self._given(rows.first, rows.end, run, stream)
            return
        for row in range(rows.first, rows.end):
            self._given(row, row + 1, run, stream)
            try:
                run.device.driver.call("cuStreamSynchronize", stream)
            except DriverError as error:
                raise DriverError(error.result, "a kernel failed", where=self._made_by(row)) from None

    def _given(self, first: int, end: int, run: _Run, stream: int) -> None:
        """Gives a stream of the device rows of the tape."""
        tape = self.tape
        places = tape.pointers.ctypes.data, run.bases.ctypes.data, run.functions, stream
        said = tape_runner()(tape.rows.ctypes.data, first, end, *places, run.entries.ctypes.data)
        if said:
            row, result = divmod(said, 1 << 16)
            raise DriverError(result, "a launch was refused", where=self._made_by(row))

    def _chosen(self, branch: TapeBranch, run: _Run) -> int:
        if branch.is_predicate:
            return 0 if self._read(branch.chooser, run, np.dtype(np.uint8)) else 1
        number, last = self._read(branch.chooser, run, np.dtype(np.int32)), len(branch.branches) - 1
        return number if 0 <= number <= last else last

    def _read(self, pointer: int, run: _Run, dtype: np.dtype) -> int:
        """A number that the device has made, for which it is waited."""
        device = run.device
        out = device.pinned.array(dtype.itemsize)
        given = out.ctypes.data, run.address(self.tape.pointers[pointer]), dtype.itemsize, device.compute
        device.driver.call("cuMemcpyDtoHAsync_v2", *given)
        done = device.record(device.compute, self._where)
        done.wait()
        if done.error is not None:
            raise done.error
        return int(out.view(dtype)[0])

    # -- what errors say
    def _made_by(self, row: int) -> str:
        step = self.tape.made_from[row]
        return step.makes if isinstance(step, Launch) else f"a copy in {self.name}"

    @property
    def _where(self) -> str:
        """The instructions that the program's kernels make; of many, the first ones."""
        found = list(dict.fromkeys(step.makes for step in self.tape.made_from if isinstance(step, Launch)))
        more = f" and {len(found) - _NAMED} more" if len(found) > _NAMED else ""
        which = "" if len(found) < 2 else "one of "
        return f"{self.name}: {which}{'; '.join(found[:_NAMED])}{more}"


def _uploaded(device: CudaDevice, data: np.ndarray) -> Block:
    """A copy of bytes that a program's kernels read."""
    block = device.memory.allocate(data.nbytes)
    if data.nbytes:
        staged = device.pinned.copied(data)
        given = block.pointer, staged.ctypes.data, data.nbytes, device.compute
        device.driver.call("cuMemcpyHtoDAsync_v2", *given)
        device.record(device.compute, "constants to the device", staged)
    return block
