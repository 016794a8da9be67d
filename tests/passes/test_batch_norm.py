"""Batch normalisation in plain operators against the interpreter's."""

import numpy as np
import pytest

from xloom.hlo.text.parser import parse
from xloom.interpreter import evaluate
from xloom.passes import run_passes

CASES = {
    "training": ("(x, v1, v2)", 3, "({x}, {v}, {v})"),
    "inference": ("(x, v1, v2, v3, v4)", 5, "{x}"),
    "grad": ("(x, v1, v3, v4, dy)", 5, "({x}, {v}, {v})"),
}


def module(kind: str, dtype: str, dims: tuple[int, ...], feature: int, bounds: str) -> str:
    operands, _, result = CASES[kind]
    x, v = f"{dtype}[{bounds}]", f"{dtype}[{bounds.split(',')[feature]}]"
    fixed = f"{dtype}[{','.join(map(str, dims))}]"
    lines = [f"v{k} = {dtype}[{dims[feature]}] parameter({k})" for k in range(1, 5)]
    lines = [f"full = {fixed} parameter(0)", *lines, f"dy = {fixed} parameter(5)"]
    if "<" in bounds:
        lines.append("n = s32[] constant(2)")
        lines.append(f"x = {x} set-dimension-size(full, n), dimensions={{0}}")
        lines[-3] = lines[-3].replace("dy =", "dy.full =")
        lines.append(f"dy = {x} set-dimension-size(dy.full, n), dimensions={{0}}")
    else:
        lines[0] = lines[0].replace("full", "x")
    lines.append(
        f"ROOT y = {result.format(x=x, v=v)} batch-norm-{kind}{operands}, epsilon=0.01, feature_index={feature}"
    )
    return "HloModule m\nENTRY main {\n" + "\n".join(lines) + "\n}\n"


@pytest.mark.parametrize("kind", CASES)
@pytest.mark.parametrize(
    ("dtype", "dims", "feature", "bounds"),
    [
        ("f32", (5, 3, 4), 1, "5,3,4"),
        ("f64", (7, 2), 1, "7,2"),
        ("bf16", (3, 6), 0, "3,6"),
        ("f16", (3, 0), 1, "3,0"),
        ("f32", (5, 3), 1, "<=5,3"),
    ],
)
def test_expansion(kind: str, dtype: str, dims: tuple[int, ...], feature: int, bounds: str) -> None:
    before, after = (parse(module(kind, dtype, dims, feature, bounds)) for _ in range(2))
    run_passes(after, "batch-norm-expansion")
    assert not any(i.opcode.startswith("batch-norm") for i in after.instructions)
    rng = np.random.default_rng(0)
    numpy = before.entry.parameters[0].shape.dtype.numpy
    # a mean far from 0 shows what a variance from squares would lose
    x = (rng.normal(size=dims) + 30).astype(numpy)
    vectors = [rng.uniform(0.5, 2, dims[feature]).astype(numpy) for _ in range(4)]
    arguments = [x, *vectors, rng.normal(size=dims).astype(numpy)]
    expected, got = evaluate(before, *arguments), evaluate(after, *arguments)
    tolerance = {"f64": 1e-12, "f32": 2e-5}.get(dtype, 1e-2)
    pairs = zip(expected, got, strict=True) if isinstance(expected, tuple) else [(expected, got)]
    for e, g in pairs:
        assert e.shape == g.shape
        assert e.dtype == g.dtype
        np.testing.assert_allclose(g.astype(np.float64), e.astype(np.float64), rtol=tolerance, atol=tolerance * 10)
