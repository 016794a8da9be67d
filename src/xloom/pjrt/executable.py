"""Compiled programs: as such, and on devices."""

from __future__ import annotations

import hashlib
import struct
import time
from collections.abc import Callable, Collection, Sequence
from dataclasses import replace
from functools import cached_property
from typing import TYPE_CHECKING, Any, NamedTuple

from xloom.errors import DistributedError, UnsupportedError
from xloom.hlo.donation import donated_parameters
from xloom.hlo.lazy_module import declaration_of
from xloom.hlo.module import Module
from xloom.hlo.proto.decoder import decode
from xloom.hlo.shape import Shape
from xloom.pjrt.backend_result_checks import arguments_on_device, checked_results
from xloom.pjrt.brief_runs import BriefRuns
from xloom.pjrt.buffer import Buffer
from xloom.pjrt.collectives import Exchanges
from xloom.pjrt.compiler import Launch, Native, Program, SpmdNative
from xloom.pjrt.device import Device
from xloom.pjrt.donation import are_exclusive
from xloom.pjrt.enqueued import Completion, Enqueued
from xloom.pjrt.error import PjrtError, code_of, invalid
from xloom.pjrt.execution_mode import ExecutionMode
from xloom.pjrt.future import Future
from xloom.pjrt.memory_space import MemorySpace
from xloom.pjrt.options import CompileOptions
from xloom.pjrt.placement import result_kinds
from xloom.pjrt.run_lengths import RunLengths
from xloom.status_code import Code
from xloom.trace import span

if TYPE_CHECKING:
    from xloom.distributed.plan import Plan
    from xloom.distributed.run import Brief
    from xloom.pjrt.client import Client
    from xloom.pjrt.known_programs import KnownProgram

_MAGIC = b"xloom-pjrt-2\n"
_SIZES = struct.Struct("<QQ")


keep_alive_hooks: list[Callable[[Module], Any]] = []
"""Each gives what must live as long as an executable of its module."""


class Executable:
    """A compiled module, which need not be on a device."""

    def __init__(self, module: Module, options: CompileOptions, program: Program, known: KnownProgram | None = None):
        """A program that is `known` was compiled before, has no custom calls and need not be read."""
        self.module = module
        self.options = options
        self.program = program
        self._known = known
        self.declaration = module if known is None else declaration_of(module)
        """What callers see of the module."""
        self._kept = [keep(self.declaration) for keep in keep_alive_hooks]
        self.execution_mode = ExecutionMode.ASYNCHRONOUS
        """Whether another thread would take long to begin with it, next to its own time: judged by native code's. What
        calls Python's functions counts as such: who prints or writes in one expects it done when the call returns."""
        if isinstance(program, Native) or (isinstance(program, SpmdNative) and program.is_independent):
            if known is None:
                from xloom.pjrt.cost import execution_mode  # which loads passes

                suited = execution_mode(module, program.memory)
            else:
                suited = known.execution_mode
            self.execution_mode = ExecutionMode.SYNCHRONOUS if any(self._kept) else suited
        elif getattr(program, "enqueues", False):
            self.execution_mode = ExecutionMode.SYNCHRONOUS
        self.run_lengths = RunLengths()
        """Of runs that are handed over if they are long."""
        self.parameters = self.declaration.parameter_shapes
        root = self.declaration.result_shape
        self.outputs = list(root.elements) if root.is_tuple else [root]
        self.output_kinds = result_kinds(self.declaration)
        """The kinds of memory that the results are in."""

    @property
    def name(self) -> str:
        """The name of the module."""
        return self.declaration.name

    @property
    def is_cheap(self) -> bool:
        """Whether the caller's thread runs it at present."""
        return self.execution_mode is ExecutionMode.SYNCHRONOUS or self.run_lengths.are_short

    @cached_property
    def fingerprint(self) -> str:
        """A text that programs have in common only if they do the same."""
        key = self.program.key if isinstance(self.program, Native | SpmdNative) else None
        text = (key or self.module.to_text(print_metadata=False)) + repr(self.options.devices())
        return hashlib.sha256(text.encode("utf-8", "surrogateescape")).hexdigest()

    @cached_property
    def exchanges(self) -> Exchanges:
        """What the devices of native code for several exchange."""
        if self._known is not None and self._known.exchanges is not None:
            return self._known.exchanges
        assert isinstance(self.program, SpmdNative)
        return Exchanges.of(self.module, self.program)

    @property
    def donated(self) -> list[int]:
        """The parameters whose memory the results may take."""
        return donated_parameters(self.declaration)

    def serialize(self) -> bytes:
        """Bytes from which `Client.deserialize` makes it again, with its options."""
        if any(self._kept):
            message = f"{self.name} calls Python functions, which no other process has"
            raise PjrtError(Code.UNIMPLEMENTED, message, hint="compile it in the process that runs it")
        module, options = self.module.to_proto(), self.options.to_proto()
        content = b"".join([_SIZES.pack(len(module), len(options)), module, options])
        return b"".join([_MAGIC, hashlib.sha256(content).digest(), content])

    @staticmethod
    def parts(data: bytes) -> tuple[Module, bytes]:
        """The module and the options that `serialize` has packed: no machine code, which is made or found again."""
        if not data.startswith(_MAGIC):
            raise invalid(
                "not an executable that this version of xloom has serialised",
                "compile the program again, and serialise it by this version",
            )
        at = len(_MAGIC) + hashlib.sha256().digest_size
        content = data[at:]
        if len(content) < _SIZES.size or hashlib.sha256(content).digest() != data[len(_MAGIC) : at]:
            raise invalid("a serialised executable that is damaged", "serialise it again")
        sizes = _SIZES.unpack_from(content)
        if _SIZES.size + sum(sizes) != len(content):
            raise invalid(
                f"a serialised executable says that it has {sizes} bytes, and has {len(content)} in all",
                "it is damaged: serialise it again",
            )
        middle = _SIZES.size + sizes[0]
        return decode(content[_SIZES.size : middle]), content[middle:]


_DONE = Future.ready()
_ALONE = Launch()


class Results(NamedTuple):
    """What a run gives on one device."""

    buffers: list[Buffer]
    done: Future
    """When the run ends, which may have no results."""


class LoadedExecutable:
    """A compiled module on the devices that it runs on."""

    def __init__(self, client: Client, executable: Executable):
        self.client = client
        self.executable = executable
        self.device_assignment = executable.options.devices()
        assigned = [client.lookup_device(d) for row in self.device_assignment for d in row]
        self.places = [(device.description.process_index, device.id) for device in assigned]
        """The process and the id of each device, by replica, then partition."""
        self.positions = [k for k, device in enumerate(assigned) if device.is_addressable]
        """Which of them this process has."""
        self.devices = [assigned[k] for k in self.positions]
        """Those of this process."""
        self._processes = frozenset(process for process, _ in self.places)
        self.is_deleted = False
        self._donated = executable.donated
        self._arity = len(executable.parameters)
        self._spaces = {device: self._result_spaces(device) for device in self.devices}
        program = executable.program
        self._is_own = isinstance(program, Native | SpmdNative)
        self.is_independent = len(self._processes) == 1 and isinstance(program, SpmdNative) and program.is_independent
        """Whether no device waits for another one, nor for another process."""
        self._gives_ahead = hasattr(executable.program, "enqueues")

    def delete(self) -> None:
        """Gives up the program; runs that are under way end as usual."""
        self.is_deleted = True

    def execute(self, arguments: Sequence[Buffer], *, not_donated: Sequence[int] = ()) -> list[Buffer]:
        """Runs it on its one device. The results may not be ready yet; raises what went wrong if it is over already."""
        return self.execute_sharded([arguments], not_donated=not_donated)[0]

    def execute_portable(
        self, arguments: Sequence[Buffer], device: Device, *, not_donated: Sequence[int] = ()
    ) -> list[Buffer]:
        """Runs a program for one device on another one."""
        return self.launch([arguments], not_donated=not_donated, device=device)[0].buffers

    def execute_sharded(
        self, arguments: Sequence[Sequence[Buffer]], *, not_donated: Sequence[int] = ()
    ) -> list[list[Buffer]]:
        """Runs it on all its devices; one list of arguments and results a device."""
        return [results.buffers for results in self.launch(arguments, not_donated=not_donated)]

    def launch(
        self,
        arguments: Sequence[Sequence[Buffer]],
        *,
        not_donated: Sequence[int] = (),
        device: Device | None = None,
        is_short: bool = False,
    ) -> list[Results]:
        """Runs it on all its devices, or on one that is none of them; what comes of it, a device.

        `is_short` says of it that others who need its results may as well wait for them."""
        devices = self.devices if device is None else [device]
        self._check(arguments, len(devices))
        if len(self.places) == 1:
            alone = Launch(device=devices[0].id) if devices[0].id else _ALONE
            return [self._launch(arguments[0], devices[0], alone, not_donated, is_short)]
        if (brief := self._briefly(arguments, devices)) is not None:
            return brief
        options = self.executable.options
        rendezvous = self._rendezvous(is_nested=any(device.queue.is_own_thread for device in devices))
        launches = [
            Launch(
                *divmod(k, options.num_partitions),
                options.num_replicas,
                options.num_partitions,
                device.id,
                rendezvous,
            )
            for k, device in zip(self.positions, devices, strict=True)
        ]
        if self.is_independent:
            rows = zip(arguments, devices, launches, strict=True)
            return [self._launch(*each, not_donated, is_short) for each in rows]
        work: list[Callable[[], None]] = []
        # no thread that has the lock waits for a slot
        are_reserved = [device.queue.reserve() for device in devices]
        try:
            # all devices see launches in the same order, or they would wait for each other forever
            with self.client.launching:
                rows = zip(arguments, devices, launches, strict=True)
                results = [self._launch(*each, not_donated, is_short, work) for each in rows]
                for device, each, is_reserved in zip(devices, work, are_reserved, strict=True):
                    if not device.queue.is_own_thread:
                        device.queue.submit(each, is_reserved=is_reserved, is_short=is_short)
        except BaseException as error:
            if rendezvous is not None:
                rendezvous.fail(str(error))  # those that were launched wait for those that were not
                self._skip(rendezvous)
            for device, is_reserved in zip(devices, are_reserved, strict=True):
                if is_reserved:
                    device.queue.give_back()
            raise
        for device, each in zip(devices, work, strict=True):
            if device.queue.is_own_thread:
                each()
        return results

    def failed(self, error: BaseException) -> list[Results]:
        """What a run gives that has failed, on each of the devices."""
        failed = Future.failed(error)
        # JAX asks at once how a run has ended, whoever of its users is to know of it
        ended = Future.failed(PjrtError(code_of(error), f"the run has failed: {error}", where=self.executable.name))
        return [
            Results(
                [Buffer(s, m, failed) for s, m in zip(self.executable.outputs, self._spaces[d], strict=True)], ended
            )
            for d in self.devices
        ]

    def _rendezvous(self, *, is_nested: bool) -> Any:
        """Where the devices of a run meet."""
        if len(self._processes) == 1:
            return self.executable.program.rendezvous()
        run = self.client.process_topology.processes.run(self._plan, self._processes, is_nested=is_nested)
        assert isinstance(self.executable.program, SpmdNative)
        return self.executable.program.rendezvous(run)

    def _skip(self, rendezvous: Any) -> None:
        """Lets the turn pass of a run that has not begun."""
        if (run := _run_between(rendezvous)) is not None:
            self.devices[0].queue.submit(run.skip)

    def _briefly(self, arguments: Sequence[Sequence[Buffer]], devices: Sequence[Device]) -> list[Results] | None:
        """What a run gives that the caller's thread does at once; None if it has not."""
        runs = self._brief_runs
        if runs is None or devices[0].queue.is_own_thread:
            return None
        inputs = [_lying_as(b, s).ready for b, s in zip(arguments[0], self.executable.parameters, strict=True)]
        if not all(future.is_known for future in inputs):
            return None
        try:
            found = runs.attempt([future.known() for future in inputs])
        except DistributedError as error:
            return self.failed(error)
        if found is None:
            return None
        futures = map(Future.ready, found if isinstance(found, tuple) else (found,))
        rows = zip(self.executable.outputs, self._spaces[devices[0]], futures, strict=True)
        return [Results([Buffer(*row) for row in rows], _DONE)]

    @cached_property
    def _brief_runs(self) -> BriefRuns | None:
        return BriefRuns.of(self)

    @cached_property
    def brief(self) -> Brief:
        """All its runs by the caller's thread, with other processes."""
        return self.client.process_topology.processes.brief(self._plan, self._processes)

    @cached_property
    def _plan(self) -> Plan:
        """What goes to other processes. Raises UnsupportedError for programs that are in none but this one."""
        program = self.executable.program
        if not isinstance(program, SpmdNative):
            raise UnsupportedError(
                f"{self.executable.name} is for devices of several processes, and programs of {type(program).__name__} "
                "are for those of one",
                hint="compile it by a client of native code, pjrt.Client.cpu, for several partitions",
            )
        exchanges, name = self.executable.exchanges, self.executable.name
        return self.client.process_topology.processes.plan(exchanges.sites, self.places, exchanges.declared, name)

    def _check(self, arguments: Sequence[Sequence[Buffer]], count: int) -> None:
        if self.is_deleted:
            raise PjrtError(
                Code.FAILED_PRECONDITION,
                "LoadedExecutable::Execute called on deleted executable",
                hint="keep the executable until its last run",
            )
        if len(arguments) != count:
            raise invalid(
                f"Execute: {len(arguments)} argument lists for {count} devices",
                "give one list for each device, in the order of addressable_devices",
            )
        for replica, row in enumerate(arguments):
            if len(row) != self._arity:
                raise invalid(
                    f"Execution supplied {len(row)} buffers but compiled program expected {self._arity}",
                    "give one for each parameter of the program",
                )
            for k, buffer in enumerate(row):
                if buffer.is_deleted:
                    raise invalid(
                        f"Invalid buffer passed to Execute() as argument {k} to replica {replica}: "
                        "INVALID_ARGUMENT: Buffer has been deleted or donated.",
                        "copy it before it is donated, or use the result that lies there now",
                    )

    def _launch(
        self,
        arguments: Sequence[Buffer],
        device: Device,
        launch: Launch,
        not_donated: Sequence[int],
        is_short: bool,
        deferred: list[Callable[[], None]] | None = None,
    ) -> Results:
        """Gives a device its work, or puts it into the list that the caller gives."""
        executable = self.executable
        inputs = [_lying_as(b, s).ready for b, s in zip(arguments, executable.parameters, strict=True)]
        donated = [k for k in self._donated if k not in not_donated]
        if donated and len(set(map(id, arguments))) < len(arguments):
            _check_donated_once(arguments, donated)
        if self._donated:
            self._check_must_alias(donated)
            # as XLA:CPU does: one that is used outside stays, and its memory is not written to
            donated = [k for k in donated if not arguments[k].is_shared]
            launch = replace(launch, donated=tuple(donated))
        for k in donated:
            arguments[k].delete()
        spaces = self._spaces.get(device) or self._result_spaces(device)
        are_there = all([future.is_known for future in inputs])
        if deferred is None and executable.is_cheap and are_there:
            # a hand-over to the device's thread would take longer than the program
            found, shapes = self._run(inputs, launch, spaces), executable.outputs
            futures = [Enqueued.of(a) if self._gives_ahead else Future.ready(a) for a in found]
            buffers = [Buffer(s, m, f) for s, m, f in zip(shapes, spaces, futures, strict=True)]
            return Results(buffers, _all_done(found) if self._gives_ahead else _DONE)
        kind = Enqueued if self._gives_ahead else Future
        outputs, done = [kind() for _ in executable.outputs], kind()

        def work() -> None:
            try:
                found = self._run(inputs, launch, spaces)
            except BaseException as error:
                if launch.rendezvous is not None:
                    launch.rendezvous.fail(str(error))
                for future in (*outputs, done):
                    future.fail(error)
                if (run := _run_between(launch.rendezvous)) is not None:
                    run.skip()  # what has an argument that failed has not begun
                return
            for future, array in zip(outputs, found, strict=True):
                future.set(array)
            if isinstance(done, Enqueued):
                done.set_with(None, _completion(found))
            else:
                done.set()

        if deferred is not None:
            deferred.append(work)
        else:
            device.queue.submit(work, is_short=is_short)
        shapes = executable.outputs
        return Results([Buffer(s, m, f) for s, m, f in zip(shapes, spaces, outputs, strict=True)], done)

    def _result_spaces(self, device: Device) -> list[MemorySpace]:
        return [device.memory_space(kind) for kind in self.executable.output_kinds]

    def _check_must_alias(self, donated: Sequence[int]) -> None:
        for alias in self.executable.declaration.config.input_output_alias:
            if alias.must and alias.parameter not in donated:
                raise invalid(
                    "An input was configured to be must-alias at compile time but not donated at runtime: parameter "
                    f"{alias.parameter}",
                    "donate it, or say may_alias in the program",
                )

    def _run(self, inputs: Sequence[Future], launch: Launch, spaces: Sequence[MemorySpace]) -> Sequence[Any]:
        values = [future.known() for future in inputs]
        if launch.donated:
            launch = replace(launch, donated=tuple(k for k in launch.donated if are_exclusive(inputs, values, k)))
        executable = self.executable
        if self._is_own:
            is_watched = executable.execution_mode is ExecutionMode.BY_RUN_LENGTH
            brief = self._brief_runs if launch.rendezvous is not None else None
            begun = time.perf_counter() if is_watched or brief is not None else 0.0
            value = executable.program.run(values, launch)
            if is_watched:
                executable.run_lengths.saw(time.perf_counter() - begun)
            if brief is not None:
                brief.saw(time.perf_counter() - begun)
            return value if isinstance(value, tuple) else (value,)
        device, is_tuple = self.client.lookup_device(launch.device), executable.declaration.result_shape.is_tuple
        with span(executable.name, "execute", device=str(device)):
            given = arguments_on_device(values, executable.parameters, device.default_memory, executable.name)
            value = executable.program.run(given, launch)
            return checked_results(value, executable.outputs, spaces, executable.name, is_tuple=is_tuple)


def _run_between(rendezvous: Any) -> Any:
    """The run among several processes whose devices meet there, if it is one."""
    return getattr(rendezvous, "exchange", None)


def _completion(found: Sequence[Any]) -> Completion | None:
    """The end of a run that gave these, if it is still to come."""
    return next((c for value in found if (c := getattr(value, "completion", None)) is not None), None)


def _all_done(found: Sequence[Any]) -> Future:
    done = Enqueued()
    done.set_with(None, _completion(found))
    return done


def _lying_as(buffer: Buffer, shape: Shape) -> Buffer:
    """The buffer, or a copy of it in the layout that a program wants."""
    current, wanted = buffer.shape, shape
    if current is wanted or current.layout is wanted.layout:
        return buffer
    if not (current.is_permuted or wanted.is_permuted) or current.major_to_minor == wanted.major_to_minor:
        return buffer
    return buffer.laid_out(wanted)


def _check_donated_once(arguments: Sequence[Buffer], donated: Collection[int]) -> None:
    firsts: dict[int, int] = {}
    for k, buffer in enumerate(arguments):
        first = firsts.setdefault(id(buffer), k)
        if first == k or not (first in donated or k in donated):
            continue
        what, example = _TWICE[first in donated, k in donated]
        raise invalid(
            f"Attempt to {what} (flattened argument {k}, replica 0, partition 0, first use: {first}). Toy example for "
            f"this bug: `{example}`.",
            "copy it, or donate neither",
        )


_TWICE = {  # by whether the first use is donated, and the second
    (True, False): ("use a buffer that was previously donated in the same call to Execute()", "f(donate(a), a)"),
    (False, True): ("donate a buffer which is also used by the same call to Execute()", "f(a, donate(a))"),
    (True, True): ("donate the same buffer twice in Execute()", "f(donate(a), donate(a))"),
}
