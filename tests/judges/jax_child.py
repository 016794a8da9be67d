"""A process that runs tests of JAX's, for jax_tests.py: `jax_child.py FILE IDS OUT DUT`, in a checkout of JAX.

Writes JSON lines to OUT: each test when it starts, and its verdict. With no IDS it lists the tests instead. It is
started by its path, and imports nothing of ours: JAX's folder of tests has the name of our package.
"""

import json
import sys
from importlib import import_module
from pathlib import Path
from typing import Any

import pytest


class Reporter:
    """A plugin of pytest."""

    def __init__(self, ids: list[str] | None, out: Path):
        self.ids = ids
        self.out = out

    def pytest_collection_modifyitems(self, items: list[Any]) -> None:
        """Keeps the tests that are asked for, or tells which there are."""
        if self.ids is None:
            for item in items:
                self._write(id=item.nodeid)
            items.clear()
            return
        known = {item.nodeid: item for item in items}
        items[:] = [known[name] for name in self.ids if name in known]
        for name in self.ids:
            if name not in known:
                self._write(id=name, verdict="absent")

    def pytest_runtest_logstart(self, nodeid: str) -> None:
        """Says what runs, in case it does not end."""
        self._write(id=nodeid, verdict="started")

    def pytest_runtest_logreport(self, report: Any) -> None:
        """Says how a test ended."""
        if report.failed:
            crash = getattr(report.longrepr, "reprcrash", None)
            text = crash.message if crash else str(report.longrepr)
            self._write(id=report.nodeid, verdict="fail", message=text[:2000])
        elif report.skipped:
            self._write(id=report.nodeid, verdict="skip", message=str(report.longrepr)[-300:])
        elif report.when == "call":
            self._write(id=report.nodeid, verdict="pass", seconds=round(report.duration, 3))

    def _write(self, **row: Any) -> None:
        with self.out.open("a") as file:
            file.write(json.dumps(row) + "\n")


def main() -> int:
    """Runs or lists them."""
    file, ids, out, dut = sys.argv[1:5]
    sys.path.pop(0)
    import jax

    import_module("jax._src.test_util")  # which defines the flag
    jax.config.update("jax_test_dut", dut)
    chosen = json.loads(Path(ids).read_text()) if ids else None
    options = ["-q", "--tb=short", "-p", "no:cacheprovider", *([] if chosen is not None else ["--collect-only"])]
    return pytest.main([*options, file], plugins=[Reporter(chosen, Path(out))])


if __name__ == "__main__":
    sys.exit(main())
