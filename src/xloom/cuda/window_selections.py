"""Select-and-scatter in two steps that threads share: what each window selects, and where its element goes then."""

from __future__ import annotations

from xloom.codegen.elemental.reduce import plain_operator
from xloom.hlo.computation import Computation
from xloom.hlo.dtype import f32, pred, s32
from xloom.hlo.instruction import Instruction
from xloom.hlo.module import Module
from xloom.hlo.shape import array_shape, tuple_shape
from xloom.passes.base import Pass, register
from xloom.passes.computation_inlining import inline
from xloom.passes.op_expansion import expand_ops
from xloom.passes.rewrite import Rewriter, RuleTable

rule = RuleTable()


@register
class WindowSelections(Pass):
    """Rewrites select-and-scatter of sums as a reduce-window, which finds places, and a scatter to these."""

    name = "window-selections"

    def run(self, module: Module) -> bool:
        """See the class."""
        return expand_ops(module, rule)


# select-and-scatter(x, s) == scatter(init, place of reduce-window((x, place), select), s); sums of narrow floats in f32
@rule("select-and-scatter")
def _selected(i: Instruction, rw: Rewriter) -> Instruction | None:
    x, source, init = i.operands
    dtype = x.shape.dtype
    if plain_operator(i["scatter"]) != "add" or not dtype.is_float or dtype.bits < 16 or not i.shape.size:
        return None
    if not source.shape.size or x.shape.size > 1 << 31 or any(d.base_dilation > 1 for d in i["window"]):
        return None
    places = array_shape(s32, x.shape.dims)
    numbers = rw.make("reshape", places, [rw.make("iota", array_shape(s32, (x.shape.size,)), iota_dimension=0)])
    none = rw.constant(array_shape(s32, ()), -1)
    low = rw.constant(array_shape(dtype, ()), 0)
    found = tuple_shape([array_shape(t, source.shape.dims) for t in (dtype, s32)])
    chosen = rw.make(
        "reduce-window", found, [x, numbers, low, none], window=i["window"], to_apply=_selection(rw, i["select"])
    )
    count, total = source.shape.size, x.shape.size
    at = rw.make("get-tuple-element", found.elements[1], [chosen], index=1)
    at = rw.make("reshape", array_shape(s32, (count, 1)), [at])
    kept = dtype if dtype.bits >= 32 else f32
    updates = rw.converted(rw.make("reshape", array_shape(dtype, (count,)), [source]), kept)
    first = rw.make("broadcast", array_shape(kept, (total,)), [rw.converted(init, kept)], dimensions=())
    sums = rw.make(
        "scatter",
        array_shape(kept, (total,)),
        [first, at, updates],
        update_window_dims=(),
        inserted_window_dims=(0,),
        scatter_dims_to_operand_dims=(0,),
        index_vector_dim=1,
        to_apply=rw.sum_of(kept),
    )
    return rw.make("reshape", array_shape(dtype, i.shape.dims), [rw.converted(sums, dtype)])


def _selection(rw: Rewriter, select: Computation) -> Computation:
    """A new computation: the element, with its place, that stays of two; one without a place is in padding."""
    module = rw.computation.module
    assert module is not None
    body = module.add(Computation("selection"))
    body.execution_thread = rw.computation.execution_thread
    dtype = select.parameters[0].shape.dtype
    scalars = [array_shape(t, ()) for t in (dtype, s32, dtype, s32)]
    a, at, b, bt = (
        body.add(Instruction(name, "parameter", shape, (), {"parameter_number": k}))
        for k, (name, shape) in enumerate(zip(("a", "at", "b", "bt"), scalars, strict=True))
    )
    truth, inside = array_shape(pred, ()), Rewriter(body)
    zero = inside.constant(scalars[1], 0)
    is_first = inside.make("compare", truth, [at, zero], direction="LT")
    is_padding = inside.make("compare", truth, [bt, zero], direction="LT")
    chosen = inline(inside.make("call", truth, [a, b], to_apply=select), select).value
    stays = inside.make("and", truth, [chosen, inside.make("not", truth, [is_first])])
    stays = inside.make("or", truth, [stays, is_padding])
    kept = [
        inside.make("select", shape, [stays, p, q]) for shape, (p, q) in zip(scalars, ((a, b), (at, bt)), strict=False)
    ]
    body.root = inside.make("tuple", tuple_shape(scalars[:2]), kept)
    return body
