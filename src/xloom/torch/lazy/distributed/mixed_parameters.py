"""Optimisers of parameters of which some alone are distributed go through them one by one, as they do on the host.

torch has others take all at once, by operators of lists, which DTensor refuses where not all are its own.
"""

from __future__ import annotations

from collections.abc import Iterable
from functools import lru_cache, partial, wraps
from typing import Any

from torch.distributed.tensor import DTensor

from xloom.torch.lazy.runtime.late_imports import replace, when_imported


@lru_cache(maxsize=1)
def register() -> None:
    """Has those do so that are not told to take all at once."""
    when_imported("torch.optim.optimizer", partial(replace, "_default_to_fused_or_foreach", _unless_mixed))


def _unless_mixed(own: Any) -> Any:
    @wraps(own)
    def run(params: Iterable[Any], *rest: Any, **named: Any) -> tuple[bool, bool]:
        params = list(params)
        fused, at_once = own(params, *rest, **named)
        return fused, at_once and len({isinstance(each, DTensor) for each in params if each is not None}) < 2

    # TorchScript, by which torch.distributed.optim compiles its optimisers, asks here what to read
    setattr(run, "__prepare_scriptable__", lambda: own)  # noqa: B010
    return run
