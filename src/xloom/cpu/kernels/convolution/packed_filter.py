"""The kernel of a convolution, packed before its tiles are computed."""

from __future__ import annotations

from dataclasses import replace

from llvmlite import ir

from xloom.cpu.kernel_modules.kernel import Kernel
from xloom.cpu.kernels.convolution.padding import unconverted
from xloom.cpu.kernels.matmul.axes import Axis, count, digits
from xloom.cpu.kernels.matmul.grain import grain
from xloom.cpu.kernels.matmul.packing import Packing, PackingTask
from xloom.cpu.kernels.matmul.tile import at_most, rolled
from xloom.llvm.types import I16, I64, i64
from xloom.llvm.vectors import shuffled


def packed_panels(kernel: Kernel, packing: Packing, base: int, group: Axis) -> int:
    """A phase that packs from element `base` of the kernel on, a panel an item: [group][panel]. The memory's number."""
    arithmetic, size = packing.arithmetic, packing.panel_size(packing.length)
    memory = kernel.add_scratch(group.size * packing.panels * size * arithmetic.dtype.real.bytes)
    with kernel.phase(group.size * packing.panels, grain(20 * size, arithmetic)) as phase:
        b = phase.b
        source, target = packing.source.pointer(phase), phase.scratch(memory)
        with rolled(b, phase.begin, phase.end, name="panel") as item:
            number, panel = digits(b, [Axis(group.size, 0, 0, 0), Axis(packing.panels, 0, 0, 0)], item)
            start = b.add(i64(base), b.mul(number, i64(group.b)))
            first = at_most(b, b.mul(panel, i64(packing.width)), max(0, count(packing.rows) - packing.width))
            pointer = b.gep(target, [b.mul(item, i64(size))], inbounds=True, source_etype=arithmetic.element)
            task = PackingTask(source, start, first, i64(0), i64(packing.length), pointer)
            if packing.arithmetic.pack_factor > 1 and packing.is_moved:
                _pack_in_pairs(b, packing, task)
            else:
                packing.emit_whole(b, task)
    return memory


def _pack_in_pairs(b: ir.IRBuilder, packing: Packing, task: PackingTask) -> None:
    """Packs a panel of single elements first, and then makes pairs of its lines two by two."""
    single, dtype = unconverted(packing.arithmetic, packing.source.dtype)
    alone = replace(packing, arithmetic=single, source=replace(packing.source, dtype=dtype))
    alone.emit_whole(b, task._replace(size=i64(count(packing.depth))))
    width, lanes = packing.width, min(packing.width, 16)
    with rolled(b, 0, packing.length, name="pair") as pair:
        line = b.gep(task.panel, [b.mul(pair, i64(2 * width))], inbounds=True, source_etype=I16)
        lines = [
            [single.load(b, line, dtype, I64(k * width + at), lanes)[0] for k in (0, 1)]
            for at in range(0, width, lanes)
        ]
        for number, (low, high) in enumerate(lines):
            both = shuffled(b, low, [k // 2 + lanes * (k % 2) for k in range(2 * lanes)], high)
            single.store(b, line, dtype, I64(2 * number * lanes), [both])
