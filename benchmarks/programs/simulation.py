"""Whole steps of simulations."""

import jax.numpy as jnp
import numpy as np
from jax import lax
from jax.scipy.special import ndtr

from benchmarks.programs.arguments import integers, normal, uniform
from benchmarks.programs.registry import program


@program("n-body", normal(1024, 3), normal(1024, 3), uniform(1024, low=0.1), flops=20 * 1024 * 1024)
def n_body(position, velocity, mass):
    """Every pair attracts; one leapfrog step."""
    offset = position[None, :, :] - position[:, None, :]
    distance = jnp.sum(offset * offset, axis=-1) + 1e-2
    pull = jnp.sum(offset * (mass[None, :, None] * (distance**-1.5)[..., None]), axis=1)
    velocity = velocity + 0.01 * pull
    return position + 0.01 * velocity, velocity


@program(
    "black-scholes",
    uniform(1 << 20, low=50.0, high=150.0),
    uniform(1 << 20, low=50.0, high=150.0),
    uniform(1 << 20, low=0.1, high=2.0),
    streams=True,
)
def black_scholes(spot, strike, time):
    """Prices of calls and puts."""
    rate, volatility = 0.05, 0.2
    spread = volatility * jnp.sqrt(time)
    d1 = (jnp.log(spot / strike) + (rate + 0.5 * volatility**2) * time) / spread
    d2 = d1 - spread
    discounted = strike * jnp.exp(-rate * time)
    return spot * ndtr(d1) - discounted * ndtr(d2), discounted * ndtr(-d2) - spot * ndtr(-d1)


@program("life", integers(1024, 1024, high=2, dtype=np.int8))
def life(cells):
    """Ten generations of Conway's game on a torus."""

    def generation(_, cells):
        rows = cells + jnp.roll(cells, 1, 0) + jnp.roll(cells, -1, 0)
        around = rows + jnp.roll(rows, 1, 1) + jnp.roll(rows, -1, 1) - cells
        return ((around == 3) | ((around == 2) & (cells == 1))).astype(jnp.int8)

    return lax.fori_loop(0, 10, generation, cells)


@program("heat", normal(96, 96, 96))
def heat(x):
    """Ten steps of diffusion in a box, by a stencil of seven points."""

    def step(_, x):
        p = jnp.pad(x, 1)
        around = (
            p[2:, 1:-1, 1:-1]
            + p[:-2, 1:-1, 1:-1]
            + p[1:-1, 2:, 1:-1]
            + p[1:-1, :-2, 1:-1]
            + p[1:-1, 1:-1, 2:]
            + p[1:-1, 1:-1, :-2]
        )
        return x + 0.1 * (around - 6.0 * x)

    return lax.fori_loop(0, 10, step, x)


@program("k-means", normal(16384, 16), normal(64, 16), flops=2 * 16384 * 16 * 64)
def k_means(points, centres):
    """One round: distances, the nearest, and the new means."""
    distance = jnp.sum(centres**2, axis=1) - 2.0 * points @ centres.T
    nearest = jnp.argmin(distance, axis=1)
    sums = jnp.zeros_like(centres).at[nearest].add(points)
    counts = jnp.zeros(64).at[nearest].add(1.0)
    return sums / jnp.maximum(counts, 1.0)[:, None]
