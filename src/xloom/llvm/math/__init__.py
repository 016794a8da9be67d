"""Math functions in LLVM IR: scalar code without branches, which LLVM's loop vectoriser turns into vectors.

Each function takes a builder and f32 or f64 values, is right for every argument (NaN, infinities, signed zeros and
subnormal numbers included), and needs no library. The exception is the remainder of f64, a call of C's fmod.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from llvmlite import ir

from xloom.llvm.math import narrow
from xloom.llvm.math.error_function import erf
from xloom.llvm.math.exponential import exp, expm1, logistic
from xloom.llvm.math.hyperbolic import acosh, asinh, atanh, cosh, sinh, tanh
from xloom.llvm.math.inverse_trigonometric import acos, asin, atan, atan2
from xloom.llvm.math.logarithm import log, log1p, log1p_of_fraction
from xloom.llvm.math.power import cbrt, pow, rsqrt, sqrt
from xloom.llvm.math.remainder import fmod
from xloom.llvm.math.trigonometric import cos, sin, tan

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

    With `is_narrow`, the result is going to be rounded to 16 bits or fewer.
    """
    kind = args[0].type
    is_narrow = is_narrow and opcode in NARROW
    name = f"xloom.{opcode}.{'narrow' if is_narrow else 'f32' if isinstance(kind, ir.FloatType) else 'f64'}"
    function = b.module.globals.get(name)
    if function is None:
        function = ir.Function(b.module, ir.FunctionType(kind, [kind] * len(args)), name)
        function.linkage = "internal"
        for attribute in ("alwaysinline", "nounwind", "readnone"):
            function.attributes.add(attribute)
        inside = ir.IRBuilder(function.append_basic_block("entry"))
        inside.ret((NARROW if is_narrow else FUNCTIONS)[opcode](inside, *function.args))
    return b.call(function, args)
