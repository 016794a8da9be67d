"""Attention by torch.compile(backend="xloom") against torch's own kernel: python -m benchmarks.attention [THREADS].

Ratios are torch's least time over ours, of the clock and of the processors, which other load hardly touches.
"""

from __future__ import annotations

import os
import sys
import time
from collections.abc import Callable
from typing import Any

CASES: list[tuple[str, tuple[int, ...], dict[str, Any]]] = [
    ("512", (1, 8, 8, 512, 64), {}),
    ("1500", (1, 8, 8, 1500, 64), {}),
    ("4096", (1, 4, 4, 4096, 64), {}),
    ("causal 2048", (1, 8, 8, 2048, 64), {"is_causal": True}),
    ("groups 2048", (1, 16, 4, 2048, 128), {"enable_gqa": True}),
    ("gradients 1024", (1, 8, 8, 1024, 64), {"gradients": True}),
    ("gradients causal 2048", (1, 4, 4, 2048, 64), {"gradients": True, "is_causal": True}),
]
"""Batch, heads of queries, heads of keys, rows and size of each."""


def main(threads: int, turns: int = 5) -> None:
    """A line for each case and type."""
    os.environ["XLOOM_NUM_THREADS"] = str(threads)
    import torch
    from torch.nn.functional import scaled_dot_product_attention

    torch.set_num_threads(threads)
    for dtype in (torch.bfloat16, torch.float32):
        for name, (batch, heads, shared, rows, size), options in CASES:
            torch._dynamo.reset()
            attend = {k: v for k, v in options.items() if k != "gradients"}
            needs = "gradients" in options
            arrays = [torch.randn(batch, h, rows, size, dtype=dtype) for h in (heads, shared, shared)]
            given = [x.requires_grad_(needs) for x in arrays]
            slope = torch.randn_like(arrays[0])

            def own(q, k, v, attend=attend):
                return scaled_dot_product_attention(q, k, v, **attend)

            def turn(function: Callable[..., Any], needs=needs, given=given, slope=slope) -> None:
                with torch.set_grad_enabled(needs):
                    result = function(*given)
                    if needs:
                        torch.autograd.grad(result, given, slope)

            sides = (own, torch.compile(own, backend="xloom"))
            best = [[float("inf")] * 2 for _ in sides]
            for number in range(turns + 1):  # the first one compiles
                for side, times in zip(sides, best, strict=True):
                    turn(side)
                    begin = time.perf_counter(), time.process_time()
                    turn(side)
                    end = time.perf_counter(), time.process_time()
                    if number:
                        times[:] = [min(t, e - b) for t, b, e in zip(times, begin, end, strict=True)]
            clock, processors = (theirs / ours for theirs, ours in zip(*best, strict=True))
            print(f"{str(dtype)[6:]:9} {name:22} clock {clock:.2f} processors {processors:.2f}", flush=True)


if __name__ == "__main__":
    main(int(sys.argv[1]) if len(sys.argv) > 1 else 2)
