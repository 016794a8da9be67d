"""Math functions of the CPU compiler: rounding errors over all magnitudes, special values, and vector code."""

import ctypes
import platform
import re

import numpy as np
import pytest
from llvmlite import ir

import xloom as xl
from tests.cpu.optimised import optimised
from xloom.cpu.printers import llvm_text
from xloom.llvm import jit, math
from xloom.llvm.target import Target, process_target
from xloom.llvm.target_module import TargetModule

KINDS = {np.dtype(np.float32): ("f32", ir.FloatType()), np.dtype(np.float64): ("f64", ir.DoubleType())}
LONG = np.longdouble
UNDERFLOW = 0x10
"""The flag of processors of x86 for a result that is subnormal, or was too small for that."""

needs_long_double = pytest.mark.skipif(np.finfo(LONG).nmant <= 52, reason="no wider format to compare f64 with")


def logistic(x):
    e = np.exp(-np.abs(x))
    return np.where(x < 0, e, 1) / (1 + e)


def erf(x):
    """2/sqrt(pi) e^-x^2 (x + 2/3 x^3 + 4/15 x^5 ...), whose terms have one sign."""
    size = np.minimum(np.abs(x), 7)
    term = total = size
    for n in range(1, 200):
        term = term * (2 * size * size / (2 * n + 1))
        total = total + term
    pi = LONG("3.14159265358979323846264338327950288").astype(x.dtype)
    return np.copysign(2 / np.sqrt(pi) * np.exp(-size * size) * total, x)


# the NumPy function, and bounds of the error in units in the last place, of f32 and of f64
UNARY = {
    "acos": (np.arccos, 0.51, 1.3),
    "acosh": (np.arccosh, 0.51, 2.5),
    "asin": (np.arcsin, 0.51, 2.4),
    "asinh": (np.arcsinh, 0.51, 2.0),
    "atan": (np.arctan, 0.55, 1.6),
    "atanh": (np.arctanh, 0.51, 1.8),
    "cbrt": (np.cbrt, 0.51, 0.51),
    "cosh": (np.cosh, 0.51, 1.5),
    "cosine": (np.cos, 0.51, 1.4),
    "erf": (erf, 1.1, 1.5),
    "exponential": (np.exp, 1.1, 1.1),
    "exponential-minus-one": (np.expm1, 1.6, 2.0),
    "log": (np.log, 1.0, 1.0),
    "log-plus-one": (np.log1p, 1.6, 1.5),
    "logistic": (logistic, 1.6, 1.6),
    "rsqrt": (lambda x: 1 / np.sqrt(x), 1.5, 1.5),
    "sine": (np.sin, 0.51, 1.4),
    "sinh": (np.sinh, 0.51, 2.5),
    "sqrt": (np.sqrt, 0.5, 0.5),
    "tan": (np.tan, 0.53, 1.8),
    "tanh": (np.tanh, 1.7, 2.0),
}
BINARY = {
    "atan2": (np.arctan2, 0.55, 1.6),
    "power": (np.power, 0.51, 1.2),
    "remainder": (np.fmod, 0.0, 0.0),
}


def symbol(opcode, dtype):
    return f"{opcode}.{KINDS[np.dtype(dtype)][0]}"


def add_loop(module, opcode, dtype):
    """Emits `void(ptr out, ptr in..., i64 n)`, a loop over the function of an opcode."""
    kind = KINDS[np.dtype(dtype)][1]
    pointer, i64 = ir.PointerType(), ir.IntType(64)
    arity = 2 if opcode in BINARY else 1
    signature = ir.FunctionType(ir.VoidType(), [pointer] * (arity + 1) + [i64])
    function = ir.Function(module, signature, symbol(opcode, dtype))
    entry, loop, end = (function.append_basic_block(name) for name in ("entry", "loop", "end"))
    b = ir.IRBuilder(entry)
    b.branch(loop)
    b.position_at_end(loop)
    index = b.phi(i64)
    index.add_incoming(i64(0), entry)
    out, *inputs, count = function.args
    values = [b.load(b.gep(p, [index], inbounds=True, source_etype=kind), typ=kind) for p in inputs]
    b.store(math.call(b, opcode, *values), b.gep(out, [index], inbounds=True, source_etype=kind))
    following = b.add(index, i64(1))
    index.add_incoming(following, loop)
    b.cbranch(b.icmp_signed("<", following, count), loop, end)
    b.position_at_end(end)
    b.ret_void()


class Loops:
    """Functions, compiled together."""

    def __init__(self, opcodes=tuple(math.FUNCTIONS)):
        module = TargetModule(process_target())
        names = [(opcode, dtype) for opcode in opcodes for dtype in KINDS]
        for opcode, dtype in names:
            add_loop(module, opcode, dtype)
        self.module = optimised(str(module))
        code = jit.target_machine(process_target()).emit_object(self.module)
        self.library = jit.Library([code], [symbol(*name) for name in names])

    def __call__(self, opcode, *arrays):
        out = np.empty_like(arrays[0])
        pointers = [a.ctypes.data for a in (out, *arrays)]
        prototype = ctypes.CFUNCTYPE(None, *[ctypes.c_void_p] * len(pointers), ctypes.c_int64)
        self.library.function(symbol(opcode, out.dtype), prototype)(*pointers, out.size)
        return out

    def text(self, opcode, dtype):
        return str(self.module.get_function(symbol(opcode, dtype)))


@pytest.fixture(scope="module")
def loops():
    return Loops()


SPECIAL = [0, 0.5, 1, 1.5, 2, 3, 4, 1024, 1e10 + 1, 2.0**52 + 1, 2.0**53 + 2, 1e-310, 1e-40, 1e30, np.inf, np.nan]


def special(dtype):
    info = np.finfo(dtype)
    sizes = np.array([*SPECIAL, info.max, info.tiny, info.smallest_subnormal, 1 + info.eps, 1 - info.epsneg], dtype)
    return np.concatenate([sizes, -sizes])


def bit_patterns(dtype, count):
    """Numbers with evenly strided bits: all signs, exponents, and both ends of the mantissas' range."""
    integer = np.uint32 if dtype == np.float32 else np.uint64
    width = 8 * np.dtype(dtype).itemsize
    stride = (1 << width) // count | 1
    return (np.arange(count, dtype=np.uint64) * np.uint64(stride)).astype(integer).view(dtype)


def arguments(dtype):
    """Of every magnitude, and more where functions bend."""
    random = np.random.default_rng(1)
    count = 400_000 if dtype == np.float32 else 30_000
    largest = np.log(float(np.finfo(dtype).max)) * 1.05
    dense = [
        random.standard_normal(count // 4) * 4,
        random.uniform(-largest, largest, count // 4),
        random.uniform(-1.5, 1.5, count // 4),
        1 + np.exp(random.uniform(-30, 0, count // 4)),
    ]
    return np.concatenate([special(dtype), bit_patterns(dtype, count), *(d.astype(dtype) for d in dense)])


def pairs(dtype):
    """Special values with one another, all magnitudes, and powers of a result that is neither 0 nor infinite."""
    random = np.random.default_rng(2)
    count = 100_000 if dtype == np.float32 else 30_000
    largest = np.log(float(np.finfo(dtype).max))
    bases = [np.exp(random.uniform(-largest, largest, count)), 1 + np.exp(random.uniform(-20, -1, count))]
    bases = [b.astype(dtype).astype(np.float64) for b in bases]
    exponents = [random.uniform(-1.05, 1.05, count) * largest / np.log(b) for b in bases]
    small = random.integers(-300, 300, count), random.integers(-30, 30, count)
    grid = np.meshgrid(special(dtype), special(dtype))
    anywhere = bit_patterns(dtype, count), random.permutation(bit_patterns(dtype, count))
    sides = ([grid[0].ravel(), anywhere[0], *bases, small[0]], [grid[1].ravel(), anywhere[1], *exponents, small[1]])
    return tuple(np.concatenate([part.astype(dtype) for part in side]) for side in sides)


def errors(got, exact):
    """In units in the last place of the exact result; infinite where a NaN, an infinity or a signed zero is wrong."""
    info = np.finfo(got.dtype)
    nearest = exact.astype(got.dtype)
    exponent = np.frexp(exact)[1] - 1
    unit = np.ldexp(exact.dtype.type(1), np.maximum(exponent, info.minexp) - info.nmant)
    error = np.where(np.isfinite(nearest), np.abs(got.astype(exact.dtype) - exact) / unit, np.inf)
    same = (got == nearest) & (np.signbit(got) == np.signbit(nearest)) | np.isnan(got) & np.isnan(nearest)
    wrong_zero = (got == 0) & (nearest == 0) & ~same
    return np.where(same & ~(np.isfinite(nearest) & (nearest != 0)), 0, np.where(wrong_zero, np.inf, error))


def check(opcode, inputs, got, exact, bound):
    error = errors(got, exact)
    error = np.where(np.isnan(error), np.inf, error)
    worst = int(np.argmax(error))
    at = ", ".join(repr(x[worst]) for x in inputs)
    assert error[worst] <= bound, f"{opcode}({at}) = {got[worst]!r}, not {exact[worst]!r}: {error[worst]:.3f} ulp"


@pytest.fixture(autouse=True)
def quiet():
    """NumPy warns of NaN and infinite results, which are meant."""
    with np.errstate(all="ignore"):
        yield


@pytest.mark.parametrize("opcode", UNARY)
def test_f32_error(loops, opcode):
    function, bound, _ = UNARY[opcode]
    x = arguments(np.float32)
    check(opcode, [x], loops(opcode, x), function(x.astype(np.float64)), bound)


@pytest.mark.parametrize("dtype", KINDS, ids=str)
def test_powers_of_two_without_an_instruction_for_them(loops, dtype, monkeypatch):
    monkeypatch.setattr(Target, "has_scaling", False)
    others = Loops(["exponential", "power"])
    x, (base, exponent) = arguments(dtype), pairs(dtype)
    np.testing.assert_array_equal(others("exponential", x), loops("exponential", x))
    np.testing.assert_array_equal(others("power", base, exponent), loops("power", base, exponent))


@pytest.mark.skipif(platform.machine() != "x86_64", reason="flags are numbered otherwise")
@pytest.mark.parametrize("scaling", [True, False])
@pytest.mark.parametrize("dtype", KINDS, ids=str)
def test_what_is_masked_out_does_not_underflow(dtype, scaling, monkeypatch):
    """A hundred cycles each time; the mask of attention is -inf, or a large number, and bell curves have long tails."""
    monkeypatch.setattr(Target, "has_scaling", scaling and process_target().has_scaling)
    loops = Loops(["exponential", "logistic"])
    flags = ctypes.CDLL("libm.so.6")
    x = np.repeat(np.array([-np.inf, -1e9, -1e4, 0, 3], dtype), 7)
    tail = np.repeat(np.array([-86.9, -87.1, -88, -90, -100, -103.9, -104.1], dtype), 7)
    for opcode, arguments in (("exponential", x), ("logistic", x), ("exponential", tail)):
        flags.feclearexcept(UNDERFLOW)
        loops(opcode, arguments)
        assert not flags.fetestexcept(UNDERFLOW), opcode
    loops("exponential", np.full(7, -720, np.float64))
    assert flags.fetestexcept(UNDERFLOW)


@needs_long_double
@pytest.mark.parametrize("opcode", UNARY)
def test_f64_error(loops, opcode):
    function, _, bound = UNARY[opcode]
    x = arguments(np.float64)
    check(opcode, [x], loops(opcode, x), function(x.astype(LONG)), bound)


@pytest.mark.parametrize("opcode", BINARY)
def test_f32_error_of_two_arguments(loops, opcode):
    function, bound, _ = BINARY[opcode]
    x, y = pairs(np.float32)
    wide = np.float32 if opcode == "remainder" else np.float64
    check(opcode, [x, y], loops(opcode, x, y), function(x.astype(wide), y.astype(wide)), bound)


@needs_long_double
@pytest.mark.parametrize("opcode", BINARY)
def test_f64_error_of_two_arguments(loops, opcode):
    function, _, bound = BINARY[opcode]
    x, y = pairs(np.float64)
    wide = np.float64 if opcode == "remainder" else LONG
    check(opcode, [x, y], loops(opcode, x, y), function(x.astype(wide), y.astype(wide)), bound)


def test_the_double_that_comes_closest_to_a_quarter_turn(loops):
    """Its cosine needs 170 bits of what 1 / pi has at its exponent; the value is in Muller's Elementary Functions."""
    x = np.array([6381956970095103 * 2.0**797])
    assert loops("cosine", x)[0] == -4.68716592425462761112e-19
    assert loops("sine", x)[0] == 1.0


@pytest.mark.parametrize("dtype", KINDS, ids=str)
def test_log_plus_one_of_fractions_is_the_same(loops, dtype):
    x = arguments(dtype)
    x = np.concatenate([x[(x >= 0) & (x <= 1)], 10 ** np.linspace(-20, 0, 100_000), [0, 1, np.nan]]).astype(dtype)
    x = np.abs(x)  # of zeros too
    np.testing.assert_array_equal(loops("log-plus-one-of-fraction", x), loops("log-plus-one", x))


def test_softplus_takes_the_logarithm_of_a_fraction():
    module = xl.parse("""HloModule m
ENTRY e { x = f32[100] parameter(0) a = f32[100] abs(x) n = f32[100] negate(a) p = f32[100] exponential(n)
  ROOT r = f32[100] log-plus-one(p) }""")
    assert "log-plus-one-of-fraction" in llvm_text(module)


@pytest.mark.parametrize("dtype", KINDS, ids=str)
@pytest.mark.parametrize("opcode", math.FUNCTIONS)
def test_loops_become_vector_code_without_calls(loops, opcode, dtype):
    text = loops.text(opcode, dtype)
    calls = {name for name in re.findall(r"call [^@]*@([\w.]+)", text) if not name.startswith("llvm.")}
    if (opcode, dtype) == ("remainder", np.float64):
        assert "frem" in text
        return
    assert not calls
    widths = [int(w) for w in re.findall(r"<(\d+) x (?:float|double)>", text)]
    assert widths and max(widths) >= (4 if dtype == np.float32 else 2)


def test_a_function_is_defined_once_a_module():
    module = TargetModule(process_target())
    for name in ("f", "g"):
        function = ir.Function(module, ir.FunctionType(ir.FloatType(), [ir.FloatType()]), name)
        b = ir.IRBuilder(function.append_basic_block())
        x = math.call(b, "tanh", function.args[0])
        b.ret(math.call(b, "tanh", x))
    text = str(module)
    assert text.count("define internal float") == 1
    assert text.count('call float @"xloom.tanh.f32"') == 4


def test_nan_of_a_remainder_has_one_sign():
    """In total order NaNs of other signs are at other ends."""
    x, y = (np.array(a * 4, np.float32) for a in ([0.0, -0.0, np.inf, -np.inf, 1, -1], [0.0, 0, 1, 1, 0, 0]))
    module = xl.parse("ENTRY e { x = f32[24] parameter(0) y = f32[24] parameter(1) ROOT r = f32[24] remainder(x, y) }")
    result = np.asarray(xl.compile(module)(x, y))
    assert np.isnan(result).all() and len({bool(s) for s in np.signbit(result)}) == 1


@pytest.mark.parametrize("opcode", ["sine", "cosine", "tan"])
def test_a_nan_keeps_its_sign(opcode):
    """It decides where a sort puts it."""
    module = xl.parse(f"ENTRY e {{ x = f64[20] parameter(0) ROOT y = f64[20] {opcode}(x) }}")
    x = np.where(np.arange(20) % 3 == 0, -np.nan, np.nan)
    np.testing.assert_array_equal(np.signbit(xl.compile(module)(x)), np.signbit(x))


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("opcode", ["cosine", "sine", "tan"])
def test_one_angle_gives_what_a_vector_of_them_does(opcode, dtype):
    """Of one the small have code of their own, and their multiples of a quarter turn are where it could differ."""
    name = KINDS[np.dtype(dtype)][0]
    most = 2.0**22
    quarters = np.round(np.geomspace(1, most, 20)) * np.pi / 2
    edges = [0.0, -0.0, 5e-324, 1e-40, 1e-9, 0.7, most, np.nextafter(dtype(most), dtype(0)), 1e30, np.inf, np.nan]
    x = np.concatenate([quarters, -quarters, edges]).astype(dtype)
    one, many = (
        xl.compile(xl.parse(f"ENTRY e {{ x = {name}[{n}] parameter(0) ROOT y = {name}[{n}] {opcode}(x) }}"))
        for n in ("", len(x))
    )
    got = np.array([np.asarray(one(value))[()] for value in x], dtype)
    np.testing.assert_array_equal(got.view(f"u{got.itemsize}"), np.asarray(many(x)).view(f"u{got.itemsize}"))


@pytest.mark.parametrize("dtype", KINDS)
@pytest.mark.parametrize("exponent", [-1.0, -0.5, 0.25, 0.5, 1.0, 1.5, 2.0, 3.0])
def test_powers_of_known_exponents(dtype, exponent):
    name = KINDS[np.dtype(dtype)][0]
    module = xl.parse(f"""HloModule m
    ENTRY e {{
      x = {name}[{(x := arguments(dtype)).size}] parameter(0)
      c = {name}[] constant({exponent})
      cs = {name}[{x.size}] broadcast(c), dimensions={{}}
      ROOT p = {name}[{x.size}] power(x, cs)
    }}""")
    wide = np.float64 if dtype == np.float32 else np.longdouble
    got = np.asarray(xl.compile(module)(x))
    check(f"power to {exponent}", [x], got, np.power(x.astype(wide), np.full(x.shape, exponent, wide)), 1.5)
