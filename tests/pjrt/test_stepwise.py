"""`compare="each"`: which instruction of a backend's program is wrong, where, and by how much."""

import ml_dtypes
import numpy as np
import pytest

import xloom as xl
from xloom.calls import registry
from xloom.interpreter import RULES
from xloom.interpreter.evaluator import Evaluator
from xloom.pjrt import Client, CpuCompiler, DifferenceError, InterpreterCompiler, PjrtError
from xloom.sim import Simulator, Tolerance, operator

LOOP = xl.parse("""HloModule loop
body {
  p = (s32[], f32[5,3]) parameter(0)
  i = s32[] get-tuple-element(p), index=0
  x = f32[5,3] get-tuple-element(p), index=1
  one = s32[] constant(1)
  j = s32[] add(i, one)
  y = f32[5,3] tanh(x), metadata={op_name="layer/tanh" source_file="model.py" source_line=12}
  ROOT t = (s32[], f32[5,3]) tuple(j, y)
}
condition {
  p = (s32[], f32[5,3]) parameter(0)
  i = s32[] get-tuple-element(p), index=0
  n = s32[] constant(3)
  ROOT c = pred[] compare(i, n), direction=LT
}
less { a = s32[] parameter(0) b = s32[] parameter(1) ROOT l = pred[] compare(a, b), direction=GT }
add { a = f32[] parameter(0) b = f32[] parameter(1) ROOT s = f32[] add(a, b) }
ENTRY e {
  x = f32[5,3] parameter(0)
  h = bf16[5,3] convert(x)
  k = f32[5,3] convert(h)
  zero = s32[] constant(0)
  t = (s32[], f32[5,3]) tuple(zero, k)
  w = (s32[], f32[5,3]) while(t), condition=condition, body=body
  y = f32[5,3] get-tuple-element(w), index=1
  z = f32[] constant(0)
  r = f32[3] reduce(y, z), dimensions={0}, to_apply=add
  i = s32[5,3] iota(), iota_dimension=0
  q = s32[5,3] sort(i), dimensions={0}, to_apply=less
  ROOT all = (f32[3], s32[5,3]) tuple(r, q)
}""")
X = np.random.default_rng(0).standard_normal((5, 3)).astype(np.float32)


def run(client, module, *arguments):
    buffers = [client.buffer_from_host(a) for a in arguments]
    return [np.asarray(b) for b in client.compile(module).execute(buffers)]


@pytest.mark.parametrize("compiler", [InterpreterCompiler, CpuCompiler])
def test_backends_that_agree(compiler):
    r, q = run(Client(compiler(), compare="each"), LOOP, X)
    expected = xl.evaluate(LOOP, X)
    np.testing.assert_allclose(r, expected[0], rtol=1e-5)
    assert np.array_equal(q, expected[1])


class Off(Simulator):
    """Its tanh is wrong for large arguments, from the second time on."""

    platform = "off"
    calls = 0

    @operator("tanh")
    def tanh(self, instruction, x):
        Off.calls += 1
        value = np.tanh(x)
        if Off.calls > 1:
            value[3, 1] = np.nextafter(value[3, 1], 9)
            value[4] += np.float32(1e-3)
        return value


def test_the_first_wrong_instruction_of_a_loop():
    Off.calls = 0
    client = Client.sim(Off, compare="each")
    with pytest.raises(DifferenceError, match=r"off's tanh differs from the CPU's: y\[4,0\] is ") as caught:
        run(client, LOOP, X)
    text = str(caught.value)
    assert Off.calls == 2 and "(3 of 15 elements differ), where 16 are allowed" in text
    assert caught.value.where == "y of layer/tanh, model.py:12"
    wrong, right = np.float32(text.split(" is ")[1].split(",")[0]), np.float32(text.split(", and ")[1].split(" ")[0])
    assert wrong - right == pytest.approx(1e-3, rel=1e-3)
    ulps = float(text.split(" ULPs")[0].split()[-1])
    assert ulps == pytest.approx((wrong - right) / np.spacing(np.abs(right)), rel=0.01)


class Miscounting(Simulator):
    platform = "miscounting"

    @operator("add")
    def plus(self, instruction, a, b):
        return a + b + (np.arange(a.size) == 3).astype(a.dtype).reshape(a.shape)


def test_integers_are_equal_or_wrong():
    module = xl.parse("ENTRY e { x = s32[5] parameter(0) ROOT y = s32[5] add(x, x) }")
    with pytest.raises(DifferenceError) as caught:
        run(Client.sim(Miscounting, compare="each"), module, np.arange(5, dtype=np.int32))
    assert caught.value.message.endswith("y[3] is 7, and 6 on the CPU (1 of 5 elements differ)")


class Half(Simulator):
    platform = "half"

    @operator("dot")
    def dot(self, instruction, a, b):
        x, y = (v.astype(ml_dtypes.bfloat16).astype(np.float32) for v in (a, b))
        return RULES["dot"](instruction, [x, y], Evaluator(PRODUCT))


class Told(Half):
    def tolerance(self, instruction):
        return Tolerance(1, np.dtype(ml_dtypes.bfloat16), of_largest=True)


PRODUCT = xl.parse("""ENTRY e { a = f32[7,64] parameter(0)  b = f32[64,5] parameter(1)
  ROOT c = f32[7,5] dot(a, b), lhs_contracting_dims={1}, rhs_contracting_dims={0} }""")
A, B = (np.random.default_rng(1).standard_normal(dims).astype(np.float32) for dims in ((7, 64), (64, 5)))


def test_units_of_a_narrower_type():
    run(Client.sim(Told, compare="each"), PRODUCT, A, B)
    with pytest.raises(DifferenceError, match=r"half's dot .* c\[0,"):
        run(Client.sim(Half, compare="each"), PRODUCT, A, B)


@pytest.fixture
def kernel():
    before = dict(registry._registered)
    yield xl.custom_call("Negation", platform="kernels")
    registry._registered.clear()
    registry._registered.update(before)


class Kernels(Simulator):
    platform = "kernels"


CALL = xl.parse("""ENTRY e { a = f32[7,64] parameter(0)  s = f32[7,64] sine(a)
  ROOT c = f32[7,64] custom-call(s), custom_call_target="Negation",
    backend_config="ENTRY e { a = f32[7,64] parameter(0) ROOT n = f32[7,64] negate(a) }" }""")


def test_kernels_are_held_against_what_they_carry(kernel):
    @kernel
    def negation(out, x):
        out[...] = -x
        out[:, 40:] = x[:, 40:]

    with pytest.raises(DifferenceError, match=r"kernels's custom-call differs from the CPU's: c\[0,40\]"):
        run(Client.sim(Kernels, compare="each"), CALL, A)

    def right(out, x):
        out[...] = -x

    xl.custom_call("Negation", platform="kernels")(right)
    (found,) = run(Client.sim(Kernels, compare="each"), CALL, A)
    np.testing.assert_allclose(found, -np.sin(A), rtol=1e-5)


def test_what_is_not_compared():
    with pytest.raises(PjrtError, match='compare is "each"'):
        Client(InterpreterCompiler(), compare="all")
    module = PRODUCT.clone("")
    module.config.replica_count = 2
    with pytest.raises(xl.UnsupportedError, match="programs of one device"):
        Client(InterpreterCompiler(), 2, compare="each").compile(module)
