"""How fast kernels are on a GPU, beside its memory's copy, its data sheet, and PyTorch where that is there."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Mapping
from functools import cached_property
from importlib import import_module
from importlib.util import find_spec
from typing import Any, NamedTuple

import numpy as np

import xloom as xl
from tests.cuda import kernel_programs as made
from xloom.cuda.data_sheets import DATA_SHEETS
from xloom.hlo.module import Module
from xloom.pjrt import Client

_SECONDS = 0.2
"""That a program is run for, again and again."""


class Benchmark(NamedTuple):
    """A program, and what it does: bytes that it has to move, operations in what arithmetic."""

    name: str
    text: str
    nbytes: int = 0
    operations: int = 0
    arithmetic: str = ""

    @property
    def module(self) -> Module:
        """The program."""
        return xl.parse(self.text)


def programs(*, is_small: bool) -> Iterator[Benchmark]:
    """All of them; small ones for an emulator."""
    side, rows = (64, 64) if is_small else (8192, 16384)
    array = side * side * 4
    matrix = f"f32[{side},{side}]"
    yield Benchmark("copy", made.entry([matrix], f"c = {matrix} copy(p0)"), 2 * array)
    yield Benchmark("add", made.entry([matrix, matrix], f"r = {matrix} add(p0, p1)"), 3 * array)
    yield Benchmark("tanh", made.entry([matrix], f"r = {matrix} tanh(p0)"), 2 * array)
    yield Benchmark("bf16 multiply", made.mapped("bf16", side * side, "multiply"), 3 * array // 2)
    yield Benchmark("transpose", made.transpose("f32", side, side), 2 * array)
    yield Benchmark("bf16 transpose", made.transpose("bf16", side, side), array)
    yield Benchmark("sums of rows", made.reduction("f32", side, side, 1), array)
    yield Benchmark("bf16 sums of rows", made.reduction("bf16", side, side, 1), array // 2)
    yield Benchmark("sums of columns", made.reduction("f32", side, side, 0), array)
    yield Benchmark("softmax", made.softmax("f32", side, side), 2 * array)
    yield Benchmark(
        "layer norm", made.layer_norm(rows, 64 if is_small else 1024), 8 * rows * (64 if is_small else 1024)
    )
    yield Benchmark("cumulative sums", made.cumulative("f32", side, side, 1), 2 * array)
    yield Benchmark("sort", made.sort("f32", 1, side * side // 64), array // 32)
    for dtype, kind in (("bf16", "tensor bf16"), ("f16", "tensor f16"), ("f32", "tensor tf32"), ("f32", "f32")):
        for n in (64,) if is_small else (1024, 2048, 4096, 8192) if dtype == "bf16" else (4096,):
            for layout in ("nn", "nt"):
                text = made.product(dtype, n, n, n, layout=layout, algorithm=made.TF32 * (kind == "tensor tf32"))
                name = f"{kind.removeprefix('tensor ')} product {n} {layout}"
                yield Benchmark(name, text, operations=2 * n**3, arithmetic=kind)
    n = 64 if is_small else 4096
    layer = made.with_epilogue("bf16", n, n, n)
    yield Benchmark("bf16 layer", layer, operations=2 * n**3, arithmetic="tensor bf16")
    heads, length, width = (2, 64, 64) if is_small else (64, 1024, 64)
    yield Benchmark("attention", attention(heads, length, width), 0, 4 * heads * length**2 * width, "tensor bf16")
    masked = made.attention("bf16", (1, heads), length, length, width)
    yield Benchmark("causal attention", masked, 0, 4 * heads * length**2 * width, "tensor bf16")
    yield Benchmark("dispatch", made.mapped("f32", 16, "add"))


def attention(heads: int, length: int, width: int) -> str:
    """softmax(q @ k.T) @ v of each head, bf16 with sums in f32."""
    operand, scores, row = f"bf16[{heads},{length},{width}]", f"[{heads},{length},{length}]", f"f32[{heads},{length}]"
    batch = "lhs_batch_dims={0}, rhs_batch_dims={0}, lhs_contracting_dims={2}"
    return made.entry(
        [operand] * 3,
        "low = f32[] constant(-inf) zero = f32[] constant(0)",
        f"s = f32{scores} dot(p0, p1), {batch}, rhs_contracting_dims={{2}}",
        f"m = {row} reduce(s, low), dimensions={{2}}, to_apply=maximum b = f32{scores} broadcast(m), dimensions={{0,1}}",
        f"d = f32{scores} subtract(s, b) e = f32{scores} exponential(d)",
        f"t = {row} reduce(e, zero), dimensions={{2}}, to_apply=add c = f32{scores} broadcast(t), dimensions={{0,1}}",
        f"p = f32{scores} divide(e, c) w = bf16{scores} convert(p)",
        f"r = {operand} dot(w, p2), {batch}, rhs_contracting_dims={{1}}",
        before=made.operator("maximum") + made.operator("add"),
    )


def measured(client: Client, target: str, *, is_small: bool) -> Iterator[dict[str, Any]]:
    """A row for each: microseconds, and shares of the copy's bandwidth, the data sheet's rate, PyTorch's speed."""
    copied = 0.0
    torch = Torch()
    for benchmark in programs(is_small=is_small):
        row: dict[str, Any] = {"name": benchmark.name}
        try:
            seconds = _seconds(client, benchmark, once=is_small)
        except Exception as error:
            yield {**row, "error": f"{type(error).__name__}: {error}"[:300]}
            continue
        row["microseconds"] = round(seconds * 1e6, 2)
        if benchmark.nbytes:
            bandwidth = benchmark.nbytes / seconds / 1e9
            copied = copied or bandwidth
            row |= {"GB/s": round(bandwidth, 1), "of copy": round(bandwidth / copied, 3)}
        if benchmark.operations:
            rate = benchmark.operations / seconds / 1e12
            peak = DATA_SHEETS[target].teraflops[benchmark.arithmetic]
            row |= {"TFLOP/s": round(rate, 2), "of data sheet": round(rate / peak, 3)}
        theirs = None if is_small else torch.seconds(benchmark.name, benchmark.module)
        if theirs:
            row |= {"PyTorch's microseconds": round(theirs * 1e6, 2), "of PyTorch's speed": round(theirs / seconds, 3)}
        yield row


def _seconds(client: Client, benchmark: Benchmark, *, once: bool) -> float:
    module = benchmark.module
    executable = client.compile(module)
    arguments = [client.buffer_from_host(array) for array in _arrays(module)]

    def run() -> None:
        results = executable.execute(arguments)
        del results

    def wait() -> None:
        for result in executable.execute(arguments):
            result.block_until_ready()

    return _repeated(run, wait, once=once)


def _repeated(run: Callable[[], object], wait: Callable[[], object], *, once: bool = False) -> float:
    """Seconds of one run, of many that are given to the GPU one after another: the best of three."""
    wait()
    if once:
        start = time.perf_counter()
        wait()
        return time.perf_counter() - start
    start = time.perf_counter()
    wait()
    count = max(1, min(2000, int(_SECONDS / 3 / (time.perf_counter() - start))))
    best = float("inf")
    for _ in range(3):
        start = time.perf_counter()
        for _ in range(count - 1):
            run()
        wait()
        best = min(best, (time.perf_counter() - start) / count)
    return best


def _arrays(module: Module) -> Iterator[np.ndarray]:
    """Random numbers, of which some are the same again and again."""
    block = np.random.default_rng(0).standard_normal(1 << 20, np.float32)
    for parameter in module.entry.parameters:
        shape = parameter.shape
        yield np.resize(block, shape.size).astype(shape.dtype.numpy).reshape(shape.dims)


class Torch:
    """The same by PyTorch on the GPU, where it is."""

    @cached_property
    def _module(self) -> Any:
        if find_spec("torch") is None:
            return None
        torch: Any = import_module("torch")
        return torch if torch.cuda.is_available() else None

    def seconds(self, name: str, module: Module) -> float | None:
        """None where there is no PyTorch, or nothing there that does the same."""
        torch: Any = self._module
        if torch is None or name.split(" product")[0] not in self._functions:
            return None
        function = self._functions[name.split(" product")[0]]
        torch.backends.cuda.matmul.allow_tf32 = name.startswith("tf32")
        given = [torch.from_numpy(np.asarray(a, np.float32)).cuda() for a in _arrays(module)]
        if "bf16" in name or name == "attention":
            given = [tensor.bfloat16() for tensor in given]
        elif "f16" in name:
            given = [tensor.half() for tensor in given]
        if name.endswith(" nt"):
            given[1] = given[1].T

        def wait() -> None:
            function(*given)
            torch.cuda.synchronize()

        return _repeated(lambda: function(*given), wait)

    @cached_property
    def _functions(self) -> Mapping[str, Callable[..., Any]]:
        torch: Any = self._module
        attention, layer_norm = (
            getattr(torch.nn.functional, name) for name in ("scaled_dot_product_attention", "layer_norm")
        )
        functions: dict[str, Callable[..., Any]] = dict.fromkeys(("bf16", "f16", "tf32", "f32"), torch.matmul)
        functions |= {
            "copy": torch.clone,
            "add": torch.add,
            "tanh": torch.tanh,
            "transpose": lambda x: x.T.contiguous(),
            "sums of rows": lambda x: x.sum(1),
            "sums of columns": lambda x: x.sum(0),
            "softmax": lambda x: x.softmax(1),
            "layer norm": lambda x, gamma: layer_norm(x, gamma.shape, gamma),
            "cumulative sums": lambda x: x.cumsum(1),
            "sort": lambda x: x.sort(1),
            "attention": lambda q, k, v: attention(q[None], k[None], v[None], scale=1.0),
            "dispatch": torch.add,
        }
        return functions
