"""Bytes between the members of a group through Gloo, where there is no MPI: who does not come, or comes to something
else, is named; or whom that one waits for.

To each member goes a header, which says what the message is for; few bytes are in the same message. More of them
follow when the other's header has come and fits: Gloo ends a process that gets more bytes than it receives.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from datetime import timedelta
from functools import lru_cache
from typing import Any, NamedTuple

import torch

from xloom.errors import DistributedError
from xloom.torch.lazy.distributed.waiting_board import Wait, WaitingBoard

_HEADER = 512
"""Bytes: the number of those that are for the other, in eight, and a text."""
_INLINE = 1 << 14
"""So many bytes at most come with the header, which they are copied for."""
_FIRST_TAG = 1 << 30
"""Those of `torch.distributed.send` are smaller, as a rule."""
_NUMBERS = 1 << 28
"""After so many messages tags come again."""
_BRIEF = 1e-3
"""Seconds that who is late is waited for at least."""


class _Message(NamedTuple):
    """What goes to another member or comes from there, with Gloo's work."""

    other: int
    work: Any
    data: torch.Tensor


class _Call(NamedTuple):
    """One exchange: what it is for and since when it waits, its number, and which messages it has."""

    wait: Wait
    number: int
    begun: list[_Message]


class HostMessages:
    """Those of a group of Gloo's, whose members have these numbers among all processes."""

    def __init__(self, group: Any, members: Sequence[int], board: WaitingBoard):
        self._group, self._members, self._board = group, members, board
        self._count = 0
        self._open: list[Any] = []
        """What is under way of exchanges that have failed: Gloo may still read or write there."""

    def swap(
        self, label: str, sent: Mapping[int, torch.Tensor], received: Mapping[int, int]
    ) -> dict[int, torch.Tensor]:
        """Sends bytes to some members, and receives so many from some; all of them come to the same `label`.

        Raises DistributedError where one does not."""
        call = _Call(Wait(label, self._board.process), self._count, [])
        self._count += 1
        try:
            with self._board.waiting(call.wait):
                return self._swapped(call, sent, received)
        except BaseException:
            self._open.append(call.begun)
            raise

    def _swapped(
        self, call: _Call, sent: Mapping[int, torch.Tensor], received: Mapping[int, int]
    ) -> dict[int, torch.Tensor]:
        others = sorted({*sent, *received})
        firsts = [self._receive(call, other, _HEADER + _INLINE, 0) for other in others]
        sends = [self._send(call, other, _first(call.wait.label, sent.get(other)), 0) for other in others]
        found, receives = {}, []
        for other, first in zip(others, firsts, strict=True):
            self._wait(call, first)
            nbytes = received.get(other, 0)
            self._judge(call, other, first.data, nbytes)
            if nbytes > _INLINE:
                receives.append(self._receive(call, other, nbytes, 1))
            if other in sent and sent[other].numel() > _INLINE:
                sends.append(self._send(call, other, sent[other], 1))
            found[other] = receives[-1].data if nbytes > _INLINE else first.data[_HEADER : _HEADER + nbytes]
        for message in (*receives, *sends):
            self._wait(call, message)
        return found

    def _receive(self, call: _Call, other: int, nbytes: int, part: int) -> _Message:
        data = torch.empty(nbytes, dtype=torch.uint8, device="cpu")
        return self._begun(call, other, data, self._group.recv, part)

    def _send(self, call: _Call, other: int, data: torch.Tensor, part: int) -> _Message:
        return self._begun(call, other, data, self._group.send, part)

    def _begun(self, call: _Call, other: int, data: torch.Tensor, begin: Callable[..., Any], part: int) -> _Message:
        try:
            work = begin([data], other, _FIRST_TAG + 2 * (call.number % _NUMBERS) + part)
        except RuntimeError as error:
            raise self._lost(call, other, error) from None
        call.begun.append(_Message(other, work, data))
        return call.begun[-1]

    def _wait(self, call: _Call, message: _Message) -> None:
        """Waits for it, once: Gloo counts those that have come."""
        call.wait.other = self._members[message.other]
        left = max(_BRIEF, self._board.seconds - call.wait.seconds)
        try:
            message.work.wait(timedelta(seconds=left))
        except RuntimeError as error:
            raise self._lost(call, message.other, error) from None

    def _lost(self, call: _Call, other: int, error: RuntimeError) -> DistributedError:
        """What is said when Gloo has failed: it was too late, or the connection is gone."""
        waited, me, them = call.wait.seconds, self._members[self._group.rank()], self._members[other]
        call.wait.other = them
        behind = self._board.behind(call.wait)
        silent = "; nor does the store answer, which process 0 keeps, or torchrun" if behind is None else ""
        if waited >= self._board.seconds:
            chain = [f"which waits for process {each.other} at {each.label}" for each in behind or ()]
            last = "which does not come" if chain else f"which does not come to {call.wait.label}"
            return DistributedError(
                f"process {me} has waited {waited:.1f} s for process {them}, {', '.join([*chain, last])}{silent}",
                hint="is it alive, and does it run the same program? XLOOM_DISTRIBUTED_TIMEOUT is how many seconds to "
                "wait",
            )
        lost = [f"which waited for process {each.other} at {each.label}" for each in behind or ()]
        return DistributedError(
            f"process {me} waited {waited:.1f} s for process {them} at {call.wait.label}, "
            f"{', '.join(['and lost it', *lost])}: {error}{silent}",
            hint="what that process printed says why: it is above this, or in its own log",
        )

    def _judge(self, call: _Call, other: int, first: torch.Tensor, nbytes: int) -> None:
        """Raises an error where the other has come to something else."""
        if torch.equal(first[:_HEADER], _header(call.wait.label, nbytes)):
            return
        me, them = self._members[self._group.rank()], self._members[other]
        theirs = bytes(first[8:_HEADER].tolist()).rstrip(b"\0").decode("utf-8", "replace")
        raise DistributedError(
            f"process {me} is at {call.wait.label}, and process {them} at {theirs}",
            hint="all processes run the same programs, in the same order, with arrays of the same shapes",
        )


@lru_cache(maxsize=1024)
def _header(label: str, nbytes: int) -> torch.Tensor:
    text = nbytes.to_bytes(8, "little") + label.encode("utf-8", "replace")
    return torch.frombuffer(bytearray(text[:_HEADER].ljust(_HEADER, b"\0")), dtype=torch.uint8)


def _first(label: str, data: torch.Tensor | None) -> torch.Tensor:
    """The header, and few bytes."""
    if data is None:
        return _header(label, 0)
    header = _header(label, data.numel())
    return torch.cat([header, data]) if data.numel() <= _INLINE else header
