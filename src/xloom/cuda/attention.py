"""Attention in HLO: the sum of values, weighted by the softmax of what is made of products of queries and keys.

It is looked for from its end. Between the two products there may be whatever keeps each score by itself: scales, masks,
biases, caps. What lies between narrow floats and f32 is done in f32.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import islice
from math import prod

from xloom.codegen.elemental.reduce import plain_operator
from xloom.codegen.fusion.epilogue_fusion import VIEWS, is_done_to_each
from xloom.codegen.fusion.fusion_group import is_fusible
from xloom.cuda.kernels.product import Axes, Product, axes_of, joined, strides_of
from xloom.cuda.kernels.tensor_core_tiles import tensor_core_kind
from xloom.hlo.dtype import bf16, f16, f32
from xloom.hlo.instruction import Instruction

DEEPEST = 128
"""Elements of a query, or of a value, at most: a thread has its part of all of them in registers."""
LEAST_ROWS = 16
"""Queries that each key meets, at least: fewer do not fill the tiles of tensor cores."""
_INDICES = frozenset({"and", "compare", "constant", "convert", "iota", "not", "or", "broadcast", "reshape", "add",
                      "subtract", "select", "multiply"})  # fmt: skip
"""Operators of which masks are made of nothing but numbers of places."""
_MOST_INDICES = 30
"""Instructions of which such a mask is made."""
_FLOATS = (bf16, f16, f32)


@dataclass(frozen=True)
class Attention:
    """Rows of `scores` are queries, its columns keys; of `product`, queries and elements of values."""

    scores: Product
    product: Product
    queries: Instruction
    keys: Instruction
    values: Instruction
    kind: str
    """The type of the elements that are multiplied, and of weights: bf16 or f16."""
    dot: Instruction
    """Of queries and keys."""
    logits: Instruction
    """What the softmax is of, which is made of the dot's elements by what is `between`."""
    between: frozenset[Instruction]
    inside: frozenset[Instruction]
    """All that is computed, the dots among it."""


def attention_of(root: Instruction) -> Attention | None:
    """What an instruction is as attention: a product, which may be converted and turned; None where it is none."""
    inside: set[Instruction] = set()
    product, order = root, range(root.shape.rank)
    while product.opcode in ("convert", "transpose") and product.shape.dtype in _FLOATS:
        inside.add(product)
        if product.opcode == "transpose":
            order = [product["dimensions"][d] for d in order]
        (product,) = product.operands
    kind = tensor_core_kind(product) if product.opcode == "dot" else ""
    if kind not in ("bf16", "f16") or not product.shape.size:
        return None
    strides = [prod(root.shape.dims[order.index(d) + 1 :]) for d in range(root.shape.rank)]
    for side in (0, 1):
        found = _weighted(product, side, strides, inside | {product}, root)
        if found is not None:
            return replace(found, kind=kind) if tensor_core_kind(found.dot) == kind else None
    return None


def ends_of(product: Instruction) -> Instruction:
    """The last of what converts and turns the result of a product, if nothing else reads what is between."""
    while len(product.users) == 1:
        (user,) = product.users
        if (
            user.opcode not in ("convert", "transpose")
            or user.shape.dtype not in _FLOATS
            or user.has_control_dependencies
        ):
            break
        product = user
    return product


def _weighted(
    product: Instruction, side: int, strides: Sequence[int], inside: set[Instruction], root: Instruction
) -> Attention | None:
    """The attention whose weights are an operand of a product, with the strides of its result's dimensions."""
    weights = product.operands[side]
    found = _Softmax(product, inside)
    if not found.matches(weights):
        return None
    whole = Product.of_dot(product)
    if side:
        whole = Product(whole.rhs, whole.lhs, (whole.output[0], whole.output[2], whole.output[1]))
    whole = replace(whole, output=_output_axes(product, side, strides))
    between = _between(found.logits, found)
    if between is None:
        return None
    dot, parts = between
    scores = Product.of_dot(dot)
    queries, keys = dot.operands
    if scores.output[2] != whole.lhs.depth:
        scores = Product(scores.rhs, scores.lhs, (scores.output[0], scores.output[2], scores.output[1]))
        queries, keys = keys, queries
    of_batch, of_rows = (joined(axes) for axes in (whole.lhs.batch, whole.lhs.own))
    is_same = (scores.batch == 1 or joined(scores.output[0]) == of_batch) and of_rows == joined(scores.output[1])
    if not is_same or not scores.output[2] == whole.lhs.depth == (found.axis,) or scores.batch != whole.batch:
        return None
    if scores.k > DEEPEST or whole.n > DEEPEST or scores.m < LEAST_ROWS:
        return None
    inside = {*found.inside, *parts, dot}
    alone = {i for i in (*found.inside, *_depending(parts, dot), dot) if i is not root and i.opcode != "constant"}
    if any(user not in inside for i in alone for user in i.users):
        return None
    values = product.operands[1 - side]
    if any(o in inside for o in (queries, keys, values)) or any(i.has_control_dependencies for i in inside):
        return None
    return Attention(scores, whole, queries, keys, values, "", dot, found.logits, frozenset(parts), frozenset(inside))


def _output_axes(product: Instruction, side: int, strides: Sequence[int]) -> tuple[Axes, Axes, Axes]:
    """The axes of a product's result: of its batch, of the operand with weights, and of the other one."""
    batch = len(product["lhs_batch_dims"])
    first = product.operands[0].shape.rank - batch - len(product["lhs_contracting_dims"])
    own = [range(batch, batch + first), range(batch + first, product.shape.rank)]
    if side:
        own.reverse()
    groups = [range(batch), *own]
    return tuple(joined(axes_of(product.shape.dims, strides, dims)) for dims in groups)  # pyright: ignore[reportReturnType]


class _Softmax:
    """exp(x - max(x)) / sum(exp(x - max(x))) along one dimension, and what it is computed of, down to x.

    Which dimension that is, is known by its size and stride: arrays may be reshaped.
    """

    def __init__(self, product: Instruction, inside: set[Instruction]):
        self.inside = set(inside)
        self.logits = product
        self.axis = 0, 0
        """Size and stride of the dimension."""

    def matches(self, weights: Instruction) -> bool:
        """Whether an array is one; the rest is known then."""
        divided = self._through(weights)
        if divided.opcode != "divide":
            return False
        exponential = self._through(divided.operands[0])
        total = self._reduced(divided.operands[1], "add")
        if exponential.opcode != "exponential" or total is not exponential:
            return False
        along, difference = self.axis, self._through(exponential.operands[0])
        if difference.opcode != "subtract":
            return False
        self.logits = self._through(difference.operands[0])
        greatest = self._reduced(difference.operands[1], "maximum")
        self.inside.update((divided, exponential, difference))
        self.inside.discard(self.logits)
        return greatest is self.logits and self.axis == along

    def _through(self, i: Instruction) -> Instruction:
        """What an array of floats was before it was converted and reshaped."""
        while i.opcode in ("convert", "reshape") and i.operands[0].shape.dtype in _FLOATS:
            self.inside.add(i)
            (i,) = i.operands
        return i

    def _reduced(self, operand: Instruction, name: str) -> Instruction | None:
        """What is reduced along one dimension, of which an operand repeats the results along that."""
        repeated = self._through(operand)
        reduced = self._through(repeated.operands[0]) if repeated.opcode == "broadcast" else repeated
        if reduced.opcode != "reduce" or reduced.shape.is_tuple:
            return None
        source, start = reduced.operands
        dims = [d for d in range(repeated.shape.rank) if d not in repeated["dimensions"]]
        along, again = (
            axes_of(shape.dims, strides_of(shape), d)
            for shape, d in ((source.shape, reduced["dimensions"]), (repeated.shape, dims))
        )
        wanted = 0.0 if name == "add" else float("-inf")
        is_start = start.opcode == "constant" and float(start.literal.value.reshape(-1)[0]) == wanted
        is_named = plain_operator(reduced["to_apply"]) == name and is_start
        if not is_named or along != again or len(along) != 1 or source.shape.size != repeated.shape.size:
            return None
        self.inside.update((repeated, reduced, start))
        (self.axis,) = along
        return self._through(source)


def _between(logits: Instruction, softmax: _Softmax) -> tuple[Instruction, set[Instruction]] | None:
    """The product whose elements logits are made of, and what is between, down to arrays in memory."""
    dots: set[Instruction] = set()
    parts: set[Instruction] = set()
    stack = [logits]
    while stack:
        i = stack.pop()
        if i in parts or i in dots:
            continue
        if i.opcode == "dot" and i.shape.size == logits.shape.size:
            dots.add(i)
        elif i is logits or _is_computed(i, logits, softmax):
            parts.add(i)
            stack += i.operands
    if len(dots) != 1 or (logits in parts and not is_done_to_each(logits, logits)):
        return None
    (dot,) = dots
    return dot, parts


def _is_computed(i: Instruction, logits: Instruction, softmax: _Softmax) -> bool:
    """Whether an operand on the way to logits is computed for each element, and no array in memory."""
    if not is_fusible(i) or i in softmax.inside:
        return False
    if i.opcode in VIEWS or _is_of_indices(i):
        return True
    return is_done_to_each(i, logits) and (len(i.users) == 1 or _reads_dot(i, logits))


def _is_of_indices(i: Instruction) -> bool:
    """Whether nothing but numbers of places goes into it."""
    found = list(islice(_computed_of(i, lambda _: True), _MOST_INDICES + 1))
    return len(found) <= _MOST_INDICES and all(each.opcode in _INDICES and is_fusible(each) for each in found)


def _reads_dot(i: Instruction, logits: Instruction) -> bool:
    """Whether a product of the size of logits is among what an element is made of."""
    found = _computed_of(i, lambda each: is_done_to_each(each, logits))
    return any(each.opcode == "dot" and each.shape.size == logits.shape.size for each in found)


def _computed_of(i: Instruction, goes_on: Callable[[Instruction], bool]) -> Iterator[Instruction]:
    """An instruction, and what it is computed of, as far as it `goes_on`."""
    stack, seen = [i], set()
    while stack:
        i = stack.pop()
        if i not in seen:
            seen.add(i)
            yield i
            if goes_on(i):
                stack += i.operands


def _depending(parts: set[Instruction], dot: Instruction) -> set[Instruction]:
    """Those of some instructions that a product's elements go into."""
    found, stack = set(), [dot]
    while stack:
        for user in stack.pop().users:
            if user in parts and user not in found:
                found.add(user)
                stack.append(user)
    return found
