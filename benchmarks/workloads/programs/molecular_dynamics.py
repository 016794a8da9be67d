"""Molecular dynamics by jax-md: Lennard-Jones with a neighbour list, at constant energy."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp

TOLERANCE = 0.01
"""Of the total energy."""


def prepare() -> Callable[[], Any]:
    """Twenty times ten steps of 512 atoms, with the list made again between."""
    from jax_md import energy, simulate, space

    side = 8 * 1.15
    displacement, shift = space.periodic(side)
    places = jnp.stack(jnp.meshgrid(*[jnp.arange(8) * 1.15] * 3), -1).reshape(-1, 3).astype(jnp.float32)
    neighbors, potential = energy.lennard_jones_neighbor_list(displacement, side, r_cutoff=2.0, dr_threshold=0.3)
    init, step = simulate.nve(potential, shift, 2e-3)
    listed = neighbors.allocate(places)
    state = init(jax.random.key(0), places, kT=0.5, neighbor=listed)

    @jax.jit
    def ten(state: Any, listed: Any) -> Any:
        listed = listed.update(state.position)
        return jax.lax.fori_loop(0, 10, lambda _, s: step(s, neighbor=listed), state), listed

    @jax.jit
    def total(state: Any, listed: Any) -> Any:
        kinetic = 0.5 * jnp.sum(state.momentum**2 / state.mass)
        return potential(state.position, neighbor=listed) + kinetic

    def run() -> Any:
        now, near = state, listed
        for _ in range(20):
            now, near = ten(now, near)
        return total(now, near)

    return run
