"""The first of sorted rows are what topk gives."""

import pytest

from tests.passes.pattern.roundtrip import expanded, same
from xloom.hlo.text.parser import parse
from xloom.passes import outline_pattern
from xloom.passes.pattern import pattern_of

PATTERN = """ENTRY best {
  x = f32[6,8] parameter(0)
  top = (f32[6,2], s32[6,2]) topk(x), k=2, largest=true, frontend_attributes={k="any"}
  values = f32[6,2] get-tuple-element(top), index=0
  places = s32[6,2] get-tuple-element(top), index=1
  squares = f32[6,2] multiply(values, values)
  ROOT r = (f32[6,2], s32[6,2]) tuple(squares, places)
}"""
PROGRAM = """HloModule m
before {
  a = f32[] parameter(0)
  b = f32[] parameter(1)
  i = s64[] parameter(2)
  j = s64[] parameter(3)
  COMPARATOR
}
ENTRY main {
  x = f32[5,7] parameter(0)
  count = s64[7] iota(), iota_dimension=0
  counts = s64[5,7] broadcast(count), dimensions={1}
  both = (f32[5,7], s64[5,7]) sort(x, counts), dimensions={1}, is_stable=true, to_apply=before
  sorted = f32[5,7] get-tuple-element(both), index=0
  order = s64[5,7] get-tuple-element(both), index=1
  values = f32[5,3] slice(sorted), slice={[0:5], [0:3]}
  places = s64[5,3] slice(order), slice={[0:5], [0:3]}
  squares = f32[5,3] multiply(values, values)
  ROOT r = (f32[5,3], s64[5,3]) tuple(squares, places)
}"""
GREATER = "ROOT c = pred[] compare(a, b), direction=GT"
COMPARATORS = {
    "greater": (GREATER, 1),
    "less of the other": ("ROOT c = pred[] compare(b, a), direction=LT", 1),
    "in total order": (f"{GREATER}, type=TOTALORDER", 1),
    "NaNs first": (
        "g = pred[] compare(a, b), direction=GT nan = pred[] compare(a, a), direction=NE ROOT c = pred[] or(g, nan)",
        1,
    ),
    "the first of equal ones": (
        "g = pred[] compare(a, b), direction=GT e = pred[] compare(a, b), direction=EQ "
        "f = pred[] compare(i, j), direction=LT t = pred[] and(e, f) ROOT c = pred[] or(g, t)",
        1,
    ),
    "the last of equal ones": (
        "g = pred[] compare(a, b), direction=GT e = pred[] compare(a, b), direction=EQ "
        "f = pred[] compare(i, j), direction=GT t = pred[] and(e, f) ROOT c = pred[] or(g, t)",
        0,
    ),
    "less": ("ROOT c = pred[] compare(a, b), direction=LT", 0),
    "by place": ("ROOT c = pred[] compare(i, j), direction=GT", 0),
    "of magnitudes": ("x = f32[] abs(a) y = f32[] abs(b) ROOT c = pred[] compare(x, y), direction=GT", 0),
}
OTHERS = {
    "not the first": ("slice={[0:5], [0:3]}", "slice={[0:5], [1:4]}"),
    "every other": ("slice={[0:5], [0:3]}", "slice={[0:5], [0:6:2]}"),
    "columns": ("dimensions={1}, is_stable", "dimensions={0}, is_stable"),
    "counted in columns": ("count = s64[7]", "count = s64[5]"),
    "another number of places": (
        "places = s64[5,3] slice(order), slice={[0:5], [0:3]}",
        "places = s64[5,2] slice(order), slice={[0:5], [0:2]}",
    ),
}


def found(program: str) -> list:
    before = parse(program)
    after = before.clone("")
    done = outline_pattern(after, pattern_of(PATTERN, "best"), "Kernel").found
    assert same(expanded(after), before)
    return done


@pytest.mark.parametrize("case", COMPARATORS)
def test_comparators_are_known_by_what_they_say(case: str) -> None:
    comparator, count = COMPARATORS[case]
    assert len(found(PROGRAM.replace("COMPARATOR", comparator))) == count


@pytest.mark.parametrize("case", OTHERS)
def test_what_else_is_sliced_or_sorted_is_not_taken_for_it(case: str) -> None:
    program = PROGRAM.replace("COMPARATOR", GREATER)
    old, new = OTHERS[case]
    assert old in program
    program = program.replace(old, new)
    if case == "counted in columns":
        program = program.replace("broadcast(count), dimensions={1}", "broadcast(count), dimensions={0}")
    if case == "another number of places":
        program = program.replace("(f32[5,3], s64[5,3]) tuple", "(f32[5,3], s64[5,2]) tuple")
    assert not found(program)
