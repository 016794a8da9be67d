"""A program's launches as one CUDA graph, once it runs again on the same arrays: less of the host's time for each."""

from __future__ import annotations

from collections import OrderedDict, deque
from collections.abc import Callable
from typing import NamedTuple

from xloom.cuda.driver.entry_points import THREAD_LOCAL
from xloom.cuda.run_time.device import CudaDevice
from xloom.cuda.run_time.events import Completion

FEWEST = 4
"""Launches and copies of a program for which a graph is made: fewer are given as quickly one by one."""
MOST = 4096
"""The same at most, those of loops as often as they run: a graph of them takes some megabytes."""
KEPT = 8
"""Graphs of a program on a device, and addresses that were seen once."""


class _Graph(NamedTuple):
    """A CUgraph, whose conditional nodes live as long as it does, and the CUgraphExec that is launched."""

    graph: int
    executable: int


class Graphs:
    """The graphs of a program on a device, by the addresses of its arrays, which are a part of them."""

    def __init__(self, device: CudaDevice):
        self._device = device
        self._known: OrderedDict[bytes, _Graph] = OrderedDict()
        self._seen: OrderedDict[bytes, None] = OrderedDict()
        self._retired: deque[tuple[Completion, _Graph]] = deque()

    def launch(self, addresses: bytes, give: Callable[[int], None], make: Callable[[], int] | None = None) -> None:
        """Gives the stream that computes what `give` gives to a stream. The device is the thread's.

        `make` makes a CUgraph of the same, where that takes more than to capture what is given. Raises DriverError for
        what is refused.
        """
        device = self._device
        with device.capturing:
            graph = self._known.get(addresses)
            if graph is None and addresses in self._seen:
                del self._seen[addresses]
                graph = self._instantiated(make() if make else self._captured(give))
                self._known[addresses] = graph
                self._shrink()
            if graph is not None:
                self._known.move_to_end(addresses)
                device.driver.call("cuGraphLaunch", graph.executable, device.compute)
                return
            self._seen[addresses] = None
            if len(self._seen) > KEPT:
                self._seen.popitem(last=False)
        give(device.compute)

    def _captured(self, give: Callable[[int], None]) -> int:
        # in a stream of its own: what other threads give the usual one meanwhile is no part of it
        driver, stream = self._device.driver, self._device.capture
        driver.call("cuStreamBeginCapture_v2", stream, THREAD_LOCAL)
        try:
            give(stream)
        finally:
            graph = driver.written("cuStreamEndCapture", stream)
        return graph

    def _instantiated(self, graph: int) -> _Graph:
        return _Graph(graph, self._device.driver.made("cuGraphInstantiateWithFlags", graph, 0))

    def _shrink(self) -> None:
        """Gives up graphs that were not used for longest, once the device is done with them."""
        device = self._device
        while len(self._known) > KEPT:
            _, graph = self._known.popitem(last=False)
            self._retired.append((device.record(device.compute), graph))
        while self._retired and self._retired[0][0].is_reached:
            _, graph = self._retired.popleft()
            device.driver.call("cuGraphExecDestroy", graph.executable)
            device.driver.call("cuGraphDestroy", graph.graph)
