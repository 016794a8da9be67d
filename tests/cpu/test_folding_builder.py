"""The builder that computes with constants."""

import itertools

import pytest
from llvmlite import ir

from xloom.llvm.folding_builder import FoldingBuilder, Zeros
from xloom.llvm.intrinsics import intrinsic
from xloom.llvm.types import I1, I32, I64


@pytest.fixture
def b():
    function = ir.Function(ir.Module(), ir.FunctionType(I64, [I64, I1, ir.PointerType()]), "f")
    return FoldingBuilder(function.append_basic_block("entry"))


def test_constants_are_computed(b):
    for x, y in itertools.product((0, 1, -1, 7, -5), repeat=2):
        assert b.add(I64(x), I64(y)).constant == x + y
        assert b.sub(I64(x), I64(y)).constant == x - y
        assert b.mul(I64(x), I64(y)).constant == x * y
        assert b.icmp_signed("<", I64(x), I64(y)).constant == (x < y)
        assert b.icmp_unsigned("<", I64(x), I64(y)).constant == (x % (1 << 64) < y % (1 << 64))
        assert intrinsic(b, "smin", I64(x), I64(y)).constant == min(x, y)
        assert intrinsic(b, "smax", I64(x), I64(y)).constant == max(x, y)
    assert b.add(I32(2**31 - 1), I32(1)).constant == -(2**31)
    assert not b.block.instructions


def test_what_changes_nothing_is_not_emitted(b):
    x, p, pointer = b.function.args
    for value in (
        b.add(x, I64(0)),
        b.add(I64(0), x),
        b.sub(x, I64(0)),
        b.mul(x, I64(1)),
        b.mul(I64(1), x),
        b.udiv(x, I64(1)),
        b.and_(x, I64(-1)),
        b.or_(I64(0), x),
        b.select(I1(1), x, I64(3)),
        b.select(I1(0), I64(3), x),
        b.select(p, x, x),
    ):
        assert value is x
    assert b.and_(p, I1(1)) is p
    assert b.or_(I1(0), p) is p
    assert b.or_(p, I1(1)).constant
    assert b.and_(I1(0), p).constant == 0
    assert b.mul(x, I64(0)).constant == b.urem(x, I64(1)).constant == 0
    assert b.gep(pointer, [I64(0)], inbounds=True, source_etype=I64) is pointer
    with b.if_then(I1(1)):
        pass
    assert not b.block.instructions


def test_the_rest_is_emitted(b):
    x, p, pointer = b.function.args
    b.add(x, I64(1))
    b.sub(I64(0), x)
    b.udiv(x, I64(2))
    b.select(p, x, I64(1))
    b.gep(pointer, [I64(1)], inbounds=True, source_etype=I64)
    with b.if_then(p):
        pass
    text = str(b.function)
    for opcode in ("add", "sub", "udiv", "select", "getelementptr", "br i1"):
        assert opcode in text


def test_zeros_are_one_word():
    assert Zeros(ir.VectorType(I32, 16), None).get_reference() == "zeroinitializer"
