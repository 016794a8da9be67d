"""What both doors of `benchmarks.distributed_training` train on, and how they tell how it went."""

from __future__ import annotations

import json
import time
from collections.abc import Iterator
from typing import Any

import numpy as np

MARK = "TRAINED"
"""What begins the line by which the first process tells."""


def vectors(step: int) -> tuple[np.ndarray, np.ndarray]:
    """A batch whose labels are where the first ten numbers are largest."""
    x = np.random.default_rng(step).normal(size=(64, 64)).astype(np.float32)
    return x, x[:, :10].argmax(1).astype(np.int32)


def sequences(step: int) -> tuple[np.ndarray, np.ndarray]:
    """A batch of sequences that count on by three, and the token after each."""
    first = np.random.default_rng(step).integers(0, 64, (16, 1))
    tokens = ((first + 3 * np.arange(33)) % 64).astype(np.int32)
    return tokens[:, :-1], tokens[:, 1:]


def report(losses: Iterator[Any], process: str) -> None:
    """Takes a loss after the other, and the first process says what they were and how long they took."""
    times, values, begun = [], [], time.perf_counter()
    for loss in losses:
        values.append(float(loss))
        now = time.perf_counter()
        times.append(now - begun)
        begun = now
    if process == "0":
        print(MARK, json.dumps({"losses": values, "seconds": times}), flush=True)
