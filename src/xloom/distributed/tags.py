"""The tags of messages: what keeps those of different groups, runs and purposes apart."""

from __future__ import annotations

from dataclasses import dataclass

_HEADERS, _DATA, _FAILURES, _TRANSFERS = range(4)
_KIND_BITS = 2
_LEAST_RUN_BITS, _MOST_RUN_BITS = 4, 12


@dataclass(frozen=True)
class Tags:
    """Where the parts of a tag are: its kind, a lane, the number of a run.

    Two processes have a lane for each device of one and each of the other. A group uses that of its first ones: groups
    on one lane have these two devices in common, so that they follow each other in both processes. Headers of all runs
    come in order, so that it is noticed when processes run different programs; data and failures are of one run, so
    that nobody takes for his own what a run that has failed left behind.
    """

    devices: int
    """How many devices a process has at most."""
    most: int
    """The largest tag of MPI."""

    @property
    def _lane_bits(self) -> int:
        room = (self.most + 1).bit_length() - 1 - _KIND_BITS - _LEAST_RUN_BITS
        return min(room, (self.devices**2 - 1).bit_length())

    @property
    def run_shift(self) -> int:
        """Where the number of a run begins."""
        return _KIND_BITS + self._lane_bits

    @property
    def run_mask(self) -> int:
        """Which bits of the number are part of the tag."""
        return (1 << min(_MOST_RUN_BITS, (self.most + 1).bit_length() - 1 - self.run_shift)) - 1

    def _of(self, kind: int, first: int, second: int) -> int:
        lane = (first * self.devices + second) % (1 << self._lane_bits)
        return lane << _KIND_BITS | kind

    def headers(self, first: int, second: int) -> int:
        """Of headers on the lane of a device of the process with the smaller number and one of the other."""
        return self._of(_HEADERS, first, second)

    def data(self, first: int, second: int) -> int:
        """Of data on such a lane; a run adds its number."""
        return self._of(_DATA, first, second)

    @property
    def failure(self) -> int:
        """Of the message that a run has failed; the run adds its number."""
        return _FAILURES

    @property
    def end(self) -> int:
        """Of the message that a process takes part in no further transfer."""
        return _TRANSFERS

    def transfer(self, key: int, *, is_data: bool) -> int:
        """Of what belongs to no program: the header of a transfer, which has this number, and then its data."""
        keys = ((self.most + 1) >> _KIND_BITS + 1) - 1
        return ((key % keys + 1) << 1 | is_data) << _KIND_BITS | _TRANSFERS

    def of_run(self, tag: int, number: int) -> int:
        """The tag of what belongs to one run."""
        return tag | (number & self.run_mask) << self.run_shift
