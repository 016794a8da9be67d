"""What a client is one of: processes, each of which has devices."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from xloom.errors import MissingExtraError

if TYPE_CHECKING:
    from xloom.distributed.run import Processes


@dataclass(frozen=True)
class ProcessTopology:
    """Which process it is, and how many devices each has."""

    process_index: int = 0
    device_counts: Sequence[int] = (1,)
    connected: Processes | None = None
    """How it reaches the others."""
    why_not: str = ""
    """Why it cannot."""

    @property
    def processes(self) -> Processes:
        """How it reaches the others. Raises MissingExtraError where it cannot."""
        if self.connected is None:
            hint = "pip install 'xloom[mpi]', and start the processes as docs/distributed.md says"
            raise MissingExtraError(f"a program for devices of several processes: {self.why_not}", hint=hint)
        return self.connected
