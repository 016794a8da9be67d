"""Batch norms, which write the running statistics that they are given."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import torch

from xloom.torch.lazy.recording.record import Recorder
from xloom.torch.lazy.recording.signature import Emit
from xloom.torch.lazy.recording.table import NAMED
from xloom.torch.lazy.tensor.tensor import tensor_of
from xloom.torch.lazy.views.stores import store
from xloom.torch.lowering import lower
from xloom.torch.lowering.sync_batch_norm import gathered_stats

aten = torch.ops.aten
_MEAN, _VARIANCE = 3, 4  # where the running statistics stand among the arguments


def _register(op: Any, emit: Emit, name: str, training_at: int | None) -> None:
    recorder = Recorder(op, emit, name)

    def run(args: Sequence[Any], kwargs: Mapping[str, Any] | None) -> Any:
        *found, mean, variance = recorder.record(args, kwargs)
        if training_at is None or args[training_at]:
            for target, value in ((args[_MEAN], mean), (args[_VARIANCE], variance)):
                if target is not None and value is not None:
                    store(target, value)
        return [tensor_of(each) for each in found]

    NAMED[str(op)] = run


def _register_functional(op: Any, functional: Any, training_at: int | None) -> None:
    _register(op, lambda g, args, kwargs: lower(g, functional, args, kwargs), str(functional), training_at)


_register_functional(aten.native_batch_norm.default, aten._native_batch_norm_legit_functional.default, 5)
_register_functional(aten._native_batch_norm_legit.default, aten._native_batch_norm_legit_functional.default, 5)
_register_functional(aten._batch_norm_with_update.default, aten._batch_norm_with_update_functional.default, None)
for _op in (aten.batch_norm_gather_stats.default, aten.batch_norm_gather_stats_with_counts.default):
    _register(_op, lambda g, args, kwargs: gathered_stats(g, *args, **kwargs), f"{_op}, functional", None)
