"""Complex operators of the CPU compiler against the interpreter, extended precision and XLA:CPU."""

import ctypes
from fractions import Fraction
from functools import cache
from typing import Any

import numpy as np
import pytest
from llvmlite import ir

from tests.cpu.optimised import optimised
from xloom.hlo.dtype import DTYPES
from xloom.interpreter import complex_math as oracle
from xloom.llvm import jit
from xloom.llvm.element_access import load, store
from xloom.llvm.loop import loop
from xloom.llvm.scalar import complex_math
from xloom.llvm.target import process_target
from xloom.llvm.target_module import TargetModule
from xloom.llvm.types import I8, I64, POINTER, VOID, Complex

TYPES = ["c64", "c128"]
REAL = {"c64": np.float32, "c128": np.float64}
COMPLEX = {"c64": np.complex64, "c128": np.complex128}
needs_extended = pytest.mark.skipif(np.finfo(np.longdouble).nmant < 63, reason="long double is no wider than f64")
COMPARISONS = ["EQ", "NE", "LT", "LE", "GT", "GE"]


def emit(b, opcode, *z):
    if opcode in COMPARISONS:
        return complex_math.compare(b, opcode, *z)
    if opcode == "abs":
        return Complex(complex_math.modulus(b, *z), ir.Constant(z[0].real.type, 0))
    if opcode == "sign":
        return complex_math.sign(b, *z)
    return (complex_math.UNARY if len(z) == 1 else complex_math.BINARY)[opcode](b, *z)


def module(opcode, dtype, arity):
    out = TargetModule(process_target())
    function = ir.Function(out, ir.FunctionType(VOID, [I64] + [POINTER] * (arity + 1)), "run")
    count, target, *sources = function.args
    b = ir.IRBuilder(function.append_basic_block())
    with loop(b, 0, count) as i:
        result = emit(b, opcode, *(load(b, s, DTYPES[dtype], i) for s in sources))
        if isinstance(result, Complex):
            store(b, target, DTYPES[dtype], i, result)
        else:
            b.store(b.zext(result, I8), b.gep(target, [i], source_etype=I8))
    b.ret_void()
    return str(out)


@cache
def compiled(opcode, dtype, arity):
    library = jit.Library([jit.process_code(module(opcode, dtype, arity))], ["run"])
    prototype = ctypes.CFUNCTYPE(None, ctypes.c_int64, *[ctypes.c_void_p] * (arity + 1))
    return library, library.function("run", prototype)


def run(opcode, dtype, *arrays) -> Any:
    arrays = [np.ascontiguousarray(a, COMPLEX[dtype]) for a in arrays]
    out = np.empty(arrays[0].size, bool if opcode in COMPARISONS else COMPLEX[dtype])
    compiled(opcode, dtype, len(arrays))[1](out.size, out.ctypes.data, *(a.ctypes.data for a in arrays))
    return out


def grid(values, dtype) -> Any:
    """Every combination of the values as parts."""
    real, imag = np.meshgrid(np.asarray(values, REAL[dtype]), np.asarray(values, REAL[dtype]))
    return oracle.make(real.ravel(), imag.ravel()).astype(COMPLEX[dtype])


PLAIN = [0.0, -0.0, 1.0, -1.0, np.inf, -np.inf, np.nan]


def special(dtype) -> Any:
    limits = np.finfo(REAL[dtype])
    tiny, huge = float(limits.smallest_subnormal), float(limits.max)
    return grid(
        [*PLAIN, tiny, -tiny, huge, -huge, 0.5, -2.0, 40.0, float(limits.tiny), float(np.sqrt(limits.max))], dtype
    )


def pairs(z) -> tuple[Any, Any]:
    first, second = np.meshgrid(z, z)
    return first.ravel(), second.ravel()


@np.errstate(all="ignore")
def distance(actual, expected, of_both=False):
    """How many units in the last place parts are apart, of the part or of the greater part; NaN equals NaN."""
    real = actual.real.dtype
    a, e = (np.stack([z.real, z.imag]).astype(np.longdouble) for z in (actual, expected))
    rounded = e.astype(real)
    scale = np.max(np.where(np.isfinite(rounded), np.abs(rounded), 0), axis=0) if of_both else np.abs(rounded)
    ulp = np.spacing(np.where(np.isfinite(scale), scale, 1).astype(real)).astype(np.longdouble)
    same = (a.astype(real) == rounded) | (np.isnan(a) & np.isnan(e))
    apart = np.where(np.isfinite(a) & np.isfinite(rounded), np.abs(a - e) / ulp, np.inf)
    return np.max(np.where(same, 0, apart), axis=0)


def check(actual, expected, operands, limit=4.0, of_both=True):
    far = distance(actual, expected, of_both)
    worst = int(np.argmax(far))
    where = tuple(z[worst] for z in operands)
    assert far[worst] <= limit, f"{where}: {actual[worst]} for {expected[worst]}, {(far > limit).sum()} of {far.size}"


ORACLE = {
    **{name: getattr(oracle, name) for name in ("acos", "acosh", "asin", "asinh", "atanh", "logistic", "rsqrt")},
    **{name: getattr(oracle, name) for name in ("sqrt", "tan", "tanh")},
    "cosine": np.cos,
    "cosh": np.cosh,
    "exponential": oracle.exp,
    "exponential-minus-one": oracle.expm1,
    "log": oracle.log,
    "log-plus-one": oracle.log1p,
    "sine": np.sin,
    "sinh": np.sinh,
    "abs": lambda z: np.abs(z).astype(np.complex128),
}


def unlike_oracle(opcode, z):
    """Arguments for which the interpreter's formula overflows, underflows or leaves a sign open."""
    x, y = z.real, z.imag
    if opcode == "log-plus-one":
        return (x == -1) & (np.abs(y) < 1e-7) | ((np.abs(x) > 1e150) & (np.abs(y) > 1e150))
    if opcode == "logistic":  # 1 / inf with a NaN; by the poles, where 1 + cos cancels; real arguments
        return (x < -700) | (np.abs(x) < 1e-30) | (np.isnan(x) & (y == 0))
    if opcode == "sinh":
        return np.isinf(x) & ~np.isfinite(y)
    if opcode == "sine":
        return np.isinf(y) & ~np.isfinite(x)
    return np.zeros(z.shape, bool)


@pytest.mark.sampled
@pytest.mark.parametrize("dtype", TYPES)
@pytest.mark.parametrize("opcode", ORACLE)
def test_special_values_are_the_interpreters(opcode, dtype):
    z = special(dtype)
    with np.errstate(all="ignore"):
        z = z[~unlike_oracle(opcode, z.astype(np.complex128))]
        expected = ORACLE[opcode](z.astype(np.complex128)).astype(z.dtype)
        actual = run(opcode, dtype, z)
    check(actual, expected, [z])
    if opcode not in ("rsqrt", "logistic"):  # where the interpreter divides, and loses them
        for a, e in ((actual.real, expected.real), (actual.imag, expected.imag)):
            zeros = np.isfinite(z) & (e == 0)
            wrong = zeros & (np.signbit(a) != np.signbit(e))
            assert not wrong.any(), (z[wrong], actual[wrong], expected[wrong])


def extended(function):
    """A function on arguments of extended precision."""

    def call(*z):
        return function(*(a.astype(np.clongdouble) for a in z))

    return call


def _expm1(z):
    half = np.sin(z.imag / 2)
    return np.expm1(z.real) * np.cos(z.imag) - 2 * half * half + 1j * (np.exp(z.real) * np.sin(z.imag))


def _log1p(z):
    return np.log1p(z.real * (2 + z.real) + z.imag * z.imag) / 2 + 1j * np.arctan2(z.imag, 1 + z.real)


PRECISE = {
    "abs": lambda z: np.abs(z) + 0j,
    "acos": np.arccos,
    "acosh": np.arccosh,
    "asin": np.arcsin,
    "asinh": np.arcsinh,
    "atanh": np.arctanh,
    "cbrt": lambda z: np.exp(np.log(z) / 3),
    "cosine": np.cos,
    "cosh": np.cosh,
    "exponential": np.exp,
    "exponential-minus-one": _expm1,
    "log": np.log,
    "log-plus-one": _log1p,
    "logistic": lambda z: 1 / (1 + np.exp(-z)),
    "rsqrt": lambda z: 1 / np.sqrt(z),
    "sign": lambda z: z / np.abs(z),
    "sine": np.sin,
    "sinh": np.sinh,
    "sqrt": np.sqrt,
    "tan": np.tan,
    "tanh": np.tanh,
    "divide": np.divide,
    "power": lambda x, y: np.exp(y * np.log(x)),
    "atan2": lambda y, x: -1j * np.log((x + 1j * y) / np.sqrt(x * x + y * y)),
}
UNARY = [*complex_math.UNARY, "abs", "sign"]
# sums of parts of either sign, whose lesser part has what the greater one leaves of it; then ULP are of the greater
CANCEL = {"exponential-minus-one", "logistic"}


def random(dtype, count, seed):
    """Numbers of modulus about 1 and parts of very unlike sizes."""
    rng = np.random.default_rng(seed)
    parts = rng.standard_normal((2, 2 * count)) * np.r_[np.ones(count), 10.0 ** rng.uniform(-5, 1.5, count)]
    return (parts[0] + 1j * parts[1]).astype(COMPLEX[dtype])


@needs_extended
@pytest.mark.parametrize("dtype", TYPES)
@pytest.mark.parametrize("opcode", UNARY)
def test_unary_to_the_last_places(opcode, dtype):
    z = random(dtype, 2000, 1)
    limit = 6 if dtype == "c128" else 2.5 if opcode == "exponential" else 0.51
    check(run(opcode, dtype, z), extended(PRECISE[opcode])(z), [z], limit, of_both=dtype == "c128" and opcode in CANCEL)


@needs_extended
@pytest.mark.parametrize("dtype", TYPES)
@pytest.mark.parametrize(("opcode", "limit"), [("divide", 40), ("power", 60), ("atan2", 400)])
def test_binary_to_the_last_places(opcode, limit, dtype):
    parts = np.random.default_rng(2).standard_normal((4, 4000))
    x, y = ((parts[k] + 1j * parts[k + 1]).astype(COMPLEX[dtype]) for k in (0, 2))
    of_both = dtype == "c128" and opcode != "divide"
    check(
        run(opcode, dtype, x, y), extended(PRECISE[opcode])(x, y), [x, y], limit if dtype == "c128" else 0.51, of_both
    )


@pytest.mark.parametrize("dtype", TYPES)
@pytest.mark.parametrize(("opcode", "offset"), [("log", 0), ("log-plus-one", 1)])
def test_logarithms_of_modulus_nearly_1(opcode, offset, dtype):
    """Where log |z| is what the squares leave of 1; the judge is exact."""
    angle = np.random.default_rng(4).uniform(-np.pi, np.pi, 300)
    z = (np.exp(1j * angle) - offset).astype(COMPLEX[dtype])
    less_one = [(Fraction(float(w.real)) + offset) ** 2 + Fraction(float(w.imag)) ** 2 - 1 for w in z]
    expected = np.array([float(s / 2 - s * s / 4 + s**3 / 6) for s in less_one])
    actual = run(opcode, dtype, z).real
    limit = 2 * np.spacing(np.abs(expected).astype(actual.dtype)) + np.finfo(np.float64).eps ** 2
    assert (np.abs(actual - expected) <= limit).all()


@needs_extended
@pytest.mark.parametrize("dtype", TYPES)
def test_neither_squares_nor_products_overflow(dtype):
    limits = np.finfo(REAL[dtype])
    rng = np.random.default_rng(3)
    half = np.log2(limits.max)
    size = 2.0 ** rng.uniform(-0.95 * half, 0.95 * half, (2, 3000))
    x, y = (size * np.exp(2j * np.pi * rng.random((2, 3000)))).astype(COMPLEX[dtype])
    for opcode in ("abs", "sqrt", "rsqrt", "sign", "log", "asin", "acosh"):
        check(run(opcode, dtype, x), extended(PRECISE[opcode])(x), [x])
    quotient = np.abs(extended(np.divide)(x, y))
    keep = (quotient > 1e3 * limits.tiny) & (quotient < 1e-3 * limits.max)
    x, y = x[keep], y[keep]
    assert len(x) > 1000
    check(run("divide", dtype, x, y), extended(np.divide)(x, y), [x, y])


@needs_extended
@pytest.mark.parametrize("dtype", TYPES)
def test_results_by_the_limits_of_the_exponential(dtype):
    top = float(np.log(np.finfo(REAL[dtype]).max))
    z = np.array([top + 0.3 + 0.785j, top + 0.3 - 0.785j], COMPLEX[dtype])  # e**0.3 / sqrt(2) < 1
    for opcode in ("exponential", "exponential-minus-one", "cosh", "sinh"):
        check(run(opcode, dtype, z), extended(PRECISE[opcode])(z), [z])
    for opcode in ("sine", "cosine"):
        check(run(opcode, dtype, z * 1j), extended(PRECISE[opcode])(z * 1j), [z])
    assert (run("tanh", dtype, z * 100).real == 1).all()
    assert (run("logistic", dtype, z * -100) == 0).all()


@pytest.mark.parametrize("dtype", TYPES)
@pytest.mark.parametrize("opcode", ["add", "subtract", "multiply", "maximum", "minimum"])
def test_plain_operators_are_the_interpreters(opcode, dtype):
    x, y = pairs(special(dtype))
    with np.errstate(all="ignore"):
        expected = {
            "add": np.add,
            "subtract": np.subtract,
            "multiply": oracle.multiply,
            "maximum": lambda x, y: np.where(oracle.lexical_less(x, y), y, x),
            "minimum": lambda x, y: np.where(oracle.lexical_less(y, x), y, x),
        }[opcode](x, y)
        check(run(opcode, dtype, x, y), expected, [x, y], limit=0)


@pytest.mark.parametrize("dtype", TYPES)
@pytest.mark.parametrize("direction", COMPARISONS)
def test_comparison_is_the_interpreters(direction, dtype):
    x, y = pairs(grid(PLAIN, dtype))
    less, greater = oracle.lexical_less(x, y), oracle.lexical_less(y, x)
    expected = {
        "EQ": x == y,
        "NE": x != y,
        "LT": less,
        "GT": greater,
        "LE": less | (x == y),
        "GE": greater | (x == y),
    }[direction]
    assert np.array_equal(run(direction, dtype, x, y), expected)


@pytest.mark.parametrize("dtype", TYPES)
def test_quotients_of_special_values_are_xlas(dtype):
    """Also the directions of infinite quotients, and which of them XLA calls NaN."""
    jax = pytest.importorskip("jax")
    x, y = pairs(grid([*PLAIN, 0.5, -3.0], dtype))
    with jax.enable_x64(True):
        expected = np.asarray(jax.lax.div(x, y))
    check(run("divide", dtype, x, y), expected, [x, y])


@pytest.mark.parametrize("dtype", TYPES)
@pytest.mark.parametrize("opcode", ["sign", "logistic"])
def test_infinite_and_zero_arguments_are_xlas(opcode, dtype):
    jax = pytest.importorskip("jax")
    z = grid([0.0, -0.0, 1.0, -1.0, 2.5, np.inf, -np.inf], dtype)
    if opcode == "logistic":
        z = z[(z.real != np.inf) | np.isfinite(z.imag)]  # 1 + 0i is the interpreter's and ours
    with jax.enable_x64(True):
        expected = np.asarray(getattr(jax.lax, opcode)(z))
    check(run(opcode, dtype, z), expected, [z])


@pytest.mark.parametrize("dtype", TYPES)
def test_powers_of_special_values(dtype):
    x, y = pairs(grid([*PLAIN, 0.5, -3.0], dtype))
    with np.errstate(all="ignore"):
        expected = oracle.power(x, y).astype(x.dtype)
    actual = run("power", dtype, x, y)
    assert (actual[y == 0] == 1).all()  # NaN to the power of 0 as well, as in C and XLA
    assert np.array_equal(np.isinf(actual), np.isinf(expected))
    keep = (y != 0) & ~np.isinf(actual)  # the direction may be the sign of a cosine that is 0 but for rounding
    check(actual[keep], expected[keep], [x[keep], y[keep]], limit=100)


@pytest.mark.parametrize("opcode", ["divide", "log", "sqrt", "tanh", "asin", "power"])
def test_loops_become_vectors_without_calls(opcode):
    text = str(optimised(module(opcode, "c64", 2 if opcode in complex_math.BINARY else 1)))
    assert " x double>" in text
    assert not [c for c in text.splitlines() if " call " in c and "@llvm." not in c]


def test_a_function_is_defined_once_a_module():
    text = module("log", "c64", 1)
    out = TargetModule(process_target())
    function = ir.Function(out, ir.FunctionType(VOID, [ir.FloatType()] * 2), "run")
    b = ir.IRBuilder(function.append_basic_block())
    z = Complex(*function.args)
    complex_math.UNARY["log"](b, complex_math.UNARY["log"](b, z))
    b.ret_void()
    assert str(out).count("define internal") == text.count("define internal")
