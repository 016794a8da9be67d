"""Reductions of rows and what is made of them, for the library of kernels: sums, norms, softmax, also along columns.

Code of a row is for one length, so that there are those of usual lengths alone, which serve any number of rows. It also
depends on how much memory there is: what is fetched ahead, and what is stored around the caches.
"""

from __future__ import annotations

from collections.abc import Iterator
from itertools import product

from xloom.cpu.library.reductions import first_of

_USUAL = (64, 128, 256, 384, 512, 640, 768, 1000, 1024, 1280, 1536, 2048, 2560, 3072, 4096, 8192)
_OTHERS = (
    *(2, 3, 4, 5, 8, 10, 12, 20, 24),
    *(16, 32, 48, 80, 96, 100, 160, 192, 197, 200, 300, 320, 400, 500, 800, 896, 1152, 1600, 2000, 3000, 5000, 5120),
    *(6144, 10_000, 16_384, 32_000, 50_257),
)
_BYTES = (1 << 20, 1 << 23, 1 << 25)
"""Of all rows: these are kept in the caches, fetched ahead, and stored around the caches as well."""
_SIZES = (*product(_USUAL, _BYTES), *product(_OTHERS, _BYTES[::2]))
"""Lengths of rows, and bytes of all of them."""
_DTYPES = (("f32", _SIZES), ("bf16", tuple(product(_USUAL, _BYTES))))
_SIMPLE = 5
"""The first programs, which are also there for f64."""
_COLUMN_LENGTHS, _COLUMNS = (128, 1000, 20_000), (*range(5, 17), 20, 32, 50, 64, 100, 128, 200, 256, 512, 1000)
"""Of columns and how many there are, of exponentials along these."""
_HIGHEST = """ bottom = {dtype}[] constant(-inf)
 highest = {dtype}[{results}] reduce(x, bottom), dimensions={{{over}}}, to_apply=max_{dtype}
"""
_LOWEST = """ top = {dtype}[] constant(inf)
 lowest = {dtype}[{results}] reduce(x, top), dimensions={{{over}}}, to_apply=min_{dtype}
"""
_SHIFTED = f"""{_HIGHEST} highest_there = {{matrix}} broadcast(highest), dimensions={{{{{{kept}}}}}}
 shifted = {{matrix}} subtract(x, highest_there)
 exp = {{matrix}} exponential(shifted)
 exp_wide = {{wide}} {{widened}}(exp)
 zero = f32[] constant(0)
 sum = f32[{{results}}] reduce(exp_wide, zero), dimensions={{{{{{over}}}}}}, to_apply=add_f32
"""
_SUM = """ wide = {wide} {widened}(x)
 zero = f32[] constant(0)
 sum = f32[{results}] reduce(wide, zero), dimensions={{{over}}}, to_apply=add_f32
"""
_COUNT = """ length = f32[] constant({length})
 lengths = f32[{results}] broadcast(length), dimensions={{}}
"""
_CENTERED = f"""{_SUM}{_COUNT} mean = f32[{{results}}] divide(sum, lengths)
 mean_there = {{wide}} broadcast(mean), dimensions={{{{{{kept}}}}}}
 values = {{wide}} subtract(wide, mean_there)
"""
_SQUARES = """ squares = {wide} multiply(values, values)
 square = f32[{results}] reduce(squares, zero), dimensions={{{over}}}, to_apply=add_f32
 variance = f32[{results}] divide(square, lengths)
"""
_SCALED = """ epsilon = f32[] constant({epsilon})
 epsilons = f32[{results}] broadcast(epsilon), dimensions={{}}
 safe = f32[{results}] add(variance, epsilons)
 scale = f32[{results}] rsqrt(safe)
 scale_there = {wide} broadcast(scale), dimensions={{{kept}}}
 scaled = {wide} multiply(values, scale_there)
 scaled_x = {matrix} {narrowed}(scaled)
 weight = {dtype}[{length}] parameter(1)
 weight_there = {matrix} broadcast(weight), dimensions={{{over}}}
"""
_VALUES = """ values = {wide} {widened}(x)
 zero = f32[] constant(0)
"""
_LOG_SUM_EXP = f"""{_HIGHEST} bottom_there = {{dtype}}[{{results}}] broadcast(bottom), dimensions={{{{}}}}
 above = {{dtype}}[{{results}}] maximum(bottom_there, highest)
 is_finite = pred[{{results}}] is-finite(above)
 none = {{dtype}}[] constant(0)
 nones = {{dtype}}[{{results}}] broadcast(none), dimensions={{{{}}}}
 center = {{dtype}}[{{results}}] select(is_finite, above, nones)
 center_there = {{matrix}} broadcast(center), dimensions={{{{{{kept}}}}}}
 shifted = {{matrix}} subtract(x, center_there)
 exp = {{matrix}} exponential(shifted)
 exp_wide = {{wide}} {{widened}}(exp)
 zero = f32[] constant(0)
 sum = f32[{{results}}] reduce(exp_wide, zero), dimensions={{{{{{over}}}}}}, to_apply=add_f32
 narrow = {{dtype}}[{{results}}] {{narrowed}}(sum)
 positive = {{dtype}}[{{results}}] abs(narrow)
 log = {{dtype}}[{{results}}] log(positive)
 ROOT r = {{dtype}}[{{results}}] add(log, center)
"""
_EXPONENTIALS = (
    f"""{_SHIFTED} narrow = {{dtype}}[{{results}}] {{narrowed}}(sum)
 sum_there = {{matrix}} broadcast(narrow), dimensions={{{{{{kept}}}}}}
 ROOT r = {{matrix}} divide(exp, sum_there)
""",
    f"""{_SHIFTED} log = f32[{{results}}] log(sum)
 narrow = {{dtype}}[{{results}}] {{narrowed}}(log)
 log_there = {{matrix}} broadcast(narrow), dimensions={{{{{{kept}}}}}}
 ROOT r = {{matrix}} subtract(shifted, log_there)
""",
    _LOG_SUM_EXP,
)
"""Softmax, its logarithm, and logarithms of sums of exponentials."""
_PROGRAMS = (
    f"{_SUM} ROOT r = {{dtype}}[{{results}}] {{narrowed}}(sum)\n",
    f"""{_SUM}{_COUNT} mean = f32[{{results}}] divide(sum, lengths)
 ROOT r = {{dtype}}[{{results}}] {{narrowed}}(mean)
""",
    f"{_HIGHEST} ROOT r = {{dtype}}[{{results}}] copy(highest)\n",
    f"{_LOWEST} ROOT r = {{dtype}}[{{results}}] copy(lowest)\n",
    f"{_HIGHEST}{_LOWEST} ROOT r = {{dtype}}[{{results}}] subtract(highest, lowest)\n",
    f"""{_VALUES} squares = {{wide}} multiply(values, values)
 square = f32[{{results}}] reduce(squares, zero), dimensions={{{{{{over}}}}}}, to_apply=add_f32
 narrow = {{dtype}}[{{results}}] {{narrowed}}(square)
 ROOT r = {{dtype}}[{{results}}] sqrt(narrow)
""",
    f"{_CENTERED}{_SQUARES} ROOT r = {{dtype}}[{{results}}] {{narrowed}}(variance)\n",
    f"""{_CENTERED}{_SQUARES} narrow = {{dtype}}[{{results}}] {{narrowed}}(variance)
 ROOT r = {{dtype}}[{{results}}] sqrt(narrow)
""",
    f"""{_CENTERED}{_SQUARES} narrow_mean = {{dtype}}[{{results}}] {{narrowed}}(mean)
 narrow_variance = {{dtype}}[{{results}}] {{narrowed}}(variance)
 ROOT r = ({{dtype}}[{{results}}], {{dtype}}[{{results}}]) tuple(narrow_mean, narrow_variance)
""",
    *_EXPONENTIALS,
    f"""{_CENTERED}{_SQUARES}{_SCALED} weighted = {{matrix}} multiply(scaled_x, weight_there)
 bias = {{dtype}}[{{length}}] parameter(2)
 bias_there = {{matrix}} broadcast(bias), dimensions={{{{{{over}}}}}}
 ROOT r = {{matrix}} add(weighted, bias_there)
""",
    f"{_VALUES}{_COUNT}{_SQUARES}{_SCALED} ROOT r = {{matrix}} multiply(scaled_x, weight_there)\n",
)
"""Sums, means, the greatest, the least, both, lengths of vectors, variances, their roots, and with means, exponentials,
layer and root-mean-square norms."""
_EPSILONS = ("1e-05", "1e-06")


def rows() -> Iterator[str]:
    """The HLO text of each."""
    for kind, (length, nbytes) in product(("argmax", "argmin"), _SIZES):
        yield first_of("f32", (nbytes // (length * 4), length), 1, kind)
    for dtype, sizes in _DTYPES:
        for text, (length, nbytes) in product(_PROGRAMS, sizes):
            for epsilon in _EPSILONS if "{epsilon}" in text else _EPSILONS[:1]:
                yield _program(dtype, text, (nbytes // (length * (4 if dtype == "f32" else 2)), length), 1, epsilon)
    for text, length in product(_PROGRAMS[:_SIMPLE], _USUAL):
        yield _program("f64", text.replace("f32", "f64"), (_BYTES[0] // (length * 8), length), 1)
    for text, length, columns in product(_EXPONENTIALS, _COLUMN_LENGTHS, _COLUMNS):
        yield _program("f32", text, (length, columns), 0)


def _program(dtype: str, text: str, dims: tuple[int, int], over: int, epsilon: str = "") -> str:
    """A program of a matrix, of which what it makes goes along a dimension."""
    wide, converted = ("f64", "copy") if dtype == "f64" else ("f32", "copy" if dtype == "f32" else "convert")
    shape = f"{dims[0]},{dims[1]}"
    body = text.format(
        dtype=dtype,
        results=dims[1 - over],
        length=dims[over],
        over=over,
        kept=1 - over,
        epsilon=epsilon,
        matrix=f"{dtype}[{shape}]",
        wide=f"{wide}[{shape}]",
        widened=converted,
        narrowed=converted,
    )
    regions = ("add", wide, "add"), ("max", dtype, "maximum"), ("min", dtype, "minimum")
    return (
        f"HloModule library\n{''.join(_region(*region) for region in regions)}"
        f"ENTRY e {{\n x = {dtype}[{shape}] parameter(0)\n{body}}}\n"
    )


def _region(name: str, dtype: str, opcode: str) -> str:
    parameters = "".join(f" p{k} = {dtype}[] parameter({k})\n" for k in (0, 1))
    return f"{name}_{dtype} {{\n{parameters} ROOT r = {dtype}[] {opcode}(p0, p1)\n}}\n"
