"""Functions of elements that code calls from many places: written once, with the results of those that are inlined."""

import re

import numpy as np
import pytest

import xloom as xl
from tests.cpu.optimised import optimised
from xloom.cpu.lower import lowered
from xloom.cpu.prepare import prepared
from xloom.llvm import called_functions
from xloom.llvm.called_functions import with_calls
from xloom.llvm.target import process_target

MANY = 24
"""Calls that are worth it for every function below."""


def chain(opcode, count, shape, second=""):
    steps = " ".join(f"x{k + 1} = {shape} {opcode}(x{k}{second})" for k in range(count))
    return xl.parse(f"HloModule m\nENTRY e {{ x0 = {shape} parameter(0) {steps} ROOT r = {shape} negate(x{count}) }}")


def text_of(module):
    program = lowered(prepared(module), process_target())[-1]
    return next((m.text for m in program.modules.values()), program.main)


def code_of(module):
    return str(optimised(with_calls(text_of(module), process_target())))


def instructions(text):
    return len(re.findall(r"^  \S", text, re.MULTILINE))


@pytest.mark.parametrize("shape", ["f32[]", "f64[]", "f32[70000]"])
def test_more_calls_are_hardly_more_code(shape):
    few, many = (instructions(code_of(chain("sine", count, shape))) for count in (MANY, 2 * MANY))
    assert many - few < 8 * MANY


def test_vectors_are_called_in_vectorised_loops():
    found = code_of(chain("sine", MANY, "f32[65536]"))
    assert len(re.findall(r"call (?:fastcc )?<(\d+) x float> @xloom.sine.f32.(?:of|v)\1\(", found)) >= MANY
    assert " alloca " not in found


def test_scalars_have_no_vector_function():
    assert "vector-function-abi-variant" not in with_calls(text_of(chain("sine", MANY, "f32[]")), process_target())


@pytest.mark.parametrize(("opcode", "count"), [("sine", 3), ("exponential", 2 * MANY)])
def test_few_calls_in_loops_are_inlined_and_short_functions(opcode, count):
    text = text_of(chain(opcode, count, "f32[65536]"))
    assert with_calls(text, process_target()) == text
    assert "@xloom." not in str(optimised(text))


@pytest.mark.parametrize(
    ("opcode", "second"),
    [("sine", ""), ("exponential", ""), ("tan", ""), ("erf", ""), ("power", ", x0"), ("atan2", ", x0"), ("cbrt", "")],
)
@pytest.mark.parametrize("shape", ["f32[]", "f32[1000]", "f32[37,23]", "f64[1001]", "bf16[515]"])
def test_results_are_those_of_inlined_functions(monkeypatch, opcode, second, shape):
    module = chain(opcode, MANY, shape, second)
    (parameter,) = module.entry.parameters
    given = np.linspace(-3, 3, int(np.prod(parameter.shape.dims))).reshape(parameter.shape.dims)
    given = given.astype(parameter.shape.dtype.numpy)
    called = np.asarray(xl.compile(module)(given))
    for name in ("_WORTH", "_WORTH_ONCE"):
        monkeypatch.setattr(called_functions, name, 1 << 30)
    monkeypatch.setenv("XLOOM_CACHE", "0")
    inlined = np.asarray(xl.compile(module)(given))
    assert called.tobytes() == inlined.tobytes()


@pytest.mark.parametrize(("count", "called"), [(MANY, False), (4 * MANY, True)])
def test_elements_of_steps_of_a_loop_are_called_later(count, called):
    steps = " ".join(f"x{k + 1} = f32[] sine(x{k})" for k in range(count))
    module = xl.parse(f"""HloModule m
    body {{
      s = (s32[], f32[]) parameter(0)
      i = s32[] get-tuple-element(s), index=0
      one = s32[] constant(1)
      next = s32[] add(i, one)
      x0 = f32[] get-tuple-element(s), index=1
      {steps}
      ROOT r = (s32[], f32[]) tuple(next, x{count})
    }}
    condition {{
      s = (s32[], f32[]) parameter(0)
      i = s32[] get-tuple-element(s), index=0
      n = s32[] constant(5)
      ROOT less = pred[] compare(i, n), direction=LT
    }}
    ENTRY e {{
      x = f32[] parameter(0)
      zero = s32[] constant(0)
      begin = (s32[], f32[]) tuple(zero, x)
      loop = (s32[], f32[]) while(begin), condition=condition, body=body
      ROOT y = f32[] get-tuple-element(loop), index=1
    }}""")
    text = text_of(module)
    assert (with_calls(text, process_target()) != text) == called
