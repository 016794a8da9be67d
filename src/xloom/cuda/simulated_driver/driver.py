"""The entry points of a simulated driver, by C pointers as libcuda's are."""

from __future__ import annotations

import ctypes
import threading
import traceback
from collections.abc import Callable, Sequence
from functools import wraps
from itertools import count
from typing import Any

import numpy as np

from xloom.cuda.driver import conditional_node, entry_points, results
from xloom.cuda.driver.conditional_node import ConditionalNodeParams
from xloom.cuda.driver.driver import Driver
from xloom.cuda.driver.entry_points import CONDITIONAL_NODES, ENTRY_POINTS, HOST_FUNCTION, prototype
from xloom.cuda.emulator.graph_conditions import VALUES
from xloom.cuda.kernel import DeviceKernel
from xloom.cuda.simulated_driver.graphs import Capture, Conditional, Executable, Graph, Node
from xloom.cuda.simulated_driver.memory import DeviceMemory, RefusedError
from xloom.cuda.simulated_driver.modules import EmulatedFunction, Function, Images, StandIn
from xloom.cuda.simulated_driver.streams import Context, Event, Order, Stream
from xloom.errors import KernelFaultError
from xloom.llvm.target import Target, target_named

_POINTER, _SIZE, _INT = ctypes.c_void_p, ctypes.c_size_t, ctypes.c_int
_VERSION = 12090
_ATTRIBUTES = {entry_points.MULTIPROCESSOR_COUNT: 8, entry_points.HAS_MEMORY_POOLS: 1}
_WITHOUT_CONTEXT = ("cuInit", "cuDriver", "cuDevice", "cuCtxPush")
"""Beginnings of the entry points that need no current context."""


def simulated_driver(
    devices: int = 1, target: str = "sm_80", *, seed: int = 0, memory_bytes: int = 1 << 30
) -> tuple[Driver, Machine]:
    """A driver of so many devices that are `target`s, and what is behind it."""
    machine = Machine(devices, target_named(target), seed, memory_bytes)
    functions = {name: prototype(name)(_guarded(machine, name)) for name in (*ENTRY_POINTS, *CONDITIONAL_NODES)}
    driver = Driver(functions, "a simulated driver")
    driver.call("cuInit", 0)
    return driver, machine


def _guarded(machine: Machine, name: str) -> Callable[..., int]:
    """An entry point, one at a time, that returns its CUresult."""
    method: Callable[..., None] = getattr(machine, name)
    needs_context = not name.startswith(_WITHOUT_CONTEXT)

    @wraps(method)
    def entry(*arguments: int | None) -> int:
        with machine.lock:
            machine.calls.append(name)
            try:
                if machine.is_in_host_function:
                    return results.NOT_PERMITTED
                if needs_context and machine.context.error:
                    return machine.context.error
                method(*[a or 0 for a in arguments])
                while machine.is_eager and machine.step():
                    pass
            except RefusedError as error:
                return error.result
            except Exception:  # which C code cannot be given
                traceback.print_exc()
                return results.UNKNOWN
            return results.SUCCESS

    return entry


class Machine:
    """Devices, and all that a driver keeps of them. A method for each entry point, by its name."""

    def __init__(self, devices: int, target: Target, seed: int, memory_bytes: int):
        self.target = target
        self.lock = threading.RLock()
        self.calls: list[str] = []
        """The entry points that were called."""
        self.faults: list[KernelFaultError] = []
        """What kernels did wrong, as no driver says it."""
        self.is_in_host_function = False
        self.is_eager = False
        """Whether work is done as soon as it may be, for code of the host that does not enqueue its own."""
        self.memory = DeviceMemory(memory_bytes)
        self.images = Images()
        self._generator = np.random.default_rng(seed)
        self._contexts = [Context(number) for number in range(devices)]
        self._order = Order(self._contexts, self._generator)
        self._handles: dict[int, Any] = {}
        self._numbers = count(0x1000, 16)
        self._context_handles = [self._new(context) for context in self._contexts]
        self._pools = [self._new(context) for context in self._contexts]
        self._pinned: dict[int, np.ndarray] = {}
        self._thread = threading.local()
        self._kept: list[Any] = []
        """Arrays that were lent to who calls."""

    # -- what tests tell it
    def teach(self, image: bytes, kernel: DeviceKernel) -> None:
        """An image is of a kernel of ours."""
        self.images.teach(image, kernel.name, EmulatedFunction(kernel, self.target, self._generator, self.faults))

    def stand_in(self, image: bytes, name: str, function: Callable[..., None], sizes: Sequence[int]) -> None:
        """An image has a kernel of others, in whose place a function of the host runs: see StandIn."""
        self.images.teach(image, name, StandIn(function, sizes))

    def step(self) -> bool:
        """Does some work; False where there is none that may run."""
        return self._order.step()

    @property
    def context(self) -> Context:
        """The thread's current one. Raises RefusedError where it has none."""
        if not self._stack:
            raise RefusedError(results.INVALID_CONTEXT)
        return self._stack[-1]

    @property
    def _stack(self) -> list[Context]:
        if not hasattr(self._thread, "stack"):
            self._thread.stack = []
        return self._thread.stack

    def _new(self, thing: Any) -> int:
        handle = next(self._numbers)
        self._handles[handle] = thing
        return handle

    def _of(self, handle: int, kind: type) -> Any:
        found = self._handles.get(handle)
        if not isinstance(found, kind):
            raise RefusedError(results.INVALID_HANDLE)
        return found

    def _free_of_capture(self, stream: Stream | None = None) -> None:
        """Raises RefusedError for what must not be while a graph is captured."""
        streams = self.context.streams if stream is None else [stream]
        if any(s.capture is not None for s in streams):
            raise RefusedError(results.STREAM_CAPTURE_UNSUPPORTED)

    # -- the driver and its devices
    def cuInit(self, flags: int) -> None:
        if flags:
            raise RefusedError(results.INVALID_VALUE)

    def cuDriverGetVersion(self, out: int) -> None:
        _write(out, _INT, _VERSION)

    def cuDeviceGetCount(self, out: int) -> None:
        _write(out, _INT, len(self._contexts))

    def cuDeviceGet(self, out: int, ordinal: int) -> None:
        if not 0 <= ordinal < len(self._contexts):
            raise RefusedError(results.INVALID_DEVICE)
        _write(out, _INT, ordinal)

    def cuDeviceGetName(self, out: int, length: int, device: int) -> None:
        text = f"simulated {self.target.name}".encode()[: length - 1] + b"\0"
        ctypes.memmove(out, text, len(text))

    def cuDeviceGetAttribute(self, out: int, attribute: int, device: int) -> None:
        number = int("".join(c for c in self.target.name if c.isdigit()))
        known = {**_ATTRIBUTES, entry_points.MAJOR: number // 10, entry_points.MINOR: number % 10}
        _write(out, _INT, known.get(attribute, 0))

    def cuDeviceTotalMem_v2(self, out: int, device: int) -> None:
        _write(out, _SIZE, self.memory.limit)

    def cuDeviceGetDefaultMemPool(self, out: int, device: int) -> None:
        _write(out, _POINTER, self._pools[device])

    def cuDeviceCanAccessPeer(self, out: int, device: int, peer: int) -> None:
        _write(out, _INT, int(device != peer))

    def cuDevicePrimaryCtxRetain(self, out: int, device: int) -> None:
        _write(out, _POINTER, self._context_handles[device])

    def cuDevicePrimaryCtxRelease_v2(self, device: int) -> None:
        if not 0 <= device < len(self._contexts):
            raise RefusedError(results.INVALID_DEVICE)

    def cuCtxPushCurrent_v2(self, context: int) -> None:
        self._stack.append(self._of(context, Context))

    def cuCtxPopCurrent_v2(self, out: int) -> None:
        context = self.context
        self._stack.pop()
        if out:
            _write(out, _POINTER, self._context_handles[context.device])

    def cuCtxSynchronize(self) -> None:
        self._free_of_capture()
        context = self.context
        self._order.run_until(lambda: not any(s.waiting for s in context.streams), context)

    # -- streams and events
    def cuStreamCreate(self, out: int, flags: int) -> None:
        stream = Stream(self.context)
        self.context.streams.append(stream)
        _write(out, _POINTER, self._new(stream))

    def cuStreamDestroy_v2(self, handle: int) -> None:
        self.cuStreamSynchronize(handle)
        stream = self._handles.pop(handle)
        stream.context.streams.remove(stream)

    def cuStreamSynchronize(self, handle: int) -> None:
        stream = self._of(handle, Stream)
        self._free_of_capture(stream)
        self._order.run_until(lambda: not stream.waiting, stream.context)

    def cuStreamWaitEvent(self, handle: int, event_handle: int, flags: int) -> None:
        stream, event = self._of(handle, Stream), self._of(event_handle, Event)
        point = event.recorded
        stream.enqueue(lambda: None, lambda: event.reached >= point)

    def cuEventCreate(self, out: int, flags: int) -> None:
        _write(out, _POINTER, self._new(Event()))

    def cuEventDestroy_v2(self, handle: int) -> None:
        self._of(handle, Event)
        del self._handles[handle]

    def cuEventRecord(self, event_handle: int, handle: int) -> None:
        stream, event = self._of(handle, Stream), self._of(event_handle, Event)
        event.recorded += 1
        point = event.recorded

        def reach() -> None:
            event.reached = max(event.reached, point)

        stream.enqueue(reach)

    def cuEventQuery(self, handle: int) -> None:
        event = self._of(handle, Event)
        self._order.step()
        if self.context.error:
            raise RefusedError(self.context.error)
        if not event.is_reached:
            raise RefusedError(results.NOT_READY)

    def cuEventSynchronize(self, handle: int) -> None:
        event = self._of(handle, Event)
        self._order.run_until(lambda: event.is_reached, self.context)

    def cuEventElapsedTime(self, out: int, begin: int, end: int) -> None:
        if not (self._of(begin, Event).is_reached and self._of(end, Event).is_reached):
            raise RefusedError(results.NOT_READY)
        _write(out, ctypes.c_float, 0.0)

    def cuLaunchHostFunc(self, handle: int, function: int, data: int) -> None:
        def call() -> None:
            self.is_in_host_function = True
            try:
                HOST_FUNCTION(function)(data)
            finally:
                self.is_in_host_function = False

        self._of(handle, Stream).enqueue(call)

    # -- memory
    def cuMemAllocAsync(self, out: int, nbytes: int, handle: int) -> None:
        stream = self._of(handle, Stream)
        self._free_of_capture(stream)
        if not nbytes:
            raise RefusedError(results.INVALID_VALUE)
        block = self.memory.allocate(nbytes, stream.context.device)

        def begin() -> None:
            block.is_alive = True

        stream.enqueue(begin)
        _write(out, ctypes.c_uint64, block.begin)

    def cuMemFreeAsync(self, address: int, handle: int) -> None:
        block = self.memory.block_at(address)
        self._of(handle, Stream).enqueue(lambda: self.memory.free(block))

    def cuMemPoolSetAttribute(self, pool: int, attribute: int, value: int) -> None:
        self._of(pool, Context)

    def cuMemPoolGetAttribute(self, pool: int, attribute: int, out: int) -> None:
        device = self._of(pool, Context).device
        most = attribute in (entry_points.USED_HIGH, entry_points.RESERVED_HIGH)
        _write(out, ctypes.c_uint64, (self.memory.most if most else self.memory.used).get(device, 0))

    def cuMemGetInfo_v2(self, free: int, total: int) -> None:
        limit = self.memory.limit
        _write(free, _SIZE, limit - self.memory.used.get(self.context.device, 0))
        _write(total, _SIZE, limit)

    def cuMemHostAlloc(self, out: int, nbytes: int, flags: int) -> None:
        array = np.zeros(max(1, nbytes), np.uint8)
        self._pinned[array.ctypes.data] = array
        _write(out, _POINTER, array.ctypes.data)

    def cuMemFreeHost(self, address: int) -> None:
        if self._pinned.pop(address, None) is None:
            raise RefusedError(results.INVALID_VALUE)

    def cuMemcpyHtoDAsync_v2(self, target: int, source: int, nbytes: int, handle: int) -> None:
        # what is not pinned is read before the call returns
        held = None if self._is_pinned(source) else ctypes.string_at(source, nbytes)

        def copy() -> None:
            data = ctypes.string_at(source, nbytes) if held is None else held
            self.memory.part(target, nbytes)[...] = np.frombuffer(data, np.uint8)

        self._of(handle, Stream).enqueue(copy)

    def cuMemcpyDtoHAsync_v2(self, target: int, source: int, nbytes: int, handle: int) -> None:
        def copy() -> None:
            ctypes.memmove(target, self.memory.part(source, nbytes).ctypes.data, nbytes)

        self._of(handle, Stream).enqueue(copy)

    def cuMemcpyDtoDAsync_v2(self, target: int, source: int, nbytes: int, handle: int) -> None:
        def copy() -> None:
            self.memory.part(target, nbytes)[...] = self.memory.part(source, nbytes)

        self._of(handle, Stream).enqueue(copy)

    def cuMemcpyPeerAsync(self, target: int, _to: int, source: int, _from: int, nbytes: int, handle: int) -> None:
        self.cuMemcpyDtoDAsync_v2(target, source, nbytes, handle)

    def cuMemsetD8Async(self, target: int, value: int, nbytes: int, handle: int) -> None:
        def fill() -> None:
            self.memory.part(target, nbytes)[...] = value

        self._of(handle, Stream).enqueue(fill)

    def _is_pinned(self, address: int) -> bool:
        return any(begin <= address < begin + a.nbytes for begin, a in self._pinned.items())

    # -- modules and launches
    def cuModuleLoadDataEx(self, out: int, image: int, options: int, names: int, values: int) -> None:
        captures = [s.capture for s in self.context.streams if isinstance(s.capture, Capture)]
        if any(capture.thread == threading.get_ident() for capture in captures):
            raise RefusedError(results.STREAM_CAPTURE_UNSUPPORTED)
        _write(out, _POINTER, self._new(self.images.at(image)))

    def cuModuleUnload(self, handle: int) -> None:
        self._of(handle, dict)
        del self._handles[handle]

    def cuModuleGetFunction(self, out: int, handle: int, name: int) -> None:
        function = self._of(handle, dict).get(ctypes.string_at(name).decode())
        if function is None:
            raise RefusedError(results.NOT_FOUND)
        _write(out, _POINTER, self._new(function))

    def cuFuncSetAttribute(self, handle: int, attribute: int, value: int) -> None:
        self._of(handle, object)

    def cuLaunchKernel(self, handle: int, *arguments: int) -> None:
        *sizes, shared, stream, parameters, _extra = arguments
        function: Function = self._of(handle, object)
        if min(sizes) < 1:
            raise RefusedError(results.INVALID_VALUE)
        grid, block = (sizes[0], sizes[1], sizes[2]), (sizes[3], sizes[4], sizes[5])
        places = (_POINTER * len(function.sizes)).from_address(parameters) if function.sizes else []
        given = [ctypes.string_at(p or 0, size) for p, size in zip(places, function.sizes, strict=True)]
        self._of(stream, Stream).enqueue(lambda: function.run(grid, block, shared, given, self.memory))

    # -- graphs
    def cuGraphCreate(self, out: int, flags: int) -> None:
        _write(out, _POINTER, self._new(Graph()))

    def cuStreamBeginCapture_v2(self, handle: int, mode: int) -> None:
        self._begin_capture(handle, Graph(), [])

    def cuStreamBeginCaptureToGraph(
        self, handle: int, graph: int, after: int, edges: int, count: int, mode: int
    ) -> None:
        if edges:
            raise RefusedError(results.INVALID_VALUE)
        self._begin_capture(handle, self._of(graph, Graph), self._nodes(after, count))

    def _begin_capture(self, handle: int, graph: Graph, after: Sequence[Node]) -> None:
        stream = self._of(handle, Stream)
        self._free_of_capture(stream)
        stream.capture = Capture(graph, after, threading.get_ident())

    def _nodes(self, address: int, count: int) -> list[Node]:
        """Those whose handles lie in an array."""
        return [self._of(handle or 0, Node) for handle in (_POINTER * count).from_address(address)] if count else []

    def cuStreamGetCaptureInfo_v2(self, handle: int, status: int, id_: int, graph: int, after: int, count: int) -> None:
        capture = self._of(handle, Stream).capture
        _write(status, _INT, 0 if capture is None else entry_points.CAPTURE_ACTIVE)
        if capture is None:
            return
        handles = [self._new(node) for node in capture.last]
        self._kept.append((_POINTER * max(1, len(handles)))(*handles))
        if after:
            _write(after, _POINTER, ctypes.addressof(self._kept[-1]))
        if count:
            _write(count, _SIZE, len(handles))

    def cuStreamEndCapture(self, handle: int, out: int) -> None:
        stream = self._of(handle, Stream)
        if stream.capture is None:
            raise RefusedError(results.STREAM_CAPTURE_UNMATCHED)
        graph, stream.capture = stream.capture.graph, None
        _write(out, _POINTER, self._new(graph))

    def cuGraphConditionalHandleCreate(self, out: int, graph: int, context: int, value: int, flags: int) -> None:
        self._of(graph, Graph)
        self._of(context, Context)
        handle = next(self._numbers)
        VALUES[handle] = value
        _write(out, ctypes.c_uint64, handle)

    def cuGraphAddNode(self, out: int, graph: int, after: int, count: int, parameters: int) -> None:
        asked = ConditionalNodeParams.from_address(parameters)
        is_known = asked.type == conditional_node.TYPE and asked.kind in (conditional_node.IF, conditional_node.WHILE)
        if (
            not is_known
            or asked.size != 1
            or asked.handle not in VALUES
            or self._of(asked.context, Context) != self.context
        ):
            raise RefusedError(results.INVALID_VALUE)
        body, handle = Graph(), asked.handle
        does = Conditional(asked.kind == conditional_node.WHILE, body, lambda: VALUES[handle] != 0)
        node = self._of(graph, Graph).add(does, self._nodes(after, count))
        self._kept.append((_POINTER * 1)(self._new(body)))
        asked.bodies = ctypes.addressof(self._kept[-1])
        _write(out, _POINTER, self._new(node))

    def cuGraphInstantiateWithFlags(self, out: int, graph: int, flags: int) -> None:
        _write(out, _POINTER, self._new(Executable(self._of(graph, Graph))))

    def cuGraphLaunch(self, graph: int, handle: int) -> None:
        self._of(graph, Executable).launch(self._of(handle, Stream), self._generator)

    def cuGraphExecDestroy(self, graph: int) -> None:
        self._of(graph, Executable)
        del self._handles[graph]

    def cuGraphDestroy(self, graph: int) -> None:
        self._of(graph, Graph)
        del self._handles[graph]


def _write(address: int, kind: Any, value: Any) -> None:
    kind.from_address(address).value = value
