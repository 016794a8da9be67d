"""Functions that make keys of elements and elements of keys."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import lru_cache
from typing import Any

from llvmlite import ir

from xloom.cpu.kernels.sort.element_keys import ElementKey
from xloom.cpu.kernels.sort.equal_elements import add_restore
from xloom.cpu.kernels.sort.key_order import elements_of, ordered, representative
from xloom.cpu.kernels.sort.lanes import lanes, vector
from xloom.cpu.kernels.sort.signatures import BACK, CONVERT
from xloom.llvm.folding_builder import Zeros
from xloom.llvm.masked_lanes import any_lane, leading_lanes, masked_load, masked_store
from xloom.llvm.module_text import module_text
from xloom.llvm.phi_loop import PhiLoop
from xloom.llvm.routine import exported_function
from xloom.llvm.types import I64

_Write = Callable[[ir.Value], Any]


@lru_cache(maxsize=16)
def conversion_module(key: ElementKey) -> str:
    """A module that has `convert` and `back`, and `restore` where that can be needed."""
    module = ir.Module()
    _add_convert(module, key)
    _add_back(module, key)
    if key.equal_zeros:
        add_restore(module, key)
    return module_text(module)


def _add_convert(module: ir.Module, key: ElementKey) -> None:
    out = exported_function(module, CONVERT, key.convert_symbol)
    b = ir.IRBuilder(out.append_basic_block("entry"))

    def convert(x: ir.Value, write: _Write, changed: ir.Value) -> Sequence[ir.Value]:
        same = representative(b, key, x)
        write(ordered(b, key, same))
        return [b.or_(changed, b.xor(x, same))]

    zeros = Zeros(vector(key.dtype.bits), None)
    (changed,) = _each_vector(b, key.dtype.bits, out, convert, zeros)
    b.ret(any_lane(b, b.icmp_unsigned("!=", changed, zeros)))


def _add_back(module: ir.Module, key: ElementKey) -> None:
    out = exported_function(module, BACK, key.back_symbol)
    b = ir.IRBuilder(out.append_basic_block("entry"))

    def back(keys: ir.Value, write: _Write) -> Sequence[ir.Value]:
        write(elements_of(b, key, keys))
        return []

    _each_vector(b, key.dtype.bits, out, back)
    b.ret_void()


def _each_vector(
    b: ir.IRBuilder, bits: int, out: ir.Function, step: Callable[..., Sequence[ir.Value]], *begin: ir.Value
) -> Sequence[ir.Value]:
    """Has `step` write a vector of an array for each of another, and returns what it returned for the last.

    It gets a vector, how to write one, and what it returned for the vector before, or `begin`.
    """
    source, target, count = out.args
    kind, w, align = vector(bits), lanes(bits), bits // 8
    loop = PhiLoop(b, I64(0), *begin)
    i, *before = loop.variables
    read_at, write_at = (b.gep(p, [i], inbounds=True, source_etype=kind.element) for p in (source, target))
    following = b.add(i, I64(w))
    with loop.while_(b.icmp_signed("<=", following, count)):
        after = step(b.load(read_at, typ=kind, align=align), lambda y: b.store(y, write_at, align=align), *before)
        loop.again(following, *after)
    mask = leading_lanes(b, w, b.sub(count, i))
    x = masked_load(b, read_at, mask, Zeros(kind, None), align)
    return step(x, lambda y: masked_store(b, y, write_at, mask, align), *before)
