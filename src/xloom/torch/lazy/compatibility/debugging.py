"""The parts of torch_xla that scripts look at what was recorded with: eager mode, and the text of programs."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager

import torch

from xloom.torch.lazy.recording.capture import recorded
from xloom.torch.lazy.runtime import execution
from xloom.torch.lazy.runtime.eager import eager

_eager = ExitStack()


def eager_mode(enable: bool) -> None:
    """Runs operators one by one from now on, or no longer."""
    _eager.close()
    if enable:
        _eager.enter_context(eager())


def is_eager_mode() -> bool:
    """Whether it does."""
    return execution.is_eager()


@contextmanager
def eager_mode_context(enable: bool) -> Iterator[None]:
    """`eager_mode` for a while."""
    before = is_eager_mode()
    eager_mode(enable)
    try:
        yield
    finally:
        eager_mode(before)


def tensors_hlo(tensors: Sequence[torch.Tensor]) -> str:
    """The program that the tensors are waiting for, as HLO text."""
    return str(recorded(tensors, "xla"))
