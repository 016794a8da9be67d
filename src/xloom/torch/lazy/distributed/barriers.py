"""Barriers of a group, by Gloo, which does not say who has not come: the store that all have in common does."""

from __future__ import annotations

import threading
import time
from collections.abc import Sequence
from datetime import timedelta
from queue import Empty, SimpleQueue
from typing import Any

from torch.distributed import Work

from xloom.distributed.key_value_store import KeyValueStore
from xloom.errors import DistributedError

_ANSWER = 2.0
"""Seconds in which the store has answered, or does not: the process that keeps it may be the one that is gone."""


class Barriers:
    """Those of a Gloo group; `members` are numbers among all processes. Each writes how many it has come to."""

    def __init__(self, gloo: Any, store: KeyValueStore, members: Sequence[int]):
        self._gloo, self._store, self._members = gloo, store, members
        self.process = members[gloo.rank()]
        self._count = 0

    def begin(self, options: Any) -> Work:
        """Comes to the next one."""
        self._count += 1
        self._store.put(_key(self.process), str(self._count))
        return _Barrier(self, self._count, self._gloo.barrier(*([] if options is None else [options])))

    def late(self, number: int) -> list[int]:
        """Which processes have not come to a barrier, as far as the store says."""
        answer: SimpleQueue[list[int]] = SimpleQueue()
        threading.Thread(target=lambda: answer.put(self._read(number)), daemon=True).start()
        try:
            return answer.get(timeout=_ANSWER)
        except Empty:
            return []

    def _read(self, number: int) -> list[int]:
        try:
            return [each for each in self._members if int(self._store.try_get(_key(each)) or 0) < number]
        except RuntimeError:  # of a store that is gone
            return []


def _key(process: int) -> str:
    return f"barriers/{process}"


class _Barrier(Work):
    """One of them."""

    def __init__(self, barriers: Barriers, number: int, work: Work):
        super().__init__()
        self._barriers, self._number, self._work, self._began = barriers, number, work, time.monotonic()

    def wait(self, timeout: timedelta = timedelta(0)) -> bool:  # type: ignore[override]
        """Until all have come. Raises DistributedError, which names those that do not."""
        try:
            return self._work.wait(timeout)
        except RuntimeError as error:
            waited, late = time.monotonic() - self._began, self._barriers.late(self._number)
            if not late:
                raise
            names = " and ".join(f"process {each}" for each in late)
            raise DistributedError(
                f"process {self._barriers.process} has waited {waited:.1f} s for {names} at barrier {self._number} of "
                f"the group: {error}",
                hint="what that process printed says why it did not come; init_process_group(timeout=...) is how long "
                "barriers wait",
            ) from None

    def is_completed(self) -> bool:
        """Whether all have come."""
        return self._work.is_completed()
