"""The benchmark of whole models: its own sides on a tiny model, what it says of one that does not run, and its table."""

import json

import pytest

from benchmarks.models import cli, measurement, sides


def test_a_tiny_model_agrees_with_eager_mode_and_is_timed(monkeypatch):
    def refuse(module, inputs, threads):
        raise sides.NotTaken("no such thing")

    monkeypatch.setitem(sides.SIDES, "openvino", refuse)
    ours, theirs = measurement.measure("tiny", 2, "f32", ["xloom", "openvino"], 1, 1)
    assert ours["run"] > 0 and ours["first"] > 0 and ours["apart"] < 1e-4 and not ours["problem"]
    assert not theirs["run"] and theirs["problem"] == "NotTaken: no such thing"


def test_the_table_has_ratios_and_reasons(monkeypatch, tmp_path, capsys):
    found = {"xloom": 2.0, "inductor": 3.0, "onnxruntime": 1.0}

    def one(command, *rest):
        named = command[command.index("--sides") + 1].split(",")
        problems = [{"side": s, "run": 0.0, "first": 0.0, "apart": 0.0, "problem": "no kernel"} for s in ["openvino"]]
        good = [{"side": s, "run": t, "first": 1.0, "apart": 0.0, "problem": ""} for s, t in found.items()]
        return {"sides": [s for s in good + problems if s["side"] in named]}

    monkeypatch.setattr(cli, "run_child", one)
    out = tmp_path / "models.jsonl"
    cli.main(["--models", "tiny", "--batch", "1,8", "--out", str(out)])
    printed = capsys.readouterr()
    rows = " ".join(printed.err.split())
    assert "inductor 3.00 s 1.50" in rows and "openvino: no kernel" in rows
    assert "the better of the last two: 0.50 times xloom's time in the geometric mean of 2" in printed.out
    assert [json.loads(line)["batch"] for line in out.read_text().splitlines()] == [1, 8]


def test_a_model_that_is_not_there_is_an_error():
    with pytest.raises(SystemExit, match="no model 'nothing': there are resnet50"):
        cli.main(["--models", "nothing"])
