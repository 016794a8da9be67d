"""When the units of a simulated device are busy, if each does its work as soon as it can.

Units are separate resources. What they compute they compute in order; of transfers, which are one at a time as well,
one that can begin passes those that wait. A transfer to the scratchpad (a load) waits for the operands of its
instruction, and for room: there are two buffers, so what was computed before the last must be done. What a unit
computes waits for all loads of its instruction so far; a transfer from the scratchpad (a store) for all that its
instruction has computed so far. An instruction's value is ready when all of its work is done.
"""

from __future__ import annotations

from collections import deque

_BUFFERS = 2


class Timeline:
    """Cycles are counted from the beginning of all."""

    def __init__(self) -> None:
        self.elapsed = 0
        """When all that was given so far is done."""
        self._free: dict[str, int] = {}
        self._gaps: list[tuple[int, int]] = []
        """Between transfers."""
        self._computed: deque[int] = deque([0] * _BUFFERS, maxlen=_BUFFERS)
        self._ready = self._loaded = self._done = 0

    def begin(self, ready: int) -> None:
        """What comes now is the work of an instruction whose operands are ready at that cycle."""
        self._ready = self._loaded = self._done = ready

    @property
    def loaded(self) -> int:
        """When the loads of the instruction are done; its operands' cycle if there are none."""
        return self._loaded

    @property
    def done(self) -> int:
        """When the work of the instruction is done; its operands' cycle if there is none."""
        return self._done

    def load(self, unit: str, cycles: int) -> None:
        """A transfer to the scratchpad."""
        end = self._transfer(unit, cycles, max(self._ready, self._computed[0]))
        self._loaded = max(self._loaded, end)

    def compute(self, unit: str, cycles: int) -> None:
        """Work on what was loaded."""
        self._computed.append(self._work(unit, cycles, self._loaded))

    def store(self, unit: str, cycles: int) -> None:
        """A transfer from the scratchpad."""
        self._transfer(unit, cycles, self._done)

    def _transfer(self, unit: str, cycles: int, start: int) -> int:
        oldest = min(self._computed)  # no load begins before
        self._gaps = [(a, b) for a, b in self._gaps if b > oldest]
        for number, (a, b) in enumerate(self._gaps):
            begin = max(a, start)
            if begin + cycles <= b:
                self._gaps[number : number + 1] = [(a, begin), (begin + cycles, b)]
                return self._ended(begin + cycles)
        free = self._free.get(unit, 0)
        if start > free:
            self._gaps.append((free, start))
        return self._work(unit, cycles, start)

    def _work(self, unit: str, cycles: int, start: int) -> int:
        self._free[unit] = max(start, self._free.get(unit, 0)) + cycles
        return self._ended(self._free[unit])

    def _ended(self, end: int) -> int:
        self._done = max(self._done, end)
        self.elapsed = max(self.elapsed, end)
        return end
