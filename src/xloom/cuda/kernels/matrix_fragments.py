"""What a lane has of the operands of products by tensor cores, out of shared memory, as PTX says (mma, ldmatrix)."""

from __future__ import annotations

from llvmlite import ir

from xloom.cuda.kernel import KernelBuilder
from xloom.cuda.kernels.mma import BYTES
from xloom.cuda.kernels.staged_slices import StagedSlices, TurnedSlices
from xloom.llvm.types import I32, I64

_SHARED = ir.PointerType(addrspace=3)
_WORDS = ir.LiteralStructType([I32] * 4)


class Fragments:
    """Those of a warp's part of one operand, which begins at line `part` of the slices."""

    def __init__(self, kernel: KernelBuilder, slices: StagedSlices | TurnedSlices, part: ir.Value, kind: str):
        self._b, self._slices, self._kind, self._part = kernel.b, slices, kind, part
        self._lane = kernel.lane

    def left(self, buffer: ir.Value, k: int, count: int) -> list[list[ir.Value]]:
        """Four words for each of `count` blocks of 16 lines, of the elements from `k` on; of f64 one, of 8 lines."""
        if self._kind == "f64":
            return self.right(buffer, k, count)
        if self._kind == "tf32":
            places = [(8 * r, 4 * h) for h in range(2) for r in range(2)]
            return [[self._word(buffer, 16 * i + line, k + deep) for line, deep in places] for i in range(count)]
        # matrices 0 and 1 are of neighbouring lines, 2 and 3 of the same further along k
        return [self._matrices(buffer, 16 * i, k, line_bit=0) for i in range(count)]

    def right(self, buffer: ir.Value, k: int, count: int) -> list[list[ir.Value]]:
        """Two words for each of `count` blocks of 8 lines, or one of f64."""
        if self._kind == "f64":
            return [[self._word(buffer, 8 * j, k, I64)] for j in range(count)]
        if self._kind == "tf32":
            return [[self._word(buffer, 8 * j, k + 4 * h) for h in range(2)] for j in range(count)]
        found = []
        for j in range(0, count, 2):
            words = self._matrices(buffer, 8 * j, k, line_bit=1)
            found += [words[:2], words[2:]]
        return found

    def _word(self, buffer: ir.Value, line: int, k: int, kind: ir.IntType = I32) -> ir.Value:
        b, slices = self._b, self._slices
        group, within = b.lshr(self._lane, I64(2)), b.and_(self._lane, I64(3))
        first = slices.index(b.add(self._part, group, flags=["nsw", "nuw"]), within)
        return b.load(self._address(buffer, first, line, k), typ=kind, align=kind.width // 8)

    def _matrices(self, buffer: ir.Value, line: int, k: int, line_bit: int) -> list[ir.Value]:
        """Four matrices of 8 x 8: bit `line_bit` of their numbers is along the lines, the other one along k."""
        b, slices = self._b, self._slices
        number, row = b.lshr(self._lane, I64(3)), b.and_(self._lane, I64(7))
        bits = [b.and_(number, I64(1)), b.lshr(number, I64(1))]
        # a row of a matrix has 16 bytes, which of single bytes are 16 elements along k
        deep = 16 if self._kind in BYTES else 8
        lines, depths = bits[line_bit], bits[1 - line_bit]
        lines, depths = (b.mul(x, I64(n), flags=["nsw", "nuw"]) for x, n in ((lines, 8), (depths, deep)))
        if slices.is_deep:
            lines = b.add(lines, row, flags=["nsw", "nuw"])
        else:
            depths = b.add(depths, row, flags=["nsw", "nuw"])
        first = slices.index(b.add(self._part, lines, flags=["nsw", "nuw"]), depths)
        address = b.addrspacecast(self._address(buffer, first, line, k), _SHARED)
        name = f"llvm.nvvm.ldmatrix.sync.aligned.m8n8.x4{'' if slices.is_deep else '.trans'}.b16.p3"
        function = b.module.globals.get(name) or ir.Function(b.module, ir.FunctionType(_WORDS, [_SHARED]), name)
        result = b.call(function, [address])
        return [b.extract_value(result, number) for number in range(4)]

    def _address(self, buffer: ir.Value, first: ir.Value, line: int, k: int) -> ir.Value:
        index = self._b.add(first, I64(self._slices.step(line, k)), flags=["nsw", "nuw"])
        return self._slices.pointer(buffer, index)
