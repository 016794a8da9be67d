"""A program whose loops and branches the device decides, as one CUDA graph."""

from __future__ import annotations

import ctypes
from collections.abc import Callable, Sequence

from xloom.cuda.condition_kernel import branch_kernel, predicate_kernel
from xloom.cuda.driver.conditional_node import IF, TYPE, WHILE, ConditionalNodeParams
from xloom.cuda.driver.entry_points import THREAD_LOCAL
from xloom.cuda.kernel import DeviceKernel
from xloom.cuda.run_time.device import CudaDevice
from xloom.cuda.run_time.tape import Rows, TapeBranch, TapeCountedLoop, TapeLoop, TapeStep

Give = Callable[[int], None]
"""Gives a stream some work."""
Nodes = Sequence[int]
"""What comes next comes after these (CUgraphNode)."""


class ConditionalGraph:
    """Makes a graph of steps of a tape that are rows, loops and branches. The device is the thread's."""

    def __init__(self, device: CudaDevice, give: Callable[[Rows, int], None], address: Callable[[int], int]):
        """`give` gives rows to a stream; `address` is where a pointer of the tape points to."""
        self._device, self._give, self._address = device, give, address

    def made(self, steps: Sequence[TapeStep]) -> int:
        """The CUgraph. Raises DriverError for what is refused."""
        graph = self._device.driver.made("cuGraphCreate", 0)
        self._fill(graph, steps, ())
        return graph

    def _fill(self, graph: int, steps: Sequence[TapeStep], last: Nodes) -> Nodes:
        for step in steps:
            if isinstance(step, Rows):
                last = self._captured(graph, last, lambda stream, rows=step: self._give(rows, stream))
            elif isinstance(step, TapeCountedLoop):
                for _ in range(step.trips):
                    last = self._fill(graph, step.body, last)
            elif isinstance(step, TapeLoop):
                last = self._loop(graph, step, last)
            else:
                assert isinstance(step, TapeBranch)
                last = self._branch(graph, step, last)
        return last

    def _loop(self, graph: int, loop: TapeLoop, last: Nodes) -> Nodes:
        handle = self._handle(graph)
        tell = self._telling(predicate_kernel(self._device.target), loop.predicate, handle)
        last = self._captured(graph, self._fill(graph, loop.condition, last), tell)
        node, body = self._conditional(graph, last, WHILE, handle)
        inside = self._fill(body, (*loop.body, *loop.condition), ())
        self._captured(body, inside, tell)
        return (node,)

    def _branch(self, graph: int, branch: TapeBranch, last: Nodes) -> Nodes:
        target, count = self._device.target, len(branch.branches)
        handles = [self._handle(graph) for _ in branch.branches]
        for number, handle in enumerate(handles):  # all of them before a branch has changed what they are chosen by
            kernel = (
                predicate_kernel(target, wanted=not number)
                if branch.is_predicate
                else branch_kernel(target, number, count)
            )
            last = self._captured(graph, last, self._telling(kernel, branch.chooser, handle))
        for handle, steps in zip(handles, branch.branches, strict=True):
            node, body = self._conditional(graph, last, IF, handle)
            self._fill(body, steps, ())
            last = (node,)
        return last

    def _handle(self, graph: int) -> int:
        context = self._device.context
        return self._device.driver.made("cuGraphConditionalHandleCreate", graph, context, 0, 0, kind=ctypes.c_uint64)

    def _telling(self, kernel: DeviceKernel, pointer: int, handle: int) -> Give:
        """Launches what tells a handle of the number that a pointer of the tape points to."""
        function = self._device.modules.function(kernel)  # which cannot be loaded during a capture
        sizes = 1, 1, 1, kernel.threads, 1, 1

        def tell(stream: int) -> None:
            values = (ctypes.c_uint64 * 2)(self._address(pointer), handle)
            places = (ctypes.c_void_p * 2)(*(ctypes.addressof(values) + 8 * k for k in range(2)))
            self._device.driver.call("cuLaunchKernel", function, *sizes, 0, stream, ctypes.addressof(places), 0)

        return tell

    def _captured(self, graph: int, after: Nodes, give: Give) -> Nodes:
        """What a stream is given as nodes of a graph."""
        driver, stream = self._device.driver, self._device.capture
        before = (ctypes.c_void_p * max(1, len(after)))(*after)
        given = ctypes.addressof(before), 0, len(after), THREAD_LOCAL
        driver.call("cuStreamBeginCaptureToGraph", stream, graph, *given)
        status, nodes, count = ctypes.c_int(), ctypes.c_void_p(), ctypes.c_size_t()
        try:
            give(stream)
            told = (ctypes.addressof(x) if x is not None else 0 for x in (status, None, None, nodes, count))
            driver.call("cuStreamGetCaptureInfo_v2", stream, *told)
            last = [*(ctypes.c_void_p * count.value).from_address(nodes.value)] if nodes.value else []
        finally:
            driver.written("cuStreamEndCapture", stream)
        return [node or 0 for node in last]

    def _conditional(self, graph: int, after: Nodes, kind: int, handle: int) -> tuple[int, int]:
        """A conditional node, and the graph that is its body."""
        asked = ConditionalNodeParams(type=TYPE, handle=handle, kind=kind, size=1, context=self._device.context)
        before = (ctypes.c_void_p * max(1, len(after)))(*after)
        given = ctypes.addressof(before), len(after), ctypes.addressof(asked)
        return self._device.driver.made("cuGraphAddNode", graph, *given), asked.body
