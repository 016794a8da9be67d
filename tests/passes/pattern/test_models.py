"""The whole library, one pattern after another, on models: how much it finds, and that expanding undoes it."""

import numpy as np
import pytest

import xloom as xl
from tests.passes.pattern import framework_models
from tests.passes.pattern.roundtrip import library_outlined
from tests.passes.pattern.told_kernels import KERNELS
from xloom.calls import remove
from xloom.hlo.text.parser import parse
from xloom.interpreter import evaluate
from xloom.interpreter.samples import random_arguments
from xloom.passes import outline_pattern, run_passes
from xloom.passes.pattern import find_pattern

jax = pytest.importorskip("jax")
models = pytest.importorskip("tests.passes.pattern.models")

INLINED = "call-inlining,dce"
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


IN_FRAMEWORKS = {
    "flax_transformer": {"attention": 2, "layer_norm": 5, "bias_activation": 2},
    "flax_mlp_gradient": {},
    "flax_resnet_block": {"bias_activation": 1},
    "equinox_convnet": {"gelu": 1, "softmax": 1},
    "equinox_attention": {"attention": 1, "rms_norm": 1, "rotary_embedding": 2},
    "optax_adam_step": {},
    "transformers_gpt2": {"attention": 2, "layer_norm": 5, "bias_activation": 2},
    "transformers_bert": {"layer_norm": 5, "gelu_erf": 2, "attention": 2},
    "transformers_llama": {"attention": 2, "rms_norm": 5, "rotary_embedding": 4},
    "transformers_vit": {"layer_norm": 5, "gelu_erf": 2, "attention": 2},
    "torch_encoder": {"attention": 1, "layer_norm": 2, "gelu_erf": 1},
    "torch_encoder_gradient": {},
    "torch_resnet_block": {},
}


TOLD = {
    "jax gpt2": {"attention": 2},
    "jax bert": {"attention": 2},
    "jax llama": {"attention": 2, "rotary_embedding": 4},
    "jax vit": {"attention": 2},
    "flax_transformer": {"attention": 2},
    "equinox_attention": {"attention": 1, "rotary_embedding": 2},
    "transformers_gpt2": {"attention": 2},
    "transformers_bert": {"attention": 2},
    "transformers_llama": {"attention": 2, "grouped_query_attention": 2, "rotary_embedding": 4},
    "transformers_vit": {"attention": 2},
    "torch_encoder": {"attention": 1},
}
"""What is found of the patterns whose heads, times and features a model joins and takes apart."""


@pytest.mark.parametrize("name, count", [("attention", 2), ("layer_norm", 4), ("gelu", 2)])
def test_forward_operators_are_found_in_a_gradient_as_jax_emits_it(name: str, count: int) -> None:
    function, arguments = models.MODELS["gpt2 gradient"]
    module = parse(jax.jit(function).lower(*arguments).as_text(dialect="hlo"))
    assert len(outline_pattern(module, find_pattern(name), "Kernel", escaping=True).found) == count


def leaves(value):
    """All numbers of a result."""
    if isinstance(value, tuple):
        return np.concatenate([leaves(element) for element in value])
    return np.asarray(value, np.float64).ravel()


@pytest.mark.parametrize("form", [INLINED, SIMPLE], ids=["raw", "simple"])
@pytest.mark.parametrize("model", TOLD)
def test_kernels_that_know_the_match_alone_are_right_in_models(model: str, form: str) -> None:
    if model.startswith("jax "):
        function, arguments = models.MODELS[model.removeprefix("jax ")]
        before = parse(jax.jit(function).lower(*arguments).as_text(dialect="hlo"))
    else:
        for package in framework_models.NEEDS[model.partition("_")[0]]:
            pytest.importorskip(package)
        before = framework_models.MODELS[model]()
    run_passes(before, form)
    sample = random_arguments(before, 1)
    expected = evaluate(before, *sample)
    found = {}
    for name, kernel in KERNELS.items():
        after = before.clone("")
        xl.custom_call("test.told")(kernel)
        try:
            done = outline_pattern(after, find_pattern(name), "test.told").found
            np.testing.assert_allclose(leaves(evaluate(after, *sample)), leaves(expected), rtol=2e-3, atol=2e-4)
        finally:
            remove("test.told")
        found |= {name: len(done)} if done else {}
    assert found == TOLD[model]


@pytest.mark.parametrize("form", [INLINED, SIMPLE], ids=["raw", "simple"])
@pytest.mark.parametrize("model", models.MODELS)
def test_models(model: str, form: str) -> None:
    function, arguments = models.MODELS[model]
    module = parse(jax.jit(function).lower(*arguments).as_text(dialect="hlo"))
    outcome = library_outlined(module, form, values=form == SIMPLE)
    assert (outcome.found, outcome.wrong) == (FOUND[model], "")


@pytest.mark.parametrize("model", framework_models.MODELS)
def test_models_of_frameworks(model: str) -> None:
    for package in framework_models.NEEDS[model.partition("_")[0]]:
        pytest.importorskip(package)
    module = framework_models.MODELS[model]()
    outcome = library_outlined(module, INLINED, values=True)
    assert (outcome.found, outcome.wrong) == (IN_FRAMEWORKS[model], "")
