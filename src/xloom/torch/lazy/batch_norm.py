"""Batch norms, which write the running statistics that they are given."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import torch

from xloom.torch.lazy.mutation import store
from xloom.torch.lazy.record import Recorder
from xloom.torch.lazy.table import NAMED, Handler
from xloom.torch.lazy.tensor import tensor_of
from xloom.torch.lowering import lower

_MEAN, _VARIANCE = 3, 4  # where the running statistics stand among the arguments


def _handler(functional: Any, training_at: int | None) -> Handler:
    recorder = Recorder(functional, lambda g, args, kwargs: lower(g, functional, args, kwargs), checks=False)

    def run(args: Sequence[Any], kwargs: Mapping[str, Any] | None) -> Any:
        *found, mean, variance = recorder.record(args, kwargs)
        if training_at is None or args[training_at]:
            for target, value in ((args[_MEAN], mean), (args[_VARIANCE], variance)):
                if target is not None and value is not None:
                    store(target, value)
        return [tensor_of(each) for each in found]

    return run


_legit = _handler(torch.ops.aten._native_batch_norm_legit_functional.default, 5)
NAMED["aten.native_batch_norm.default"] = _legit
NAMED["aten._native_batch_norm_legit.default"] = _legit
NAMED["aten._batch_norm_with_update.default"] = _handler(
    torch.ops.aten._batch_norm_with_update_functional.default, None
)
