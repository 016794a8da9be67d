"""The commands of docs/questions.md, on a small program: each answers what it is asked."""

import re
from pathlib import Path

import pytest
from click.testing import CliRunner

from xloom.cli.main import cli
from xloom.errors import XloomError

PAGE = (Path(__file__).parents[2] / "docs/questions.md").read_text("utf-8")
SMALL = """HloModule small
sum { a = f32[] parameter(0) b = f32[] parameter(1) ROOT s = f32[] add(a, b) }
ENTRY main { x = f32[64,64] parameter(0) w = f32[64,64] parameter(1) zero = f32[] constant(0)
  p = f32[64,64] dot(x, w), lhs_contracting_dims={1}, rhs_contracting_dims={0}
  squares = f32[64,64] multiply(p, p) total = f32[64] reduce(squares, zero), dimensions={1}, to_apply=sum
  CHANGED
  all = f32[64,64] broadcast(r), dimensions={0} n = f32[64,64] multiply(p, all)
  q = f32[64,64] dot(n, w), lhs_contracting_dims={1}, rhs_contracting_dims={0} ROOT t = f32[64,64] tanh(q) }"""
PROGRAMS = {
    "gemma.hlo": "r = f32[64] rsqrt(total)",
    "changed.hlo": "twice = f32[64] add(total, total) r = f32[64] rsqrt(twice)",
    "nan.hlo": "minus = f32[64] negate(total) r = f32[64] rsqrt(minus)",
    "crash.hlo": 'r = f32[64] custom-call(total), custom_call_target="fast_rsqrt"',
}
ANSWERS = {
    "show gemma.hlo": r"gemma.html +\d+ KiB",
    "opt --emit memory gemma.hlo": r"peak .*KiB",
    "opt --explain memory:NAME gemma.hlo": r"in use from thunk",
    "opt --explain fusion:A,B gemma.hlo": r"not in one loop nest: %p dot: a kernel of its own",
    "opt --explain kernel:NAME gemma.hlo": r"%p dot f32\[64,64\]\n  ",
    "opt --explain compile-time gemma.hlo": r"% +machine code by LLVM",
    "bench gemma.hlo --profile": r"limited by",
    "run gemma.hlo --check nan": r"rsqrt makes NaN of operands that have none: .*\(at r\)",
    "diff gemma.hlo changed.hlo": r"1 added, 1 changed",
    "diff gemma.hlo changed.hlo --values --on cpu": r"%r\b|rsqrt",
    "reduce gemma.hlo --crash": r"fast_rsqrt",
    "export gemma.hlo": r"libgemma.so +\d+ KiB",
}
"""Of each command of the page's table, what the answer has."""
GIVEN = {"run gemma.hlo --check nan": "nan.hlo", "reduce gemma.hlo --crash": "crash.hlo"}


@pytest.fixture
def folder(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    for name, line in PROGRAMS.items():
        (tmp_path / name).write_text(SMALL.replace("CHANGED", line))


def test_each_command_of_the_page_is_tried():
    table = PAGE[PAGE.index("| question") : PAGE.index("\n## ")]
    commands = {c.replace(" --open", "") for c in re.findall(r"`xloom ([^`]*)`", table)}
    assert commands == ANSWERS.keys()


@pytest.mark.parametrize("command", ANSWERS)
def test_it_answers(folder, command):
    asked = command.replace("gemma.hlo", GIVEN.get(command, "gemma.hlo"), 1)
    words = asked.replace("NAME", "p").replace("A,B", "p,squares").split()
    if words[0] in ("bench", "reduce"):
        words += ["--repeats", "1"] if words[0] == "bench" else ["-j", "1"]
    done = CliRunner().invoke(cli, words, env={"COLUMNS": "200"})
    said = f"{done.output}{done.exception if isinstance(done.exception, XloomError) else ''}"
    assert re.search(ANSWERS[command], said), f"{said}\n{done.exception!r}"
