"""Running folds with an associative operator, a vector of elements at a time."""

from __future__ import annotations

import math

import numpy as np
from llvmlite import ir

from xloom.cpu.emit.loop import allocate, loop
from xloom.cpu.emit.nest import plus, times
from xloom.cpu.emit.types import I32, I64, load, memory_type, register_type, store
from xloom.cpu.kernels.windows.folder import Folder
from xloom.hlo.dtype import DType, Kind
from xloom.interpreter.reduce import plain_operator

_LANES = 16
_TYPES = frozenset({"f32", "f64", "s8", "u8", "s16", "u16", "s32", "u32", "s64", "u64"})


class VectorScan:
    """One operator, on a type that is computed as it lies in memory."""

    def __init__(self, opcode: str, dtype: DType):
        self.opcode, self.dtype = opcode, dtype
        self.type = ir.VectorType(register_type(dtype), _LANES)

    @classmethod
    def of(cls, folder: Folder) -> VectorScan | None:
        """That of a fold, if there is one."""
        opcode = plain_operator(folder.body)
        dtypes = {*folder.inputs, *folder.states, *(p.shape.dtype for p in folder.body.parameters)}
        if opcode is None or len(dtypes) != 1:
            return None
        (dtype,) = dtypes
        known = dtype.name in _TYPES and _neutral(opcode, dtype) is not None
        return cls(opcode, dtype) if known else None

    def scan(
        self, b: ir.IRBuilder, pointers: list[ir.Value], start: ir.Value, size: int, forward: bool
    ) -> None:
        """Folds `size` elements from `start` on, from either end; pointers are operand, initial value and output."""
        source, initial, target = pointers
        carry = allocate(b, self.type)
        b.store(self._splat(b, load(b, initial, self.dtype, I64(0))), carry)
        vectors = size // _LANES
        with loop(b, 0, vectors, name="vector") as n:
            offset = times(b, n, _LANES) if forward else b.sub(I64(size - _LANES), times(b, n, _LANES))
            place = plus(b, start, offset)
            x = b.load(self._at(b, source, place), typ=self.type, align=self.dtype.bytes)
            before = b.load(carry, typ=self.type)
            x = self._within(b, x, forward)
            b.store(self._apply(b, before, x), self._at(b, target, place), align=self.dtype.bytes)
            # only this one operation waits for the vector before
            b.store(self._apply(b, before, self._lane(b, x, _LANES - 1 if forward else 0)), carry)
        with loop(b, vectors * _LANES, size) as n:
            place = plus(b, start, n if forward else b.sub(I64(size - 1), n))
            x = self._splat(b, load(b, source, self.dtype, place))
            state = self._apply(b, b.load(carry, typ=self.type), x)
            b.store(state, carry)
            store(b, target, self.dtype, place, b.extract_element(state, I32(0)))

    def _within(self, b: ir.IRBuilder, x: ir.Value, forward: bool) -> ir.Value:
        """The running fold of one vector."""
        neutral = ir.Constant(self.type, [_neutral(self.opcode, self.dtype)] * _LANES)
        step = 1
        while step < _LANES:
            lanes = [i - step if forward else i + step for i in range(_LANES)]
            mask = [i if 0 <= i < _LANES else _LANES for i in lanes]
            x = self._apply(b, b.shuffle_vector(x, neutral, _mask(mask)), x)
            step *= 2
        return x

    def _splat(self, b: ir.IRBuilder, value: ir.Value) -> ir.Value:
        undefined = ir.Constant(self.type, ir.Undefined)
        return self._lane(b, b.insert_element(undefined, value, I32(0)), 0)

    def _lane(self, b: ir.IRBuilder, x: ir.Value, lane: int) -> ir.Value:
        """One lane in all."""
        return b.shuffle_vector(x, ir.Constant(self.type, ir.Undefined), _mask([lane] * _LANES))

    def _at(self, b: ir.IRBuilder, pointer: ir.Value, place: ir.Value) -> ir.Value:
        return b.gep(pointer, [place], inbounds=True, source_etype=memory_type(self.dtype))

    def _apply(self, b: ir.IRBuilder, x: ir.Value, y: ir.Value) -> ir.Value:
        real = self.dtype.is_float
        if self.opcode in ("maximum", "minimum"):
            if real:
                return _extremum(b, self.opcode, x, y)
            compare = b.icmp_signed if self.dtype.kind is Kind.SIGNED else b.icmp_unsigned
            return b.select(compare(">" if self.opcode == "maximum" else "<", x, y), x, y)
        plain = {"and": b.and_, "or": b.or_, "xor": b.xor}
        plain |= {"add": b.fadd, "multiply": b.fmul} if real else {"add": b.add, "multiply": b.mul}
        return plain[self.opcode](x, y)


def _mask(lanes: list[int]) -> ir.Constant:
    return ir.Constant(ir.VectorType(I32, len(lanes)), lanes)


def _extremum(b: ir.IRBuilder, name: str, x: ir.Value, y: ir.Value) -> ir.Value:
    full = f"llvm.{name}.v{_LANES}f{64 if str(x.type.element) == 'double' else 32}"
    function = b.module.globals.get(full)
    if function is None:
        function = ir.Function(b.module, ir.FunctionType(x.type, [x.type, x.type]), full)
    return b.call(function, [x, y])


def _neutral(opcode: str, dtype: DType) -> float | int | None:
    """What changes no other operand; None for other operators."""
    if dtype.is_float:
        return {"add": -0.0, "multiply": 1.0, "maximum": -math.inf, "minimum": math.inf}.get(opcode)
    info = np.iinfo(dtype.numpy)
    numbers = {"add": 0, "multiply": 1, "maximum": info.min, "minimum": info.max, "and": -1, "or": 0, "xor": 0}
    return numbers.get(opcode)
