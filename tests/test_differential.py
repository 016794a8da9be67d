"""Random programs: the interpreter and XLA:CPU return the same, and what differs is found, bounded and reduced."""

import numpy as np
import pytest

pytest.importorskip("jax")

import xloom as xl
from tests.judges.differential import Judge
from tests.judges.mismatch import mismatch
from tests.judges.programs import generate
from tests.judges.reducer import DISAGREES, reduced
from xloom.interpreter.bounds import bounds

COUNT = 50


def test_programs_are_valid_and_reproducible():
    for number in range(COUNT):
        program, again = generate(7, number), generate(7, number)
        xl.verify(program.module)
        assert program.module.to_text() == again.module.to_text()
        assert all(a.tobytes() == b.tobytes() for a, b in zip(program.arguments, again.arguments, strict=True))


def test_the_interpreter_agrees_with_xla_cpu(tmp_path):
    judge = Judge(7, "interpreter", "jaxlib", 60, tmp_path)
    findings = [finding for number in range(COUNT) for finding in judge.judge(number)]
    judge.stop()
    assert judge.counts["interpreter ran"] == COUNT
    assert judge.counts["jaxlib ran"] >= COUNT - 3
    assert [f for f in findings if f.status == DISAGREES] == []


def values(text, *arguments):
    return bounds(xl.parse(text), arguments)


def test_bounds_tell_rounding_from_mistakes():
    x = np.array([1.0, 3.0], np.float32)
    exact = values("ENTRY e { x = f32[2] parameter(0) ROOT r = f32[2] negate(x) }", x)
    assert mismatch(exact, [-x], None) is None
    assert mismatch(exact, [np.nextafter(-x, np.float32(0))], None) is not None
    rounded = values("ENTRY e { x = f32[2] parameter(0) ROOT r = f32[2] exponential(x) }", x)
    assert mismatch(rounded, [np.nextafter(np.exp(x), np.float32(0))], None) is None
    assert mismatch(rounded, [np.exp(x) * np.float32(1.00001)], None) is not None
    assert mismatch(rounded, [np.array([np.nan, np.exp(3)], np.float32)], None) is not None


def test_bounds_of_a_cancellation_are_wide():
    text = "ENTRY e { x = f32[1] parameter(0) y = f32[1] exponential(x) ROOT r = f32[1] subtract(y, x) }"
    x = np.array([0.5], np.float32)
    assert not values(text, x)[0].loose().any()
    zero = np.array([1e-6], np.float32)
    text = text.replace("subtract(y, x)", "subtract(y, one)").replace("y =", "one = f32[1] constant({1}) y =")
    assert values(text, zero)[0].loose().all()


def test_a_program_is_reduced_to_the_instruction_that_is_wrong():
    module = xl.parse(
        "ENTRY e { x = f32[2] parameter(0) a = f32[2] add(x, x) s = f32[2] sine(a) m = f32[2] multiply(s, a) "
        "ROOT t = (f32[2], f32[2]) tuple(m, a) }"
    )

    def verdict(part, arguments):
        return DISAGREES if any(i.opcode == "sine" for i in part.instructions) else ""

    small, arguments = reduced(module, [np.array([1.0, 2.0], np.float32)], verdict)
    assert [i.opcode for i in small.entry] == ["parameter", "sine"]
    assert np.array_equal(arguments[0], [2.0, 4.0])


def test_a_known_cause_does_not_hide_another():
    module = xl.parse("ENTRY e { x = f32[2] parameter(0) s = f32[2] sine(x) ROOT c = f32[2] cosine(s) }")

    def verdict(part, arguments):
        opcodes = {i.opcode for i in part.instructions} & {"sine", "cosine"}
        return "known" if opcodes == {"sine"} else DISAGREES if opcodes else ""

    small, _ = reduced(module, [np.zeros(2, np.float32)], verdict)
    assert [i.opcode for i in small.entry] == ["parameter", "cosine"]


def test_every_part_of_a_transform_may_be_off():
    module = xl.parse(
        "ENTRY e { p = c64[64,64] parameter(0) ROOT r = c64[64,64] fft(p), fft_type=FFT, fft_length={64} }"
    )
    numbers = np.random.default_rng(0).standard_normal((2, 64, 64)).astype(np.float32)
    (bound,) = bounds(module, [numbers[0] + 1j * numbers[1]])
    for part in (np.real, np.imag):
        assert np.ptp(part(np.stack(bound.runs)), axis=0).all()
