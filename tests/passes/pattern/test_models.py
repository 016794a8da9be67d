"""The whole library, one pattern after another, on models: how much it finds, and that expanding undoes it."""

import pytest

from tests.passes.pattern.roundtrip import expanded, same
from xloom.hlo.parser import parse
from xloom.interpreter import evaluate
from xloom.interpreter.samples import random_arguments
from xloom.passes import outline_pattern, run_passes
from xloom.passes.hooks import difference
from xloom.passes.pattern import find_pattern

jax = pytest.importorskip("jax")
models = pytest.importorskip("tests.passes.pattern.models")

LARGE_FIRST = (
    "attention",
    "layer_norm",
    "rms_norm",
    "rotary_embedding",
    "bias_activation",
    "gelu",
    "gelu_erf",
    "softmax",
)
SIMPLE = "call-inlining,algebraic-simplification,layout-simplification,constant-folding,cse,dce"
FOUND = {
    "gpt2": {"attention": 2, "layer_norm": 4, "bias_activation": 2},
    "gpt2 gradient": {"layer_norm": 1},  # what the gradient needs of the others escapes
    "bert": {"attention": 2, "layer_norm": 4, "gelu_erf": 2},
    "llama": {"attention": 2, "rms_norm": 4, "rotary_embedding": 4},
    "vit": {"attention": 2, "layer_norm": 5, "bias_activation": 2, "softmax": 1},
    "mixer": {"layer_norm": 4, "bias_activation": 4},
    "convnet": {"bias_activation": 2, "softmax": 1},
}


@pytest.mark.parametrize("form", ["call-inlining,dce", SIMPLE], ids=["raw", "simple"])
@pytest.mark.parametrize("model", models.MODELS)
def test_models(model: str, form: str) -> None:
    function, arguments = models.MODELS[model]
    before = parse(jax.jit(function).lower(*arguments).as_text(dialect="hlo"))
    run_passes(before, form)
    after = before.clone("")
    found = {name: len(outline_pattern(after, find_pattern(name), "K-" + name).found) for name in LARGE_FIRST}
    assert {name: count for name, count in found.items() if count} == FOUND[model]
    run_passes(after, "")  # verifies
    back = expanded(after)
    assert same(back, before)
    if form == SIMPLE:
        sample = random_arguments(before, 1)
        assert not difference(evaluate(before, *sample), evaluate(back, *sample))
