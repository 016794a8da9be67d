"""A function that finds a key which many elements of a row do not exceed, wherever these are."""

from __future__ import annotations

from functools import lru_cache

from llvmlite import ir

from xloom.cpu.kernels.sort.element_keys import ElementKey
from xloom.cpu.kernels.sort.key_order import keys_of
from xloom.cpu.kernels.sort.lanes import lanes, vector
from xloom.cpu.kernels.sort.signatures import bound_type
from xloom.llvm.intrinsics import intrinsic, overloaded
from xloom.llvm.module_text import module_text
from xloom.llvm.phi_loop import PhiLoop
from xloom.llvm.routine import exported_function
from xloom.llvm.types import I64
from xloom.llvm.vectors import uniform


@lru_cache(maxsize=16)
def bound_module(key: ElementKey, vectors: int) -> str:
    """A module that has `bound`: the greatest of the least keys that each lane of so many vectors sees."""
    bits = key.dtype.bits
    kind, step = vector(bits), vectors * lanes(bits)
    module = ir.Module()
    out = exported_function(module, bound_type(bits), key.bound_symbol(vectors))
    elements, count = out.args
    b = ir.IRBuilder(out.append_basic_block("entry"))
    loop = PhiLoop(b, I64(step), *[uniform(kind, -1)] * vectors)
    end, *found = loop.variables
    with loop.while_(b.icmp_signed("<=", end, count)):
        following = []
        for v, before in enumerate(found):
            first = b.add(end, I64(v * lanes(bits) - step))
            source = b.gep(elements, [first], inbounds=True, source_etype=kind.element)
            keys = keys_of(b, key, b.load(source, typ=kind, align=bits // 8))
            following.append(intrinsic(b, "umin", before, keys))
        loop.again(b.add(end, I64(step)), *following)
    while len(found) > 1:
        found = [intrinsic(b, "umax", *found[:2]), *found[2:]]
    b.ret(overloaded(b, "vector.reduce.umax", [kind], kind.element, found))
    return module_text(module)
