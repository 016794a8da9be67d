"""Random programs about state: the CPU compiler and the interpreter return the same; what is wrong is cut down."""

import numpy as np
import pytest

pytest.importorskip("jax")

import xloom as xl
from tests.judges.mismatch import mismatch
from tests.judges.stateful.generator import generate
from tests.judges.stateful.judge import AGREES, Judge, is_close
from tests.judges.stateful.on_cpu import on_cpu
from tests.judges.stateful.shrink import shrunk
from xloom.interpreter.bounds import bounds, leaves

COUNT = 30


def test_programs_are_valid_and_reproducible():
    for number in range(60):
        program, again = generate(5, number), generate(5, number)
        xl.verify(program.module)
        assert program.module.to_text() == again.module.to_text()
        assert all(a.tobytes() == b.tobytes() for a, b in zip(program.arguments, again.arguments, strict=True))


def test_the_cpu_compiler_agrees():
    for number in range(COUNT):
        program = generate(5, number)
        want = leaves(xl.evaluate(program.module, *program.arguments))
        got = on_cpu(program.module, program.arguments)
        if not all(is_close(a, b) for a, b in zip(got, want, strict=True)):
            assert mismatch(bounds(program.module, program.arguments), got, None) is None, number


def test_programs_are_judged_in_children(tmp_path):
    judge = Judge(5, 60, tmp_path, show=1)
    found = [judge.judge(number) for number in range(COUNT, COUNT + 3)]
    judge.stop()
    assert [f for f in found if f.kind != AGREES] == []


def test_what_is_given_away_and_how_arrays_lie_do_not_change_values():
    module = xl.parse("""HloModule m, input_output_alias={ {0}: (0, {}, may-alias) },
      entry_computation_layout={(s32[2,3]{0,1}, s32[2,3]{1,0})->(s32[2,3]{0,1}, s32[2,3]{1,0})}
      ENTRY e { x = s32[2,3] parameter(0) y = s32[2,3] parameter(1) s = s32[2,3] subtract(x, y)
        ROOT t = (s32[2,3], s32[2,3]) tuple(s, x) }""")
    x, y = np.arange(6, dtype=np.int32).reshape(2, 3), np.full((2, 3), 7, np.int32)
    for got, want in zip(on_cpu(module, [x, y]), [x - y, x], strict=True):
        assert np.array_equal(got, want)


def test_a_program_is_cut_down_inside_its_loop():
    module = xl.parse("""
      more { s = (s32[], s32[3], s32[3]) parameter(0) i = s32[] get-tuple-element(s), index=0
        n = s32[] constant(4) ROOT c = pred[] compare(i, n), direction=LT }
      step { s = (s32[], s32[3], s32[3]) parameter(0) i = s32[] get-tuple-element(s), index=0
        a = s32[3] get-tuple-element(s), index=1 b = s32[3] get-tuple-element(s), index=2
        one = s32[] constant(1) j = s32[] add(i, one) x = s32[3] xor(a, b) o = s32[3] popcnt(x) m = s32[3] multiply(a, a)
        ROOT t = (s32[], s32[3], s32[3]) tuple(j, o, m) }
      ENTRY e { p = s32[3] parameter(0) q = s32[3] parameter(1) r = s32[3] add(p, q) zero = s32[] constant(0)
        t = (s32[], s32[3], s32[3]) tuple(zero, p, r) w = (s32[], s32[3], s32[3]) while(t), condition=more, body=step
        b = s32[3] get-tuple-element(w), index=1 ROOT u = (s32[3], s32[3]) tuple(b, r) }""")
    given = [np.array([1, 2, 3], np.int32), np.array([4, 5, 6], np.int32)]

    def wrong(part, arguments):
        return any(i.opcode == "popcnt" for i in part.instructions)

    small, arguments = shrunk(module, given, wrong, 20)
    assert sum(i.opcode not in ("parameter", "constant", "get-tuple-element", "tuple") for i in small.instructions) <= 2
    assert len(leaves(xl.evaluate(small, *arguments))) == 1
