"""How kernels compute, how full they make a multiprocessor, and what time they take at least: `--explain kernel`."""

from __future__ import annotations

from collections.abc import Collection, Iterator
from typing import NamedTuple

from xloom.cuda.kernel import WARP
from xloom.cuda.lower import lowered
from xloom.cuda.program import Launch
from xloom.cuda.ptx import ptx_of
from xloom.cuda.ptxas import Assembled, assembled, tool
from xloom.hlo.module import Module
from xloom.llvm.target import Target


class Multiprocessor(NamedTuple):
    """What a multiprocessor has, and the memory's bandwidth in bytes a nanosecond, by NVIDIA's data sheets."""

    threads: int
    blocks: int
    shared_bytes: int
    bandwidth: int
    registers: int = 65536


MULTIPROCESSORS = {
    "sm_80": Multiprocessor(2048, 32, 164 << 10, 1555),
    "sm_86": Multiprocessor(1536, 16, 100 << 10, 936),
    "sm_89": Multiprocessor(1536, 24, 100 << 10, 1008),
    "sm_90": Multiprocessor(2048, 32, 228 << 10, 3350),
    "sm_90a": Multiprocessor(2048, 32, 228 << 10, 3350),
    "sm_100": Multiprocessor(2048, 32, 228 << 10, 8000),
    "sm_100a": Multiprocessor(2048, 32, 228 << 10, 8000),
    "sm_120": Multiprocessor(1536, 24, 100 << 10, 1792),
}
"""Of A100 (40 GB), GeForce RTX 3090 and 4090, H100 SXM, B200, GeForce RTX 5090."""
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
    kernel, multiprocessor = launch.kernel, MULTIPROCESSORS[target.name]
    yield f"{launch.makes}: {kernel.strategy}"
    made = assembled(ptx_of(kernel, target), target) if tool("ptxas") else None
    resident, limit = resident_blocks(launch, multiprocessor, made)
    share = 100 * resident * kernel.threads // multiprocessor.threads
    spills = "" if made is None else f"; {made.registers} registers a thread, {made.spilled_bytes} B spilled"
    yield f"  {launch.blocks} blocks of {kernel.threads} threads, {kernel.shared_bytes} B of shared memory{spills}"
    yield f"  a {target.name} has {resident} of the blocks on a multiprocessor, {share} % of its threads, for {limit}"
    nbytes = sum(a.nbytes for a in launch.arguments)
    microseconds = nbytes / multiprocessor.bandwidth / 1000
    yield f"  {nbytes} B of arrays, which take {microseconds:.2f} us or more if all are read or written once"


def resident_blocks(launch: Launch, multiprocessor: Multiprocessor, made: Assembled | None = None) -> tuple[int, str]:
    """How many blocks of a launch a multiprocessor has at once, and what it has no more of."""
    kernel, limits = launch.kernel, {}
    limits["its blocks"] = multiprocessor.blocks
    limits["its threads"] = multiprocessor.threads // kernel.threads
    limits["its shared memory"] = multiprocessor.shared_bytes // (kernel.shared_bytes + _SHARED_OF_SYSTEM)
    if made is not None:
        of_warp = -(-made.registers * WARP // _REGISTER_UNIT) * _REGISTER_UNIT
        limits["its shared memory"] = multiprocessor.shared_bytes // (made.shared_bytes + _SHARED_OF_SYSTEM)
        limits["its registers"] = multiprocessor.registers // (of_warp * (kernel.threads // WARP))
    least = min(limits, key=limits.__getitem__)
    return limits[least], least
