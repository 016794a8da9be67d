"""The kernel of a convolution, packed before its tiles are computed."""

from __future__ import annotations

from xloom.cpu.emit.types import i64
from xloom.cpu.kernel import Kernel
from xloom.cpu.kernels.matmul.axes import Axis, count, digits
from xloom.cpu.kernels.matmul.packing import Packing, Part
from xloom.cpu.kernels.matmul.tile import at_most, rolled
from xloom.cpu.kernels.matmul.work import grain


def packed_panels(kernel: Kernel, packing: Packing, base: int, group: Axis) -> int:
    """A phase that packs from element `base` of the kernel on, a panel an item: [group][panel]. The memory's number."""
    arithmetic, depth = packing.arithmetic, count(packing.depth)
    size = packing.panel_size(depth)
    memory = kernel.add_scratch(group.size * packing.panels * size * arithmetic.dtype.real.bytes)
    with kernel.phase(group.size * packing.panels, grain(20 * size, arithmetic)) as phase:
        b = phase.b
        source, target = packing.source.pointer(phase), phase.scratch(memory)
        with rolled(b, phase.begin, phase.end, name="panel") as item:
            number, panel = digits(b, [Axis(group.size, 0, 0, 0), Axis(packing.panels, 0, 0, 0)], item)
            start = b.add(i64(base), b.mul(number, i64(group.b)))
            first = at_most(b, b.mul(panel, i64(packing.width)), max(0, count(packing.rows) - packing.width))
            place = b.gep(target, [b.mul(item, i64(size))], inbounds=True, source_etype=arithmetic.element)
            packing.emit_whole(b, Part(source, start, first, i64(0), i64(depth), place))
    return memory
