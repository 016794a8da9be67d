"""Golden files: `// pass:` and `// why:`, an input module, `// ---- expect`, and the module after the passes.

`pytest --bless` rewrites the lower half. Both halves must be valid and give the same values.
"""

from pathlib import Path

import pytest

import xloom.cpu.prepare  # noqa: F401 - registers the backend's passes
from xloom.hlo.module import Module
from xloom.hlo.text.parser import parse
from xloom.interpreter import evaluate
from xloom.interpreter.samples import random_arguments
from xloom.passes import run_passes
from xloom.passes.hooks import difference, with_carried

GOLDEN = Path(__file__).parent / "golden"
MARK = "// ---- expect\n"


@pytest.mark.parametrize("path", sorted(GOLDEN.glob("*.hlo")), ids=lambda p: p.stem)
def test_golden(path: Path, request: pytest.FixtureRequest) -> None:
    upper, _, lower = path.read_text(encoding="utf-8").partition(MARK)
    head = dict(line[2:].strip().split(": ", 1) for line in upper.splitlines() if line.startswith("// "))
    assert set(head) == {"pass", "why"}, "a golden file has one line `// pass:` and one `// why:`"
    before = parse(upper, path.name)
    after = parse(upper, path.name)
    run_passes(after, head["pass"])
    text = after.to_text(print_large_constants=True).rstrip() + "\n"
    if request.config.getoption("--bless"):
        path.write_text(upper + MARK + text, encoding="utf-8")
    else:
        assert text == lower, "run `pytest --bless`, and look at the difference"
    same_values(before, after)
    again = run_passes(after, head["pass"])
    assert not any(run.changed for run in again), "a second run must find nothing to do"


def same_values(before: Module, after: Module) -> None:
    if any(i.opcode == "custom-call" or i.op.has_effect for i in before.instructions):
        return  # no value without the world outside; test_expand compares what custom calls carry
    for seed, edges in ((0, False), (1, True), (2, True)):
        arguments = random_arguments(before, seed, edges=edges)
        assert not difference(evaluate(before, *arguments), evaluate(with_carried(after), *arguments))
