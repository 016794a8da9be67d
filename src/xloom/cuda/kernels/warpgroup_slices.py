"""Slices of a product's operand in shared memory as warpgroups' products read them: rows of 128 bytes, swizzled.

A row is of elements along k, of one line; or, where neighbours in memory are of neighbouring lines, of 64 lines with
the same k. In each, pieces of 16 bytes change places by the row's number, so that those of one place in eight rows are
in different banks: PTX calls it 128-byte swizzling.
"""

from __future__ import annotations

from llvmlite import ir

from xloom.cuda.kernels.async_copy import begin_copy
from xloom.cuda.kernels.operand_lines import OperandLines
from xloom.cuda.kernels.staged_slices import SliceShape
from xloom.llvm.types import I8, I32, I64

ROW_BYTES, _PIECE = 128, 16
_ROWS = 8 * ROW_BYTES
"""Bytes of eight rows, after which the order is the same again."""
_SWIZZLED = 1 << 62
"""Of a descriptor: that it is by 128 bytes."""


class WarpgroupSlices:
    """The slices of an operand's lines."""

    is_asynchronous = True

    def __init__(self, lines: OperandLines, shape: SliceShape, memory: ir.Value):
        """`memory`: of all slices, aligned to 1024 bytes."""
        kernel, element = lines.kernel, lines.element
        self._kernel, self._b, self._lines = kernel, kernel.b, lines
        self.shape, self._element, self._memory = shape, element, memory
        self.is_deep = lines.operand.is_deep
        self._width = _PIECE * 8 // element.width
        self.nbytes = shape.length * shape.depth * element.width // 8
        pieces = self.nbytes // _PIECE
        self._pieces = [
            self._piece(self._b.add(kernel.thread, I64(n * kernel.threads), flags=["nsw", "nuw"]))
            for n in range(pieces // kernel.threads)
        ]

    def _piece(self, item: ir.Value) -> tuple[ir.Value, ir.Value, ir.Value]:
        """The line and the k of what a thread copies at once, and its place in bytes."""
        b = self._b
        of_row = ROW_BYTES // _PIECE
        row, column = b.udiv(item, I64(of_row)), b.urem(item, I64(of_row))
        swizzled = b.xor(column, b.urem(row, I64(8)))
        place = b.add(b.mul(row, I64(ROW_BYTES)), b.mul(swizzled, I64(_PIECE)), flags=["nsw", "nuw"])
        inner = b.mul(column, I64(self._width), flags=["nsw", "nuw"])
        if self.is_deep:
            return row, inner, place
        block, k = b.udiv(row, I64(self.shape.depth)), b.urem(row, I64(self.shape.depth))
        across = b.mul(block, I64(of_row * self._width), flags=["nsw", "nuw"])
        return b.add(across, inner, flags=["nsw", "nuw"]), k, place

    def begin(self, depth: ir.Value, buffer: ir.Value) -> None:
        """Begins to copy the slice that starts at `depth` to one of the buffers; zeros where there is none."""
        b = self._b
        start = b.mul(buffer, I64(self.nbytes), flags=["nsw", "nuw"])
        for line, k, place in self._pieces:
            address, inside = self._lines.source(line, b.add(depth, k, flags=["nsw"]))
            target = b.gep(self._memory, [b.add(start, place)], inbounds=True, source_etype=I8)
            begin_copy(self._kernel, target, address, _PIECE, b.select(inside, I32(_PIECE), I32(0)))

    def end(self, buffer: ir.Value) -> None:
        """Nothing: copies are waited for."""

    def descriptors(self, buffer: ir.Value, line: ir.Value) -> list[ir.Value]:
        """Descriptors (i64) of what is from a line on, a multiple of 64: one for each 32 bytes of elements along k."""
        b = self._b
        steps = self.shape.depth * self._element.width // 8 // 32
        if self.is_deep:
            first, step = b.mul(line, I64(ROW_BYTES)), 32
            leading, stride = 1, _ROWS
        else:
            blocks = b.udiv(line, I64(ROW_BYTES * 8 // self._element.width))
            leading, stride = self.shape.depth * ROW_BYTES, _ROWS
            first, step = b.mul(blocks, I64(leading)), self.shape.depth // steps * ROW_BYTES
        start = b.add(b.mul(buffer, I64(self.nbytes), flags=["nsw", "nuw"]), first, flags=["nsw", "nuw"])
        address = b.gep(self._memory, [start], inbounds=True, source_etype=I8)
        inside = b.addrspacecast(address, ir.PointerType(addrspace=3))
        number = b.zext(b.and_(b.lshr(b.ptrtoint(inside, I32), I32(4)), I32(0x3FFF)), I64)
        offsets = (max(1, leading >> 4) << 16) | ((stride >> 4) << 32) | _SWIZZLED
        return [b.add(b.or_(number, I64(offsets)), I64(k * step >> 4)) for k in range(steps)]
