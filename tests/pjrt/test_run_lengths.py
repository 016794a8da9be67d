"""Programs whose loops' trips are not known: where they run depends on how long they have taken."""

import pytest

import xloom as xl
from xloom.cpu.runtime.executable import CompiledMemoryStats
from xloom.pjrt.cost import execution_mode
from xloom.pjrt.execution_mode import ExecutionMode
from xloom.pjrt.run_lengths import LONG, RunLengths

SHORT, BETWEEN = 1e-4, LONG / 2


def test_two_short_runs_tell():
    lengths = RunLengths()
    lengths.saw(SHORT)
    assert not lengths.are_short
    lengths.saw(SHORT)
    assert lengths.are_short
    lengths.saw(BETWEEN)
    assert lengths.are_short
    lengths.saw(2 * LONG)
    assert not lengths.are_short


def test_who_was_wrong_asks_for_more():
    lengths = RunLengths()
    for _ in range(2):
        lengths.saw(SHORT)
    lengths.saw(2 * LONG)
    for _ in range(15):
        lengths.saw(SHORT)
        assert not lengths.are_short
    lengths.saw(SHORT)
    assert lengths.are_short


def test_short_runs_have_to_be_in_a_row():
    lengths = RunLengths()
    for seconds in (SHORT, BETWEEN, SHORT):
        lengths.saw(seconds)
    assert not lengths.are_short


LOOP = """
more {{ s = {state} parameter(0)  i = s32[] get-tuple-element(s), index=0
  n = s32[] get-tuple-element(s), index=1  ROOT p = pred[] compare(i, n), direction=LT }}
body {{ s = {state} parameter(0)  i = s32[] get-tuple-element(s), index=0
  n = s32[] get-tuple-element(s), index=1  x = f32[{size}] get-tuple-element(s), index=2
  one = s32[] constant(1)  j = s32[] add(i, one)  y = f32[{size}] {step}  ROOT t = {state} tuple(j, n, y) }}
ENTRY e {{ x = f32[{size}] parameter(0)  n = s32[] parameter(1)  zero = s32[] constant(0)
  t = {state} tuple(zero, n, x)  ROOT w = {state} while(t), condition=more, body=body }}"""


@pytest.mark.parametrize(
    ("size", "step", "wanted"),
    [
        (8, "add(x, x)", ExecutionMode.BY_RUN_LENGTH),
        (1 << 27, "add(x, x)", ExecutionMode.ASYNCHRONOUS),
        (8, 'custom-call(x), custom_call_target="tests.lengths"', ExecutionMode.ASYNCHRONOUS),
    ],
)
def test_what_is_judged_by_its_runs(size, step, wanted):
    module = xl.parse("HloModule m" + LOOP.format(state=f"(s32[], s32[], f32[{size}])", size=size, step=step))
    assert execution_mode(module, CompiledMemoryStats(4 * size, 4 * size, 0, 0)) is wanted
