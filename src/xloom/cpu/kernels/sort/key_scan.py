"""A function that looks for elements whose keys are below a limit."""

from __future__ import annotations

from functools import lru_cache

from llvmlite import ir

from xloom.cpu.kernels.sort.element_keys import ElementKey
from xloom.cpu.kernels.sort.key_order import keys_of
from xloom.cpu.kernels.sort.lanes import lanes, vector
from xloom.cpu.kernels.sort.signatures import scan_type
from xloom.llvm.folding_builder import Zeros
from xloom.llvm.masked_lanes import any_lane, leading_lanes, masked_load
from xloom.llvm.module_text import module_text
from xloom.llvm.phi_loop import PhiLoop
from xloom.llvm.routine import exported_function
from xloom.llvm.types import I64
from xloom.llvm.vectors import splat


@lru_cache(maxsize=16)
def scan_module(key: ElementKey) -> str:
    """A module that has `scan`."""
    bits = key.dtype.bits
    kind, w = vector(bits), lanes(bits)
    module = ir.Module()
    out = exported_function(module, scan_type(bits), key.scan_symbol)
    elements, begin, count, limit = out.args
    b = ir.IRBuilder(out.append_basic_block("entry"))
    limits = splat(b, limit, w)
    loop = PhiLoop(b, begin)
    (i,) = loop.variables
    with loop.while_(b.icmp_signed("<", i, count)):
        source = b.gep(elements, [i], inbounds=True, source_etype=kind.element)
        mask = leading_lanes(b, w, b.sub(count, i))
        keys = keys_of(b, key, masked_load(b, source, mask, Zeros(kind, None), bits // 8))
        found = any_lane(b, b.and_(b.icmp_unsigned("<", keys, limits), mask))
        following = b.add(i, I64(w))
        with b.if_then(found):
            b.ret(i)
        loop.again(following)
    b.ret(count)
    return module_text(module)
