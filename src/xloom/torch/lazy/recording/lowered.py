"""Operators that are recorded, and lowered by the table."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from xloom.torch.lazy.recording.record import Recorder
from xloom.torch.lazy.recording.table import Handler
from xloom.torch.lazy.tensor.tensor import tensor_of
from xloom.torch.lowering import has_lowering, lower


def lowered(op: Any) -> Handler | None:
    """Recorded, and lowered by the table."""
    if op._schema.is_mutable or not has_lowering(op):
        return None
    return functional(Recorder(op, lambda g, args, kwargs: lower(g, op, args, kwargs)))


def functional(recorder: Recorder) -> Handler:
    """New tensors for what is recorded."""
    record = recorder.record

    def run(args: Sequence[Any], kwargs: Mapping[str, Any] | None) -> Any:
        found = record(args, kwargs)
        if found.__class__ is list:
            return [None if each is None else tensor_of(each) for each in found]
        return tensor_of(found)

    return run
