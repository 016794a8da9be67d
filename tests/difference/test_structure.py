"""`xl.diff`: what was added, removed, changed and moved."""

import re

import pytest

import xloom as xl
from tests.judges.programs import generate
from xloom.difference import markup

BEFORE = """HloModule m
body {
  s = (s32[], f32[8]) parameter(0)
  i = s32[] get-tuple-element(s), index=0
  one = s32[] constant(1)
  j = s32[] add(i, one)
  x = f32[8] get-tuple-element(s), index=1
  y = f32[8] tanh(x)
  ROOT t = (s32[], f32[8]) tuple(j, y)
}
cond {
  s = (s32[], f32[8]) parameter(0)
  i = s32[] get-tuple-element(s), index=0
  n = s32[] constant(7)
  ROOT lt = pred[] compare(i, n), direction=LT
}
ENTRY main {
  x = f32[8] parameter(0)
  z = s32[] constant(0)
  a = f32[8] exponential(x)
  t = (s32[], f32[8]) tuple(z, a)
  w = (s32[], f32[8]) while(t), condition=cond, body=body
  ROOT r = f32[8] get-tuple-element(w), index=1
}
"""


def names(instructions):
    return [i.name for i in instructions]


def diff(after, before=BEFORE, **options):
    return xl.diff(xl.parse(before), xl.parse(after), **options)


def test_the_same_under_other_names():
    renamed = re.sub(
        r"\b([a-z]|lt|one|cond|body|main)\b(?![.\w-])", r"new_\1", BEFORE.replace("HloModule m", "HloModule n")
    )
    renamed = renamed.replace("new_body=", "body=").replace("HloModule new_n", "HloModule n")
    found = diff(renamed)
    assert found.same and str(found) == "the modules are the same\n"
    named = diff(renamed, names=True)
    assert not named.added and {"name r -> new_r"} <= {w for c in named.changed for w in c.what}


def test_a_changed_constant_and_a_changed_opcode():
    found = diff(BEFORE.replace("constant(7)", "constant(9)").replace("tanh(x)", "sine(x)"))
    assert not found.added and not found.removed and not found.moved
    assert {c.after.name: c.what for c in found.changed} == {
        "n": ("literal 7 -> 9",),
        "y": ("opcode tanh -> sine",),
    }


def test_what_is_added_and_removed_rewires_its_neighbours():
    after = BEFORE.replace("a = f32[8] exponential(x)", "neg = f32[8] negate(x)\n  a = f32[8] exponential(neg)")
    found = diff(after)
    assert names(found.added) == ["neg"] and not found.removed
    assert [str(c) for c in found.changed] == ["a: operand 0 x.1 -> neg"]
    back = diff(BEFORE, after)
    assert names(back.removed) == ["neg"] and not back.added


def test_shapes_attributes_and_operands():
    before = "ENTRY e { x = f32[4,4] parameter(0) y = f32[4,4] parameter(1) s = f32[4,4] subtract(x, y)"
    before += " ROOT t = f32[4,4] transpose(s), dimensions={0,1} }"
    after = before.replace("subtract(x, y)", "subtract(y, x)").replace("dimensions={0,1}", "dimensions={1,0}")
    after = after.replace("f32[4,4] transpose", "f32[4,4]{0,1} transpose")
    found = diff(after, before)
    what = {c.after.name: c.what for c in found.changed}
    assert what["s"] == ("operand 0 x -> y", "operand 1 y -> x")
    assert what["t"] == ("shape f32[4,4]{1,0} -> f32[4,4]{0,1}", "dimensions (0, 1) -> (1, 0)")


def test_what_is_inlined_has_moved():
    before = "f { p = f32[4] parameter(0) s = f32[4] sine(p) ROOT c = f32[4] cosine(s) }"
    before += " ENTRY e { x = f32[4] parameter(0) k = f32[4] call(x), to_apply=f ROOT r = f32[4] negate(k) }"
    after = "ENTRY e { x = f32[4] parameter(0) s = f32[4] sine(x) c = f32[4] cosine(s) ROOT r = f32[4] negate(c) }"
    found = diff(after, before)
    assert names(c.after for c in found.moved) == ["s", "c"]
    assert found.moved[0].what == ("from f to e",) and names(found.removed) == ["p", "k"]


def test_a_schedule_in_another_order():
    before = "HloModule m, is_scheduled=true ENTRY e { x = f32[4] parameter(0) a = f32[4] sine(x) b = f32[4] cosine(x)"
    before += " c = f32[4] negate(x) d = f32[4] add(a, b) ROOT r = f32[4] add(d, c) }"
    line = " c = f32[4] negate(x)"
    found = diff(before.replace(line, "").replace(" a =", f"{line} a ="), before)
    assert names(c.after for c in found.moved) == ["c"] and not found.changed


@pytest.mark.parametrize("number", range(8))
def test_a_random_module_is_itself_and_not_another(number):
    module, other = generate(5, number, 12).module, generate(5, number + 1, 12).module
    assert xl.diff(module, xl.parse(module.to_text(print_large_constants=True))).same
    found = xl.diff(module, other)
    assert not found.same
    pairs = len(found.matching.instructions)
    assert pairs + len(found.removed) == sum(map(len, module.computations))
    assert pairs + len(found.added) == sum(map(len, other.computations))


def test_a_page_is_whole_and_escaped():
    after = BEFORE.replace("tanh(x)", 'tanh(x), frontend_attributes={mark="<script>"}').replace(
        "ROOT r", "q = f32[8] sine(x)\n  ROOT r"
    )
    page = markup.html(diff(after))
    assert page.startswith("<!doctype html>") and page.count("<table>") == 3 == page.count("</table>")
    assert "&lt;script&gt;" in page and page.count("<script>") == 1 and "http" not in page
    rows = re.findall(r'<tr class="(\w+)" data-different>', page)
    assert sorted(rows) == ["added", "changed"]
