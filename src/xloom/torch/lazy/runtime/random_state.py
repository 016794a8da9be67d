"""The device's random number generator: its state is a value like any other, which operators take and give back."""

from __future__ import annotations

import numpy as np
import torch

from xloom.torch.arrays import over
from xloom.torch.lazy.recording.trace import TRACE, Value
from xloom.torch.lazy.runtime import device_client
from xloom.torch.lazy.tensor.array_type import array_type

DEFAULT_SEED = 67280421310721

_TYPE = array_type(torch.uint64, (2,))
_state: Value | None = None
_seed = DEFAULT_SEED


def _seeded(seed: int) -> Value:
    return Value(_TYPE, device_client.on_device(np.array([seed & (2**64 - 1), 0], np.uint64)))


def take() -> Value:
    """The state for the operator that comes next. Where a program that failed has lost it, it starts anew."""
    return _seeded(_seed) if _state is None or _is_lost(_state) else _state


def _is_lost(state: Value) -> bool:
    if state.buffer is None:
        return state.epoch != TRACE.epoch
    return state.buffer.ready.error is not None


def put(state: Value) -> None:
    """The state after it."""
    global _state
    _state = state


def drawn_from(generator: torch.Generator) -> Value:
    """A state for one operator, from numbers that a generator of the host gives."""
    seed, place = torch.randint(-(2**63), 2**63 - 1, (2,), generator=generator).view(torch.uint64).tolist()
    return Value(_TYPE, device_client.on_device(np.array([seed, place], np.uint64)))


def manual_seed(seed: int) -> None:
    """Starts the generator anew."""
    global _state, _seed
    _seed, _state = int(seed), None


def initial_seed() -> int:
    """The last seed given."""
    return _seed


def get_state() -> torch.Tensor:
    """The state, as bytes on the host. Waits for the operators that change it."""
    from xloom.torch.lazy.runtime.execution import buffer_of

    return device_client.to_host(buffer_of(take())).view(torch.uint8)


def set_state(state: torch.Tensor) -> None:
    """Goes on from what `get_state` gave."""
    if state.dtype != torch.uint8 or state.numel() != 16:
        raise TypeError("the generator's state is a uint8 tensor of 16 elements, as xla.get_rng_state() gives it")
    put(Value(_TYPE, device_client.on_device(over(state.cpu().contiguous().view(torch.uint64)).copy())))
