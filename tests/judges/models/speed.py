"""How fast a step of training is through a door, beside eager mode and inductor: medians of alternated calls."""

from __future__ import annotations

import statistics
import time
import warnings
from collections.abc import Callable
from copy import deepcopy
from typing import Any

import torch

from tests.judges.models.cases import DOORS, Door, built, step
from tests.judges.models.model import Model


def _eager(model: Model) -> tuple[Model, Any]:
    return model, model.module


def _inductor(model: Model) -> tuple[Model, Any]:
    return model, torch.compile(model.module)


SIDES: dict[str, Door] = {"eager": _eager, "inductor": _inductor, **DOORS}


def seconds(name: str, mode: str, rounds: int = 25) -> dict[str, float]:
    """The median time of a call by side, without what is compiled first; results are on the host at its end."""
    import xloom.torch  # noqa: F401

    warnings.simplefilter("ignore")  # libraries warn of each other
    torch._dynamo.reset()
    model = built(name)
    calls: dict[str, Callable[[], Any]] = {}
    for side, door in SIDES.items():
        own, call = door(Model(deepcopy(model.module), *model[1:]))
        calls[side] = lambda own=own, call=call: step(own, call, mode)
        for _ in range(3):  # compiles; the device's program learns what it updates in place
            calls[side]()
    times: dict[str, list[float]] = {side: [] for side in calls}
    for _ in range(rounds):
        for side, call in calls.items():
            began = time.perf_counter()
            call()
            times[side].append(time.perf_counter() - began)
    return {side: statistics.median(found) for side, found in times.items()}
