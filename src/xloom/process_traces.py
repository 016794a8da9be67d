"""Traces of several processes: each writes a part, the last one to do so joins them, with their clocks set by one."""

from __future__ import annotations

import json
import os
import socket
import time
from collections.abc import Iterator, Sequence
from contextlib import suppress
from functools import lru_cache
from pathlib import Path
from typing import Any

from xloom.errors import XloomError
from xloom.process_identity import ProcessIdentity

EXCHANGE = "exchange"
"""The category of spans in which a process waits for another. Their arguments say for which one (`peer`), which of
their common exchanges it is (`number`), and when it began (`began`, in microseconds)."""


def write(events: list[dict[str, Any]], identity: ProcessIdentity | None, path: Path, taken: int) -> None:
    """Writes a file for chrome://tracing and ui.perfetto.dev: `path`, or with several processes this one's part.

    `taken` counts the traces that were written to this path: parts are joined with those of the same number."""
    if identity is None:
        _write(path, {"traceEvents": events, "displayTimeUnit": "ns"})
        return
    told = {"index": identity.index, "count": identity.count, "run": f"{identity.run}/{taken}", **_clock()}
    process = {"pid": identity.index, "ph": "M", "args": {"name": f"process {identity.index} on {told['host']}"}}
    order = {"pid": identity.index, "ph": "M", "args": {"sort_index": identity.index}}
    names = [{"name": "process_name", **process}, {"name": "process_sort_index", **order}]
    own = [{**event, "pid": identity.index} for event in events]
    _write(part(path, identity.index), {"traceEvents": [*names, *own], "displayTimeUnit": "ns", "xloom": told})
    parts = [part(path, k) for k in range(identity.count)]
    with suppress(FileNotFoundError, UnfitTracesError):  # another one is the last, or has joined them already
        join(parts, path)
        for each in parts:
            each.unlink()


def check_writable(path: Path) -> None:
    """Raises XloomError where no trace can be written to a path: said before it is taken, not when it is lost."""
    path = path.absolute()
    if not path.parent.is_dir():
        why, hint = f"there is no folder {path.parent}", "make the folder, or name a file in another"
    elif path.is_dir():
        why, hint = "it is a folder", "name a file in it, such as trace.json"
    else:
        try:
            written = _unfinished(path)
            written.touch()
            written.unlink()
            return
        except OSError as error:
            why, hint = f"{error.strerror} in {path.parent}", "name a file in a folder that you may write to"
    raise XloomError(f"the trace cannot be written: {why}", where=str(path), hint=hint)


def part(path: Path, process: int) -> Path:
    """Where a process writes its own: `trace.process1.json` for `trace.json`."""
    return path.with_name(f"{path.stem}.process{process}{path.suffix}")


class UnfitTracesError(XloomError):
    """Files that are not the traces of one run's processes."""


def join(parts: Sequence[Path], path: Path) -> None:
    """Writes the traces of several processes as one, on the clock of the first.

    Raises UnfitTracesError for files that are something else, or of several runs."""
    traces = sorted((_read(each) for each in parts), key=lambda trace: trace["xloom"]["index"])
    if len({trace["xloom"]["run"] for trace in traces}) != 1:
        raise UnfitTracesError("these traces are not of one run", hint="name those that were written together")
    first, events = traces[0], []
    for trace in traces:
        ahead = _ahead(first, trace)
        events += [{**event, "ts": event["ts"] - ahead} if "ts" in event else event for event in trace["traceEvents"]]
    _write(path, {"traceEvents": events, "displayTimeUnit": "ns"})


def _read(path: Path) -> dict[str, Any]:
    with open(path) as file:
        try:
            trace = json.load(file)
        except ValueError as error:
            hint = "xloom trace joins files that XLOOM_TRACE has had written; one that was cut off cannot be read"
            raise UnfitTracesError(f"{path} is no trace: {error}", hint=hint) from None
    if not isinstance(trace, dict) or "xloom" not in trace:
        raise UnfitTracesError(
            f"{path} is not the trace of one of several processes", hint="those are called NAME.process0.json..."
        )
    return trace


def _ahead(first: dict[str, Any], other: dict[str, Any]) -> float:
    """How many microseconds the clock of one trace is ahead of another's.

    Nothing arrives before it was sent: each exchange between the two is a bound from either side. Where there was none,
    the time of day has to do."""
    ours, theirs = first["xloom"], other["xloom"]
    if ours["boot"] == theirs["boot"]:
        return 0.0
    mine, others = (dict(_waits(a, b["xloom"]["index"])) for a, b in ((first, other), (other, first)))
    common = mine.keys() & others.keys()
    if not common:
        return ours["epoch"] - theirs["epoch"]
    least = max(others[k]["args"]["began"] - _end(mine[k]) for k in common)
    most = min(_end(others[k]) - mine[k]["args"]["began"] for k in common)
    return (least + most) / 2


def _waits(trace: dict[str, Any], peer: int) -> Iterator[tuple[Any, dict[str, Any]]]:
    for event in trace["traceEvents"]:
        if event.get("cat") == EXCHANGE and event["args"].get("peer") == peer:
            yield event["args"]["number"], event


def _end(event: dict[str, Any]) -> float:
    return event["ts"] + event["dur"]


@lru_cache(maxsize=1)
def _clock() -> dict[str, Any]:
    """What tells which clock the times of this process are of, and how far it is from the time of day."""
    try:
        boot = Path("/proc/sys/kernel/random/boot_id").read_text().strip()
    except OSError:
        boot = socket.gethostname()
    return {"host": socket.gethostname(), "boot": boot, "epoch": (time.time_ns() - time.monotonic_ns()) / 1e3}


def _write(path: Path, content: dict[str, Any]) -> None:
    """Whoever finds the file finds all of it."""
    written = _unfinished(path)
    written.write_text(json.dumps(content))
    written.replace(path)


def _unfinished(path: Path) -> Path:
    return path.with_name(f".{path.name}.{os.getpid()}")
