"""A neural ODE by diffrax, equinox and optax: spirals, fitted through an adaptive solver."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp

TOLERANCE = 0.05
"""Steps of the solver are accepted or not by the last bit."""


def prepare() -> Callable[[], Any]:
    """Forty steps of AdaBelief on 64 trajectories of 20 points."""
    import diffrax
    import equinox as eqx
    import optax

    class Field(eqx.Module):
        mlp: eqx.nn.MLP

        def __call__(self, t: Any, y: Any, args: Any) -> Any:
            return self.mlp(y)

    times = jnp.linspace(0, 4, 20)
    starts = jax.random.uniform(jax.random.key(1), (64, 2), minval=-1, maxval=1)
    turn = jnp.array([[-0.1, 2.0], [-2.0, -0.1]])
    targets = jax.vmap(lambda t: starts @ jax.scipy.linalg.expm(turn.T * t), out_axes=1)(times)
    first = Field(eqx.nn.MLP(2, 2, 64, 2, activation=jax.nn.softplus, key=jax.random.key(0)))
    optimizer = optax.adabelief(3e-3)

    def solve(field: Field, y0: Any) -> Any:
        found = diffrax.diffeqsolve(
            diffrax.ODETerm(field),
            diffrax.Tsit5(),
            t0=times[0],
            t1=times[-1],
            dt0=times[1] - times[0],
            y0=y0,
            stepsize_controller=diffrax.PIDController(rtol=1e-3, atol=1e-6),
            saveat=diffrax.SaveAt(ts=times),
        )
        return found.ys

    @eqx.filter_value_and_grad
    def loss(field: Field) -> Any:
        return jnp.mean((jax.vmap(lambda y: solve(field, y))(starts) - targets) ** 2)

    @eqx.filter_jit
    def step(field: Field, state: Any) -> Any:
        value, gradients = loss(field)
        updates, state = optimizer.update(gradients, state)
        return eqx.apply_updates(field, updates), state, value

    def run() -> Any:
        field, state, value = first, optimizer.init(eqx.filter(first, eqx.is_inexact_array)), None
        for _ in range(40):
            field, state, value = step(field, state)
        return value

    return run
