"""Random expressions with special constants in them: simplification keeps every bit (but NaN's)."""

import itertools

import hypothesis.strategies as st
from hypothesis import given, settings

from xloom.hlo.module import Instruction
from xloom.hlo.parser import parse
from xloom.interpreter import evaluate
from xloom.interpreter.samples import random_arguments
from xloom.passes import run_passes
from xloom.passes.algebra import RULES
from xloom.passes.hooks import difference
from xloom.passes.rewrite import Rewriter, RuleTable, rewrite

BINARY = {
    "f32": ["add", "subtract", "multiply", "divide", "maximum", "minimum", "power", "remainder"],
    "s8": ["add", "subtract", "multiply", "divide", "maximum", "minimum", "and", "or", "xor", "remainder"]
    + ["shift-left", "shift-right-arithmetic", "shift-right-logical", "power"],
    "pred": ["and", "or", "xor", "add", "multiply", "maximum"],
}
BINARY["u8"] = BINARY["s8"]
UNARY = {
    "f32": ["negate", "abs", "floor", "sign", "ceil"],
    "s8": ["negate", "abs", "not", "sign"],
    "u8": ["negate", "abs", "not"],
    "pred": ["not"],
}
CONSTANTS = {
    "f32": ["0.0", "-0.0", "1", "-1", "2", "0.5", "8", "inf", "-inf", "nan"],
    "s8": ["0", "1", "-1", "2", "127", "-128", "8", "-3"],
    "u8": ["0", "1", "2", "255", "8", "16", "3"],
    "pred": ["true", "false"],
}
DIRECTIONS = ["EQ", "NE", "LT", "LE", "GT", "GE"]
CONVERTS = [("f32", "f64"), ("f32", "bf16"), ("f32", "s8"), ("s8", "s32"), ("s8", "f32"), ("u8", "f16"), ("s8", "u8")]
PIPELINE = "algebraic-simplification,layout-simplification,constant-folding,cse,dce"


@st.composite
def programs(draw: st.DrawFn) -> str:
    """An entry computation over f32, s8, u8 and pred scalars; the root is a tuple of everything nobody uses."""
    values: dict[str, list[str]] = {t: [f"x_{t}", f"y_{t}"] for t in CONSTANTS}
    parameters = [name for pair in values.values() for name in pair]
    lines = [f"{n} = {n[2:]}[] parameter({k})" for k, n in enumerate(parameters)]
    shown = []
    for k in range(draw(st.integers(1, 12))):
        dtype = draw(st.sampled_from(sorted(CONSTANTS)))
        result, name = dtype, f"v{k}"
        a, b, c = (draw(st.sampled_from(values[dtype][-4:])) for _ in "abc")
        kind = draw(
            st.sampled_from(["constant", "binary", "binary", "binary", "unary", "compare", "select", "convert"])
        )
        if kind == "constant":
            line = f"constant({draw(st.sampled_from(CONSTANTS[dtype]))})"
        elif kind == "binary":
            line = f"{draw(st.sampled_from(BINARY[dtype]))}({a}, {b})"
        elif kind == "unary":
            line = f"{draw(st.sampled_from(UNARY[dtype]))}({a})"
        elif kind == "compare":
            total = ", type=TOTALORDER" if dtype == "f32" and draw(st.booleans()) else ""
            line = f"compare({a}, {b}), direction={draw(st.sampled_from(DIRECTIONS))}{total}"
            result = "pred"
        elif kind == "select":
            line = f"select({draw(st.sampled_from(values['pred'][-4:]))}, {b}, {c})"
        else:
            source, between = draw(st.sampled_from(CONVERTS))
            lines.append(f"w{k} = {between}[] convert({draw(st.sampled_from(values[source][-4:]))})")
            line, result = f"convert(w{k})", source if draw(st.booleans()) else dtype
        lines.append(f"{name} = {result}[] {line}")
        values[result].append(name)
        shown.append((result, name))
    shapes, names = ", ".join(f"{t}[]" for t, _ in shown), ", ".join(n for _, n in shown)
    lines.append(f"ROOT r = ({shapes}) tuple({names})")
    return "ENTRY main {\n" + "\n".join(lines) + "\n}"


@settings(max_examples=300, deadline=None)
@given(programs())
def test_values_are_kept(text: str) -> None:
    before, after = parse(text), parse(text)
    run_passes(after, PIPELINE)
    for seed, edges in itertools.product(range(2), (False, True)):
        arguments = random_arguments(before, seed, edges=edges)
        found = difference(evaluate(before, *arguments), evaluate(after, *arguments))
        assert not found, f"{found}\n{after}"
    assert len(after.entry) <= len(before.entry) + 4 * sum(i.opcode == "constant" for i in after.entry)


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
