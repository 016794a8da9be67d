"""Math functions in LLVM IR: scalar code without branches, which LLVM's loop vectoriser turns into vectors.

Each function takes a builder and f32 or f64 values, is right for every argument (NaN, infinities, signed zeros and
subnormal numbers included), and needs no library. The exception is the remainder of f64, a call of C's fmod.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

from llvmlite import ir

from xloom.llvm.folding_builder import FoldingBuilder
from xloom.llvm.math import narrow
from xloom.llvm.math.angle import SMALL
from xloom.llvm.math.error_function import erf
from xloom.llvm.math.exponential import exp, expm1, logistic
from xloom.llvm.math.hyperbolic import acosh, asinh, atanh, cosh, sinh, tanh
from xloom.llvm.math.inverse_trigonometric import acos, asin, atan, atan2
from xloom.llvm.math.logarithm import log, log1p, log1p_of_fraction
from xloom.llvm.math.power import cbrt, pow, pow_of_known_exponent, rsqrt, sqrt
from xloom.llvm.math.remainder import fmod
from xloom.llvm.math.scalar import Scalar
from xloom.llvm.math.trigonometric import SMALL_ANGLES, cos, sin, tan

FUNCTIONS: dict[str, Callable[..., ir.Value]] = {
    "acos": acos,
    "acosh": acosh,
    "asin": asin,
    "asinh": asinh,
    "atan": atan,
    "atan2": atan2,
    "atanh": atanh,
    "cbrt": cbrt,
    "cosh": cosh,
    "cosine": cos,
    "erf": erf,
    "exponential": exp,
    "exponential-minus-one": expm1,
    "log": log,
    "log-plus-one": log1p,
    "log-plus-one-of-fraction": log1p_of_fraction,
    "logistic": logistic,
    "power": pow,
    "remainder": fmod,
    "rsqrt": rsqrt,
    "sine": sin,
    "sinh": sinh,
    "sqrt": sqrt,
    "tan": tan,
    "tanh": tanh,
}
"""`function(builder, *values)` by HLO opcode (`atan` and `log-plus-one-of-fraction` are for others)."""
NARROW = {"exponential": narrow.exp, "logistic": narrow.logistic, "tanh": narrow.tanh}
"""Those that take less for results of 16 bits and fewer."""


def call(b: ir.IRBuilder, opcode: str, *args: Any, is_narrow: bool = False) -> ir.Value:
    """Calls the function of an opcode, which is defined once a module and inlined.

    With `is_narrow`, the result is going to be rounded to 16 bits or fewer. What `b` says is alone may have branches.
    """
    kind = args[0].type
    is_narrow = is_narrow and opcode in NARROW
    form = "narrow" if is_narrow else _format(kind)
    if isinstance(b, FoldingBuilder) and b.is_alone and opcode in SMALL_ANGLES:
        return b.call(_function(b.module, f"xloom.{opcode}.{form}.alone", kind, 1, partial(_alone, opcode)), args)
    if opcode == "power" and isinstance(args[1], ir.Constant):
        write = pow_of_known_exponent(args[1].constant)
        if write is not None:
            return b.call(_function(b.module, f"xloom.power.{form}.{args[1].constant}", kind, 1, write), args[:1])
    write = (NARROW if is_narrow else FUNCTIONS)[opcode]
    return b.call(_function(b.module, f"xloom.{opcode}.{form}", kind, len(args), write), args)


def _format(kind: ir.Type) -> str:
    return "f32" if isinstance(kind, ir.FloatType) else "f64"


def _function(
    module: ir.Module,
    name: str,
    kind: ir.Type,
    arity: int,
    write: Callable[..., ir.Value],
    inlining: str = "alwaysinline",
) -> ir.Function:
    function = module.globals.get(name)
    if function is None:
        function = ir.Function(module, ir.FunctionType(kind, [kind] * arity), name)
        function.linkage = "internal"
        for attribute in (inlining, "nounwind", "readnone"):
            function.attributes.add(attribute)
        inside = ir.IRBuilder(function.append_basic_block("entry"))
        inside.ret(write(inside, *function.args))
    return function


def _alone(opcode: str, b: ir.IRBuilder, x: ir.Value) -> ir.Value:
    """The function of an angle that is no lane of a vector: only large ones need what takes longest.

    What small ones need is computed of all, so that LLVM shares it between a sine and a cosine.
    """
    small = SMALL_ANGLES[opcode](b, x)
    with b.if_then((~(Scalar(b, x).abs() < SMALL)).value, likely=False):
        name = f"xloom.{opcode}.{_format(x.type)}.large"
        b.ret(b.call(_function(b.module, name, x.type, 1, FUNCTIONS[opcode], "noinline"), [x]))
    return small
