"""Products by tensor cores: each warp of a block has a part of the tile, of products of 16 x 8 elements (mma).

Two slices of the operands are in shared memory: one is read while the other is written, and what comes after that is
on its way to registers. So there is one barrier for each slice.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import reduce
from typing import NamedTuple

from llvmlite import ir

from xloom.codegen.emission.accumulators import Accumulator, Representation
from xloom.cuda.kernel import WARP, KernelBuilder, strided
from xloom.cuda.kernels.product import Operand, Product, offset
from xloom.hlo.dtype import bf16, f16, f32
from xloom.hlo.instruction import Instruction
from xloom.llvm import element_access
from xloom.llvm.loop import allocate
from xloom.llvm.scalar.conversion import converted, narrow
from xloom.llvm.types import FLOAT, HALF, I16, I32, I64, memory_type

DEPTH = 32
"""Elements along k of a slice."""
_PAD = 8
"""Between rows in shared memory: those that a warp reads at once are in different banks."""
_ROWS, _COLUMNS = 16, 8
"""Of one instruction's output."""
_RESULT = ir.LiteralStructType([FLOAT] * 4)


class Cut(NamedTuple):
    """How a product is cut: rows and columns of a block's tile, and of a warp's part."""

    rows: int
    columns: int
    part_rows: int
    part_columns: int


SMALL = Cut(64, 64, 32, 32)
LARGE = Cut(128, 128, 32, 64)
"""For products of which there are enough such tiles for all multiprocessors."""
_MANY = 64


def tensor_core_kind(instruction: Instruction) -> str:
    """The element type by which tensor cores do a product: bf16, f16, tf32; empty where they would lose digits."""
    types = {o.shape.dtype for o in instruction._operands}
    result = instruction.shape.dtype
    if types == {bf16} and result in (bf16, f32):
        return "bf16"
    if types == {f16} and result in (f16, f32):
        return "f16"
    is_asked_for = str(instruction.attrs.get("algorithm", "")) == "dot_tf32_tf32_f32"
    return "tf32" if types == {f32} and result is f32 and is_asked_for else ""


class TensorCoreTiles:
    """The code of a block, and how many there are."""

    def __init__(self, instruction: Instruction, product: Product, kind: str):
        self.product, self.kind, self.dtype = product, kind, instruction.shape.dtype
        many = product.batch * (product.m // LARGE.rows) * (product.n // LARGE.columns) >= _MANY
        self.cut = LARGE if many and kind != "tf32" else SMALL
        self.rows, self.columns = -(-product.m // self.cut.rows), -(-product.n // self.cut.columns)
        self.threads = WARP * (self.cut.rows // self.cut.part_rows) * (self.cut.columns // self.cut.part_columns)
        self.element = I32 if kind == "tf32" else I16
        self.nbytes = self.element.width // 8
        self.pitch = DEPTH + _PAD * 2 // self.nbytes

    @property
    def count(self) -> int:
        """Blocks, one for each tile."""
        return self.product.batch * self.rows * self.columns

    def emit(self, kernel: KernelBuilder, pointers: Sequence[ir.Value]) -> None:
        """Emits the kernel; `pointers` are those of both operands and of the output."""
        b, product, cut = kernel.b, self.product, self.cut
        kernel.strategy = f"tiles of {cut.rows} x {cut.columns} by tensor cores ({self.kind}), {DEPTH} deep"
        tile, column = b.udiv(kernel.block, I64(self.columns)), b.urem(kernel.block, I64(self.columns))
        batch, row = b.udiv(tile, I64(self.rows)), b.urem(tile, I64(self.rows))
        first = [b.mul(row, I64(cut.rows), flags=["nsw"]), b.mul(column, I64(cut.columns), flags=["nsw"])]
        slices = [
            _Slices(self, kernel, operand, pointer, (start, length, size), batch)
            for operand, pointer, start, length, size in zip(
                (product.lhs, product.rhs),
                pointers,
                first,
                (cut.rows, cut.columns),
                (product.m, product.n),
                strict=False,
            )
        ]
        warps = cut.columns // cut.part_columns
        part = [
            b.mul(b.udiv(kernel.warp, I64(warps)), I64(cut.part_rows)),
            b.mul(b.urem(kernel.warp, I64(warps)), I64(cut.part_columns)),
        ]
        across, down = cut.part_columns // _COLUMNS, cut.part_rows // _ROWS
        sums = [[[_zero(b) for _ in range(4)] for _ in range(across)] for _ in range(down)]
        group, within = b.lshr(kernel.lane, I64(2)), b.and_(kernel.lane, I64(3))
        for operand in slices:
            operand.fetch(I64(0))
        with strided(b, I64(0), I64(product.k), DEPTH) as depth:
            buffer = b.and_(b.udiv(depth, I64(DEPTH)), I64(1))
            for operand in slices:
                operand.put(buffer)
            kernel.barrier()
            following = b.add(depth, I64(DEPTH), flags=["nsw"])
            with b.if_then(b.icmp_signed("<", following, I64(product.k))):
                for operand in slices:
                    operand.fetch(following)
            for k in range(0, DEPTH, 8 if self.kind == "tf32" else 16):
                left = [self._left(b, slices[0].at(buffer), part[0], i, k, group, within) for i in range(down)]
                right = [self._right(b, slices[1].at(buffer), part[1], j, k, group, within) for j in range(across)]
                for i in range(down):
                    for j in range(across):
                        self._multiply(b, sums[i][j], left[i], right[j])
        corner = [b.add(f, p, flags=["nsw"]) for f, p in zip(first, part, strict=True)]
        for i in range(down):
            for j in range(across):
                for half in range(2):
                    at = b.add(corner[0], b.add(group, I64(i * _ROWS + 8 * half)), flags=["nsw"])
                    place = b.add(b.mul(within, I64(2), flags=["nsw"]), I64(j * _COLUMNS), flags=["nsw"])
                    place = b.add(corner[1], place, flags=["nsw"])
                    self._store(b, pointers[2], batch, at, place, sums[i][j][2 * half : 2 * half + 2])

    # -- what a lane has of the operands of an instruction, as PTX says
    def _word(self, b: ir.IRBuilder, shared: ir.Value, line: ir.Value, k: ir.Value) -> ir.Value:
        index = b.add(b.mul(line, I64(self.pitch), flags=["nsw"]), k, flags=["nsw"])
        return b.load(b.gep(shared, [index], inbounds=True, source_etype=self.element), typ=I32, align=4)

    def _left(
        self, b: ir.IRBuilder, shared: ir.Value, part: ir.Value, i: int, k: int, group: ir.Value, within: ir.Value
    ) -> list[ir.Value]:
        per_word, half = (1, 4) if self.kind == "tf32" else (2, 8)
        deep = b.mul(within, I64(per_word))
        lines = [b.add(b.add(part, group), I64(i * _ROWS + 8 * r)) for r in range(2)]
        return [self._word(b, shared, lines[r], b.add(deep, I64(k + half * h))) for h in range(2) for r in range(2)]

    def _right(
        self, b: ir.IRBuilder, shared: ir.Value, part: ir.Value, j: int, k: int, group: ir.Value, within: ir.Value
    ) -> list[ir.Value]:
        per_word, half = (1, 4) if self.kind == "tf32" else (2, 8)
        deep, line = b.mul(within, I64(per_word)), b.add(b.add(part, group), I64(j * _COLUMNS))
        return [self._word(b, shared, line, b.add(deep, I64(k + half * h))) for h in range(2)]

    def _multiply(self, b: ir.IRBuilder, sums: list[Accumulator], left: list[ir.Value], right: list[ir.Value]) -> None:
        name, kind = {
            "bf16": ("m16n8k16.row.col.bf16", I32),
            "f16": ("m16n8k16.row.col.f32.f32", ir.VectorType(HALF, 2)),
            "tf32": ("m16n8k8.row.col.tf32", I32),
        }[self.kind]
        words = [w if kind is I32 else b.bitcast(w, kind) for w in (*left, *right)]
        full, signature = f"llvm.nvvm.mma.{name}", ir.FunctionType(_RESULT, [kind] * len(words) + [FLOAT] * 4)
        function = b.module.globals.get(full) or ir.Function(b.module, signature, full)
        result = b.call(function, [*words, *(a.get() for a in sums)])
        for number, accumulator in enumerate(sums):
            accumulator.set(b.extract_value(result, number))

    def _store(
        self,
        b: ir.IRBuilder,
        pointer: ir.Value,
        batch: ir.Value,
        row: ir.Value,
        column: ir.Value,
        pair: Sequence[Accumulator],
    ) -> None:
        """Two neighbours of the output, of an even column, where they are inside."""
        product = self.product
        is_row = b.icmp_signed("<", row, I64(product.m))
        if product.has_pairs:
            index = product.output_index(b, batch, row, column)
            kind = ir.VectorType(memory_type(self.dtype), 2)
            with b.if_then(b.and_(is_row, b.icmp_signed("<", column, I64(product.n)))):
                vector = ir.Constant(kind, ir.Undefined)
                for lane, accumulator in enumerate(pair):
                    value = accumulator.get()
                    value = value if self.dtype is f32 else narrow(b, value, self.dtype)
                    vector = b.insert_element(vector, value, I32(lane))
                address = b.gep(pointer, [index], inbounds=True, source_etype=memory_type(self.dtype))
                b.store(vector, address, align=2 * self.dtype.bytes)
            return
        for lane, accumulator in enumerate(pair):
            inside = b.and_(is_row, b.icmp_signed("<", column, I64(product.n - lane)))
            with b.if_then(inside):
                value = converted(b, accumulator.get(), f32, self.dtype)
                place = product.output_index(b, batch, row, b.add(column, I64(lane), flags=["nsw"]))
                element_access.store(b, pointer, self.dtype, place, value, exact=True)


class _Slices:
    """Slices of one operand: on their way in registers, and two of them in shared memory, with k innermost."""

    def __init__(
        self,
        tiles: TensorCoreTiles,
        kernel: KernelBuilder,
        operand: Operand,
        pointer: ir.Value,
        extent: tuple[ir.Value, int, int],
        batch: ir.Value,
    ):
        """`extent`: where the tile begins, how long it is, and how long the operand."""
        self._b, self._tiles, self._operand, self._pointer = kernel.b, tiles, operand, pointer
        self._first, self._length, self._size = extent
        self._base = offset(kernel.b, operand.batch, batch)
        self._width = min(operand.aligned, 16 // tiles.nbytes)
        self._kind = ir.VectorType(tiles.element, self._width) if self._width > 1 else tiles.element
        self._nbytes = self._length * tiles.pitch * tiles.nbytes
        self._shared = kernel.shared(2 * self._nbytes)
        self._places = [
            self._place(kernel.b.add(kernel.thread, I64(n * tiles.threads), flags=["nsw", "nuw"]))
            for n in range(DEPTH * self._length // self._width // tiles.threads)
        ]
        self._registers = [allocate(kernel.b, self._kind) for _ in self._places]

    def _place(self, item: ir.Value) -> tuple[ir.Value, ir.Value]:
        """The line and the k of what a thread loads at once."""
        b, is_deep = self._b, self._operand.is_deep
        inside = (DEPTH if is_deep else self._length) // self._width
        inner = b.mul(b.urem(item, I64(inside)), I64(self._width), flags=["nsw", "nuw"])
        outer = b.udiv(item, I64(inside))
        return (outer, inner) if is_deep else (inner, outer)

    def fetch(self, depth: ir.Value) -> None:
        """Loads a slice into registers; zeros where there is none."""
        b, operand = self._b, self._operand
        nothing = ir.Constant(self._kind, [0] * self._width if self._width > 1 else 0)
        for (line, k), slot in zip(self._places, self._registers, strict=True):
            at, deep = b.add(self._first, line, flags=["nsw"]), b.add(depth, k, flags=["nsw"])
            place, conditions = operand.place(b, at, deep)
            conditions.append(b.icmp_signed("<", at, I64(self._size)))
            conditions.append(b.icmp_signed("<", deep, I64(self._tiles.product.k)))
            b.store(nothing, slot)
            with b.if_then(reduce(b.and_, conditions)):
                index = b.add(self._base, place, flags=["nsw"])
                address = b.gep(self._pointer, [index], inbounds=True, source_etype=self._tiles.element)
                b.store(b.load(address, typ=self._kind, align=self._width * self._tiles.nbytes), slot)

    def put(self, buffer: ir.Value) -> None:
        """Stores what is in registers to one of both buffers."""
        b, tiles = self._b, self._tiles
        shared = self.at(buffer)
        for (line, k), slot in zip(self._places, self._registers, strict=True):
            value = b.load(slot, typ=self._kind)
            place = b.add(b.mul(line, I64(tiles.pitch), flags=["nsw"]), k, flags=["nsw"])
            if self._width == 1 or self._operand.is_deep:
                here = b.gep(shared, [place], inbounds=True, source_etype=tiles.element)
                b.store(value, here, align=self._width * tiles.nbytes)
                continue
            for lane in range(self._width):
                here = b.add(place, I64(lane * tiles.pitch), flags=["nsw"])
                address = b.gep(shared, [here], inbounds=True, source_etype=tiles.element)
                b.store(b.extract_element(value, I32(lane)), address, align=tiles.nbytes)

    def at(self, buffer: ir.Value) -> ir.Value:
        """Where one of both slices lies in shared memory."""
        number = self._b.mul(buffer, I64(self._nbytes // self._tiles.nbytes), flags=["nsw"])
        return self._b.gep(self._shared, [number], inbounds=True, source_etype=self._tiles.element)


def _zero(b: ir.IRBuilder) -> Accumulator:
    accumulator = Accumulator(b, Representation(f32))
    accumulator.set(FLOAT(0.0))
    return accumulator
