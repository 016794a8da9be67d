"""Associative operators on vectors of elements."""

from __future__ import annotations

from llvmlite import ir

from xloom.cpu.emit.extremum_keys import bits_of, key_of, least_key
from xloom.cpu.emit.neutral import neutral
from xloom.cpu.emit.types import I32, Value, memory_type, register_type
from xloom.cpu.kernels.windows.folder import Folder
from xloom.hlo.dtype import DType, Kind
from xloom.interpreter.reduce import plain_operator

LANES = 16
_TYPES = frozenset({"f32", "f64", "s8", "u8", "s16", "u16", "s32", "u32", "s64", "u64"})


class VectorOperator:
    """One operator, on a type that is computed as it lies in memory."""

    def __init__(self, opcode: str, dtype: DType):
        self.opcode, self.dtype = opcode, dtype
        self.type = ir.VectorType(register_type(dtype), LANES)

    @classmethod
    def of(cls, folder: Folder) -> VectorOperator | None:
        """That of a fold, if there is one."""
        opcode = plain_operator(folder.body)
        dtypes = {*folder.inputs, *folder.states, *(p.shape.dtype for p in folder.body.parameters)}
        if opcode is None or len(dtypes) != 1:
            return None
        (dtype,) = dtypes
        known = dtype.name in _TYPES and neutral(opcode, dtype) is not None
        return cls(opcode, dtype) if known else None

    @property
    def neutral(self) -> ir.Constant:
        """A vector that changes no other operand."""
        return ir.Constant(self.type, [neutral(self.opcode, self.dtype)] * LANES)

    def load(self, b: ir.IRBuilder, pointer: ir.Value, place: ir.Value) -> ir.Value:
        """Adjacent elements from `place` on."""
        return b.load(self._at(b, pointer, place), typ=self.type, align=self.dtype.bytes)

    def store(self, b: ir.IRBuilder, pointer: ir.Value, place: ir.Value, x: ir.Value) -> None:
        """Writes adjacent elements from `place` on."""
        b.store(x, self._at(b, pointer, place), align=self.dtype.bytes)

    def splat(self, b: ir.IRBuilder, value: Value) -> ir.Value:
        """A number in all lanes."""
        return self.lane(b, b.insert_element(ir.Constant(self.type, ir.Undefined), value, I32(0)), 0)

    def lane(self, b: ir.IRBuilder, x: ir.Value, lane: int) -> ir.Value:
        """One lane in all."""
        return b.shuffle_vector(x, ir.Constant(self.type, ir.Undefined), mask([lane] * LANES))

    def number(self, b: ir.IRBuilder, x: ir.Value) -> Value:
        """That of the first lane."""
        return b.extract_element(x, I32(0))

    def _at(self, b: ir.IRBuilder, pointer: ir.Value, place: ir.Value) -> ir.Value:
        return b.gep(pointer, [place], inbounds=True, source_etype=memory_type(self.dtype))

    def apply(self, b: ir.IRBuilder, x: ir.Value, y: ir.Value) -> ir.Value:
        """The operator."""
        real = self.dtype.is_float
        if self.opcode in ("maximum", "minimum"):
            if real:
                return _extremum(b, self.opcode, x, y)
            compare = b.icmp_signed if self.dtype.kind is Kind.SIGNED else b.icmp_unsigned
            return b.select(compare(">" if self.opcode == "maximum" else "<", x, y), x, y)
        plain = {"and": b.and_, "or": b.or_, "xor": b.xor}
        plain |= {"add": b.fadd, "multiply": b.fmul} if real else {"add": b.add, "multiply": b.mul}
        return plain[self.opcode](x, y)


class _KeyMaximum(VectorOperator):
    """Maxima or minima of floats that are keys in registers."""

    def __init__(self, opcode: str, dtype: DType):
        super().__init__(opcode, dtype)
        self._floats, self._mantissa, self._negates = self.type, dtype.mantissa_bits, opcode == "minimum"
        self.type = ir.VectorType(ir.IntType(dtype.bits), LANES)

    @property
    def neutral(self) -> ir.Constant:
        """See the class above."""
        return ir.Constant(self.type, [least_key(self.dtype.bits)] * LANES)

    def load(self, b: ir.IRBuilder, pointer: ir.Value, place: ir.Value) -> ir.Value:
        """See the class above."""
        return key_of(b, super().load(b, pointer, place), self._mantissa, negates=self._negates)

    def store(self, b: ir.IRBuilder, pointer: ir.Value, place: ir.Value, x: ir.Value) -> None:
        """See the class above."""
        super().store(b, pointer, place, bits_of(b, x, self._mantissa, negates=self._negates))

    def splat(self, b: ir.IRBuilder, value: Value) -> ir.Value:
        """See the class above."""
        key = key_of(b, b.bitcast(value, self.type.element), self._mantissa, negates=self._negates)
        return super().splat(b, key)

    def number(self, b: ir.IRBuilder, x: ir.Value) -> Value:
        """See the class above."""
        bits = bits_of(b, super().number(b, x), self._mantissa, negates=self._negates)
        return b.bitcast(bits, self._floats.element)

    def apply(self, b: ir.IRBuilder, x: ir.Value, y: ir.Value) -> ir.Value:
        """See the class above."""
        return b.select(b.icmp_signed(">", x, y), x, y)


def extremum_of_keys(operator: VectorOperator) -> VectorOperator:
    """The same operator, quicker where a vector goes through it many times between memory and memory."""
    is_worth_it = operator.dtype.is_float and operator.opcode in ("maximum", "minimum")
    return _KeyMaximum(operator.opcode, operator.dtype) if is_worth_it else operator


def mask(lanes: list[int]) -> ir.Constant:
    """Which lanes a shuffle takes."""
    return ir.Constant(ir.VectorType(I32, len(lanes)), lanes)


def _extremum(b: ir.IRBuilder, name: str, x: ir.Value, y: ir.Value) -> ir.Value:
    full = f"llvm.{name}.v{LANES}f{64 if str(x.type.element) == 'double' else 32}"
    function = b.module.globals.get(full)
    if function is None:
        function = ir.Function(b.module, ir.FunctionType(x.type, [x.type, x.type]), full)
    return b.call(function, [x, y])
