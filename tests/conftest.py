import os
import time
from collections import defaultdict
from collections.abc import Sequence
from zlib import crc32

import pytest
from xdist.remote import Producer

from tests.distribution import CrashProof

os.environ.setdefault("XLOOM_CHECK", "buffers,loops")  # of what is compiled, here and in children

SAMPLE = 16
FURTHER = pytest.StashKey[bool]()
"""Set on all cases of a test but one, which run after those, while there is time."""


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption("--bless", action="store_true", help="rewrite the expectations of golden files")
    parser.addoption(
        "--every-case",
        action="store_true",
        help=f"tests marked `long`, and all cases of tests marked `sampled`, of which else {SAMPLE} run",
    )
    parser.addoption(
        "--until",
        type=float,
        default=float("inf"),
        metavar="SECONDS",
        help="a time, as `date +%%s` counts, after which only one case of each test still runs, for 15 minutes",
    )


def pytest_itemcollected(item: pytest.Item) -> None:
    """Gives to one process all that share what a module's fixture makes: else each of them would make it."""
    assert isinstance(item, pytest.Function)
    shared = [name for name, all_ in item._fixtureinfo.name2fixturedefs.items() if all_[-1].scope == "module"]
    if shared:
        item.add_marker(pytest.mark.xdist_group(f"{item.path.stem}:{','.join(sorted(shared))}"))


def _in_sampling_order(cases: Sequence[pytest.Item]) -> list[pytest.Item]:
    """By a hash of their names: the same each time and in each process."""
    return sorted(cases, key=lambda each: crc32(each.nodeid.encode()))


@pytest.hookimpl(trylast=True)  # once it is known which were asked for
def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Leaves out long tests and cases of those marked `sampled`, and puts one case of each test before all others."""
    cases = defaultdict(list)
    left_out = set()
    for item in items:
        if item.get_closest_marker("long") and not config.getoption("--every-case"):
            left_out.add(item)
        else:
            cases[item.nodeid.partition("[")[0]].append(item)
    for test in cases.values():
        ordered = _in_sampling_order(test)
        for case in ordered[1:]:
            case.stash[FURTHER] = True
        if test[0].get_closest_marker("sampled") and not config.getoption("--every-case"):
            left_out.update(ordered[SAMPLE:])
    config.hook.pytest_deselected(items=list(left_out))
    items[:] = [item for item in items if item not in left_out]
    if config.getoption("--until") != float("inf"):
        items.sort(key=lambda item: item.stash.get(FURTHER, False))
    if getattr(config.option, "loadgroup", False):
        for item in items:
            _name_group(item)


def _name_group(item: pytest.Item) -> None:
    """Ends an item's id with its group, as pytest-xdist 3.8 does in a field that pytest 9.2 no longer reads."""
    for mark in item.iter_markers("xdist_group"):
        suffix = f"@{mark.args[0]}"
        if not item.nodeid.endswith(suffix):
            item._id = type(item._id).parse(item.nodeid + suffix)


LEFT_OUT = "for want of time"
GRACE = 900
"""Seconds after that time in which tests' first cases still run."""


@pytest.hookimpl(tryfirst=True)  # before fixtures are made
def pytest_runtest_setup(item: pytest.Item) -> None:
    """Leaves out further cases once the time is over, and a while later all."""
    until: float = item.config.getoption("--until")  # type: ignore[assignment]
    if time.time() > until + GRACE * (not item.stash.get(FURTHER, False)):
        pytest.skip(LEFT_OUT)


def pytest_xdist_make_scheduler(config: pytest.Config, log: Producer) -> CrashProof:
    return CrashProof(config, log)


class FailuresAtOnce:
    """Says what failed when it does: whoever ends a run early knows."""

    def __init__(self, config: pytest.Config) -> None:
        self.config = config

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        terminal = self.config.pluginmanager.get_plugin("terminalreporter")
        if report.failed and terminal is not None:
            terminal.write_line(f"\nFAILED {report.nodeid}\n{report.longreprtext}")


def pytest_configure(config: pytest.Config) -> None:
    if config.getoption("numprocesses"):  # workers have none, and one process writes what failed soon enough
        config.pluginmanager.register(FailuresAtOnce(config))


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    """Says how many cases were left out."""
    skipped = terminalreporter.stats.get("skipped", [])
    count = sum(isinstance(each.longrepr, tuple) and LEFT_OUT in each.longrepr[2] for each in skipped)
    if count:
        terminalreporter.write_line(f"{count} cases were left out for want of time: make test-all runs all")
