"""What each instruction of a loop becomes for several iterations at once."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Any, NamedTuple

from llvmlite import ir
from llvmlite.ir import instructions as kinds

from xloom.llvm.intrinsics import declared
from xloom.llvm.masked_lanes import addresses_of, masked_gather
from xloom.llvm.types import DOUBLE, FLOAT, HALF
from xloom.llvm.vectorizer.not_plain import NotPlain
from xloom.llvm.vectors import uniform

_OPERATORS = frozenset(
    (
        "add", "sub", "mul", "and", "or", "xor", "shl", "lshr", "ashr", "fadd", "fsub", "fmul", "fdiv", "fneg",
        "sdiv", "udiv", "srem", "urem", "freeze",
    )
)  # fmt: skip
_DIVISIONS = frozenset(["sdiv", "udiv", "srem", "urem"])
_CASTS = frozenset(["trunc", "zext", "sext", "fptrunc", "fpext", "fptosi", "fptoui", "sitofp", "uitofp", "bitcast"])
_OTHERS = (kinds.SelectInstr, kinds.CompareInstr, kinds.ExtractValue, kinds.InsertValue)
_SCALAR_ARGUMENTS = {"abs": (1,), "ctlz": (1,), "cttz": (1,), "is.fpclass": (1,), "powi": (1,)}
_INTRINSICS = frozenset(
    (
        "abs", "bitreverse", "bswap", "ceil", "copysign", "ctlz", "ctpop", "cttz", "fabs", "floor", "fma", "fmuladd",
        "fptosi.sat", "fptoui.sat", "fshl", "fshr", "is.fpclass", "ldexp", "lrint", "maximum", "maxnum", "minimum",
        "minnum", "nearbyint", "rint", "round", "roundeven", "sadd.sat", "smax", "smin", "sqrt", "ssub.sat", "trunc",
        "uadd.sat", "umax", "umin", "usub.sat",
    )
)  # fmt: skip
"""Those that vectors have too."""
_TYPES = {"f16": HALF, "f32": FLOAT, "f64": DOUBLE}
_SUFFIX = re.compile(r"f16|f32|f64|i\d+")


def intrinsic_name(function: ir.Function) -> tuple[str, Sequence[str]]:
    """The name of an intrinsic without the types that it is overloaded by, and these; ("", ()) of other functions."""
    first, *parts = function.name.split(".")
    if first != "llvm":
        return "", ()
    kept = len(parts)
    while kept and _SUFFIX.fullmatch(parts[kept - 1]):
        kept -= 1
    return ".".join(parts[:kept]), parts[kept:]


def bytes_of(kind: ir.Type) -> int:
    """The bytes in memory of a scalar, or of an array of some."""
    if isinstance(kind, ir.ArrayType):
        return kind.count * bytes_of(kind.element)
    return (bits_of(kind) + 7) // 8


def bits_of(kind: ir.Type) -> int:
    """The bits of a scalar. Raises NotPlain for other types."""
    if isinstance(kind, ir.IntType):
        return kind.width
    bits = {"half": 16, "float": 32, "double": 64}.get(str(kind))
    if bits is None:
        raise NotPlain
    return bits


def _widest(kind: ir.Type) -> int:
    """The bits of a scalar, or of the widest part of several numbers."""
    return max(map(bits_of, kind.elements)) if isinstance(kind, ir.LiteralStructType) else bits_of(kind)


class Work(NamedTuple):
    """What an instruction is on vectors: how many instructions, and the bits of the widest elements in them."""

    cost: int
    bits: int


def work_of(i: Any) -> Work:
    """The work of an instruction on vectors. Raises NotPlain unless there is one."""
    if isinstance(i, kinds.GEPInstr):
        return Work(0, 8)
    bits = max(_widest(o.type) for o in (i, *arguments_of(i)) if not isinstance(o.type, ir.PointerType))
    if isinstance(i, kinds.CallInstr):
        return _work_of_call(i.callee, bits)
    if i.opname in _DIVISIONS:
        divisor = i.operands[1]
        if not isinstance(divisor, ir.Constant) or not divisor.constant:
            raise NotPlain
    return Work(1, bits)


def check_pure(i: Any) -> None:
    """Raises NotPlain unless an instruction does nothing but compute: it may be done once for all iterations."""
    if isinstance(i, kinds.CallInstr):
        function = i.callee
        if intrinsic_name(function)[0] in _INTRINSICS or "readnone" in function.attributes:
            return
        if not function.blocks:
            raise NotPlain
        for block in function.blocks:
            for inside in block.instructions[:-1]:
                check_pure(inside)
    elif not (i.opname in _OPERATORS or i.opname in _CASTS or isinstance(i, _OTHERS) or _is_of_table(i)):
        raise NotPlain


def _is_of_table(i: Any) -> bool:
    """True of the address of an element of a table of constants, and of that element."""
    if isinstance(i, kinds.LoadInstr):
        return _is_of_table(i.operands[0])
    if not isinstance(i, kinds.GEPInstr) or len(i.indices) != 1:
        return False
    return isinstance(i.pointer, ir.GlobalVariable) and i.pointer.global_constant


def _work_of_call(function: ir.Function, bits: int) -> Work:
    if function.name.startswith("llvm."):
        if intrinsic_name(function)[0] not in _INTRINSICS:
            raise NotPlain
        return Work(1, bits)
    if len(function.blocks) != 1:
        raise NotPlain
    body = function.blocks[0].instructions[:-1]
    for i in body:
        check_pure(i)
    inside = [work_of(i) for i in body]
    return Work(sum(w.cost for w in inside), max(bits, *(w.bits for w in inside)) if inside else bits)


class Widening:
    """Instructions for vectors of so many lanes."""

    def __init__(self, b: ir.IRBuilder, lanes: int):
        self.b = b
        self.lanes = lanes

    def vector(self, kind: ir.Type) -> ir.Type:
        """The vector of elements of a type, or several of several; with one lane, the type."""
        if isinstance(kind, ir.LiteralStructType):
            return ir.LiteralStructType([self.vector(part) for part in kind.elements])
        return kind if self.lanes == 1 else ir.VectorType(kind, self.lanes)

    def operate(self, i: ir.Instruction, operands: Sequence[ir.Value]) -> ir.Value:
        """An operator, cast, comparison, choice or call, of operands that are vectors."""
        b, block = self.b, self.b.block
        if isinstance(i, kinds.CallInstr):
            return self._call(i, operands)
        if isinstance(i, kinds.LoadInstr):
            return masked_gather(b, operands[0], None, uniform(self.vector(i.type), 0), i.align or bytes_of(i.type))
        if isinstance(i, kinds.CompareInstr):
            made: ir.Instruction = type(i)(block, i.op, *operands, flags=i.flags)
        elif isinstance(i, kinds.ExtractValue):
            made = kinds.ExtractValue(block, operands[0], i.indices)
        elif isinstance(i, kinds.InsertValue):
            made = kinds.InsertValue(block, operands[0], operands[1], i.indices)
        elif isinstance(i, kinds.SelectInstr):
            made = kinds.SelectInstr(block, *operands, flags=i.flags)
        elif i.opname in _CASTS:
            made = kinds.CastInstr(block, i.opname, operands[0], self.vector(i.type))
        else:
            made = kinds.Instruction(block, self.vector(i.type), i.opname, list(operands), flags=i.flags)
        b._insert(made)
        return made

    def _call(self, i: Any, operands: Sequence[ir.Value]) -> ir.Value:
        callee = i.callee
        name, suffixes = intrinsic_name(callee)
        if self.lanes == 1:
            function = callee
        elif name:
            for number in _SCALAR_ARGUMENTS.get(name, ()):
                operands = [*operands[:number], i.args[number], *operands[number + 1 :]]
            overload = [self.vector(_TYPES[s] if s in _TYPES else ir.IntType(int(s[1:]))) for s in suffixes]
            function = declared(self.b.module, name, overload, self.vector(i.type), [o.type for o in operands])
        else:
            function = self.function(callee)
        return self.b.call(function, operands, fastmath=list(i.fastmath))

    def function(self, scalar: ir.Function) -> ir.Function:
        """What a function of scalars does, for vectors."""
        module = self.b.module
        name = f"{scalar.name}.v{self.lanes}"
        known = module.globals.get(name)
        if known is not None:
            return known
        result = self.vector(scalar.function_type.return_type)
        out = ir.Function(module, ir.FunctionType(result, [self.vector(a.type) for a in scalar.args]), name)
        out.linkage = "internal"
        out.attributes.update(scalar.attributes)
        inside = Widening(ir.IRBuilder(out.append_basic_block("entry")), self.lanes)
        values: dict[int, ir.Value] = dict(zip(map(id, scalar.args), out.args, strict=True))
        *body, end = scalar.blocks[0].instructions
        for i in body:
            if isinstance(i, kinds.GEPInstr):
                values[id(i)] = addresses_of(inside.b, i.pointer, inside.read(values, i.indices[0]), i.source_etype)
                continue
            operands = [inside.read(values, o) for o in arguments_of(i)]
            values[id(i)] = inside.operate(i, operands)
        inside.b.ret(inside.read(values, end.operands[0]))
        return out

    def read(self, values: dict[int, ir.Value], operand: ir.Value) -> ir.Value:
        """An operand as a vector."""
        found = values.get(id(operand))
        if found is None and isinstance(operand.type, ir.LiteralStructType):
            return ir.Constant(self.vector(operand.type), operand.constant)
        return uniform(self.vector(operand.type), operand.constant) if found is None else found


def arguments_of(i: Any) -> Sequence[ir.Value]:
    """The operands of an instruction, of a call without the function."""
    if isinstance(i, kinds.PhiInstr):
        return [value for value, _ in i.incomings]
    return i.args if isinstance(i, kinds.CallInstr) else i.operands
