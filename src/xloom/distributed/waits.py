"""How long processes wait for each other, as native code writes it down while a trace is being taken."""

from __future__ import annotations

import ctypes
from collections import Counter
from collections.abc import Mapping, Sequence
from typing import NamedTuple

from xloom.cpu.entry.collective_sites import CollectiveSite
from xloom.cpu.runtime.event_ring import CAPACITY, EventRing
from xloom.distributed.topology import number_of
from xloom.process_traces import EXCHANGE
from xloom.trace import Trace

WAITS = "xloom_waits"
"""The symbol of two words: whether to write, and the address of the rows."""
WHOLE = -1
"""In place of a peer: of all of an exchange."""
ONE_SIDED = 0
"""In place of when it began: only one side has waited, which says nothing of when the other did."""
_COLUMNS = ("record", "peer", "run", "began", "start", "end")
_FIRST_TRACK = 1 << 30
"""Of what is shown like threads: larger than the numbers of those."""


class Exchange(NamedTuple):
    """What a record is about: a collective of a program, its number there, that of the group, and whose devices meet
    here."""

    site: CollectiveSite
    number: int
    group: int
    devices: tuple[int, ...]
    peers: Sequence[int]


class Waits:
    """Those of this process."""

    def __init__(self) -> None:
        self._ring = EventRing(len(_COLUMNS))
        self._words = (ctypes.c_uint64 * 2)(0, self._ring.address)
        self.address = ctypes.addressof(self._words)
        self._trace: Trace | None = None
        self._exchanges: dict[int, Exchange] = {}
        self._seen: Counter[tuple[int, str]] = Counter()

    def begin(self, trace: Trace, exchanges: Mapping[int, Exchange]) -> None:
        """Waits are written from now on, of these exchanges, by the address of their record."""
        self._ring.take()
        self._trace, self._exchanges = trace, dict(exchanges)
        self._words[0] = 1

    def add(self, exchanges: Mapping[int, Exchange]) -> None:
        """There are these now, too; their records may lie where those of others lay, which are gone."""
        if self._trace is not None:
            self.tell()
            self._exchanges.update(exchanges)

    def end(self) -> None:
        """No more waits are written."""
        self.tell()
        self._words[0] = 0
        self._trace, self._exchanges = None, {}

    def tell(self) -> None:
        """Gives the trace what was written since the last time."""
        trace = self._trace
        if trace is None:
            return
        for record, peer, run, began, start, end in self._ring.take():
            exchange = self._exchanges[record]
            label = exchange.site.label
            track = _FIRST_TRACK + sum(1 << number_of(device) for device in exchange.devices)
            devices = f"device{'s' * (len(exchange.devices) > 1)} {', '.join(map(str, exchange.devices))}"
            trace.name_thread(track, f"between processes: {devices}")
            if peer == WHOLE:
                trace.add(label.split(" ", 1)[0], "collective", start, end, track, collective=label)
                continue
            other = exchange.peers[peer]
            if began == ONE_SIDED:
                category, details = "wait", {"peer": other}
            else:
                key = f"{run}.{exchange.number}.{exchange.group}"
                self._seen[other, key] += 1
                number = f"{key}.{self._seen[other, key]}"
                category, details = EXCHANGE, {"peer": other, "number": number, "began": began / 1e3}
            trace.add(f"wait for process {other}", category, start, end, track, **details, collective=label)


def waits_ir() -> str:
    """`note_wait(record, peer, run, began, start)`: writes a row, which ends now, while a trace is being taken; and
    `wait_begins`, the time, or 0 while no trace is being taken, of which no row is written."""
    words = 1 + len(_COLUMNS)
    values = ("%record.word", "%peer", "%number", "%began", "%start", "%end")
    stores = "\n".join(
        f"  %{name}.at = getelementptr i64, ptr %row, i64 {k}\n  store i64 {value}, ptr %{name}.at"
        for k, (name, value) in enumerate(zip(_COLUMNS, values, strict=True), 1)
    )
    return f"""
@{WAITS} = external global [2 x i64]
define internal i64 @wait_begins() {{
entry:
  %is.read = load atomic i64, ptr @{WAITS} monotonic, align 8
  %is.on = icmp ne i64 %is.read, 0
  br i1 %is.on, label %look, label %done
look:
  %now = call i64 @now()
  br label %done
done:
  %begins = phi i64 [ 0, %entry ], [ %now, %look ]
  ret i64 %begins
}}

define internal void @note_wait(ptr %record, i64 %peer, i64 %number, i64 %began, i64 %start) {{
entry:
  %is.read = load atomic i64, ptr @{WAITS} monotonic, align 8
  %is.on = icmp ne i64 %is.read, 0
  %was.on = icmp ne i64 %start, 0
  %is.whole = and i1 %is.on, %was.on
  br i1 %is.whole, label %write, label %done
write:
  %end = call i64 @now()
  %record.word = ptrtoint ptr %record to i64
  %ring.at = getelementptr i64, ptr @{WAITS}, i64 1
  %ring = load ptr, ptr %ring.at
  %taken = atomicrmw add ptr %ring, i64 1 monotonic
  %place = and i64 %taken, {CAPACITY - 1}
  %first = mul i64 %place, {words}
  %rows = getelementptr i64, ptr %ring, i64 1
  %row = getelementptr i64, ptr %rows, i64 %first
{stores}
  %finished = add i64 %taken, 1
  store atomic i64 %finished, ptr %row release, align 8
  br label %done
done:
  ret void
}}
"""
