"""Collectives that move nothing give what the interpreter gives on one device."""

from pathlib import Path

import pytest

from xloom.hlo.text.parser import parse
from xloom.interpreter import evaluate
from xloom.interpreter.samples import random_arguments
from xloom.passes import run_passes
from xloom.passes.hooks import difference

GOLDEN = Path(__file__).parent.parent / "golden"


# golden files with effects are not evaluated where they are compared
@pytest.mark.parametrize("name", ["collective-identity", "collective-zeros", "collective-ragged", "async-collective"])
def test_values(name: str) -> None:
    text = (GOLDEN / f"{name}.hlo").read_text().partition("// ---- expect")[0]
    before, after = parse(text), parse(text)
    run_passes(after, "async-simplification,collective-simplification,dce")
    assert not any(i.op.has_effect for i in after.instructions)
    arguments = random_arguments(before, 0)
    assert not difference(evaluate(before, *arguments), evaluate(after, *arguments))


def test_several_replicas_stay() -> None:
    text = (GOLDEN / "collective-identity.hlo").read_text().partition("// ---- expect")[0]
    module = parse(text.replace("HloModule m", "HloModule m, replica_count=2"))
    (run,) = run_passes(module, "collective-simplification")
    assert not run.changed


def test_operands_of_an_update() -> None:
    text = """
HloModule m
wrapped { x = f32[2] parameter(0) y = f32[2] parameter(1) ROOT s = f32[2] subtract(x, y) }
ENTRY e {
  x = f32[2] parameter(0)
  y = f32[2] parameter(1)
  start = ((f32[2]), f32[2], s32[]) async-start(x), calls=wrapped
  between = f32[2] negate(y), control-predecessors={start}
  update = ((f32[2], f32[2]), f32[2], s32[]) async-update(start, between)
  ROOT done = f32[2] async-done(update)
}"""
    before, after = parse(text), parse(text)
    run_passes(after, "async-simplification,dce")
    assert {i.opcode for i in after.instructions} == {"parameter", "negate", "subtract"}
    arguments = random_arguments(before, 0)
    assert not difference(evaluate(before, *arguments), evaluate(after, *arguments))
