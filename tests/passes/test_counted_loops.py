"""Loops whose trips are counted without running them."""

import pytest

import xloom as xl
from xloom.passes.loops import counted_trips


def loop(first="3", last="n", step="one", kept="n", direction="LT"):
    module = xl.parse(f"""HloModule m
    more {{ s = (s32[], s32[], f32[]) parameter(0)  i = s32[] get-tuple-element(s), index=0
      n = s32[] get-tuple-element(s), index=1  k = s32[] constant(7)
      ROOT p = pred[] compare(i, {last}), direction={direction} }}
    body {{ s = (s32[], s32[], f32[]) parameter(0)  i = s32[] get-tuple-element(s), index=0
      n = s32[] get-tuple-element(s), index=1  x = f32[] get-tuple-element(s), index=2
      one = s32[] constant(1)  two = s32[] constant(2)  j = s32[] add(i, {step})  y = f32[] add(x, x)
      ROOT t = (s32[], s32[], f32[]) tuple(j, {kept}, y) }}
    ENTRY e {{ x = f32[] parameter(0)  a = s32[] parameter(1)  i = s32[] constant({first})  n = s32[] constant(10)
      t = (s32[], s32[], f32[]) tuple(i, n, x)
      ROOT w = (s32[], s32[], f32[]) while(t), condition=more, body=body }}""")
    return module.entry.root


@pytest.mark.parametrize(
    "options, trips",
    [
        ({}, 7),
        ({"step": "two"}, 4),
        ({"last": "k"}, 4),
        ({"first": "20"}, 0),
        ({"kept": "j"}, None),
        ({"step": "i"}, None),
        ({"direction": "LE"}, None),
    ],
)
def test_trips(options, trips):
    assert counted_trips(loop(**options)) == trips


def test_a_loop_that_counts_in_floats_is_not_counted():
    module = xl.parse("""HloModule m
    more { s = (f32[]) parameter(0)  i = f32[] get-tuple-element(s), index=0  k = f32[] constant(inf)
      ROOT p = pred[] compare(i, k), direction=LT }
    body { s = (f32[]) parameter(0)  i = f32[] get-tuple-element(s), index=0  one = f32[] constant(1)
      j = f32[] add(i, one)  ROOT t = (f32[]) tuple(j) }
    ENTRY e { i = f32[] constant(0)  t = (f32[]) tuple(i)  ROOT w = (f32[]) while(t), condition=more, body=body }""")
    assert counted_trips(module.entry.root) is None


def test_a_counter_that_wraps_around_is_not_counted():
    module = xl.parse("""HloModule m
    more { s = (s8[]) parameter(0)  i = s8[] get-tuple-element(s), index=0  k = s8[] constant(100)
      ROOT p = pred[] compare(i, k), direction=LT }
    body { s = (s8[]) parameter(0)  i = s8[] get-tuple-element(s), index=0  by = s8[] constant(70)
      j = s8[] add(i, by)  ROOT t = (s8[]) tuple(j) }
    ENTRY e { i = s8[] constant(0)  t = (s8[]) tuple(i)  ROOT w = (s8[]) while(t), condition=more, body=body }""")
    assert counted_trips(module.entry.root) is None
