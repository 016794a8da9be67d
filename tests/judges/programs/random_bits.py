"""rng-bit-generator of the algorithms whose bits are fixed."""

from __future__ import annotations

import numpy as np

from tests.judges.programs.scene import Scene, family
from xloom.hlo.dtype import DTYPES
from xloom.hlo.shape import tuple_shape


@family(0.8)
def rng_bit_generator(scene: Scene) -> None:
    """Threefry and Philox, of a random state."""
    threefry = scene.flip(0.5)
    words = 2 if threefry else scene.chance.choice((2, 3))
    low = scene.chance.choice((0, 2**64 - 8))  # a counter about to carry
    state = scene.argument(np.asarray(scene.numbers.integers(low, low + 8, words, np.uint64)))
    dtype = DTYPES[scene.chance.choice(("u32", "u64", "u32", "u8", "u16"))]
    shape = tuple_shape([state.shape, dtype[scene.dims()]])
    algorithm = "rng_three_fry" if threefry else "rng_philox"
    scene.emit_many("rng-bit-generator", state, shape=shape, algorithm=algorithm)
