"""LU factors on the device: of matrices in the order in which torch sees them, which gradients go by."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from xloom.torch.lazy.recording.lowered import functional, lowered
from xloom.torch.lazy.recording.record import Recorder
from xloom.torch.lazy.recording.table import Handler
from xloom.torch.lowering.linalg import BY_ORDER, in_columns


def handler(op: Any) -> Handler | None:
    """For operators that factor the transpose of real matrices if those lie in rows."""
    if op not in BY_ORDER:
        return None
    columns = functional(Recorder(op, lambda g, args, kwargs: in_columns(g, op, args, kwargs)))
    rows = lowered(op)
    assert rows is not None

    def run(args: Sequence[Any], kwargs: Mapping[str, Any] | None) -> Any:
        matrices = args[0]
        return (rows if matrices.is_contiguous() or matrices.is_complex() else columns)(args, kwargs)

    return run
