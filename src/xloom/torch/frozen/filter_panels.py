"""Filters of convolutions, put into the order in which kernels read them."""

from __future__ import annotations

from collections.abc import Collection

from xloom.cpu.kernels.convolution.filter_panels import in_panels, useful_width
from xloom.hlo.computation import Computation
from xloom.hlo.shape import array_shape
from xloom.llvm.target import process_target
from xloom.passes.rewrite import Rewriter
from xloom.torch.frozen.division import computed_of


def put_in_panels(computation: Computation, static: Collection[int]) -> None:
    """Has convolutions read filters that are computed of `static` parameters in panels."""
    weights, make, target = computed_of(computation, static), Rewriter(computation).make, process_target()
    for i in computation.post_order():
        if i.opcode != "convolution" or i.operands[1] not in weights:
            continue
        is_narrow = target.has_tiles and i.operands[1].opcode == "convert"  # of what AMX multiplies as it is
        width = 0 if is_narrow else useful_width(i, target)
        if width:
            x, w = i.operands
            *lead, outputs = w.shape.dims
            rank = len(lead)
            parts = make("reshape", array_shape(w.shape.dtype, [*lead, outputs // width, width]), [w])
            order = (rank, *range(rank), rank + 1)
            dims = [parts.shape.dims[d] for d in order]
            moved = make("transpose", array_shape(w.shape.dtype, dims), [parts], dimensions=order)
            new = computation.add(i.clone([x, make("reshape", w.shape, [moved])]))
            new.backend_config = in_panels(width)
            i.replace_all_uses_with(new)
