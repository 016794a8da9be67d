"""Functions that make keys of elements of 32 bits, and with each key the element's number in the row."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from functools import lru_cache
from typing import NamedTuple

from llvmlite import ir

from xloom.cpu.kernels.sort.element_keys import ElementKey
from xloom.cpu.kernels.sort.key_order import keys_of
from xloom.cpu.kernels.sort.lanes import lanes, vector
from xloom.cpu.kernels.sort.signatures import NUMBER, PAIR
from xloom.llvm.folding_builder import Zeros
from xloom.llvm.masked_lanes import leading_lanes, masked_load, masked_store
from xloom.llvm.module_text import module_text
from xloom.llvm.phi_loop import PhiLoop
from xloom.llvm.routine import exported_function
from xloom.llvm.types import I32, I64
from xloom.llvm.vectors import constant_vector, splat, uniform

_KIND, _LANES = vector(32), lanes(32)


class _Keys(NamedTuple):
    """Of a vector of elements from number `i` on, as far as there are some."""

    i: ir.Value
    keys: ir.Value
    mask: ir.Value
    pointers: list[ir.Value]
    """Where those of number i are written."""


@lru_cache(maxsize=16)
def number_module(key: ElementKey) -> str:
    """A module that has `number`."""
    module = ir.Module()
    out = exported_function(module, NUMBER, key.number_symbol)
    b = ir.IRBuilder(out.append_basic_block("entry"))
    wide = ir.VectorType(I64, _LANES)
    with _each_vector(b, key, out, [I64]) as v:
        above = b.shl(b.zext(v.keys, wide), uniform(wide, 32))
        numbers = b.add(splat(b, v.i, _LANES), constant_vector(list(range(_LANES)), I64))
        masked_store(b, b.or_(above, numbers), v.pointers[0], v.mask, align=8)
    b.ret_void()
    return module_text(module)


@lru_cache(maxsize=16)
def pair_module(key: ElementKey) -> str:
    """A module that has `pair`."""
    module = ir.Module()
    out = exported_function(module, PAIR, key.pair_symbol)
    b = ir.IRBuilder(out.append_basic_block("entry"))
    with _each_vector(b, key, out, [I32, I32]) as v:
        masked_store(b, v.keys, v.pointers[0], v.mask, align=4)
        numbers = b.add(splat(b, b.trunc(v.i, I32), _LANES), constant_vector(list(range(_LANES))))
        masked_store(b, numbers, v.pointers[1], v.mask, align=4)
    b.ret_void()
    return module_text(module)


@contextmanager
def _each_vector(b: ir.IRBuilder, key: ElementKey, out: ir.Function, written: list[ir.Type]) -> Iterator[_Keys]:
    """Emits the `with` for all vectors of a function's elements; `written` is of what its other pointers are."""
    elements, *targets, begin, end = out.args
    loop = PhiLoop(b, begin)
    (i,) = loop.variables
    with loop.while_(b.icmp_signed("<", i, end)):
        source = b.gep(elements, [i], inbounds=True, source_etype=I32)
        pointers = [b.gep(p, [i], inbounds=True, source_etype=t) for p, t in zip(targets, written, strict=True)]
        mask = leading_lanes(b, _LANES, b.sub(end, i))
        keys = keys_of(b, key, masked_load(b, source, mask, Zeros(_KIND, None), align=4))
        yield _Keys(i, keys, mask, pointers)
        loop.again(b.add(i, I64(_LANES)))
