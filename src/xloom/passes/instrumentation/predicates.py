"""HLO that says of each element whether it is a NaN, was made one, or is an index out of range."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence

import numpy as np

from xloom.hlo import dtype as dt
from xloom.hlo.computation import Computation
from xloom.hlo.index_operands import Indices
from xloom.hlo.instruction import Instruction
from xloom.hlo.module import Module
from xloom.hlo.non_finite import NAN, is_inexact
from xloom.hlo.shape import array_shape
from xloom.passes.rewrite import Rewriter

FLAG = array_shape(dt.pred, ())
_HALF = {"f16": 0x7C00, "bf16": 0x7F80}
"""The bits of infinity. What is told from bits is what is stored, not what a register has with more digits."""
_ROW, _AT_ONCE = 1 << 12, 1 << 14
"""Elements of a row that is looked at for itself, if dimensions allow it, and of an array that has none."""
_ALIKE = frozenset(("operand_precision", "algorithm"))
"""Attributes of products that those of indicators do without."""


def logical_or(module: Module) -> Computation:
    """A new computation: x or y."""
    body = module.add(Computation("any"))
    x, y = (body.add(Instruction(n, "parameter", FLAG, (), {"parameter_number": k})) for k, n in enumerate("xy"))
    body.root = body.add(Instruction("or", "or", FLAG, [x, y]))
    return body


class Predicates(Rewriter):
    """Makes predicates of the values in one computation; each is a pred of its array's dimensions."""

    def __init__(self, computation: Computation, either: Computation):
        """`either` is x or y."""
        super().__init__(computation)
        self._or = either

    def nan(self, x: Instruction) -> Instruction:
        """Where it is a NaN."""
        if x.shape.dtype.is_complex:
            return self.either([self.nan(part) for part in self._parts(x)])
        if x.shape.dtype.name in _HALF:
            return self._compare(self._magnitude_bits(x), _HALF[x.shape.dtype.name], "GT")
        x = self._wide(x)
        return self.make("compare", x.shape.with_dtype(dt.pred), [x, x], direction="NE")  # x != x

    def infinite(self, x: Instruction) -> Instruction:
        """Where it is an infinity."""
        if x.shape.dtype.is_complex:
            return self.either([self.infinite(part) for part in self._parts(x)])
        if x.shape.dtype.name in _HALF:
            return self._compare(self._magnitude_bits(x), _HALF[x.shape.dtype.name], "EQ")
        x = self._wide(x)
        return self._compare(self.make("abs", x.shape, [x]), np.inf, "EQ")

    def not_finite(self, x: Instruction) -> Instruction:
        """Where it is either."""
        if x.shape.dtype.is_complex:
            return self.either([self.not_finite(part) for part in self._parts(x)])
        if x.shape.dtype.name in _HALF:
            return self._compare(self._magnitude_bits(x), _HALF[x.shape.dtype.name], "GE")
        x = self._wide(x)
        return self._not(self.make("is-finite", x.shape.with_dtype(dt.pred), [x]))

    def made(self, instruction: Instruction, leaf: Instruction, kind: str) -> Instruction:
        """Where an instruction has made a NaN, or an infinity, in a leaf of its value."""
        tainted = self._tainted(instruction, leaf, self.nan if kind == NAN else self.not_finite)
        found = self.nan(leaf) if kind == NAN else self.infinite(leaf)
        return found if tainted is None else self.make("and", found.shape, [found, self._not(tainted)])

    def _tainted(
        self, instruction: Instruction, leaf: Instruction, is_bad: Callable[[Instruction], Instruction]
    ) -> Instruction | None:
        """Where some element that a leaf depends on is bad; None for nowhere."""
        bad = {k: is_bad(o) for k, o in enumerate(instruction.operands) if is_inexact(o.shape)}
        if not bad:
            return None
        opcode, dims = instruction.opcode, leaf.shape.dims
        if instruction.op.elementwise or opcode == "map":
            return self.either([self._spread(each, dims) for each in bad.values()])
        if opcode == "reduce":
            count, along = len(instruction.operands) // 2, instruction["dimensions"]
            return self.either(
                [self._any_along(x, along) if k < count else self._spread(x, dims) for k, x in bad.items()]
            )
        if opcode == "dot":
            return self.either([self._met(instruction, k, each, dims) for k, each in bad.items()])
        if opcode == "convolution":  # that of an indicator with ones counts what each element meets
            shapes = [o.shape.with_dtype(dt.f32) for o in instruction.operands]
            attrs = {name: value for name, value in instruction.attrs.items() if name not in _ALIKE}
            sums = []
            for k, each in bad.items():
                indicator, ones = self.converted(each, dt.f32), self.splat(shapes[1 - k], 1)
                operands = [indicator, ones] if k == 0 else [ones, indicator]
                sums.append(self.make(opcode, leaf.shape.with_dtype(dt.f32), operands, **attrs))
            return self.either([self._compare(each, 0, "GT") for each in sums])
        return self._spread(self.either([self.any(each) for each in bad.values()]), dims)

    def _met(self, dot: Instruction, number: int, x: Instruction, dims: tuple[int, ...]) -> Instruction:
        """Where a product sums up an element of an operand for which `x` is true."""
        side = ("lhs", "rhs")[number]
        batch, summed = dot[f"{side}_batch_dims"], dot[f"{side}_contracting_dims"]
        free = [d for d in range(x.shape.rank) if d not in batch and d not in summed]
        first = len(batch) if number == 0 else len(dims) - len(free)
        place = {**{d: k for k, d in enumerate(batch)}, **{d: first + k for k, d in enumerate(free)}}
        x = self._any_along(x, summed) if summed else x
        order = tuple(place[d] for d in sorted(place))
        return self.make("broadcast", array_shape(dt.pred, dims), [x], dimensions=order)

    def out_of_range(self, x: Instruction, use: Indices) -> list[Instruction]:
        """Where indices are below 0, if any can be, and where they are beyond their limits, if these can be passed."""
        found, dtype = [], x.shape.dtype
        if dtype.name.startswith("s"):
            found.append(self._compare(x, 0, "LT"))
        most = (1 << dtype.bits - dtype.name.startswith("s")) - 1
        if min(use.limits, default=most) < most:
            limits = np.array([min(limit, most) for limit in use.limits], dtype.numpy)
            if use.axis is None or len(set(use.limits)) == 1:
                found.append(self._compare(x, limits[0], "GT"))
            else:
                vector = self.constant(array_shape(dtype, limits.shape), limits)
                limit = self.make("broadcast", x.shape, [vector], dimensions=(use.axis,))
                found.append(self.make("compare", x.shape.with_dtype(dt.pred), [x, limit], direction="GT"))
        return found

    def poison(self, x: Instruction) -> Instruction:
        """Where all bits are set."""
        if x.shape.dtype.is_complex:
            return self.either([self.poison(part) for part in self._parts(x)])
        shape = x.shape.with_dtype(dt.dtype(f"u{x.shape.dtype.bits}"))
        return self._compare(self.make("bitcast-convert", shape, [x]), (1 << shape.dtype.bits) - 1, "EQ")

    def overflows(self, instruction: Instruction) -> Instruction:
        """Where the exact sum, difference or product of two integers is not in their type."""
        (a, b), shape = instruction.operands, instruction.shape
        if instruction.opcode == "multiply":  # mulhi(a, b) != a * b >> (bits - 1)
            high = self.make("mulhi", shape, [a, b])
            sign = self.make("shift-right-arithmetic", shape, [instruction, self.splat(shape, shape.dtype.bits - 1)])
            return self.make("compare", shape.with_dtype(dt.pred), [high, sign], direction="NE")
        # (a ^ s) & (b ^ s) < 0 of s = a + b; (a ^ s) & (a ^ b) < 0 of s = a - b
        first = self.make("xor", shape, [a, instruction])
        other = self.make("xor", shape, [b, instruction if instruction.opcode == "add" else a])
        return self._compare(self.make("and", shape, [first, other]), 0, "LT")

    def any(self, x: Instruction) -> Instruction:
        """pred[]: whether it is true somewhere."""
        if x.shape.rank > 1:  # short rows take long each
            rows, columns = list(x.shape.dims), 1
            most = x.shape.size if x.shape.size <= _AT_ONCE else _ROW
            while rows and (columns == 1 or columns * rows[-1] <= most):
                columns *= rows.pop()
            x = self.make("reshape", array_shape(dt.pred, (math.prod(rows), columns)), [x])
            x = self._any_along(x, [1] if rows else [0, 1])
        return x if x.shape.is_scalar else self._any_along(x, [0])

    def either(self, parts: Sequence[Instruction]) -> Instruction:
        """Where one of some of the same dimensions is true."""
        found = parts[0]
        for part in parts[1:]:
            found = self.make("or", found.shape, [found, part])
        return found

    def _any_along(self, x: Instruction, dimensions: Sequence[int]) -> Instruction:
        shape = array_shape(dt.pred, [n for d, n in enumerate(x.shape.dims) if d not in dimensions])
        false = self.constant(FLAG, False)
        return self.make("reduce", shape, [x, false], dimensions=tuple(dimensions), to_apply=self._or)

    def _spread(self, x: Instruction, dims: tuple[int, ...]) -> Instruction:
        """A scalar everywhere; what has the dimensions is itself."""
        shape = array_shape(dt.pred, dims)
        return x if x.shape.dims == dims else self.make("broadcast", shape, [x], dimensions=())

    def _not(self, x: Instruction) -> Instruction:
        return self.make("not", x.shape, [x])

    def _compare(self, x: Instruction, value: float, direction: str) -> Instruction:
        number = np.array(value, x.shape.dtype.numpy)
        return self.make("compare", x.shape.with_dtype(dt.pred), [x, self.splat(x.shape, number)], direction=direction)

    def _magnitude_bits(self, x: Instruction) -> Instruction:
        shape = x.shape.with_dtype(dt.u16)
        bits = self.make("bitcast-convert", shape, [x])
        return self.make("and", shape, [bits, self.splat(shape, 0x7FFF)])

    def _wide(self, x: Instruction) -> Instruction:
        return x if x.shape.dtype.bits >= 32 else self.converted(x, dt.f32)

    def _parts(self, x: Instruction) -> list[Instruction]:
        return [self.make(part, x.shape.with_dtype(x.shape.dtype.real), [x]) for part in ("real", "imag")]
