"""NUTS by numpyro: logistic regression with partial pooling, 25 groups."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

TOLERANCE = 0.3
"""Of the posterior means: chains that differ in a bit are other draws of the same posterior."""


def prepare() -> Callable[[], Any]:
    """A chain of 200 steps to adapt and 200 samples."""
    import numpyro
    from numpyro import distributions as dist
    from numpyro.infer import MCMC, NUTS

    generator = np.random.default_rng(0)
    groups = generator.integers(0, 25, 1000)
    x = generator.normal(size=(1000, 8))
    slopes = generator.normal(size=(25, 8)) * 0.5 + 1
    y = generator.random(1000) < 1 / (1 + np.exp(-(x * slopes[groups]).sum(1)))

    def model(x: Any, groups: Any, y: Any) -> None:
        mean = numpyro.sample("mean", dist.Normal(jnp.zeros(8), 1))
        scale = numpyro.sample("scale", dist.HalfNormal(jnp.ones(8)))
        with numpyro.plate("groups", 25):
            raw = numpyro.sample("raw", dist.Normal(jnp.zeros(8), 1).to_event(1))
        logits = (x * (mean + scale * raw)[groups]).sum(-1)
        numpyro.sample("y", dist.Bernoulli(logits=logits), obs=y)

    sampler = MCMC(NUTS(model), num_warmup=200, num_samples=200, progress_bar=False)

    def run() -> Any:
        sampler.run(jax.random.key(0), x, groups, y.astype(np.int32))
        return sampler.get_samples()["mean"].mean(0)

    return run
