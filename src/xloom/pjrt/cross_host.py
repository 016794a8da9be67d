"""Arrays that go to devices of other processes, and come from there, besides programs."""

from __future__ import annotations

import atexit

import numpy as np

from xloom.distributed.run import Processes
from xloom.distributed.tags import Tags
from xloom.distributed.transfers import Parcel, Transfers
from xloom.errors import XloomError
from xloom.hlo.shape import Shape, array_shape
from xloom.pjrt.buffer import Buffer, deleted, logical, physical
from xloom.pjrt.device import Device
from xloom.pjrt.error import invalid
from xloom.pjrt.future import Future
from xloom.pjrt.process_topology import ProcessTopology


class CrossHost:
    """Transfers of a client; both processes name each by the same key."""

    def __init__(self, topology: ProcessTopology):
        processes: Processes = topology.processes
        tags = Tags(max(topology.device_counts), processes.communicator.most_tag)
        self._transfers = Transfers(processes.communicator, topology.process_index, processes.timeout, tags)
        atexit.register(self._transfers.leave)

    def lose(self, process: int, why: str) -> None:
        """Ends the transfers with a process that is gone."""
        self._transfers.lose(process, why)

    def send(self, buffer: Buffer, target: Device, key: int) -> Future:
        """Sends an array to a device of another process; when that is done."""
        if target.is_addressable:
            raise invalid(
                f"{target} is a device of this process, to which arrays are copied", "use Buffer.copy_to for it"
            )
        if buffer.is_deleted:
            raise deleted()
        parcel, sent = _parcel(key, target, buffer.shape, buffer.device, target), Future()

        def begin(source: Future) -> None:
            if source.error is not None:
                self._transfers.send(parcel, None, end, failure=str(source.error))
                return
            array = logical(buffer.on_host(source.value), buffer.shape)
            self._transfers.send(parcel, np.ascontiguousarray(array), end)

        def end(error: XloomError | None) -> None:
            _finish(sent, error, None)

        buffer.ready.on_ready(begin)
        return sent

    def receive(self, shape: Shape, device: Device, source: Device, key: int) -> Buffer:
        """What a device of another process sends to one of this process."""
        if source.is_addressable:
            raise invalid(
                f"{source} is a device of this process, from which arrays are copied", "use Buffer.copy_to for it"
            )
        space, came = device.default_memory, Future()
        array = np.empty(shape.dims, shape.dtype.numpy)

        def end(error: XloomError | None) -> None:
            _finish(came, error, None if error else space.put(physical(array, shape)))

        self._transfers.receive(_parcel(key, source, shape, source, device), array, end)
        return Buffer(shape, space, came)


def _parcel(key: int, other: Device, shape: Shape, source: Device, target: Device) -> Parcel:
    plain = array_shape(shape.dtype, shape.dims)
    return Parcel(key, other.description.process_index, f"{plain} from device {source.id} to device {target.id}")


def _finish(future: Future, error: XloomError | None, value: np.ndarray | None) -> None:
    if error is None:
        future.set(value)
    else:
        future.fail(error)
