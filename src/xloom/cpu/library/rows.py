"""Reductions of rows and what is made of them, for the library of kernels: sums, norms, softmax.

Code of a row is for one length, so that there are those of usual lengths alone, which serve any number of rows. It also
depends on how much memory there is: what is fetched ahead, and what is stored around the caches.
"""

from __future__ import annotations

from collections.abc import Iterator
from itertools import product

from xloom.cpu.library.reductions import first_of

_LENGTHS = (64, 128, 256, 384, 512, 640, 768, 1000, 1024, 1280, 1536, 2048, 2560, 3072, 4096, 8192)
_BYTES = (1 << 20, 1 << 23, 1 << 25)
"""Of all rows: these are kept in the caches, fetched ahead, and stored around the caches as well."""
_HIGHEST = """ lowest = {dtype}[] constant(-inf)
 highest = {dtype}[{rows}] reduce(x, lowest), dimensions={{1}}, to_apply=max_{dtype}
"""
_SHIFTED = f"""{_HIGHEST} highest_there = {{matrix}} broadcast(highest), dimensions={{{{0}}}}
 shifted = {{matrix}} subtract(x, highest_there)
 exp = {{matrix}} exponential(shifted)
 exp_wide = {{wide}} {{widened}}(exp)
 zero = f32[] constant(0)
 sum = f32[{{rows}}] reduce(exp_wide, zero), dimensions={{{{1}}}}, to_apply=add_f32
"""
_SUM = """ wide = {wide} {widened}(x)
 zero = f32[] constant(0)
 sum = f32[{rows}] reduce(wide, zero), dimensions={{1}}, to_apply=add_f32
"""
_COUNT = """ length = f32[] constant({length})
 lengths = f32[{rows}] broadcast(length), dimensions={{}}
"""
_CENTERED = f"""{_SUM}{_COUNT} mean = f32[{{rows}}] divide(sum, lengths)
 mean_there = {{wide}} broadcast(mean), dimensions={{{{0}}}}
 values = {{wide}} subtract(wide, mean_there)
"""
_SQUARES = """ squares = {wide} multiply(values, values)
 square = f32[{rows}] reduce(squares, zero), dimensions={{1}}, to_apply=add_f32
 variance = f32[{rows}] divide(square, lengths)
"""
_SCALED = """ epsilon = f32[] constant({epsilon})
 epsilons = f32[{rows}] broadcast(epsilon), dimensions={{}}
 safe = f32[{rows}] add(variance, epsilons)
 scale = f32[{rows}] rsqrt(safe)
 scale_there = {wide} broadcast(scale), dimensions={{0}}
 scaled = {wide} multiply(values, scale_there)
 scaled_x = {matrix} {narrowed}(scaled)
 weight = {dtype}[{length}] parameter(1)
 weight_there = {matrix} broadcast(weight), dimensions={{1}}
"""
_VALUES = """ values = {wide} {widened}(x)
 zero = f32[] constant(0)
"""
_LOG_SUM_EXP = f"""{_HIGHEST} lowest_there = {{dtype}}[{{rows}}] broadcast(lowest), dimensions={{{{}}}}
 above = {{dtype}}[{{rows}}] maximum(lowest_there, highest)
 is_finite = pred[{{rows}}] is-finite(above)
 none = {{dtype}}[] constant(0)
 nones = {{dtype}}[{{rows}}] broadcast(none), dimensions={{{{}}}}
 center = {{dtype}}[{{rows}}] select(is_finite, above, nones)
 center_there = {{matrix}} broadcast(center), dimensions={{{{0}}}}
 shifted = {{matrix}} subtract(x, center_there)
 exp = {{matrix}} exponential(shifted)
 exp_wide = {{wide}} {{widened}}(exp)
 zero = f32[] constant(0)
 sum = f32[{{rows}}] reduce(exp_wide, zero), dimensions={{{{1}}}}, to_apply=add_f32
 narrow = {{dtype}}[{{rows}}] {{narrowed}}(sum)
 positive = {{dtype}}[{{rows}}] abs(narrow)
 log = {{dtype}}[{{rows}}] log(positive)
 ROOT r = {{dtype}}[{{rows}}] add(log, center)
"""
_PROGRAMS = (
    f"{_SUM} ROOT r = {{dtype}}[{{rows}}] {{narrowed}}(sum)\n",
    f"""{_SUM}{_COUNT} mean = f32[{{rows}}] divide(sum, lengths)
 ROOT r = {{dtype}}[{{rows}}] {{narrowed}}(mean)
""",
    f"{_HIGHEST} ROOT r = {{dtype}}[{{rows}}] copy(highest)\n",
    f"{_CENTERED}{_SQUARES} ROOT r = {{dtype}}[{{rows}}] {{narrowed}}(variance)\n",
    f"""{_CENTERED}{_SQUARES} narrow_mean = {{dtype}}[{{rows}}] {{narrowed}}(mean)
 narrow_variance = {{dtype}}[{{rows}}] {{narrowed}}(variance)
 ROOT r = ({{dtype}}[{{rows}}], {{dtype}}[{{rows}}]) tuple(narrow_mean, narrow_variance)
""",
    f"""{_SHIFTED} narrow = {{dtype}}[{{rows}}] {{narrowed}}(sum)
 sum_there = {{matrix}} broadcast(narrow), dimensions={{{{0}}}}
 ROOT r = {{matrix}} divide(exp, sum_there)
""",
    f"""{_SHIFTED} log = f32[{{rows}}] log(sum)
 narrow = {{dtype}}[{{rows}}] {{narrowed}}(log)
 log_there = {{matrix}} broadcast(narrow), dimensions={{{{0}}}}
 ROOT r = {{matrix}} subtract(shifted, log_there)
""",
    f"""{_CENTERED}{_SQUARES}{_SCALED} weighted = {{matrix}} multiply(scaled_x, weight_there)
 bias = {{dtype}}[{{length}}] parameter(2)
 bias_there = {{matrix}} broadcast(bias), dimensions={{{{1}}}}
 ROOT r = {{matrix}} add(weighted, bias_there)
""",
    f"{_VALUES}{_COUNT}{_SQUARES}{_SCALED} ROOT r = {{matrix}} multiply(scaled_x, weight_there)\n",
    _LOG_SUM_EXP,
)
"""Sums, means, the greatest, variances, also with means, softmax and its logarithm, layer and root-mean-square norms,
and logarithms of sums of exponentials."""
_EPSILONS = ("1e-05", "1e-06")


def rows() -> Iterator[str]:
    """The HLO text of each."""
    for kind, length, nbytes in product(("argmax", "argmin"), _LENGTHS, _BYTES):
        yield first_of("f32", (nbytes // (length * 4), length), 1, kind)
    for dtype, text, length, nbytes in product(("f32", "bf16"), _PROGRAMS, _LENGTHS, _BYTES):
        for epsilon in _EPSILONS if "{epsilon}" in text else _EPSILONS[:1]:
            count = nbytes // (length * (4 if dtype == "f32" else 2))
            converted = "copy" if dtype == "f32" else "convert"
            body = text.format(
                dtype=dtype,
                rows=count,
                length=length,
                epsilon=epsilon,
                matrix=f"{dtype}[{count},{length}]",
                wide=f"f32[{count},{length}]",
                widened=converted,
                narrowed=converted,
            )
            yield (
                f"HloModule library\n{_region('add', 'f32', 'add')}{_region('max', dtype, 'maximum')}"
                f"ENTRY e {{\n x = {dtype}[{count},{length}] parameter(0)\n{body}}}\n"
            )


def _region(name: str, dtype: str, opcode: str) -> str:
    parameters = "".join(f" p{k} = {dtype}[] parameter({k})\n" for k in (0, 1))
    return f"{name}_{dtype} {{\n{parameters} ROOT r = {dtype}[] {opcode}(p0, p1)\n}}\n"
