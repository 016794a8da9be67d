"""`xl.reduce`: modules become as small as what still fails allows."""

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
