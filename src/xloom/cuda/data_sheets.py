"""What GPUs have and reach at most, a row for each target.

Multiprocessors' limits are those of the CUDA C++ Programming Guide's table of compute capabilities. The rest is of
NVIDIA's papers on architectures (A100 Tensor Core GPU, Ampere GA102, Ada, RTX Blackwell) and data sheets (H100 SXM, HGX
B200). Rates are of dense products, sums in f32.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple


class Gpu(NamedTuple):
    """A GPU. Of a multiprocessor: threads, blocks and bytes of shared memory that it has room for."""

    product: str
    multiprocessors: int
    threads: int
    blocks: int
    shared_bytes: int
    bandwidth: int
    """Of its memory, in bytes a nanosecond."""
    teraflops: Mapping[str, float]
    """10**12 operations a second of each type that arithmetic is done in; of `tensor` ones, by tensor cores."""
    registers: int = 65536
    """Of a multiprocessor, 32 bits each."""


def _rates(
    f32: float, f64: float, tf32: float, bf16: float, s8: float, tensor_f64: float | None = None
) -> Mapping[str, float]:
    return {
        "f32": f32,
        "f64": f64,
        "tensor f64": tensor_f64 or f64,
        "tensor tf32": tf32,
        "tensor bf16": bf16,
        "tensor f16": bf16,
        "tensor s8": s8,
        "tensor u8": s8,
    }


_H100 = Gpu("H100 SXM", 132, 2048, 32, 228 << 10, 3350, _rates(66.9, 33.5, 494.7, 989.4, 1979, 66.9))
_B200 = Gpu("B200", 148, 2048, 32, 228 << 10, 8000, _rates(75, 37, 1100, 2250, 4500))
DATA_SHEETS: Mapping[str, Gpu] = {
    "sm_80": Gpu("A100 40 GB", 108, 2048, 32, 164 << 10, 1555, _rates(19.5, 9.7, 156, 312, 624, 19.5)),
    "sm_86": Gpu("GeForce RTX 3090", 82, 1536, 16, 100 << 10, 936, _rates(35.6, 0.56, 35.6, 71, 284)),
    "sm_89": Gpu("GeForce RTX 4090", 128, 1536, 24, 100 << 10, 1008, _rates(82.6, 1.29, 82.6, 165.2, 660.6)),
    "sm_90": _H100,
    "sm_90a": _H100,
    "sm_100": _B200,
    "sm_100a": _B200,
    "sm_120": Gpu("GeForce RTX 5090", 170, 1536, 24, 100 << 10, 1792, _rates(104.8, 1.64, 104.8, 209.5, 838)),
}
