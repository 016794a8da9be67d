"""The time of each kernel beside the machine's limits, as the page reads it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from xloom.hlo.module import Module
from xloom.roofline.kernel_times import KernelTime, kernel_times
from xloom.roofline.limits import Limits, measure

_REPEATS = 9


@dataclass(frozen=True)
class Profile:
    """What was measured of a program, and of the machine."""

    kernels: list[KernelTime]
    limits: Limits

    @staticmethod
    def of(module: Module, arguments: Sequence[Any], repeats: int = _REPEATS) -> Profile:
        """Runs a program on arguments. Raises LoweringError for what has no native code."""
        return Profile(kernel_times(module, arguments, repeats), measure())

    def data(self) -> dict[str, Any]:
        """As the page reads it: seconds, bytes and operations."""
        return {
            "bandwidth": self.limits.bandwidth,
            "peak": self.limits.peak,
            "kernels": [
                {
                    "name": kernel.name,
                    "opcode": kernel.opcode,
                    "op_name": kernel.op_name,
                    "seconds": kernel.seconds,
                    "total": kernel.total,
                    "runs": kernel.runs,
                    "bytes": kernel.bytes,
                    "flops": kernel.flops,
                    "limit": kernel.of_limit(self.limits),
                }
                for kernel in self.kernels
            ],
        }
