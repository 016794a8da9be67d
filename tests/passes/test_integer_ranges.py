"""Ranges of integers in programs whose computations call each other many times."""

import xloom as xl
from xloom.passes import run_passes
from xloom.passes.integer_ranges import integer_ranges


def test_calls_that_double_are_looked_at_once():
    parts = ["f0 { x = s32[] parameter(0) c = s32[] constant(3) ROOT r = s32[] and(x, c) }"]
    for k in range(60):
        call = f"s32[] call(x), to_apply=f{k}"
        parts.append(f"f{k + 1} {{ x = s32[] parameter(0) a = {call} b = {call} ROOT r = s32[] add(a, b) }}")
    module = xl.parse("\n".join(["HloModule m", *parts, "ENTRY e { x = s32[] parameter(0)",
                                 "ROOT r = s32[] call(x), to_apply=f60 }"]))  # fmt: skip
    found = {f"{i.parent.name}/{i.name}": r for i, r in integer_ranges(module).items() if i.parent}
    assert found["f0/r"] == (0, 3)


def test_loops_in_conditions_of_loops():
    """A condition is looked at twice: in deep ones that would double each time."""
    parts = [
        """t0 { s = (s32[]) parameter(0) i = s32[] get-tuple-element(s), index=0 n = s32[] constant(3)
      ROOT p = pred[] compare(i, n), direction=LT }
b { s = (s32[]) parameter(0) i = s32[] get-tuple-element(s), index=0 o = s32[] constant(1) j = s32[] add(i, o)
  ROOT r = (s32[]) tuple(j) }"""
    ]
    parts += [
        f"""b{k} {{ s = (s32[]) parameter(0) i = s32[] get-tuple-element(s), index=0 o = s32[] constant(1)
  j = s32[] add(i, o) ROOT r = (s32[]) tuple(j) }}
t{k + 1} {{ s = (s32[]) parameter(0) w = (s32[]) while(s), condition=t{k}, body=b{k}
  i = s32[] get-tuple-element(w), index=0 n = s32[] constant(3) ROOT p = pred[] compare(i, n), direction=LT }}"""
        for k in range(40)
    ]
    entry = "ENTRY e { z = s32[] constant(0) s = (s32[]) tuple(z) ROOT w = (s32[]) while(s), condition=t40, body=b }"
    module = xl.parse("\n".join(["HloModule m", *parts, entry]))
    run_passes(module, "integer-range-simplification")


def test_shifts_divide() -> None:
    text = """
ENTRY e {
  x = s32[4] parameter(0)
  a = s32[] constant(-20) low = s32[4] broadcast(a), dimensions={}
  b = s32[] constant(100) high = s32[4] broadcast(b), dimensions={}
  y = s32[4] clamp(low, x, high)
  c = s32[] constant(3) three = s32[4] broadcast(c), dimensions={}
  d = s32[] constant(40) beyond = s32[4] broadcast(d), dimensions={}
  q = s32[4] shift-right-arithmetic(y, three)
  u = s32[4] shift-right-logical(y, three)
  z = s32[4] shift-right-arithmetic(y, beyond)
  ROOT r = (s32[4], s32[4], s32[4]) tuple(q, u, z)
}"""
    found = {i.name: r for i, r in integer_ranges(xl.parse(text)).items()}
    assert found["q"] == (-3, 12)
    assert all(found.get(n) in (None, (-(1 << 31), (1 << 31) - 1)) for n in "uz")
