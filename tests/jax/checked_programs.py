"""Faults in JAX's functions, each of which JAX raises, and what the error says; run by test_jax_checked_values.py."""

import re

import jax
import jax.numpy as jnp
import numpy as np


def rows_of_scores(x):
    return jax.nn.softmax(jnp.where(x > 0, x, -jnp.inf), axis=-1)


def roots(x):
    def step(carry, t):
        carry = carry - t
        return carry, jnp.sqrt(carry)

    return jax.lax.scan(step, x, jnp.arange(6.0, dtype=np.float32))[1].sum()


def countdown(x):
    return jax.lax.while_loop(lambda s: s[0] < 5, lambda s: (s[0] + 1, jnp.log(s[1] - 1) * 0 + s[1] - 1), (0, x))


ONES = np.ones((2, 3), np.float32)
RAISED = (jax.errors.JaxRuntimeError, ValueError)  # the latter where jaxlib waits for a result
FAULTS = [  # function, arguments, patterns of the message
    (lambda x: (jnp.where(x > 0, jnp.log(x), 0), x + 1), [-ONES], [r"^INTERNAL: log makes NaN", "/log"]),
    (
        jax.vmap(lambda x: x / x.sum()),
        [ONES * np.array([[0], [1]], np.float32)],
        [r"divide .*\[0, 0\], and 2 more of 6"],
    ),
    (rows_of_scores, [-ONES], ["subtract makes NaN", "= -inf"]),
    (jax.grad(lambda x: jnp.sqrt(jnp.sum(x * x))), [ONES[0] * 0], ["makes NaN", "= inf"]),
    (jax.grad(roots), [np.float32(4)], ["sqrt makes NaN", "in iteration 3, from 0"]),
    (countdown, [np.float32(2.5)], ["log makes NaN", "in iteration 2, from 0", r"checked_programs\.py:\d+"]),
    (lambda p, x: jax.lax.cond(p, jnp.sqrt, jnp.exp, x), [True, -ONES], ["sqrt makes NaN"]),
    (lambda x: x.astype(jnp.bfloat16) / (x - x).astype(jnp.bfloat16), [ONES * 0], ["divide makes NaN"]),
    (lambda x, i: x[i], [ONES, np.array([1, 7])], ["gather has an index out of range", "= 7, where 0 to 1"]),
    (lambda x, i: x.at[i].set(0), [ONES, np.array([1, 7])], ["scatter has an index out of range"]),
    (lambda x, i: jax.lax.dynamic_slice(x, (0, i), (2, 2)), [ONES, 2], ["dynamic-slice has an index out of range"]),
]
RIGHT = [
    (rows_of_scores, [ONES]),
    (roots, [np.float32(40)]),
    (lambda x: x + jnp.inf, [ONES]),
    (jnp.negative, [ONES * np.nan]),
]

for function, arguments, patterns in FAULTS:
    try:
        jax.block_until_ready(jax.jit(function)(*arguments))
    except RAISED as error:
        for pattern in patterns:
            assert re.search(pattern, str(error)), f"{pattern} is not in {error}"
    else:
        raise AssertionError(f"nothing was raised: {patterns}")
for function, arguments in RIGHT:
    compiled = jax.jit(function)
    for _ in range(2):
        np.testing.assert_allclose(compiled(*arguments), function(*arguments), rtol=1e-5)

given_away = jax.jit(lambda x: x + jnp.sqrt(x), donate_argnums=0)
given_away(jnp.asarray(ONES))
try:
    jax.block_until_ready(given_away(jnp.asarray(-ONES)))
except RAISED as error:
    assert "= -1.0" in str(error), error
else:
    raise AssertionError("nothing was raised of what is given away")
