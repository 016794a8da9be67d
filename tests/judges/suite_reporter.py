"""A plugin of pytest that writes JSON lines, for the children of suite_runner.py: tests when they start, and verdicts."""

import json
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest


class Reporter:
    """Keeps the tests that are asked for, or with no `ids` tells which there are."""

    def __init__(
        self,
        ids: list[str] | None,
        out: Path,
        name_of: Callable[[str], str] = lambda nodeid: nodeid,
        traces: Callable[[], Any] | None = None,
    ):
        """`name_of` is a test's name for the judge; `traces` changes its answer where a test used what is judged."""
        self.ids = ids
        self.out = out
        self.name_of = name_of
        self.traces = traces
        self.unused: set[str] = set()
        self.processor: dict[str, float] = {}
        self.uncollected: dict[str, dict[str, str]] = {}
        """Of files that are skipped or fail as a whole: the verdict of all tests of theirs."""

    def pytest_collectreport(self, report: Any) -> None:
        """Sees what is not collected."""
        if report.skipped or report.failed:
            verdict = "fail" if report.failed else "skip"
            self.uncollected[report.nodeid] = {"verdict": verdict, "message": str(report.longrepr)[-300:]}

    def pytest_collection_modifyitems(self, items: list[Any]) -> None:
        """Keeps or lists them."""
        known = {self.name_of(item.nodeid): item for item in items}
        if self.ids is None:
            for name in known:
                self._write(id=name)
            items.clear()
            return
        items[:] = [known[name] for name in self.ids if name in known]
        for name in self.ids:
            if name not in known:
                self._write(id=name, **self.uncollected.get(name.partition("::")[0], {"verdict": "absent"}))

    def pytest_runtest_logstart(self, nodeid: str) -> None:
        """Says what runs, in case it does not end."""
        self._write(id=self.name_of(nodeid), verdict="started")

    @pytest.hookimpl(wrapper=True)
    def pytest_runtest_call(self, item: Any) -> Iterator[None]:
        """Sees whether a test uses what is judged, and the processors' time, which others' work does not add to."""
        before = self.traces() if self.traces else None
        since = time.process_time()
        result = yield
        self.processor[item.nodeid] = round(time.process_time() - since, 3)
        if self.traces and self.traces() == before:
            self.unused.add(item.nodeid)
        return result

    def pytest_runtest_logreport(self, report: Any) -> None:
        """Says how a test ended."""
        name = self.name_of(report.nodeid)
        if report.failed:
            crash = getattr(report.longrepr, "reprcrash", None)
            text = crash.message if crash else str(report.longrepr)
            self._write(id=name, verdict="fail", message=text[:2000])
        elif report.skipped:
            self._write(id=name, verdict="skip", message=str(report.longrepr)[-300:])
        elif report.when == "call" and report.nodeid in self.processor:  # a part of a test passes before its end
            verdict = "unused" if report.nodeid in self.unused else "pass"
            processor = self.processor[report.nodeid]
            self._write(id=name, verdict=verdict, seconds=round(report.duration, 3), processor=processor)

    def _write(self, **row: Any) -> None:
        with self.out.open("a") as file:
            file.write(json.dumps(row) + "\n")
