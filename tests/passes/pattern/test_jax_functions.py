"""A pattern taken from a JAX function matches that function, whichever way it comes."""

import numpy as np
import pytest

from tests.passes.pattern.roundtrip import expanded
from xloom.hlo.module import Module
from xloom.hlo.text.parser import parse
from xloom.interpreter import evaluate
from xloom.interpreter.samples import random_arguments
from xloom.passes import outline_pattern, pattern_from_jax, run_passes
from xloom.passes.hooks import difference

jax = pytest.importorskip("jax")
jnp = pytest.importorskip("jax.numpy")


def array(*shape, dtype="float32"):
    return jax.ShapeDtypeStruct(shape, dtype)


TABLE = np.arange(300, dtype=np.float32)
A = array(4, 8)
FUNCTIONS = {
    "silu": (lambda x: 2 * jax.nn.silu(x), [A]),
    "where": (lambda x, y: jnp.where(x > 0, jnp.sqrt(x), y), [A, A]),
    "table": (lambda x: jnp.sin(x * TABLE), [array(300)]),
    "sort": (lambda x: 2 * jnp.sort(x, axis=-1), [A]),
    "gather": (lambda x, i: 2 * x[i], [array(9, 4), array(3, dtype="int32")]),
    "scan": (lambda x: jax.lax.scan(lambda c, v: (c + v, c * v), jnp.zeros(8), x)[1], [A]),
    "loop": (lambda x: jax.lax.fori_loop(0, 3, lambda i, v: 2 * v + i, x), [A]),
    "two results": (lambda x: (2 * jnp.sin(x), jnp.cos(x) + 1), [A]),
    "attention": (jax.nn.dot_product_attention, [array(2, 5, 3, 8)] * 3),
    "cross entropy": (
        lambda x, y: jax.nn.logsumexp(x, -1) - jnp.take_along_axis(x, y[:, None], -1)[:, 0],
        [A, array(4, dtype="int32")],
    ),
    "jit inside": (lambda x: 3 * jax.jit(jnp.sin)(x), [A]),
    "gradient": (jax.grad(lambda x: jnp.sum(jnp.tanh(x) ** 3)), [A]),
    "integers": (lambda x: x // 3 + x % 5, [array(4, 8, dtype="int32")]),
    "variance": (lambda x: (x - x.mean(-1, keepdims=True)) / jnp.std(x, -1, keepdims=True), [A]),
}
FORMS = {
    "raw": "",
    "inlined": "call-inlining,dce",
    "simple": "call-inlining,algebraic-simplification,layout-simplification,constant-folding,cse,dce",
}


def lowered(function, arguments) -> Module:
    return parse(jax.jit(function).lower(*arguments).as_text(dialect="hlo"))


@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("name", FUNCTIONS)
def test_the_function_itself_is_found(name: str, form: str) -> None:
    function, arguments = FUNCTIONS[name]
    before = lowered(function, arguments)
    run_passes(before, FORMS[form])
    after = before.clone("")
    done = outline_pattern(after, pattern_from_jax(function, *arguments), "Kernel")
    assert len(done.found) == 1, done.missed
    given = random_arguments(before, 1)
    assert not difference(evaluate(before, *given), evaluate(expanded(after), *given))


def test_calls_stay_where_nothing_is_found() -> None:
    module = lowered(FUNCTIONS["silu"][0], [A])
    before = str(module)
    assert "call(" in before
    assert not outline_pattern(module, pattern_from_jax(jnp.sin, A), "Kernel").found
    assert str(module) == before
