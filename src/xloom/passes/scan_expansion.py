"""scan as a while loop over slices."""

from __future__ import annotations

from collections.abc import Sequence

from xloom.hlo.computation import Computation
from xloom.hlo.dtype import pred, s32
from xloom.hlo.instruction import Instruction
from xloom.hlo.module import Module
from xloom.hlo.shape import Shape, array_shape, tuple_shape
from xloom.passes.base import Pass, register
from xloom.passes.op_expansion import expand_ops
from xloom.passes.rewrite import Rewriter, RuleTable

rule = RuleTable()
_COUNTER = array_shape(s32, ())


@register
class ScanExpansion(Pass):
    """Rewrites scans as while loops, those aside whose computation is elementwise on slices of one shape.

    The loop's state is a counter, the scanned arrays, the results so far, and the carries.
    """

    name = "scan-expansion"
    opcodes = rule.by_opcode

    def run(self, module: Module) -> bool:
        """See the class."""
        return expand_ops(module, rule)


def is_elementwise(computation: Computation, dims: Sequence[int]) -> bool:
    """True when each element of the results, of shape `dims`, is made of the same element of the parameters."""
    root = computation.root
    results = root.operands if root.opcode == "tuple" else (root,)
    inside = [i for i in computation.post_order() if i is not root or i in results]
    return all(i.shape.dims == tuple(dims) for i in results) and all(_is_same_element(i, tuple(dims)) for i in inside)


def _is_same_element(i: Instruction, dims: tuple[int, ...]) -> bool:
    if i.opcode == "parameter":
        return i.shape.is_array and i.shape.dims == dims
    if i.opcode == "constant":
        return i.shape.is_scalar
    moves = i.op.elementwise or i.opcode in ("broadcast", "reshape")
    return moves and i.shape.dims in ((), dims) and all(o.shape.dims in ((), i.shape.dims) for o in i.operands)


# scan(x, c) == while (n < size) { y[n], c = f(x[n], c); n += 1 }
@rule("scan")
def _scan(i: Instruction, rw: Rewriter) -> Instruction | None:
    carries = i["num_carries"]
    (dimension,) = i["dimensions"]
    scanned = [o.shape for o in i.operands[: len(i.operands) - carries]]
    outputs = list(i.shape.elements[: len(i.shape.elements) - carries])
    arrays = [*scanned, *outputs]
    if not arrays or any(s.is_dynamic for s in arrays):
        return None
    dims = [n for k, n in enumerate(arrays[0].dims) if k != dimension]
    if is_elementwise(i["to_apply"], dims):
        return None
    loop = _Loop(i, len(scanned), len(outputs), dimension)
    start = rw.constant(_COUNTER, 0)
    zeros = [rw.splat(_plain(s), 0) for s in outputs]
    operands = i.operands
    state = [start, *operands[: len(scanned)], *zeros, *operands[len(scanned) :]]
    if loop.size:
        whole = rw.make("tuple", loop.state, state)
        module = i.parent.module if i.parent is not None else None
        assert module is not None
        whole = rw.make("while", loop.state, [whole], condition=loop.condition(module), body=loop.body(module))
        state = [rw.make("get-tuple-element", s, [whole], index=k) for k, s in enumerate(loop.state.elements)]
    results = state[1 + len(scanned) :]
    return rw.make("tuple", tuple_shape([r.shape for r in results]), results)


def _plain(shape: Shape) -> Shape:
    return array_shape(shape.dtype, shape.dims)


class _Loop:
    """The computations of the loop that a scan becomes."""

    def __init__(self, scan: Instruction, scanned: int, outputs: int, dimension: int):
        self.scan, self.scanned, self.outputs, self.dimension = scan, scanned, outputs, dimension
        arrays = [*(o.shape for o in scan.operands[:scanned]), *map(_plain, scan.shape.elements[:outputs])]
        carries = [o.shape for o in scan.operands[scanned:]]
        self.size = arrays[0].dims[dimension]
        self.state = tuple_shape([_COUNTER, *arrays, *carries])

    def condition(self, module: Module) -> Computation:
        """counter < size"""
        rw = Rewriter(Computation("scan_condition"))
        count = rw.make("get-tuple-element", _COUNTER, [self._parameter(rw)], index=0)
        limit = self._number(rw, self.size)
        rw.computation.root = rw.make("compare", array_shape(pred, ()), [count, limit], direction="LT")
        return module.add(rw.computation)

    def body(self, module: Module) -> Computation:
        """One iteration: slices in, slices of the results written at their index."""
        rw = Rewriter(Computation("scan_body"))
        state = self._parameter(rw)
        count, *parts = (rw.make("get-tuple-element", s, [state], index=k) for k, s in enumerate(self.state.elements))
        arrays, results, carries = (
            parts[: self.scanned],
            parts[self.scanned : self.scanned + self.outputs],
            parts[self.scanned + self.outputs :],
        )
        step = count
        if self.scan["is_reverse"]:
            step = rw.make("subtract", _COUNTER, [self._number(rw, self.size - 1), count])
        function = self.scan["to_apply"]
        slices = [self._slice(rw, x, step) for x in arrays]
        called = rw.make("call", function.root.shape, [*slices, *carries], to_apply=function)
        made = [called]
        if called.shape.is_tuple:
            made = [rw.make("get-tuple-element", s, [called], index=k) for k, s in enumerate(called.shape.elements)]
        new = [self._with_slice(rw, r, m, step) for r, m in zip(results, made[: self.outputs], strict=True)]
        following = rw.make("add", _COUNTER, [count, self._number(rw, 1)])
        rw.computation.root = rw.make("tuple", self.state, [following, *arrays, *new, *made[self.outputs :]])
        return module.add(rw.computation)

    def _parameter(self, rw: Rewriter) -> Instruction:
        return rw.make("parameter", self.state, parameter_number=0)

    def _number(self, rw: Rewriter, number: int) -> Instruction:
        return rw.constant(_COUNTER, number)

    def _starts(self, rw: Rewriter, rank: int, step: Instruction) -> list[Instruction]:
        zero = self._number(rw, 0)
        return [step if k == self.dimension else zero for k in range(rank)]

    def _slice(self, rw: Rewriter, array: Instruction, step: Instruction) -> Instruction:
        dims = list(array.shape.dims)
        dims[self.dimension] = 1
        starts = self._starts(rw, len(dims), step)
        part = rw.make(
            "dynamic-slice", array_shape(array.shape.dtype, dims), [array, *starts], dynamic_slice_sizes=tuple(dims)
        )
        del dims[self.dimension]
        return rw.make("reshape", array_shape(array.shape.dtype, dims), [part])

    def _with_slice(self, rw: Rewriter, array: Instruction, part: Instruction, step: Instruction) -> Instruction:
        dims = list(array.shape.dims)
        dims[self.dimension] = 1
        update = rw.make("reshape", array_shape(part.shape.dtype, dims), [part])
        starts = self._starts(rw, len(dims), step)
        return rw.make("dynamic-update-slice", array.shape, [array, update, *starts])
