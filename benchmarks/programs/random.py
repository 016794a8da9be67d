"""Random numbers: the same bits on both sides."""

import jax
import jax.numpy as jnp
from jax import lax

from benchmarks.programs.arguments import integers, key, normal
from benchmarks.programs.registry import program

_MANY = 1 << 20


def _key(data):
    return jax.random.wrap_key_data(data, impl="threefry2x32")


@program("threefry-bits", key())
def threefry_bits(data):
    """Thirty-two bits a number."""
    return jax.random.bits(_key(data), (_MANY,))


@program("uniform", key())
def uniform(data):
    """Between 0 and 1."""
    return jax.random.uniform(_key(data), (_MANY,))


@program("normal", key())
def normal_numbers(data):
    """By the inverse of erf."""
    return jax.random.normal(_key(data), (_MANY,))


@program("dropout", key(), normal(1024, 1024))
def dropout(data, x):
    """A tenth is cleared, and the rest scaled."""
    keep = jax.random.bernoulli(_key(data), 0.9, x.shape)
    return jnp.where(keep, x / 0.9, 0.0)


@program("categorical", key(), normal(256, 1024))
def categorical(data, logits):
    """A draw from each row's distribution."""
    return jax.random.categorical(_key(data), logits)


@program("permutation", key())
def permutation(data):
    """A shuffle, by sorting."""
    return jax.random.permutation(_key(data), 1 << 14)


@program("philox-bits", integers(4, high=1 << 32, dtype="uint32"))
def philox_bits(data):
    """The operation of its own for random bits."""
    return lax.rng_bit_generator(data, (_MANY,), algorithm=lax.RandomAlgorithm.RNG_PHILOX)
