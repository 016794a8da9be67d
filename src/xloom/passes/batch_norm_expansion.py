"""Batch normalisation in terms of reduces and elementwise operators."""

from __future__ import annotations

import math
from functools import cached_property

import numpy as np

from xloom.hlo.computation import Computation
from xloom.hlo.dtype import f32, s32
from xloom.hlo.instruction import Instruction
from xloom.hlo.module import Module
from xloom.hlo.shape import Shape, array_shape, tuple_shape
from xloom.passes.base import Pass, register
from xloom.passes.op_expansion import expand_ops
from xloom.passes.rewrite import Rewriter, RuleTable

rule = RuleTable()


@register
class BatchNormExpansion(Pass):
    """Rewrites batch-norm-training, -inference and -grad by their definitions, in f32 (f64 of f64).

    The variance is the mean square of the distances from the mean, which loses nothing where the mean is large.
    """

    name = "batch-norm-expansion"
    opcodes = rule.by_opcode

    def run(self, module: Module) -> bool:
        """See the class."""
        return expand_ops(module, rule)


# normalised = (x - mean) / sqrt(variance + epsilon) * scale + offset
@rule("batch-norm-inference")
def _inference(i: Instruction, rw: Rewriter) -> Instruction:
    e = _Expansion(i, rw)
    scale, offset, mean, variance = (e.wide(o) for o in i.operands[1:])
    return e.narrow(e.normalised(e.centred(mean), variance, scale, offset), i.shape)


@rule("batch-norm-training")
def _training(i: Instruction, rw: Rewriter) -> Instruction:
    e = _Expansion(i, rw)
    scale, offset = (e.wide(o) for o in i.operands[1:])
    mean = e.binary("divide", e.total(e.x), e.count())
    centred = e.centred(mean)
    variance = e.binary("divide", e.total(e.binary("multiply", centred, centred)), e.count())
    return e.packed([e.normalised(centred, variance, scale, offset), mean, variance])


# d_offset = sum(dy); d_scale = sum(dy * centred * inverse)
# d_x = scale * inverse / n * (n * dy - d_offset - centred * inverse * d_scale)
@rule("batch-norm-grad")
def _gradient(i: Instruction, rw: Rewriter) -> Instruction:
    e = _Expansion(i, rw)
    scale, mean, variance, upstream = (e.wide(o) for o in i.operands[1:])
    inverse, count = e.inverse_deviation(variance), e.count()
    centred = e.centred(mean)
    d_offset = e.total(upstream)
    d_scale = e.binary("multiply", e.total(e.binary("multiply", upstream, centred)), inverse)
    rest = e.binary("multiply", centred, e.over(e.binary("multiply", d_scale, inverse)))
    rest = e.binary("add", rest, e.over(d_offset))
    change = e.binary("subtract", e.binary("multiply", upstream, e.over(count)), rest)
    factor = e.binary("divide", e.binary("multiply", scale, inverse), count)
    return e.packed([e.binary("multiply", e.over(factor), change), d_scale, d_offset])


class _Expansion:
    """The operators of one batch normalisation; vectors have one element a feature."""

    def __init__(self, i: Instruction, rw: Rewriter):
        self.instruction, self.rw = i, rw
        self.feature: int = i["feature_index"]
        self.operand = i.operands[0]
        self.x = self.wide(self.operand)
        self.full = self.x.shape
        dynamic = (self.full.is_dynamic_dimension(self.feature),)
        self.vector = array_shape(self.full.dtype, (self.full.dims[self.feature],), dynamic)

    def wide(self, x: Instruction) -> Instruction:
        """A value in the type that is computed in."""
        return x if x.shape.dtype.bits >= 32 else self.rw.converted(x, f32)

    def narrow(self, x: Instruction, shape: Shape) -> Instruction:
        """A value in the element type of `shape`."""
        return self.rw.converted(x, shape.dtype)

    def packed(self, parts: list[Instruction]) -> Instruction:
        """The result of three parts."""
        narrow = [self.narrow(p, s) for p, s in zip(parts, self.instruction.shape.elements, strict=True)]
        return self.rw.make("tuple", tuple_shape([p.shape for p in narrow]), narrow)

    def binary(self, opcode: str, x: Instruction, y: Instruction) -> Instruction:
        """An elementwise operator of two values of one shape."""
        return self.rw.make(opcode, x.shape, [x, y])

    def over(self, vector: Instruction) -> Instruction:
        """A vector's element of the feature at every place of the operand."""
        shape = self.full.static()
        out = self.rw.make("broadcast", shape, [vector], dimensions=(self.feature,))
        for d in range(shape.rank):
            if self.full.is_dynamic_dimension(d):
                dynamic = [out.shape.is_dynamic_dimension(k) or k == d for k in range(shape.rank)]
                shape = array_shape(shape.dtype, shape.dims, dynamic, shape.layout)
                out = self.rw.make("set-dimension-size", shape, [out, self.size(d)], dimensions=(d,))
        return out

    def size(self, dimension: int) -> Instruction:
        """The operand's run-time size along one dimension."""
        return self.rw.make("get-dimension-size", array_shape(s32, ()), [self.operand], dimensions=(dimension,))

    def count(self) -> Instruction:
        """A vector: how many elements each feature has."""
        reduced = [d for d in range(self.full.rank) if d != self.feature]
        known = math.prod(self.full.dims[d] for d in reduced if not self.full.is_dynamic_dimension(d))
        scalar = array_shape(self.full.dtype, ())
        count = self.rw.constant(scalar, known)
        for d in reduced:
            if self.full.is_dynamic_dimension(d):
                count = self.binary("multiply", count, self.rw.make("convert", scalar, [self.size(d)]))
        return self._everywhere(count)

    def _everywhere(self, scalar: Instruction) -> Instruction:
        out = self.rw.make("broadcast", self.vector.static(), [scalar], dimensions=())
        if self.vector.is_dynamic:
            out = self.rw.make("set-dimension-size", self.vector, [out, self.size(self.feature)], dimensions=(0,))
        return out

    def total(self, x: Instruction) -> Instruction:
        """A vector: the sum of each feature."""
        zero = self.rw.constant(array_shape(self.full.dtype, ()), 0)
        reduced = tuple(d for d in range(self.full.rank) if d != self.feature)
        return self.rw.make("reduce", self.vector, [x, zero], dimensions=reduced, to_apply=self.sum)

    @cached_property
    def sum(self) -> Computation:
        """x + y."""
        return self.rw.sum_of(self.full.dtype)

    def inverse_deviation(self, variance: Instruction) -> Instruction:
        """1 / sqrt(variance + epsilon)."""
        scalar = self.rw.constant(array_shape(self.full.dtype, ()), np.float32(self.instruction["epsilon"]))
        epsilon = self._everywhere(scalar)
        return self.rw.make("rsqrt", self.vector, [self.binary("add", variance, epsilon)])

    def centred(self, mean: Instruction) -> Instruction:
        """x - mean."""
        return self.binary("subtract", self.x, self.over(mean))

    def normalised(
        self, centred: Instruction, variance: Instruction, scale: Instruction, offset: Instruction
    ) -> Instruction:
        """centred / sqrt(variance + epsilon) * scale + offset."""
        normal = self.binary("multiply", centred, self.over(self.inverse_deviation(variance)))
        return self.binary("add", self.binary("multiply", normal, self.over(scale)), self.over(offset))
