"""Products and convolutions, and what is done to each of their sums: one instruction, so that sums never go to memory.

Where a processor multiplies tiles, a product takes less time than to write its sums of f32 and to read them again. So
biases, activations, residuals and conversions are applied to a block of sums while a cache has it; on GPUs, while they
are in registers.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator
from dataclasses import dataclass
from heapq import heapify, heappop, heappush
from math import prod

from xloom.codegen.fusion.custom_fusion import fuse
from xloom.codegen.fusion.fusion_group import is_fusible
from xloom.codegen.thresholds import FEW_ROWS
from xloom.hlo.computation import Computation
from xloom.hlo.dtype import f32, s32
from xloom.hlo.instruction import Instruction
from xloom.hlo.module import Module
from xloom.passes.base import Pass, register

_LEAST = 1 << 14
"""Sums: fewer stay in the first cache anyway."""
_COLUMNS = 32
"""Of the result, at least."""
_MOST = 40
"""Instructions in what is done to a sum."""
_TYPES = frozenset(["bf16", "s8", "u8"])
"""Of operands, in tiles."""
VIEWS = frozenset(["broadcast", "constant", "convert", "iota", "reshape"])
"""Operators that are as well done again for each reader."""


@register
@dataclass(frozen=True)
class EpilogueFusion(Pass):
    """Products of what tiles hold, and the elementwise operators that alone read them, become kCustom fusions.

    With `every`, products of any types and sizes, as kernels of GPUs take them.
    """

    every: bool = False

    name = "epilogue-fusion"
    opcodes = ("dot", "convolution")

    def run(self, module: Module) -> bool:
        """Fuses what is done to sums into products; True when the module changed."""
        changed = False
        fused = {i["calls"] for i in module.instructions if i.opcode == "fusion"}
        for computation in [c for c in module.computations if c not in fused]:
            products = [
                i for i in computation if i.opcode in ("dot", "convolution") and (self.every or _is_worth_it(i))
            ]
            order = {i: k for k, i in enumerate(computation.post_order())} if products else {}
            while products:
                root, inside = _epilogue(computation, products.pop(0), order, products)
                if any(i.opcode not in ("dot", "convolution", "reshape") for i in inside):
                    fuse(module, root, inside - {root}, "epilogue")
                    changed = True
        return changed


def _is_worth_it(product: Instruction) -> bool:
    """True for many sums of so many rows and columns that these are multiplied by tiles."""
    left, right = (o.shape for o in product.operands)
    types = {left.dtype.name, right.dtype.name}
    if not types <= _TYPES or ("bf16" in types and len(types) > 1) or product.shape.size < _LEAST:
        return False
    if product.shape.dtype not in (f32, s32):
        return False
    if product.opcode == "convolution":
        labels = product["dim_labels"]
        columns, batch = product.shape.dims[labels.output_feature], 1
        is_last = labels.output_feature == product.shape.rank - 1
        if not is_last or max(product["feature_group_count"], product["batch_group_count"]) > 1:
            return False
    else:
        known = (*product["rhs_batch_dims"], *product["rhs_contracting_dims"])
        columns = prod(n for d, n in enumerate(right.dims) if d not in known)
        batch = prod(left.dims[d] for d in product["lhs_batch_dims"])
    return columns >= _COLUMNS and product.shape.size // columns // batch > FEW_ROWS


def _epilogue(
    computation: Computation, product: Instruction, order: dict[Instruction, int], later: Collection[Instruction]
) -> tuple[Instruction, set[Instruction]]:
    """The last value that all else of what is done to a product's sums goes into, and what it is computed of.

    Of two products that meet, the one that is not among the `later` ones ends before.
    """
    root, best = product, {product}
    inside = {product}
    waiting = [(order[u], u) for u in product.users if u in order]
    if product.has_control_dependencies or product is computation.root or len(waiting) < len(product.users):
        return root, best
    seen = {u for _, u in waiting}
    heapify(waiting)
    while waiting and len(inside) < _MOST:
        _, user = heappop(waiting)
        if not is_done_to_each(user, product) or any(u not in order for u in user.users):
            break
        parts = user.operands[1:] if user.opcode == "gather" else user.operands  # a table is an array
        others = [i for o in parts if o not in inside for i in _own(o, product, later)]
        if None in others:
            break
        inside.update(i for i in others if i is not None)
        inside.add(user)
        if not waiting and not _is_better_widened(user, root):
            root, best = user, set(inside)
        if user is computation.root:
            break
        for each in user.users:
            if each not in seen:
                seen.add(each)
                heappush(waiting, (order[each], each))
    return root, best


def _is_better_widened(i: Instruction, root: Instruction) -> bool:
    """True where all that read it are loops, which had better read fewer bytes and widen them."""
    return i.shape.nbytes > root.shape.nbytes and bool(i.users) and all(map(is_fusible, i.users))


def is_done_to_each(i: Instruction, product: Instruction) -> bool:
    """True where each element is made of one sum, in the order in which they lie in memory."""
    if not is_fusible(i) or i.has_control_dependencies or i.shape.size != product.shape.size:
        return False
    return i.opcode in ("bitcast-convert", "reshape") or i.op.elementwise or _is_lookup(i)


def _is_lookup(i: Instruction) -> bool:
    """True where each element is one of an array that the same element of another one numbers."""
    return i.opcode == "gather" and i.operands[0].shape.rank == 1 and i.operands[1].shape.dims == i.shape.dims


def _own(operand: Instruction, product: Instruction, later: Collection[Instruction]) -> Iterator[Instruction | None]:
    """What an operand is computed of for each sum, up to arrays in memory; None where it had better be an array."""
    if operand in product.operands:
        return
    if operand in later:
        yield None
    elif (operand.opcode in VIEWS and is_fusible(operand) and not operand.has_control_dependencies) or (
        len(operand.users) == 1 and is_done_to_each(operand, product)
    ):
        yield operand
        for each in operand.operands:
            yield from _own(each, product, later)
    elif is_fusible(operand) and len(operand.users) == 1 and operand.shape.size >= product.shape.size:
        yield None
