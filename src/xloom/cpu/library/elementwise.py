"""Single operations on all elements of arrays, for the library of kernels: what a framework runs that compiles each.

Code of elements that lie one after another is for any number of them, but that of large arrays is another one.
"""

from __future__ import annotations

from collections.abc import Iterator
from itertools import product

_COUNTS = (1 << 17, 90_000, 1 << 25, 20_000_004)
"""Elements: of arrays that caches keep, and of others; as many as make whole vectors, or some are left."""
_FLOATS = ("f32", "bf16", "f64")
_UNARY = (
    "abs", "cbrt", "ceil", "cosine", "erf", "exponential", "exponential-minus-one", "floor", "log", "log-plus-one",
    "logistic", "negate", "round-nearest-even", "rsqrt", "sign", "sine", "sqrt", "tan", "tanh",
)  # fmt: skip
_BINARY = ("add", "subtract", "multiply", "divide", "maximum", "minimum", "power")
_OF_INTEGERS = ("add", "subtract", "multiply", "maximum", "minimum", "and", "or")
_COMPLEX = ("add", "subtract", "multiply", "divide")
_DIRECTIONS = ("EQ", "NE", "LT", "LE", "GT", "GE")
_CALLED = (1 << 22, 1 << 10)
"""Elements: of arrays that threads share, and of those that one does."""
_CONVERTED = (("f32", "bf16"), ("bf16", "f32"), ("f32", "f64"), ("f64", "f32"), ("s32", "f32"), ("f32", "s32"))


def elementwise() -> Iterator[str]:
    """The HLO text of each."""
    for n in _COUNTS:
        for dtype, opcode in product(_FLOATS, _UNARY):
            yield _program(n, f"{dtype}[{n}] {opcode}(a)", dtype)
        opcodes = {**dict.fromkeys(_FLOATS, _BINARY), "s32": _OF_INTEGERS, "c64": _COMPLEX}
        for dtype, opcode in ((dtype, opcode) for dtype, each in opcodes.items() for opcode in each):
            yield from _binary(n, dtype, dtype, opcode, "")
        for dtype, direction in product(("f32", "s32"), _DIRECTIONS):
            yield from _binary(n, dtype, "pred", "compare", f", direction={direction}")
        for dtype, to in _CONVERTED:
            yield _program(n, f"{to}[{n}] convert(a)", dtype)
        for opcode in ("abs", "real", "imag"):
            yield _program(n, f"f32[{n}] {opcode}(a)", "c64")
        real, imag = (f" {opcode} = f32[{n}] {opcode}(a)\n" for opcode in ("real", "imag"))
        yield _program(n, f"(f32[{n}], f32[{n}]) tuple(real, imag)", "c64", between=real + imag)
        yield _program(n, f"c64[{n}] complex(a, b)", "f32", "f32")
        yield _program(n, f"f32[{n}] select(a, b, c)", "pred", "f32", "f32")
    for n in _CALLED:
        yield from _calling(n)


def _binary(n: int, dtype: str, result: str, opcode: str, attributes: str) -> Iterator[str]:
    """Of two arrays, and of an array and a number."""
    yield _program(n, f"{result}[{n}] {opcode}(a, b){attributes}", dtype, dtype)
    shape = f"{dtype}[{n}]"
    number = f" b = {dtype}[] parameter(1)\n c = {shape} broadcast(b), dimensions={{}}\n"
    for operands in ("a, c", "c, a"):
        yield (
            f"HloModule library\nENTRY e {{\n a = {shape} parameter(0)\n{number}"
            f" ROOT r = {result}[{n}] {opcode}({operands}){attributes}\n}}\n"
        )


def _calling(n: int) -> Iterator[str]:
    """One kernel on one array to three: also of others, it is what the main function does that depends on these."""
    turned = f" t = f32[{n}] reverse(a), dimensions={{0}}\n"
    sums = turned, f"{turned} s = f32[{n}] add(t, b)\n", f"{turned} s = f32[{n}] add(t, b)\n m = f32[{n}] add(s, c)\n"
    for between, last in zip(sums, ("t", "s", "m"), strict=True):
        operands = ("f32",) * (1 + between.count("add"))
        yield _program(n, f"f32[{n}] copy({last})", *operands, between=between)


def _program(n: int, root: str, *operands: str, between: str = "") -> str:
    named = zip("abc", operands, strict=False)
    parameters = "".join(f" {name} = {dtype}[{n}] parameter({k})\n" for k, (name, dtype) in enumerate(named))
    return f"HloModule library\nENTRY e {{\n{parameters}{between} ROOT r = {root}\n}}\n"
