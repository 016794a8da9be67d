"""Elements of bf16 two at a time: the words of 32 bits that they are in memory, of which each half is a float."""

from __future__ import annotations

from collections.abc import Sequence

from llvmlite import ir

from xloom.codegen.buffer_values import BufferValue
from xloom.codegen.loop_ir.affine import Affine, Var
from xloom.codegen.loop_ir.nest import LoopBody
from xloom.codegen.loop_ir.nodes import Constant, Index, Load, Node, Op
from xloom.cpu.loops.emission import Elements
from xloom.cpu.loops.phases import Phases
from xloom.hlo.dtype import bf16
from xloom.llvm import types
from xloom.llvm.types import FLOAT, I32, I64

_UPPER = 0xFFFF0000
"""The bits of an f32 that a bf16 has."""


def is_bf16_in_pairs(code: Phases, stage: LoopBody, inner: Var) -> bool:
    """True when all arrays that the innermost loop goes along are bf16, and begin with a whole word of it.

    A vector of halves then is a shift or a mask of one of words: nothing is widened, narrowed or shuffled.
    """

    def is_in_words(value: BufferValue, address: Affine) -> bool:
        others = [factor for var, factor in address.terms if var != inner]
        begins = address.factor(inner) == 1 and not any(n % 2 for n in (address.const, *others))
        return begins and code.kept_type(value) is bf16

    if inner.size % 2 or not all(is_in_words(s.target, s.address) for s in stage.stores):
        return False
    found = stage.nodes
    along = _loads_along(found, inner)
    plain = all(isinstance(n, (Op, Constant, Index, Load)) for n in found)
    return plain and bool(along) and all(is_in_words(n.source, n.address) for n in along)


def _loads_along(nodes: Sequence[Node], inner: Var) -> list[Load]:
    return [n for n in nodes if isinstance(n, Load) and n.address.factor(inner)]


def store_pair(code: Phases, elements: Elements, stage: LoopBody, inner: Var) -> None:
    """Computes and stores the element at the innermost loop's index, and the next one."""
    b, at = elements.b, elements.vars[inner]
    words: dict[int, ir.Value] = {}
    for load in _loads_along(stage.nodes, inner):
        word_pointer = types.element_pointer(b, elements.pointers(load.source), bf16, elements.address_of(load))
        words[id(load)] = b.load(word_pointer, typ=I32, align=2)
    halves: list[list[ir.Value]] = []
    for half in range(2):
        elements.vars[inner] = b.add(at, I64(half), flags=["nsw", "nuw"])
        upper = {k: b.and_(w, I32(_UPPER)) if half else b.shl(w, I32(16)) for k, w in words.items()}
        with elements.known({k: b.bitcast(bits, FLOAT) for k, bits in upper.items()}):
            halves.append([b.bitcast(elements.value(s.node), I32) for s in stage.stores])
    elements.vars[inner] = at
    for store, low, high in zip(stage.stores, *halves, strict=True):
        word = b.or_(b.lshr(low, I32(16)), b.and_(high, I32(_UPPER)))
        address = code.address(store.target, store.address)
        pointer = types.element_pointer(b, code.pointers[store.target], bf16, elements.index(address))
        b.store(word, pointer, align=2)
