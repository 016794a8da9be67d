"""Calls of LLVM's intrinsics."""

from __future__ import annotations

from collections.abc import Sequence

from llvmlite import ir


def intrinsic(b: ir.IRBuilder, name: str, *args: ir.Value) -> ir.Value:
    """`llvm.<name>` of the first argument's type, which the result has too: `intrinsic(b, "fabs", x)`."""
    kind = args[0].type
    return overloaded(b, name, [kind], kind, args)


def overloaded(
    b: ir.IRBuilder, name: str, overload: Sequence[ir.Type], result: ir.Type, args: Sequence[ir.Value]
) -> ir.Value:
    """A call of `llvm.<name>`, overloaded by the types given."""
    return b.call(declared(b.module, name, overload, result, [x.type for x in args]), args)


def declared(
    module: ir.Module, name: str, overload: Sequence[ir.Type], result: ir.Type, args: Sequence[ir.Type]
) -> ir.Function:
    """`llvm.<name>`, for those that call it often."""
    full = ".".join(["llvm", name, *map(_suffix, overload)])
    return module.globals.get(full) or ir.Function(module, ir.FunctionType(result, args), full)


def _suffix(kind: ir.Type) -> str:
    if isinstance(kind, ir.VectorType):
        return f"v{kind.count}{_suffix(kind.element)}"
    if isinstance(kind, ir.PointerType):
        return "p0"
    if isinstance(kind, ir.IntType):
        return f"i{kind.width}"
    return {"float": "f32", "double": "f64", "half": "f16"}[str(kind)]
