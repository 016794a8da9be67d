"""The commands of docs/from-xla-tools.md, each on a small program."""

import re
from pathlib import Path

import numpy as np
import pytest
from click.testing import CliRunner

from tests.cli.test_questions import PROGRAMS, SMALL
from xloom.cli.main import cli

PAGE = (Path(__file__).parents[2] / "docs/from-xla-tools.md").read_text("utf-8")
MLIR = """func.func @main(%x: tensor<4xf32>) -> tensor<4xf32> {
  %y = stablehlo.add %x, %x : tensor<4xf32>
  return %y : tensor<4xf32>
}"""
DIFFERS, DOES_NOT_FAIL = 1, 1
COMMANDS = {
    'opt --passes "cse,dce" m.hlo': 0,
    "opt --emit llvm m.hlo": 0,
    "opt m.hlo -o m.pb": 0,
    "opt m.pb": 0,
    "opt m.mlir": 0,
    "run m.hlo --compare interpreter": 0,
    "run m.hlo --time 10": 0,
    "bench m.hlo": 0,
    "run m.hlo -i x.npy": 0,
    "show m.hlo": 0,
    "diff a.hlo b.hlo": DIFFERS,
    "diff m.hlo --values --against interpreter --save wrong/": 0,
    "reduce m.hlo --wrong-against interpreter": DOES_NOT_FAIL,
    "export m.hlo": 0,
    "bench m.hlo --profile": 0,
    "info --memory m.hlo": 0,
    "opt -p ... --dump steps/ m.hlo": 0,
    "show steps/": 0,
    "info --environment": 0,
    "run --on interpreter": 0,
}
"""The exit status of each that names a program, or needs none."""


@pytest.fixture
def folder(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    for name, line in {"m": "gemma.hlo", "a": "gemma.hlo", "b": "changed.hlo"}.items():
        (tmp_path / f"{name}.hlo").write_text(SMALL.replace("CHANGED", PROGRAMS[line]))
    (tmp_path / "m.mlir").write_text(MLIR)
    np.save("x.npy", np.ones((64, 64), np.float32))
    assert CliRunner().invoke(cli, ["opt", "m.hlo", "-o", "m.pb"]).exit_code == 0
    assert CliRunner().invoke(cli, ["opt", "-p", "cse", "--dump", "steps/", "m.hlo"]).exit_code == 0


def test_each_of_the_page_is_here():
    named = {c for c in re.findall(r"`xloom ([^`]*)`", PAGE) if re.search(r"\.(hlo|pb|mlir)|steps/|--environment", c)}
    assert named <= COMMANDS.keys()


@pytest.mark.parametrize("command", COMMANDS)
def test_it_works(folder, command):
    words = command.replace('"', "").replace("...", "cse,dce").split()
    words += ["m.hlo"] if command == "run --on interpreter" else []
    words += {"bench": ["--repeats", "1"], "reduce": ["-j", "1"]}.get(words[0], [])
    done = CliRunner().invoke(cli, words)
    assert done.exit_code == COMMANDS[command], f"{done.output}{done.exception!r}"
