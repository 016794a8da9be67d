"""Weights of f32 in the panels that products read, so that none are packed when a program runs.

`cpu/kernels/matmul/weight_panels.py` says how wide they are.
"""

from __future__ import annotations

from collections.abc import Collection

from xloom.cpu.kernels.matmul.weight_panels import useful_width
from xloom.hlo.computation import Computation
from xloom.hlo.dtype import f32
from xloom.hlo.instruction import Instruction
from xloom.hlo.shape import array_shape
from xloom.llvm.target import process_target
from xloom.passes.rewrite import Rewriter
from xloom.torch.frozen.products_of_weights import order_of_weights, rewrite_products


def put_weights_in_panels(computation: Computation, static: Collection[int]) -> None:
    """Has products read weights that are computed of `static` parameters in panels."""
    rewrite_products(computation, static, ("dot",), _by_panels)


def _by_panels(i: Instruction, rewriter: Rewriter) -> Instruction | None:
    """dot(x, w) = reshape(dot(x, panels of w)), whose reshape is left out."""
    x, w = i.operands
    order = order_of_weights(i)
    if order is None or not x.shape.dtype is w.shape.dtype is i.shape.dtype is f32 or _is_of_narrow(w):
        return None
    depth, columns = (w.shape.dims[d] for d in order)
    rows = i.shape.size // columns
    width = useful_width(rows, depth, columns, process_target())
    if not width:
        return None
    make, panels = rewriter.make, columns // width
    parts, dimensions = (depth, panels, width), (1, 0, 2)
    if order[0] == 1:
        parts, dimensions = (panels, width, depth), (0, 2, 1)
    left = make("reshape", array_shape(f32, (rows, depth)), [x])
    cut = make("reshape", array_shape(f32, parts), [w])
    matrix = make("transpose", array_shape(f32, (panels, depth, width)), [cut], dimensions=dimensions)
    return make(
        "dot",
        array_shape(f32, (rows, panels, width)),
        [left, matrix],
        **{**i.attrs, "lhs_contracting_dims": (1,), "rhs_contracting_dims": (1,)},
    )


def _is_of_narrow(weights: Instruction) -> bool:
    """Whether weights are made of others of fewer bytes, which are better kept."""
    seen, waiting = {weights}, [weights]
    while waiting:
        i = waiting.pop()
        if i.opcode == "convert":
            return True
        waiting += set(i.operands) - seen
        seen.update(i.operands)
    return False
