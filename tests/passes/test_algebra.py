"""Every small expression over interesting values and constants: simplification keeps every bit (but NaN's)."""

import numpy as np
import pytest

from xloom.hlo.instruction import Instruction
from xloom.hlo.text.parser import parse
from xloom.interpreter import evaluate
from xloom.passes import run_passes
from xloom.passes.algebra import RULES
from xloom.passes.hooks import difference
from xloom.passes.rewrite import Rewriter, RuleTable, rewrite

FLOATS = [0.0, 1.0, -1.0, 2.0, -0.5, 3.5, 1e-3, np.inf, -np.inf, np.nan, 3.4e38, -1.2e-38, 1e-45, -0.0, 1e30, 7.0]
NUMBERS = {
    "f32": np.array(FLOATS, np.float32),
    "s8": np.array([0, 1, -1, 2, -2, 3, 5, 7, 8, 16, -8, 63, 64, 126, 127, -127, -128, 100], np.int8),
    "u8": np.array([0, 1, 2, 3, 5, 7, 8, 16, 63, 64, 126, 127, 128, 129, 254, 255], np.uint8),
    "pred": np.array([False, True]),
}
CONSTANTS = {
    "f32": ["0.0", "-0.0", "1", "-1", "2", "0.5", "8", "3", "inf", "-inf", "nan", "1.5e-38", "1.7e38"],
    "s8": ["0", "1", "-1", "2", "127", "-128", "8", "-3", "7"],
    "u8": ["0", "1", "2", "255", "8", "16", "3", "128"],
    "pred": ["true", "false"],
}
INTEGER = ["add", "subtract", "multiply", "divide", "remainder", "power", "maximum", "minimum", "and", "or", "xor"]
BINARY = {
    "f32": ["add", "subtract", "multiply", "divide", "remainder", "power", "maximum", "minimum"],
    "s8": [*INTEGER, "shift-left", "shift-right-arithmetic", "shift-right-logical"],
    "u8": [*INTEGER, "shift-left", "shift-right-arithmetic", "shift-right-logical"],
    "pred": ["and", "or", "xor", "add", "multiply", "maximum", "minimum"],
}
UNARY = {
    "f32": ["negate", "abs", "floor", "ceil", "sign", "round-nearest-even", "round-nearest-afz"],
    "s8": ["negate", "abs", "not", "sign"],
    "u8": ["negate", "abs", "not"],
    "pred": ["not"],
}
DIRECTIONS = ["EQ", "NE", "LT", "LE", "GT", "GE"]
SCALARS = ["f64", "f32", "f16", "bf16", "s8", "s16", "s32", "s64", "u8", "u16", "u32", "u64", "pred"]


class Program:
    """An entry with array parameters x and y, constants of their shape, and a tuple of expressions as its root."""

    def __init__(self, dtype: str, size: int):
        self.dtype, self.size = dtype, size
        self.lines = [f"{n} = {dtype}[{size}] parameter({k})" for k, n in enumerate("xy")]
        self.results: list[tuple[str, str]] = []
        self.constants = []
        for k, value in enumerate(CONSTANTS[dtype]):
            self.lines.append(f"k{k} = {dtype}[] constant({value})")
            self.constants.append(self.let(f"broadcast(k{k}), dimensions={{}}"))

    def let(self, expression: str, dtype: str = "") -> str:
        name = f"v{len(self.lines)}"
        self.lines.append(f"{name} = {dtype or self.dtype}[{self.size}] {expression}")
        return name

    def show(self, expression: str, dtype: str = "") -> None:
        self.results.append((dtype or self.dtype, self.let(expression, dtype)))

    def text(self) -> str:
        shapes = ", ".join(f"{t}[{self.size}]" for t, _ in self.results)
        root = f"ROOT r = ({shapes}) tuple({', '.join(n for _, n in self.results)})"
        return "ENTRY main {\n" + "\n".join([*self.lines, root]) + "\n}"


def binary(p: Program) -> None:
    ops = BINARY[p.dtype]
    unary = {u: [p.let(f"{u}({v})") for v in "xy"] for u in UNARY[p.dtype]}
    pairs = [(a, b) for u in unary.values() for v in unary.values() for a, b in ((u[0], v[1]), (u[0], v[0]))]
    pairs += [pair for u in unary.values() for pair in (("x", u[1]), (u[0], "y"), ("x", u[0]), (u[0], "x"))]
    pairs += [pair for c in p.constants for pair in (("x", c), (c, "x"))] + [("x", "y"), ("x", "x")]
    for op in ops:
        for a, b in pairs:
            p.show(f"{op}({a}, {b})")


def nested(p: Program) -> None:
    ops = BINARY[p.dtype]
    for inner in ops:
        first = [p.let(f"{inner}({a}, {b})") for a, b in (("x", "y"), ("y", "x"))]
        with_constant = [p.let(f"{inner}(x, {c})") for c in p.constants[:5]]
        for unary in UNARY[p.dtype]:
            for value in (*first, *with_constant):
                p.show(f"{unary}({value})")
        for outer in ops:
            for value in first:
                p.show(f"{outer}({value}, y)")
                p.show(f"{outer}(y, {value})")
            for value in with_constant:
                for c in p.constants[:3]:
                    p.show(f"{outer}({value}, {c})")
                    p.show(f"{outer}({c}, {value})")
    for inner in UNARY[p.dtype]:
        value = p.let(f"{inner}(x)")
        for outer in UNARY[p.dtype]:
            p.show(f"{outer}({value})")


def choices(p: Program) -> None:
    for total in ("", ", type=TOTALORDER") if p.dtype == "f32" else ("",):
        for direction in DIRECTIONS:
            for a, b in [("x", "y"), ("x", "x"), *((a, b) for c in p.constants for a, b in (("x", c), (c, "x")))]:
                compare = p.let(f"compare({a}, {b}), direction={direction}{total}", "pred")
                inverse = p.let(f"not({compare})", "pred")
                p.results += [("pred", compare), ("pred", inverse)]
                p.show(f"select({inverse}, x, y)")
    less = p.let("compare(x, y), direction=LT", "pred")
    for a in p.constants:
        for b in p.constants:
            p.show(f"clamp({a}, x, {b})")
            p.show(f"select({less}, {a}, {b})")


def rounded_down(p: Program) -> None:
    """Quotients and remainders as JAX and PyTorch round them down, by every number, and what they ask of signs."""
    zero, one = p.constants[0], p.constants[2 if p.dtype == "f32" else 1]
    for c in [*p.constants, "y"]:
        for d in DIRECTIONS:
            if "sign" in UNARY[p.dtype]:
                p.show(f"compare({p.let('sign(x)')}, {c}), direction={d}", "pred")
            for total in ("", ", type=TOTALORDER") if p.dtype == "f32" else ("",):
                less = p.let(f"compare(x, {c}), direction={d}{total}", "pred")
                for k in p.constants[:3]:
                    unequal = p.let(f"compare(x, {k}), direction=NE", "pred")
                    p.show(f"and({less}, {unequal})", "pred")
                    p.show(f"and({unequal}, {less})", "pred")
        if p.dtype == "pred":
            continue
        quotient, rest = p.let(f"divide(x, {c})"), p.let(f"remainder(x, {c})")
        left = p.let(f"compare({rest}, {zero}), direction=NE", "pred")
        below = [p.let(f"compare({x}, {zero}), direction=LT", "pred") for x in (rest, "x")]
        signs = [p.let(f"compare({p.let('sign(x)')}, {one}), direction=NE", "pred")] if p.dtype == "s8" else []
        for down in [*(p.let(f"and({left}, {b})", "pred") for b in (*below, *signs)), *below]:
            p.show(f"select({down}, {p.let(f'subtract({quotient}, {one})')}, {quotient})")
            p.show(f"select({down}, {p.let(f'add({rest}, {c})')}, {rest})")


@pytest.mark.parametrize("dtype", NUMBERS)
@pytest.mark.parametrize("family", [binary, nested, choices, rounded_down], ids=lambda f: f.__name__)
def test_values_are_kept(family, dtype: str) -> None:
    x, y = (a.reshape(-1) for a in np.meshgrid(NUMBERS[dtype], NUMBERS[dtype]))
    program = Program(dtype, x.size)
    family(program)
    keep_values(program.text(), x, y)


@pytest.mark.parametrize("source", SCALARS)
def test_conversions_keep_values(source: str) -> None:
    wide = np.array([*FLOATS, 255, 256, 65535, 65504, 16777217, -129, 1e19, -1e19, 4294967296.5], np.float64)
    lines = [f"d = f64[{wide.size}] parameter(0)", f"x = {source}[{wide.size}] convert(d)"]
    shown = []
    for between in SCALARS:
        lines.append(f"b_{between} = {between}[{wide.size}] convert(x)")
        for target in SCALARS:
            lines.append(f"r_{between}_{target} = {target}[{wide.size}] convert(b_{between})")
            shown.append((target, f"r_{between}_{target}"))
    shapes = ", ".join(f"{t}[{wide.size}]" for t, _ in shown)
    text = f"ROOT r = ({shapes}) tuple({', '.join(n for _, n in shown)})"
    keep_values("ENTRY main {\n" + "\n".join([*lines, text]) + "\n}", wide)


def keep_values(text: str, *arguments: np.ndarray) -> None:
    before, after = parse(text), parse(text)
    run_passes(after, "algebraic-simplification")
    expected, actual = evaluate(before, *arguments), evaluate(after, *arguments)
    for old, new, e, a in zip(before.entry.root.operands, after.entry.root.operands, expected, actual, strict=True):
        found = difference(e, a)
        assert not found, f"{expression(old)} became {expression(new)}: {found}"


def expression(i: Instruction) -> str:
    if i.opcode == "constant":
        return i.literal.to_text()
    if i.opcode in ("parameter", "broadcast"):
        return expression(i.operands[0]) if i.operands else i.name
    return f"{i.opcode}{i.attrs.get('direction', '')}({', '.join(map(expression, i.operands))})"


def test_each_instruction_is_looked_at_a_few_times() -> None:
    looks = {}
    for n in (1000, 2000):
        lines = ["x0 = s32[] parameter(0)", "zero = s32[] constant(0)"]
        lines += [f"x{k + 1} = s32[] add(x{k}, zero)" for k in range(n)]
        module = parse("ENTRY main {\n" + "\n".join(lines) + f"\nROOT r = s32[] negate(x{n})\n}}")
        looks[n] = 0

        def look(i: Instruction, rw: Rewriter, n: int = n) -> None:
            looks[n] += 1

        rule = RuleTable()
        rule("add", "negate")(look)
        rewrite(module, RuleTable(rule, RULES))
        assert len(module.entry) == 2
    assert looks[2000] <= 2.1 * looks[1000]
