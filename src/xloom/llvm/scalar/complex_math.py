"""Complex arithmetic in LLVM IR: the operators of HLO on c64 and c128.

| add, subtract, multiply, exponential, order | in the operands' type           |
| all else                                    | in f64, rounded once at the end |

Infinities, NaN, signed zeros and branch cuts follow C99's annex G, except that a product is made of four real ones.
Formulas have no branches, so that loops over them vectorise.
"""

from __future__ import annotations

import math
from collections.abc import Callable

from llvmlite import ir

from xloom.llvm.math.scalar import F32, F64, Scalar, fma, select
from xloom.llvm.scalar import complex_exponential, complex_inverse, complex_logarithm
from xloom.llvm.scalar.complex_pair import Pair, Scale, choose, infinite, is_nan
from xloom.llvm.scalar.complex_root import hypotenuse, length, length_f32, reciprocal_square_root, square_root
from xloom.llvm.types import Complex

Builder = ir.IRBuilder
Formula = Callable[..., Pair]
Function = Callable[..., Complex]


def _pair(b: Builder, z: Complex) -> Pair:
    return Pair(Scalar(b, z.real), Scalar(b, z.imag))


def _inline(formula: Formula) -> Function:
    """An operator that emits a short formula in the operands' own type."""

    def operator(b: Builder, *operands: Complex) -> Complex:
        real, imag = formula(*(_pair(b, z) for z in operands))
        return Complex(real.value, imag.value)

    return operator


def _in_f64(formula: Formula) -> Formula:
    """The formula computed in f64 and rounded to its operands' type."""

    def wide(*operands: Pair) -> Pair:
        real, imag = formula(*(Pair(z.real.to(F64), z.imag.to(F64)) for z in operands))
        own = operands[0].real.format
        return Pair(real.to(own), imag.to(own))

    return wide


def _function(name: str, formula: Formula, for_c64: Formula | None = None) -> Function:
    """An operator that calls a formula as a function of its own, one per module and type; of c64 in f64 unless told."""
    formulas = {F32: for_c64 or _in_f64(formula), F64: formula}

    def operator(b: Builder, *operands: Complex) -> Complex:
        form = Scalar(b, operands[0].real).format
        symbol = f"xloom.complex.{name}.{form.type}"
        function = b.module.globals.get(symbol)
        if function is None:
            kinds = [form.type] * (2 * len(operands))
            signature = ir.FunctionType(ir.LiteralStructType([form.type, form.type]), kinds)
            function = ir.Function(b.module, signature, symbol)
            _define(function, formulas[form])
        result = b.call(function, [part for z in operands for part in z])
        return Complex(b.extract_value(result, 0), b.extract_value(result, 1))

    return operator


def _define(function: ir.Function, formula: Formula) -> None:
    function.linkage = "internal"
    for attribute in ("alwaysinline", "nounwind", "readnone"):
        function.attributes.add(attribute)
    b = ir.IRBuilder(function.append_basic_block("entry"))
    parts = [Scalar(b, a) for a in function.args]
    result = ir.Constant(function.function_type.return_type, ir.Undefined)
    for i, part in enumerate(formula(*map(Pair, parts[::2], parts[1::2]))):
        result = b.insert_value(result, part.value, i)
    b.ret(result)


# -- arithmetic ----------------------------------------------------------------------------------------------------


def _multiply(x: Pair, y: Pair) -> Pair:
    """The product by its four real ones."""
    return Pair(x.real * y.real - x.imag * y.imag, x.real * y.imag + x.imag * y.real)


def _divide(x: Pair, y: Pair) -> Pair:
    """The quotient of operands scaled so that neither products nor squares overflow."""
    above, below = Scale.of(x), Scale.of(y)
    quotient = _quotient(x.times(above.power(1)), y.times(below.power(1)))
    # in two steps of half the exponent, of which neither overflows or underflows early
    back = above.power(-0.5) * below.power(0.5)
    return _with_limits(x, y, quotient.times(back).times(back))


def _divide_c64(x: Pair, y: Pair) -> Pair:
    """The quotient; f64 holds the squares of f32."""
    return _with_limits(x, y, _in_f64(_quotient)(x, y))


def _quotient(x: Pair, y: Pair) -> Pair:
    """x conj(y) / |y|**2."""
    (a, b), (c, d) = x, y
    square = c * c + d * d
    return Pair(_sum_of_products(a, c, b, d) / square, _sum_of_products(b, c, -a, d) / square)


def _sum_of_products(a: Scalar, b: Scalar, c: Scalar, d: Scalar) -> Scalar:
    """ab + cd, exact to the last place also where they cancel."""
    product = c * d
    total, error = fma(a, b, product), fma(-c, d, product)
    # a difference, because an error of +0 must leave a sum of -0; an infinite product has no error
    return total - select(is_nan(error), 0.0, error)


def _with_limits(x: Pair, y: Pair, quotient: Pair) -> Pair:
    """The quotient; where both parts are NaN, what an infinity or a zero among the operands makes of it."""
    endless = y.real.constant(math.inf)
    lost = is_nan(quotient.real) & is_nan(quotient.imag)
    over_infinite = _conjugate_product(x, _direction(y)).times(endless.constant(0.0))
    infinite_over = _conjugate_product(_direction(x), y).times(endless)
    over_zero = x.times(endless.copysign(y.real))
    known = ~(is_nan(x.real) & is_nan(x.imag))
    quotient = choose(lost & y.is_infinite() & x.is_finite(), over_infinite, quotient)
    quotient = choose(lost & x.is_infinite() & y.is_finite(), infinite_over, quotient)
    return choose(lost & y.is_zero() & known, over_zero, quotient)


def _conjugate_product(x: Pair, y: Pair) -> Pair:
    """x conj(y)."""
    return Pair(x.real * y.real + x.imag * y.imag, x.imag * y.real - x.real * y.imag)


def _direction(z: Pair) -> Pair:
    """Of an infinite number: 1 for its infinite parts, 0 for the others, with their signs."""
    real, imag = (select(infinite(p), p.constant(1.0), 0.0).copysign(p) for p in z)
    return Pair(real, imag)


def _atan2(y: Pair, x: Pair) -> Pair:
    """-i log((x + i y) / sqrt(x**2 + y**2))."""
    squares = [Pair(_sum_of_products(z.real, z.real, -z.imag, z.imag), (z.real + z.real) * z.imag) for z in (x, y)]
    root = square_root(Pair(squares[0].real + squares[1].real, squares[0].imag + squares[1].imag))
    log = complex_logarithm.logarithm(_divide(Pair(x.real - y.imag, x.imag + y.real), root))
    return Pair(log.imag, -log.real)


# -- size ----------------------------------------------------------------------------------------------------------


def modulus(b: Builder, z: Complex) -> ir.Value:
    """|z|, a real number; infinite where either part is."""
    return _MODULUS(b, z).real


def _modulus(z: Pair) -> Pair:
    return Pair(hypotenuse(z), z.real.constant(0.0))


def _modulus_c64(z: Pair) -> Pair:
    return Pair(length_f32(z), z.real.constant(0.0))


def _sign(z: Pair) -> Pair:
    """z / |z|; 0 for 0."""
    scaled = z.times(Scale.of(z).power(1))
    size = length(scaled)
    none = size.constant(0.0)
    return choose(z.is_zero(), Pair(none, none), Pair(scaled.real / size, scaled.imag / size))


_MODULUS = _function("modulus", _modulus, _modulus_c64)
sign = _function("sign", _sign)


# -- order ---------------------------------------------------------------------------------------------------------


def compare(b: Builder, direction: str, x: Complex, y: Complex) -> ir.Value:
    """i1; LT, LE, GT and GE order by the real part, then by the imaginary part."""
    return _compare(direction, _pair(b, x), _pair(b, y)).value


def _compare(direction: str, x: Pair, y: Pair) -> Scalar:
    equal = x.real.equals(y.real) & x.imag.equals(y.imag)
    if direction == "EQ":
        return equal
    if direction == "NE":
        return ~equal
    if direction in ("GT", "GE"):
        x, y = y, x
    strict = (x.real < y.real) | (x.real.equals(y.real) & (x.imag < y.imag))
    return strict if direction in ("LT", "GT") else strict | equal


def _extremum(direction: str) -> Function:
    """The second of two where the first is in that direction of it, else the first."""
    return _inline(lambda x, y: choose(_compare(direction, x, y), y, x))


# -- tables --------------------------------------------------------------------------------------------------------

UNARY: dict[str, Function] = {
    opcode: _function(opcode, formula, formula if opcode == "exponential" else None)
    for opcode, formula in {
        "acos": complex_inverse.acos,
        "acosh": complex_inverse.acosh,
        "asin": complex_inverse.asin,
        "asinh": complex_inverse.asinh,
        "atanh": complex_inverse.atanh,
        "cbrt": complex_logarithm.cube_root,
        "cosine": complex_exponential.cosine,
        "cosh": complex_exponential.cosh,
        "exponential": complex_exponential.exponential,
        "exponential-minus-one": complex_exponential.exponential_minus_one,
        "log": complex_logarithm.logarithm,
        "log-plus-one": complex_logarithm.logarithm_plus_one,
        "logistic": complex_exponential.logistic,
        "rsqrt": reciprocal_square_root,
        "sine": complex_exponential.sine,
        "sinh": complex_exponential.sinh,
        "sqrt": square_root,
        "tan": complex_exponential.tan,
        "tanh": complex_exponential.tanh,
    }.items()
}

BINARY: dict[str, Function] = {
    "add": _inline(lambda x, y: Pair(x.real + y.real, x.imag + y.imag)),
    "atan2": _function("atan2", _atan2),
    "divide": _function("divide", _divide, _divide_c64),
    "maximum": _extremum("LT"),
    "minimum": _extremum("GT"),
    "multiply": _inline(_multiply),
    "power": _function("power", complex_logarithm.power),
    "subtract": _inline(lambda x, y: Pair(x.real - y.real, x.imag - y.imag)),
}
