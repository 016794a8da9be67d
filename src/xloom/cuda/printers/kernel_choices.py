"""How kernels compute, how full they make a multiprocessor, and what time they take at least: `--explain kernel`."""

from __future__ import annotations

from collections.abc import Collection, Iterator

from xloom.cuda.data_sheets import DATA_SHEETS, Gpu
from xloom.cuda.kernel import WARP
from xloom.cuda.lower import lowered
from xloom.cuda.program import Launch
from xloom.cuda.ptx import ptx_of
from xloom.cuda.ptxas import Assembled, assembled, tool
from xloom.hlo.module import Module
from xloom.llvm.target import Target

_REGISTER_UNIT, _SHARED_OF_SYSTEM = 256, 1 << 10
"""Registers that a warp gets at once, and what each block has of shared memory besides."""


def kernel_choices_text(module: Module, names: Collection[str], target: Target) -> str:
    """Of each launch, or of those that make instructions of these names. Registers are known where ptxas is."""
    program, lines = lowered(module, target), []
    for launch in program.launches:
        if not names or any(f"%{name}" in launch.makes.replace(",", " ").split() for name in names):
            lines += _of_launch(launch, target)
    return "".join(f"{line}\n" for line in lines)


def _of_launch(launch: Launch, target: Target) -> Iterator[str]:
    kernel, gpu = launch.kernel, DATA_SHEETS[target.name]
    yield f"{launch.makes}: {kernel.strategy}"
    made = assembled(ptx_of(kernel, target), target) if tool("ptxas") else None
    resident, limit = resident_blocks(launch, gpu, made)
    share = 100 * resident * kernel.threads // gpu.threads
    spills = "" if made is None else f"; {made.registers} registers a thread, {made.spilled_bytes} B spilled"
    shared = kernel.shared_bytes + kernel.dynamic_shared_bytes
    yield f"  {launch.blocks} blocks of {kernel.threads} threads, {shared} B of shared memory{spills}"
    yield f"  a {target.name} has {resident} of the blocks on a multiprocessor, {share} % of its threads, for {limit}"
    rounds = launch.blocks / max(1, resident * gpu.multiprocessors)
    yield f"  all {gpu.multiprocessors} of a {gpu.product} do the blocks in {rounds:.2f} rounds"
    memory, arithmetic = least_times(launch, gpu)
    bound = "memory" if memory >= arithmetic else "arithmetic"
    yield f"  {memory:.2f} us or more for {_nbytes(launch)} B of arrays, each once, at {gpu.bandwidth} GB/s"
    rate = f"{gpu.teraflops[_arithmetic(launch)]} TFLOP/s ({_arithmetic(launch)})"
    yield f"  {arithmetic:.2f} us or more for {launch.flops} operations at {rate}: bound by {bound}"


def least_times(launch: Launch, gpu: Gpu) -> tuple[float, float]:
    """Microseconds that a launch takes at least, for its arrays and for its arithmetic."""
    return _nbytes(launch) / gpu.bandwidth / 1e3, launch.flops / gpu.teraflops[_arithmetic(launch)] / 1e6


def _nbytes(launch: Launch) -> int:
    return sum(a.nbytes for a in launch.arguments)


def _arithmetic(launch: Launch) -> str:
    """What does it, by the names of data sheets."""
    return f"tensor {launch.kernel.tensor_cores}" if launch.kernel.tensor_cores else launch.computes_in


def resident_blocks(launch: Launch, gpu: Gpu, made: Assembled | None = None) -> tuple[int, str]:
    """How many blocks of a launch a multiprocessor has at once, and what it has no more of."""
    kernel, limits = launch.kernel, {}
    limits["its blocks"] = gpu.blocks
    limits["its threads"] = gpu.threads // kernel.threads
    static = kernel.shared_bytes if made is None else made.shared_bytes
    limits["its shared memory"] = gpu.shared_bytes // (static + kernel.dynamic_shared_bytes + _SHARED_OF_SYSTEM)
    if made is not None:
        of_warp = -(-made.registers * WARP // _REGISTER_UNIT) * _REGISTER_UNIT
        limits["its registers"] = gpu.registers // (of_warp * (kernel.threads // WARP))
    least = min(limits, key=limits.__getitem__)
    return limits[least], least
