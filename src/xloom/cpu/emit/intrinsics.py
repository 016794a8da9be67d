"""Calls of LLVM's intrinsics."""

from __future__ import annotations

from llvmlite import ir

_BY_LAST_TYPE_TOO = ("ldexp",)
"""Overloaded by the type of the last argument too."""


def intrinsic(b: ir.IRBuilder, name: str, *args: ir.Value) -> ir.Value:
    """`llvm.<name>` of the first argument's type: `intrinsic(b, "fabs", x)`."""
    kind = args[0].type
    full = f"llvm.{name}.{_suffix(kind)}"
    if name in _BY_LAST_TYPE_TOO:
        full += f".{_suffix(args[-1].type)}"
    function = b.module.globals.get(full)
    if function is None:
        function = ir.Function(b.module, ir.FunctionType(kind, [a.type for a in args]), full)
    return b.call(function, args)


def _suffix(kind: ir.Type) -> str:
    if isinstance(kind, ir.IntType):
        return f"i{kind.width}"
    return {"float": "f32", "double": "f64", "half": "f16"}[str(kind)]
