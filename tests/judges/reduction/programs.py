"""Large modules: random ones, and programs of JAX."""

from __future__ import annotations

import random

import xloom as xl
from tests.judges.programs.generator import grow
from tests.judges.programs.scene import Scene
from xloom.hlo.builder import Builder
from xloom.hlo.module import Module

_SHARE = 2
"""Instructions for each value: those of computations that operators call are no values."""


def random_module(seed: int, number: int, least: int) -> Module:
    """At least about so many instructions, all of which results depend on."""
    chance = random.Random(f"reduction {seed}:{number}")
    builder = Builder(f"large_{seed}_{number}", source_lines=False)
    scene = Scene(builder, builder, chance)
    while _SHARE * len(scene.values) < least:
        grow(scene, 20)
    return builder.build(builder.tuple_(*(v.instruction for v in scene.values if not v.instruction.users)))


def jax_module(layers: int) -> Module:
    """A step of training a small transformer. About 500 instructions a layer."""
    import jax
    import jax.numpy as jnp

    def norm(x: jax.Array) -> jax.Array:
        centred = x - x.mean(-1, keepdims=True)
        return centred * jax.lax.rsqrt((centred**2).mean(-1, keepdims=True) + 1e-5)

    def layer(x: jax.Array, w: jax.Array) -> jax.Array:
        q, k, v = (norm(x) @ w[n] for n in range(3))
        x = x + jax.nn.softmax(q @ k.T / 4.0) @ v @ w[3]
        return x + jax.nn.gelu(norm(x) @ w[4]) @ w[5]

    def loss(weights: list[jax.Array], x: jax.Array) -> jax.Array:
        for w in weights:
            x = layer(x, w)
        return jnp.sum(jax.nn.log_softmax(x)[:, 0])

    def step(weights: list[jax.Array], x: jax.Array) -> list[jax.Array]:
        return [w - 0.1 * g for w, g in zip(weights, jax.grad(loss)(weights, x), strict=True)]

    weights = [jnp.ones((6, 16, 16)) for _ in range(layers)]
    module = xl.from_stablehlo(jax.jit(step).lower(weights, jnp.ones((8, 16))).as_text())
    xl.run_passes(module, "call-inlining,dce")
    return module
