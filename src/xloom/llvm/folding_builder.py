"""LLVM IR that is short: a builder that computes with constants itself, and zeros of vectors."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any

from llvmlite import ir

from xloom.llvm.symbolic_dimension import COMPARISONS
from xloom.llvm.types import I1

_CHOICES = {"llvm.smin.": min, "llvm.smax.": max}


def _number(value: ir.Value) -> int | None:
    """The value of an integer constant, as a signed one."""
    if not isinstance(value, ir.Constant) or not isinstance(value.type, ir.IntType):
        return None
    return _signed(value.constant, value.type) if isinstance(value.constant, int) else None


def _signed(number: int, kind: ir.IntType) -> int:
    half = 1 << (kind.width - 1)
    return ((number + half) & (2 * half - 1)) - half


def _unsigned(number: int, kind: ir.IntType) -> int:
    return number & ((1 << kind.width) - 1)


class Zeros(ir.Constant):
    """All zeros, of any type, in one word: of a vector, llvmlite would write each."""

    def _get_reference(self) -> str:
        return "zeroinitializer"


class FoldingBuilder(ir.IRBuilder):
    """An IRBuilder that folds integer arithmetic on constants, of which LLVM need not be told."""

    is_alone = False
    """Whether no vector is to be made of what it emits: it is for one element."""

    def add(self, lhs: ir.Value, rhs: ir.Value, name: str = "", flags: Sequence[str] = ()) -> ir.Value:
        """lhs + rhs; a constant of two, and the other operand of 0."""
        x, y = _number(lhs), _number(rhs)
        if x is not None and y is not None:
            return _constant(x + y, lhs.type)
        return rhs if x == 0 else lhs if y == 0 else super().add(lhs, rhs, name, flags)

    def sub(self, lhs: ir.Value, rhs: ir.Value, name: str = "", flags: Sequence[str] = ()) -> ir.Value:
        """lhs - rhs; a constant of two, and lhs where rhs is 0."""
        x, y = _number(lhs), _number(rhs)
        if x is not None and y is not None:
            return _constant(x - y, lhs.type)
        return lhs if y == 0 else super().sub(lhs, rhs, name, flags)

    def mul(self, lhs: ir.Value, rhs: ir.Value, name: str = "", flags: Sequence[str] = ()) -> ir.Value:
        """lhs * rhs; a constant of two, and what 0 and 1 make of the other operand."""
        x, y = _number(lhs), _number(rhs)
        if x is not None and y is not None:
            return _constant(x * y, lhs.type)
        if x == 0 or y == 0:
            return _constant(0, lhs.type)
        return rhs if x == 1 else lhs if y == 1 else super().mul(lhs, rhs, name, flags)

    def udiv(self, lhs: ir.Value, rhs: ir.Value, name: str = "", flags: Sequence[str] = ()) -> ir.Value:
        """lhs / rhs, of unsigned integers."""
        return lhs if _number(rhs) == 1 else super().udiv(lhs, rhs, name, flags)

    def urem(self, lhs: ir.Value, rhs: ir.Value, name: str = "", flags: Sequence[str] = ()) -> ir.Value:
        """What is left of lhs / rhs, of unsigned integers."""
        return _constant(0, lhs.type) if _number(rhs) == 1 else super().urem(lhs, rhs, name, flags)

    def and_(self, lhs: ir.Value, rhs: ir.Value, name: str = "", flags: Sequence[str] = ()) -> ir.Value:
        """lhs & rhs, folded where an operand is all zeros or all ones."""
        for x, y in ((lhs, rhs), (rhs, lhs)):
            number = _number(x)
            if number in (0, -1):
                return y if number else x
        return super().and_(lhs, rhs, name, flags)

    def or_(self, lhs: ir.Value, rhs: ir.Value, name: str = "", flags: Sequence[str] = ()) -> ir.Value:
        """lhs | rhs, folded where an operand is all zeros or all ones."""
        for x, y in ((lhs, rhs), (rhs, lhs)):
            number = _number(x)
            if number in (0, -1):
                return x if number else y
        return super().or_(lhs, rhs, name, flags)

    def icmp_signed(self, cmpop: str, lhs: ir.Value, rhs: ir.Value, name: str = "") -> ir.Value:
        """A comparison of signed integers."""
        x, y = _number(lhs), _number(rhs)
        if x is not None and y is not None:
            return I1(int(COMPARISONS[cmpop](x, y)))
        return super().icmp_signed(cmpop, lhs, rhs, name)

    def icmp_unsigned(self, cmpop: str, lhs: ir.Value, rhs: ir.Value, name: str = "") -> ir.Value:
        """A comparison of unsigned integers."""
        x, y = _number(lhs), _number(rhs)
        if x is not None and y is not None:
            return I1(int(COMPARISONS[cmpop](_unsigned(x, lhs.type), _unsigned(y, lhs.type))))
        return super().icmp_unsigned(cmpop, lhs, rhs, name)

    def select(self, cond: ir.Value, lhs: ir.Value, rhs: ir.Value, name: str = "", flags: Sequence[str] = ()) -> Any:
        """`lhs` where `cond` is true, else `rhs`."""
        if lhs is rhs:
            return lhs
        known = _number(cond)
        return super().select(cond, lhs, rhs, name, flags) if known is None else lhs if known else rhs

    def call(self, fn: Any, args: Sequence[ir.Value], *rest: Any, **more: Any) -> ir.Value:
        """A call; of two constants, the lesser or the greater is one."""
        choose = _CHOICES.get(fn.name[:10]) if isinstance(fn, ir.Function) else None
        if choose is not None and (x := _number(args[0])) is not None and (y := _number(args[1])) is not None:
            return _constant(choose(x, y), args[0].type)
        return super().call(fn, args, *rest, **more)

    def gep(
        self,
        ptr: ir.Value,
        indices: Sequence[ir.Value],
        inbounds: bool = False,
        name: str = "",
        source_etype: ir.Type | None = None,
    ) -> ir.Value:
        """The address of a part of what is at an address."""
        if all(_number(index) == 0 for index in indices):
            return ptr
        return super().gep(ptr, indices, inbounds, name, source_etype)

    @contextmanager
    def if_then(self, pred: ir.Value, likely: bool | None = None) -> Iterator[Any]:
        """What is emitted in the `with` is done where `pred` is true."""
        if _number(pred):
            yield None
            return
        with super().if_then(pred, likely) as after:
            yield after


def _constant(number: int, kind: ir.IntType) -> ir.Constant:
    return ir.Constant(kind, _signed(number, kind))
