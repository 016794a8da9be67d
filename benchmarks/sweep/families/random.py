"""Samples of every distribution, a hundred and a hundred thousand."""

from functools import partial

import jax
import jax.numpy as jnp
from jax import random

from benchmarks.programs.arguments import key
from benchmarks.sweep.case import Family

RANDOM = Family("random")

# each of a key and of how many
_SAMPLES = {
    "uniform": lambda k, n: random.uniform(k, (n,)),
    "normal": lambda k, n: random.normal(k, (n,)),
    "normal-bf16": lambda k, n: random.normal(k, (n,), jnp.bfloat16),
    "bits": lambda k, n: random.bits(k, (n,)),
    "randint": lambda k, n: random.randint(k, (n,), 0, 100),
    "bernoulli": lambda k, n: random.bernoulli(k, 0.3, (n,)),
    "gumbel": lambda k, n: random.gumbel(k, (n,)),
    "exponential": lambda k, n: random.exponential(k, (n,)),
    "laplace": lambda k, n: random.laplace(k, (n,)),
    "cauchy": lambda k, n: random.cauchy(k, (n,)),
    "logistic": lambda k, n: random.logistic(k, (n,)),
    "rademacher": lambda k, n: random.rademacher(k, (n,)),
    "gamma": lambda k, n: random.gamma(k, 2.0, (n,)),
    "beta": lambda k, n: random.beta(k, 2.0, 3.0, (n,)),
    "poisson": lambda k, n: random.poisson(k, 3.0, (n,)),
    "binomial": lambda k, n: random.binomial(k, 10, 0.3, (n,)),
    "pareto": lambda k, n: random.pareto(k, 2.0, (n,)),
    "weibull": lambda k, n: random.weibull_min(k, 1.0, 2.0, (n,)),
    "student": lambda k, n: random.t(k, 3.0, (n,)),
    "truncated-normal": lambda k, n: random.truncated_normal(k, -1, 1, (n,)),
    "multivariate-normal": lambda k, n: random.multivariate_normal(k, jnp.zeros(4), jnp.eye(4), (n,)),
    "dirichlet": lambda k, n: random.dirichlet(k, jnp.ones(4), (n,)),
    "ball": lambda k, n: random.ball(k, 3, shape=(n,)),
    "categorical": lambda k, n: random.categorical(k, jnp.zeros((100,)), shape=(n,)),
    "choice": lambda k, n: random.choice(k, 1000, (n,)),
    "permutation": lambda k, n: random.permutation(k, n),
    "split": lambda k, n: random.split(k, n),
    "fold-in": lambda k, n: jax.vmap(lambda i: random.fold_in(k, i))(jnp.arange(n)),
}

for name, sample in _SAMPLES.items():
    for count in (100, 100_000):
        RANDOM.add(f"{name}-{count}", partial(sample, n=count), key())

RANDOM.add("orthogonal-16", lambda k: random.orthogonal(k, 16), key())
RANDOM.add("choice-without-replacement", lambda k: random.choice(k, 10_000, (100,), replace=False), key())
