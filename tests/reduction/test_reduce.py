"""`xl.reduce`: modules become as small as what still fails allows."""

import itertools
import stat

import pytest

import xloom as xl
from tests.judges.programs import generate
from xloom.reduction import Failure, NotFailingError, Script, Trial

LOOP = """HloModule m
cond {
  s = (s32[], f32[8,3], f32[8]) parameter(0)
  i = s32[] get-tuple-element(s), index=0
  n = s32[] constant(37)
  ROOT lt = pred[] compare(i, n), direction=LT
}
body {
  s = (s32[], f32[8,3], f32[8]) parameter(0)
  i = s32[] get-tuple-element(s), index=0
  one = s32[] constant(1)
  j = s32[] add(i, one)
  x = f32[8,3] get-tuple-element(s), index=1
  y = f32[8,3] tanh(x)
  z = f32[8,3] multiply(y, x)
  v = f32[8] get-tuple-element(s), index=2
  w = f32[8] exponential(v)
  ROOT t = (s32[], f32[8,3], f32[8]) tuple(j, z, w)
}
ENTRY main {
  zero = s32[] constant(0)
  x = f32[8,3] parameter(0)
  v = f32[8] parameter(1)
  a = f32[8,3] negate(x)
  t = (s32[], f32[8,3], f32[8]) tuple(zero, a, v)
  loop = (s32[], f32[8,3], f32[8]) while(t), condition=cond, body=body
  r = f32[8,3] get-tuple-element(loop), index=1
  q = f32[8] get-tuple-element(loop), index=2
  ROOT out = (f32[8,3], f32[8]) tuple(r, q)
}
"""


CRASH = """import os
import xloom as xl
@xl.custom_call("crash")
def crash(out, x):
    os.kill(os.getpid(), 11)
"""


def opcodes(module):
    return [i.opcode for i in module.instructions]


def has(opcode):
    return lambda module: opcode in opcodes(module)


def test_a_loop_goes_where_it_does_not_matter():
    assert sorted(opcodes(xl.reduce(xl.parse(LOOP), has("tanh")))) == ["parameter", "tanh"]


def test_a_loop_keeps_what_it_needs():
    def fails(module):
        loops = [i for i in module.instructions if i.opcode == "while"]
        return any(i.opcode == "exponential" for loop in loops for i in loop["body"])

    reduced = xl.reduce(xl.parse(LOOP), fails)
    assert len(opcodes(reduced)) < 14 and "tanh" not in opcodes(reduced) and "8" not in reduced.to_text()
    (loop,) = [i for i in reduced.instructions if i.opcode == "while"]
    assert [leaf.dims for _, leaf in loop.shape.leaves()] in ([(1,)], [(), (1,)])


def test_sizes_and_numbers_stay_as_large_as_they_must():
    text = "ENTRY e { x = f32[12,5] parameter(0) c = s32[] constant(1000) d = s32[] constant(77)"
    text += " y = f32[12,5] add(x, x) z = s32[] add(c, d) ROOT t = (f32[12,5], s32[]) tuple(y, z) }"

    def fails(module):
        tall = any(i.opcode == "add" and i.shape.rank and i.shape.dims[0] >= 3 for i in module.instructions)
        return tall and any(i.opcode == "constant" and i.literal.item() >= 5 for i in module.instructions)

    reduced = xl.reduce(xl.parse(text), fails)
    (add,) = [i for i in reduced.instructions if i.opcode == "add"]
    assert add.shape.dims == (3, 1)
    assert [i.literal.item() for i in reduced.instructions if i.opcode == "constant"] == [5]


@pytest.mark.parametrize("number", range(6))
def test_every_module_that_is_asked_about_is_valid(number):
    module = generate(3, number, 12).module
    opcode = module.entry.root.opcode if module.entry.root.opcode != "tuple" else opcodes(module)[-2]

    def fails(smaller):
        xl.verify(smaller)
        text = smaller.to_text(print_large_constants=True)
        assert xl.parse(text).to_text(print_large_constants=True) == text
        return opcode in opcodes(smaller)

    assert len(opcodes(xl.reduce(module, fails))) <= len(opcodes(module))


def test_what_does_not_fail_is_an_error():
    with pytest.raises(NotFailingError, match="does not fail"):
        xl.reduce(xl.parse(LOOP), has("sine"))


def test_goes_on_from_what_was_kept(tmp_path):
    calls = []

    def stops(module):
        calls.append(len(opcodes(module)))
        if len(calls) == 6:
            raise KeyboardInterrupt
        return "tanh" in opcodes(module)

    with pytest.raises(KeyboardInterrupt):
        xl.reduce(xl.parse(LOOP), stops, keep=tmp_path)
    kept = xl.load(tmp_path / "reduced.hlo")
    assert len(opcodes(kept)) < calls[0]
    calls[:] = [0] * 10
    assert len(opcodes(xl.reduce(xl.parse(LOOP), stops, keep=tmp_path))) == 2
    assert calls[10] == len(opcodes(kept))


def test_a_script_in_several_processes(tmp_path):
    script = tmp_path / "fails.sh"
    script.write_text('#!/bin/sh\ngrep -q "tanh(" "$1" && grep -q "multiply(" "$1"\n')
    script.chmod(script.stat().st_mode | stat.S_IEXEC)
    steps = []
    body = xl.parse(
        f"body {LOOP[LOOP.index('{', LOOP.index('body')) : LOOP.index('ENTRY')]}".replace("body", "ENTRY body")
    )
    reduced = xl.reduce(body, Script(str(script)), jobs=2, progress=steps.append)
    assert {"tanh", "multiply"} <= set(opcodes(reduced)) and len(opcodes(reduced)) == 3
    assert steps[-1].instructions == 3 and steps[-1].of == 10 and steps[-1].tries > 5
    hangs = Script("sleep 60", seconds=0.1)
    assert not hangs(reduced)
    with pytest.raises(xl.XloomError, match="cannot run the test"):
        Script("./there-is-none")(reduced)


def test_errors_crashes_and_endless_loops_are_told_apart(tmp_path):
    code = tmp_path / "crash.py"
    code.write_text(CRASH)
    call = 'ENTRY e {{ x = f32[4] parameter(0) y = f32[4] negate(x) ROOT c = f32[4] custom-call(y), custom_call_target="{}" }}'
    endless = xl.parse(LOOP.replace("j = s32[] add(i, one)", "j = s32[] add(i, i)"))
    with Failure(Trial(load=(str(code),)), seconds=60) as failure:
        assert failure.outcome(xl.parse(LOOP)) == ""
        assert failure.outcome(xl.parse(call.format("crash"))) == "signal 11"
        assert failure.outcome(xl.parse(call.format("nobody"))).startswith("UnregisteredCallError")
        failure.seconds = 0.5
        assert failure.outcome(endless) == "no end in 0.5 s"
        failure.wanted, failure.seconds = "signal 11", 60
        assert opcodes(xl.reduce(xl.parse(call.format("crash")), failure)) == ["parameter", "custom-call"]


UNREAD = """HloModule m
add { a = f32[] parameter(0) b = f32[] parameter(1) unread = f32[] tanh(a) ROOT c = f32[] add(a, b) }
ENTRY main {
  x = f32[8,3] parameter(0)
  zero = f32[] constant(0)
  y = f32[8] reduce(x, zero), dimensions={1}, to_apply=add
  z = f32[8] sine(y)
  w = f32[8] cosine(y)
  ROOT r = f32[8] negate(y)
}
"""


@pytest.mark.parametrize(("wanted", "left"), [({"tanh"}, 2), ({"cosine"}, 2), ({"tanh", "cosine"}, 8)])
def test_what_nothing_reads_is_kept_where_it_is_why_it_fails(wanted, left):
    reduced = xl.reduce(xl.parse(UNREAD), lambda module: wanted <= set(opcodes(module)))
    assert wanted <= set(opcodes(reduced)) and len(opcodes(reduced)) <= left
    assert "sine" not in opcodes(reduced)


SEVERAL = """HloModule m
order { a = s32[] parameter(0) b = s32[] parameter(1) c = f32[] parameter(2) d = f32[] parameter(3)
  ROOT e = pred[] compare(a, b), direction=LT }
both { a = f32[] parameter(0) b = s32[] parameter(1) c = f32[] parameter(2) d = s32[] parameter(3)
  e = f32[] add(a, c) f = s32[] add(b, d) ROOT g = (f32[], s32[]) tuple(e, f) }
add { a = f32[] parameter(0) b = f32[] parameter(1) ROOT c = f32[] add(a, b) }
negative { a = f32[6] parameter(0) ROOT b = f32[6] negate(a) }
cosine { a = f32[6] parameter(0) ROOT b = f32[6] cosine(a) }
more { s = (s32[], f32[6]) parameter(0) i = s32[] get-tuple-element(s), index=0 n = s32[] constant(9)
  ROOT lt = pred[] compare(i, n), direction=LT }
step { s = (s32[], f32[6]) parameter(0) i = s32[] get-tuple-element(s), index=0 one = s32[] constant(1)
  j = s32[] add(i, one) x = f32[6] get-tuple-element(s), index=1 y = f32[6] tanh(x)
  ROOT t = (s32[], f32[6]) tuple(j, y) }
ENTRY main {
  k = s32[6] parameter(0)
  x = f32[6] parameter(1)
  sorted = (s32[6], f32[6]) sort(k, x), dimensions={0}, to_apply=order
  y = f32[6] get-tuple-element(sorted), index=1
  zero = s32[] constant(0)
  state = (s32[], f32[6]) tuple(zero, y)
  loop = (s32[], f32[6]) while(state), condition=more, body=step
  z = f32[6] get-tuple-element(loop), index=1
  p = pred[] parameter(2)
  c = f32[6] conditional(p, y, z), true_computation=negative, false_computation=cosine
  fzero = f32[] constant(0)
  r = (f32[], s32[]) reduce(c, k, fzero, zero), dimensions={0}, to_apply=both
  w = f32[6] reduce-window(x, fzero), window={size=2 pad=1_0}, to_apply=add
  ROOT out = (f32[6], (f32[], s32[]), f32[6]) tuple(c, r, w)
}
"""


@pytest.mark.parametrize(
    ("one", "other"), [*itertools.combinations(("while", "sort", "conditional", "reduce", "reduce-window"), 2)]
)
def test_two_operators_that_call_come_down_to_ten_instructions(one, other):
    reduced = xl.reduce(xl.parse(SEVERAL), lambda module: {one, other} <= set(opcodes(module)))
    assert len(opcodes(reduced)) <= 10


def test_of_what_a_sort_does_at_once_one_thing_is_left():
    reduced = xl.reduce(xl.parse(SEVERAL), has("sort"))
    assert sorted(opcodes(reduced)) == ["parameter"] * 3 + ["sort"]
    assert "pred[1]" in reduced.to_text() and "f32" not in reduced.to_text()


def test_a_scan_carries_nothing_that_it_can_do_without():
    text = """HloModule m
step { x = f32[] parameter(0) a = f32[] parameter(1) b = s32[] parameter(2) s = f32[] add(x, a)
  ROOT t = (f32[], f32[], s32[]) tuple(s, s, b) }
ENTRY main { x = f32[4] parameter(0) a = f32[] parameter(1) b = s32[] parameter(2)
  ROOT r = (f32[4], f32[], s32[]) scan(x, a, b), dimensions={0}, num_carries=2, is_associative=false, to_apply=step }"""
    reduced = xl.reduce(xl.parse(text), has("scan"))
    assert "num_carries=0" in reduced.to_text() and opcodes(reduced).count("parameter") == 2


def test_what_a_reduction_calls_is_computed_beside_what_else_is_needed():
    text = UNREAD.replace(
        "unread = f32[] tanh(a) ROOT c = f32[] add(a, b)", "t = f32[] tanh(a) ROOT c = f32[] add(t, b)"
    )
    text = text.replace("negate(y)", "cosine(y)")
    reduced = xl.reduce(xl.parse(text), lambda module: {"cosine", "tanh"} <= set(opcodes(module)))
    assert sorted(set(opcodes(reduced)) - {"tuple"}) == ["cosine", "parameter", "tanh"]


def test_windows_become_one_element():
    text = """HloModule m
    more { a = f32[] parameter(0) b = f32[] parameter(1) ROOT c = pred[] compare(a, b), direction=GE }
    add { a = f32[] parameter(0) b = f32[] parameter(1) ROOT c = f32[] add(a, b) }
    ENTRY main { x = f32[6,8] parameter(0) s = f32[3,4] parameter(1) zero = f32[] constant(0)
      w = f32[6,8] select-and-scatter(x, s, zero), window={size=2x2 stride=2x2}, select=more, scatter=add
      y = f32[5,8] reduce-window(w, zero), window={size=2x1}, to_apply=add
      ROOT r = f32[5,8] tanh(y) }"""
    reduced = xl.reduce(xl.parse(text), has("select-and-scatter"))
    assert opcodes(reduced).count("parameter") == 2 + 1 and "size=1x1" in reduced.to_text()
    assert "pred[1,1]" in reduced.to_text()
    reduced = xl.reduce(xl.parse(text), lambda module: {"select-and-scatter", "reduce-window"} <= set(opcodes(module)))
    assert "size=2" not in reduced.to_text()
