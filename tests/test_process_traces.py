"""Traces of several processes become one, on one clock."""

import json

import pytest
from click.testing import CliRunner

from xloom.cli.main import cli
from xloom.process_identity import ProcessIdentity
from xloom.process_traces import EXCHANGE, UnfitTracesError, join, part, write

AHEAD = 5000.0
"""Microseconds by which the second process's clock is."""


def exchange(process: int, began: float, start: float, end: float, number: str = "1.0.0.1") -> dict:
    """A wait of a process, at times of the first one's clock."""
    ahead = AHEAD * process
    told = {"peer": 1 - process, "number": number, "began": began + ahead}
    name = f"wait for process {1 - process}"
    return {"name": name, "cat": EXCHANGE, "ph": "X", "ts": start + ahead, "dur": end - start, "tid": 1, "args": told}


def on_another_machine(path, process: int) -> None:
    """As if that process had another clock."""
    content = json.loads(part(path, process).read_text())
    content["xloom"]["boot"] = "another"
    part(path, process).write_text(json.dumps(content))


def starts(path) -> dict[int, list[float]]:
    found: dict[int, list[float]] = {}
    for event in json.loads(path.read_text())["traceEvents"]:
        if event.get("cat") == EXCHANGE:
            found.setdefault(event["pid"], []).append(event["ts"])
    return found


def test_the_last_process_joins_the_parts(tmp_path):
    path = tmp_path / "trace.json"
    write([exchange(0, 0, 10, 20)], ProcessIdentity(0, 2, "run"), path, 0)
    assert part(path, 0).exists() and not path.exists()
    write([exchange(1, 5, 12, 21)], ProcessIdentity(1, 2, "run"), path, 0)
    events = json.loads(path.read_text())["traceEvents"]
    assert {event["pid"] for event in events} == {0, 1}
    assert [event["args"]["name"].split(" on ")[0] for event in events if event["name"] == "process_name"] == [
        "process 0",
        "process 1",
    ]
    assert starts(path) == {0: [10], 1: [12 + AHEAD]}  # one machine, one clock: times stay as they were told
    assert list(tmp_path.iterdir()) == [path]


def test_clocks_of_machines_are_set_by_what_they_exchanged(tmp_path):
    path = tmp_path / "trace.json"
    write([exchange(0, 0, 10, 20), exchange(0, 100, 101, 104, "1.0.0.2")], ProcessIdentity(0, 2, "run"), path, 0)
    on_another_machine(path, 0)
    write([exchange(1, 19, 20, 22), exchange(1, 101, 102, 103, "1.0.0.2")], ProcessIdentity(1, 2, "run"), path, 0)
    first, second = starts(path)[0], starts(path)[1]
    assert first == [10, 101]
    assert abs(second[0] - 20) < 2 and abs(second[1] - 102) < 2


def test_parts_of_several_machines_are_joined_by_hand(tmp_path):
    path = tmp_path / "trace.json"
    for process in range(2):
        write([exchange(process, 0, 1, 2)], ProcessIdentity(process, 3, "run"), path, 0)
    said = CliRunner().invoke(cli, ["trace", *(str(part(path, k)) for k in range(2)), "-o", str(path)])
    assert said.exit_code == 0, said.output
    assert "2 processes" in said.output and starts(path).keys() == {0, 1}


def test_what_is_not_of_one_run(tmp_path):
    path, other = tmp_path / "a.json", tmp_path / "b.json"
    write([], ProcessIdentity(0, 2, "run"), path, 0)
    write([], ProcessIdentity(1, 2, "another"), other, 0)
    with pytest.raises(UnfitTracesError, match="not of one run"):
        join([part(path, 0), part(other, 1)], tmp_path / "c.json")
    write([], None, path, 0)
    with pytest.raises(UnfitTracesError, match="not the trace of one of several"):
        join([path], other)
    path.write_text("[")
    with pytest.raises(UnfitTracesError, match="no trace"):
        join([path], other)
    said = CliRunner().invoke(cli, ["trace", str(path), "-o", str(other)])
    assert said.exit_code != 0


def test_parts_of_an_earlier_run_are_left_apart(tmp_path):
    path = tmp_path / "trace.json"
    write([], ProcessIdentity(0, 2, "killed"), path, 0)
    write([], ProcessIdentity(1, 2, "run"), path, 0)
    assert not path.exists()
    write([], ProcessIdentity(0, 2, "run"), path, 0)
    assert path.exists()
