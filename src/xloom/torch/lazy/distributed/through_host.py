"""A group's collectives on values where there is no MPI: Gloo brings bytes, and the device folds, in the same order."""

from __future__ import annotations

import ctypes
from collections.abc import Sequence
from functools import reduce
from typing import Any

import torch

from xloom.hlo.shape import array_shape
from xloom.torch.lazy.distributed.collectives import folded, row, stacked
from xloom.torch.lazy.distributed.host_messages import HostMessages
from xloom.torch.lazy.distributed.waiting_board import WaitingBoard
from xloom.torch.lazy.recording.trace import Value
from xloom.torch.lazy.runtime import device_client
from xloom.torch.lazy.runtime.execution import buffer_of


class ThroughHost:
    """See `xloom.torch.lazy.distributed.collectives.Engine`; `members` are numbers among all processes."""

    def __init__(self, group: Any, members: Sequence[int], board: WaitingBoard):
        self._messages = HostMessages(group, members, board)
        self.size, self.rank = len(members), group.rank()
        self._others = [k for k in range(self.size) if k != self.rank]

    def _label(self, what: str, value: Value) -> str:
        shape = value.type.shape
        return f"{what} {array_shape(shape.dtype, shape.dims).to_text(layout=False)}"

    def all_gather(self, value: Value) -> Value:
        """See Engine."""
        return stacked(self._gathered(self._label("all-gather", value), value))

    def all_to_all(self, value: Value) -> Value:
        """See Engine."""
        return stacked(self._parts(self._label("all-to-all", value), value))

    def all_reduce(self, value: Value, opcode: str) -> Value:
        """See Engine."""
        parts = self._gathered(self._label(f"all-reduce by {opcode} of", value), value)
        return reduce(lambda a, b: folded(a, b, opcode), parts)

    def reduce_scatter(self, value: Value, opcode: str) -> Value:
        """See Engine."""
        parts = self._parts(self._label(f"reduce-scatter by {opcode} of", value), value)
        return reduce(lambda a, b: folded(a, b, opcode), parts)

    def broadcast(self, value: Value, root: int) -> Value:
        """See Engine."""
        label = self._label(f"broadcast from process {root} of the group of", value)
        host = device_client.to_host(buffer_of(value))
        if root == self.rank:
            self._messages.swap(label, dict.fromkeys(self._others, _bytes_of(host)), {})
            return value
        return _value_like(host, self._messages.swap(label, {}, {root: host.nbytes})[root])

    def _gathered(self, label: str, value: Value) -> list[Value]:
        """The values of all members."""
        host = device_client.to_host(buffer_of(value))
        sent = dict.fromkeys(self._others, _bytes_of(host))
        found = self._messages.swap(label, sent, dict.fromkeys(self._others, host.nbytes))
        return [value if k == self.rank else _value_like(host, found[k]) for k in range(self.size)]

    def _parts(self, label: str, value: Value) -> list[Value]:
        """Those with this member's number of [size, ...] of all members."""
        host = device_client.to_host(buffer_of(value))
        nbytes = host.nbytes // self.size
        sent = {k: _bytes_of(host[k]) for k in self._others}
        found = self._messages.swap(label, sent, dict.fromkeys(self._others, nbytes))
        return [row(value, k) if k == self.rank else _value_like(host[k], found[k]) for k in range(self.size)]


def _bytes_of(tensor: torch.Tensor) -> torch.Tensor:
    found = torch.empty(tensor.nbytes, dtype=torch.uint8, device="cpu")
    ctypes.memmove(found.data_ptr(), tensor.data_ptr(), found.numel())
    return found


def _value_like(host: torch.Tensor, data: torch.Tensor) -> Value:
    """Bytes as a value of the device."""
    copy = torch.empty_like(host)
    ctypes.memmove(copy.data_ptr(), data.data_ptr(), copy.nbytes)
    return device_client.to_device(copy)
