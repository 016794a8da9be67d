"""The processor's counters, and what is said where there are none."""

import errno

import pytest

from xloom.errors import UnsupportedError
from xloom.roofline import counters
from xloom.roofline.counters import Counters


def test_they_count_or_say_why_not():
    try:
        opened = Counters()
    except UnsupportedError as error:
        assert "counters cannot be read: " in error.message and error.hint
        return
    with opened:
        with opened.counting():
            sum(range(100_000))
        first = opened.read()["instructions"]
        sum(range(100_000))  # which nothing counts
        assert first > 100_000 and opened.read()["instructions"] == first


@pytest.mark.parametrize(
    ("error", "level", "why"),
    [
        (errno.ENOSYS, "2", "has no perf_event_open"),
        (errno.EACCES, "3", "is 3, which lets only root count"),
        (errno.EPERM, "2", "containers"),
        (errno.EMFILE, "2", "Too many open files"),
    ],
)
def test_refusals(monkeypatch, tmp_path, error, level, why):
    path = tmp_path / "perf_event_paranoid"
    path.write_text(level + "\n")
    monkeypatch.setattr(counters, "_PARANOID", path)
    found, hint = counters._refusal(error)
    assert why in found and hint
