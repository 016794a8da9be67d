"""Loop nests as text, which equal ones share, and what the verifier of loop nests rejects."""

from collections.abc import Iterable
from dataclasses import replace

import pytest

import xloom as xl
from xloom.codegen.elemental.loop_nests import nest_for
from xloom.codegen.fusion.fusion_group import FusionGroup
from xloom.codegen.loop_ir.affine import Affine, Var
from xloom.codegen.loop_ir.nest import LoopBody, LoopNest, Store, loaded_values
from xloom.codegen.loop_ir.nodes import Load, Node, Op, Quotient, Reduced, post_order
from xloom.codegen.loop_ir.text import constant_text, nest_text
from xloom.codegen.loop_ir.verify import verify_nest
from xloom.cpu.lower import lowered
from xloom.cpu.prepare import prepared
from xloom.cpu.printers import loop_ir_text
from xloom.errors import LoopIRError
from xloom.hlo.dtype import f64, s64
from xloom.llvm.target import process_target

ADD = "add { x = f32[] parameter(0) y = f32[] parameter(1) ROOT z = f32[] add(x, y) }"
SUMS = """HloModule m
add { x = f32[] parameter(0) y = f32[] parameter(1) ROOT z = f32[] add(x, y) }
ENTRY e { p = f32[8,6] parameter(0) z = f32[] constant(0) n = f32[8,6] negate(p)
  ROOT s = f32[8] reduce(n, z), dimensions={1}, to_apply=add }"""


def nests(text: str) -> list[LoopNest]:
    _, _, program = lowered(prepared(xl.parse(text)), process_target())
    return [code.nest for step, code in program.code.items() if isinstance(step, FusionGroup) and code.nest]


def text_of(nest: LoopNest) -> str:
    arrays = dict.fromkeys([*loaded_values(nest), *(s.target for stage in nest.stages for s in stage.stores)])
    return nest_text(nest, {source: k for k, source in enumerate(arrays)})


def test_text():
    assert (
        loop_ir_text(xl.parse(SUMS))
        == """\
// %s: #0 %p, #1 %s
#0 = f32[48]
#1 = f32[8]
nest ()
  body (i0: 8)
    %0 = f32 constant 0.0
    %1 = f32 load #0[6*i0 + i1]
    %2 = f32 negate(%1) of f32 of excess precision
    %3 = f32 alias(%2) of f32
    %4 = f32 accumulator 0
    %5 = f32 add(%4, %3) of f32, f32 scalar of excess precision
    reduction0 over (i1: 6): %5 from %0 with %3 to %4, add
    %6 = f32 reduced 0 of reduction0
    store #1[i0] = %6
"""
    )


def test_equal_nests_have_equal_texts():
    def text(body: str) -> str:
        (nest,) = nests(f"HloModule m ENTRY e {{ p = f32[40,30] parameter(0) {body} }}")
        return text_of(nest)

    negated = text("ROOT r = f32[40,30] negate(p)")
    assert negated == text("ROOT other = f32[40,30] negate(p)")
    for different in (
        "ROOT r = f32[40,30] abs(p)",
        "ROOT r = f32[30,40] transpose(p), dimensions={1,0}",
        "c = f32[] constant(0.1) b = f32[40,30] broadcast(c), dimensions={} ROOT r = f32[40,30] add(p, b)",
        "c = f32[] constant(0.10000001) b = f32[40,30] broadcast(c), dimensions={} ROOT r = f32[40,30] add(p, b)",
        "ROOT r = f32[38,30] slice(p), slice={[1:39],[0:30]}",
        "ROOT r = f32[38,30] slice(p), slice={[2:40],[0:30]}",
    ):
        assert text(different) != negated
    bodies = [f"ROOT r = f32[38,30] slice(p), slice={{[{k}:{k + 38}],[0:30]}}" for k in (1, 2)]
    assert text(bodies[0]) != text(bodies[1])


def test_constants_that_differ_have_different_texts():
    import numpy as np

    nans = [np.array(bits, np.uint32).view(np.float32)[()] for bits in (0x7FC00000, 0x7FC00001, 0xFFC00000)]
    numbers = [np.float32(0.1), np.float64(0.1), np.float32(0.0), np.float32(-0.0), np.int8(0), *nans, np.inf, True]
    assert len({constant_text(x) for x in numbers}) == len(numbers)


def valid() -> LoopNest:
    (nest,) = nests("HloModule m ENTRY e { p = f32[40] parameter(0) ROOT r = f32[40] negate(p) }")
    verify_nest(nest)
    return nest


def test_elements_of_a_reduction_are_where_its_bodies_need_them():
    """Those of a window in padding are behind a guard, and never loaded."""
    module = xl.parse(
        "greatest { a = f32[] parameter(0) b = f32[] parameter(1) ROOT c = f32[] maximum(a, b) }\n"
        "ENTRY e { p = f32[9] parameter(0) i = f32[] constant(0) "
        "ROOT w = f32[9] reduce-window(p, i), window={size=3 pad=1_1}, to_apply=greatest }"
    )
    verify_nest(nest_for([[module.entry.root]], ()))


def broken(nest: LoopNest, change) -> LoopNest:
    """The nest with another store, made of its first one."""
    (stage,) = nest.stages
    (store,) = stage.stores
    return LoopNest(nest.outer, [LoopBody(stage.vars, [change(store)])], nest.private, nest.returned)


def loads(nodes: Iterable[Node]) -> list[Load]:
    return [n for n in post_order(list(nodes)) if isinstance(n, Load)]


@pytest.mark.parametrize("shift", [1, -1])
def test_an_address_outside_of_its_array(shift):
    nest = valid()
    with pytest.raises(LoopIRError, match=r"it stores element .* of %r, which has 40"):
        verify_nest(broken(nest, lambda s: replace(s, address=s.address + shift)))
    (load,) = loads([nest.stages[0].stores[0].node])
    load.address += shift
    with pytest.raises(LoopIRError, match=r"it loads element .* of %p, which has 40"):
        verify_nest(nest)


def test_an_address_that_a_condition_keeps_inside():
    pad = "HloModule m ENTRY e {{ p = f32[40] parameter(0) z = f32[] constant(1) ROOT r = f32[{}] pad(p, z), padding={} }}"
    for size, padding in ((45, "2_3"), (36, "-2_-2")):
        (nest,) = nests(pad.format(size, padding))
        verify_nest(nest)
        (load,) = loads([nest.stages[0].stores[0].node])
        load.address += 3
        with pytest.raises(LoopIRError, match="it loads element"):
            verify_nest(nest)


def test_an_address_of_a_quotient():
    text = "HloModule m ENTRY e { p = f32[7,9] parameter(0) t = f32[9,7] transpose(p), dimensions={1,0}"
    (nest,) = nests(f"{text} r = f32[63] reshape(t) ROOT s = f32[31] slice(r), slice={{[1:62:2]}} }}")
    verify_nest(nest)
    variables = {v for n in loads([nest.stages[0].stores[0].node]) for v, _ in n.address.terms}
    (quotient, *_) = [v.node for v in variables if isinstance(v.node, Quotient) and not v.node.remainder]
    quotient.by = 1
    with pytest.raises(LoopIRError, match="it loads element"):
        verify_nest(nest)


def test_a_variable_of_no_loop():
    other = Var("x", 40, None, 99)
    nest = broken(valid(), lambda s: replace(s, address=Affine(0, ((other, 1),))))
    with pytest.raises(LoopIRError, match="a variable or an accumulator of no loop around it"):
        verify_nest(nest)


def test_an_accumulator_of_no_fold():
    (nest,) = nests(SUMS)
    verify_nest(nest)
    reduced = nest.stages[0].stores[0].node
    assert isinstance(reduced, Reduced)
    with pytest.raises(LoopIRError, match="a variable or an accumulator of no loop around it"):
        verify_nest(broken(nest, lambda s: Store(s.target, s.address, reduced.reduction.bodies[0])))


def test_types():
    nest = valid()
    node = nest.stages[0].stores[0].node
    assert isinstance(node, Op)
    (load,) = loads([node])
    load.dtype = f64
    with pytest.raises(LoopIRError, match="f64 is loaded from an array of f32"):
        verify_nest(nest)
    load.dtype, node.dtype = node.dtype, s64
    with pytest.raises(LoopIRError, match="negate gives f32, not s64"):
        verify_nest(nest)


def test_a_value_that_is_computed_from_itself():
    nest = valid()
    node = nest.stages[0].stores[0].node
    assert isinstance(node, Op)
    node.operands = (node,)
    with pytest.raises(LoopIRError, match="computed from itself"):
        verify_nest(nest)
