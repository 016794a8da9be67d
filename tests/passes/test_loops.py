import numpy as np
import pytest

from xloom.hlo.text.parser import parse
from xloom.interpreter import evaluate
from xloom.passes import run_passes
from xloom.passes.loops import known_trip_count


def loop(start: str, limit: str, step: str, direction: str = "LT", dtype: str = "s32", op: str = "add") -> str:
    return f"""cond {{
  s = ({dtype}[], f32[]) parameter(0)
  i = {dtype}[] get-tuple-element(s), index=0
  n = {dtype}[] constant({limit})
  ROOT r = pred[] compare(i, n), direction={direction}
}}

body {{
  s = ({dtype}[], f32[]) parameter(0)
  i = {dtype}[] get-tuple-element(s), index=0
  x = f32[] get-tuple-element(s), index=1
  d = {dtype}[] constant({step})
  j = {dtype}[] {op}(i, d)
  y = f32[] add(x, x)
  ROOT r = ({dtype}[], f32[]) tuple(j, y)
}}

ENTRY main {{
  x = f32[] parameter(0)
  z = {dtype}[] constant({start})
  init = ({dtype}[], f32[]) tuple(z, x)
  ROOT w = ({dtype}[], f32[]) while(init), condition=cond, body=body
}}"""


@pytest.mark.parametrize(
    ("text", "count"),
    [
        (loop("0", "0", "1"), 0),
        (loop("0", "1", "1"), 1),
        (loop("0", "7", "3"), 3),
        (loop("5", "0", "-1", "GT"), 5),
        (loop("0", "4", "1", "NE"), 4),
        (loop("1", "64", "2", "LT", op="multiply"), 6),
        (loop("120", "0", "4", "GT", "s8"), 2),  # 124, then -128
        (loop("250", "5", "4", "GE", "u8"), 2),  # 254, then 2
        (loop("0", "1", "0.25", "LT", "f32"), 4),
        (loop("0", "nan", "1", "LT", "f32"), 0),
        (loop("0", "9", "1"), None),  # more than the limit
        (loop("0", "1", "0"), None),  # for ever
    ],
)
def test_trip_count_is_what_the_loop_does(text: str, count: int | None) -> None:
    module = parse(text)
    assert known_trip_count(module.entry.root, 8) == count
    if count is not None:
        _, x = evaluate(module, np.float32(1))
        assert x == 2.0**count


def test_trip_count_needs_known_starts_only_where_they_matter() -> None:
    known = loop("0", "2", "1")
    assert known_trip_count(parse(known).entry.root, 8) == 2
    unknown = known.replace(
        "x = f32[] parameter(0)\n  z = s32[] constant(0)", "z = s32[] parameter(1)\n  x = f32[] parameter(0)"
    )
    assert known_trip_count(parse(unknown).entry.root, 8) is None


def test_state_that_is_no_tuple_and_state_that_is_passed_whole() -> None:
    single = """cond { s = s32[] parameter(0) n = s32[] constant(0) ROOT r = pred[] compare(s, n), direction=GT }
body { s = s32[] parameter(0) one = s32[] constant(1) ROOT r = s32[] subtract(s, one) }
ENTRY main { x = s32[] constant(1) ROOT w = s32[] while(x), condition=cond, body=body }"""
    module = parse(single)
    assert known_trip_count(module.entry.root, 8) is None
    run_passes(module, "while-loop-simplification", compare=True)
    whole = loop("0", "1", "1").replace(
        "y = f32[] add(x, x)", "k = (s32[], f32[]) opt-barrier(s)\n  y = f32[] get-tuple-element(k), index=1"
    )
    module = parse(whole)
    run_passes(module, "while-loop-simplification,dce", compare=True)
    assert "while" not in {i.opcode for i in module.instructions}


def test_unrolled_loops_take_their_computations_along() -> None:
    inner = loop("0", "3", "1").replace("cond {", "inner_cond {").replace("body {", "inner_body {").split("ENTRY")[0]
    outer = loop("0", "1", "1").replace(
        "y = f32[] add(x, x)",
        "t = (s32[], f32[]) tuple(d, x)\n  w = (s32[], f32[]) while(t), condition=inner_cond, body=inner_body\n"
        "  y = f32[] get-tuple-element(w), index=1",
    )
    module = parse(inner + outer)
    run_passes(module, "while-loop-simplification", compare=True)
    assert sorted(c.name for c in module.computations) == ["inner_body", "inner_cond", "main"]
    assert [i.opcode for i in module.entry].count("while") == 1


def test_a_loop_in_two_branches_shares_nothing_after_it_changed() -> None:
    dead = loop("0", "3", "1")
    start = dead.index("ENTRY")
    module = parse(
        dead[:start]
        + """branch {
  x = f32[] parameter(0)
  z = s32[] constant(0)
  init = (s32[], f32[]) tuple(z, x)
  w = (s32[], f32[]) while(init), condition=cond, body=body
  ROOT n = s32[] get-tuple-element(w), index=0
}

ENTRY main {
  x = f32[] parameter(0)
  z = s32[] constant(1)
  init = (s32[], f32[]) tuple(z, x)
  a = s32[] call(x), to_apply=branch
  w = (s32[], f32[]) while(init), condition=cond, body=body
  ROOT r = (s32[], (s32[], f32[])) tuple(a, w)
}"""
    )
    run_passes(module, "while-loop-simplification", compare=True)
    widths = sorted(len(i.shape.elements) for i in module.instructions if i.opcode == "while")
    assert widths == [1, 2]


@pytest.mark.parametrize("trips", [0, 1])
def test_the_parts_of_a_state_within_a_state_are_read_themselves(trips: int) -> None:
    module = parse(
        f"""cond {{
  s = (s32[], (f32[], f32[])) parameter(0)
  i = s32[] get-tuple-element(s), index=0
  n = s32[] constant({trips})
  ROOT r = pred[] compare(i, n), direction=LT
}}

body {{
  s = (s32[], (f32[], f32[])) parameter(0)
  i = s32[] get-tuple-element(s), index=0
  t = (f32[], f32[]) get-tuple-element(s), index=1
  u = (f32[], f32[]) get-tuple-element(s), index=1
  x = f32[] get-tuple-element(t), index=0
  y = f32[] get-tuple-element(u), index=1
  d = s32[] constant(1)
  j = s32[] add(i, d)
  swapped = (f32[], f32[]) tuple(y, x)
  ROOT r = (s32[], (f32[], f32[])) tuple(j, swapped)
}}

ENTRY main {{
  x = f32[] parameter(0)
  y = f32[] parameter(1)
  z = s32[] constant(0)
  t = (f32[], f32[]) tuple(x, y)
  init = (s32[], (f32[], f32[])) tuple(z, t)
  w = (s32[], (f32[], f32[])) while(init), condition=cond, body=body
  a = (f32[], f32[]) get-tuple-element(w), index=1
  b = (f32[], f32[]) get-tuple-element(w), index=1
  c = f32[] get-tuple-element(a), index=0
  d = f32[] get-tuple-element(b), index=1
  ROOT r = f32[] subtract(c, d)
}}"""
    )
    run_passes(module, "while-loop-simplification", compare=True)
    assert {i.opcode for i in module.entry} <= {"parameter", "constant", "add", "subtract"}
