"""Collectives that move nothing give what the interpreter gives on one device."""

from pathlib import Path

import numpy as np
import pytest

from xloom.hlo.text.parser import parse
from xloom.interpreter import evaluate
from xloom.interpreter.devices import evaluate_devices
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


COMBINED = """
HloModule m, replica_count=3
sum { a = s32[] parameter(0) b = s32[] parameter(1) ROOT s = s32[] add(a, b) }
ENTRY e {
  x = s32[2] parameter(0)
  y = s32[3] parameter(1)
  a1 = s32[2] all-reduce(x), replica_groups={}, to_apply=sum
  a2 = s32[3] all-reduce(y), replica_groups={}, to_apply=sum
  head = s32[2] slice(a2), slice={[0:2]}
  n = s32[2] multiply(a1, head)
  b1 = s32[2] all-reduce(n), replica_groups={{0,1},{2}}, to_apply=sum
  a3 = s32[2] all-reduce(b1), replica_groups={}, to_apply=sum
  b2 = s32[2] all-reduce(x), replica_groups={{0,1},{2}}, to_apply=sum
  a4 = s32[2] all-reduce(b2), replica_groups={}, to_apply=sum
  ROOT t = (s32[2], s32[2], s32[2], s32[3]) tuple(a1, a3, a4, a2)
}
"""


def test_combined_all_reduces_have_the_values_of_each() -> None:
    before, after = parse(COMBINED), parse(COMBINED)
    run_passes(after, "all-reduce-combiner")
    assert sum(i.opcode == "all-reduce" for i in after.instructions) == 3  # a1 and a2, b1 and b2, a3 and a4
    values = [[np.arange(2, dtype=np.int32) + k, np.arange(3, dtype=np.int32) * k] for k in range(3)]
    wanted, found = (evaluate_devices(module, values, timeout=60) for module in (before, after))
    for one, other in zip(wanted, found, strict=True):
        assert not difference(one, other)


def test_combined_all_reduces_are_of_no_circle() -> None:
    """a1 is needed by b1, and b2 by a2: once a1 and a2 are one, b1 and b2 are two."""
    text = """
HloModule m, replica_count=2
sum { a = f32[] parameter(0) b = f32[] parameter(1) ROOT s = f32[] add(a, b) }
ENTRY e {
  x = f32[2] parameter(0)
  a1 = f32[2] all-reduce(x), replica_groups={{0,1}}, to_apply=sum
  b2 = f32[2] all-reduce(x), replica_groups={{1,0}}, to_apply=sum
  a2 = f32[2] all-reduce(b2), replica_groups={{0,1}}, to_apply=sum
  b1 = f32[2] all-reduce(a1), replica_groups={{1,0}}, to_apply=sum
  ROOT t = (f32[2], f32[2]) tuple(a2, b1)
}
"""
    module = parse(text)
    run_passes(module, "all-reduce-combiner")
    assert sum(i.opcode == "all-reduce" for i in module.instructions) == 3


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
