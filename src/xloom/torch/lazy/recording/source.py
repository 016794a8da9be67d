"""The line of the user's program that an operator comes from."""

from __future__ import annotations

import os
import sys
from typing import NamedTuple

import torch

_TORCH = os.path.dirname(torch.__file__) + os.sep
_OURS = os.path.dirname(os.path.dirname(__file__)) + os.sep


class Source(NamedTuple):
    """A line of Python."""

    file: str
    line: int
    function: str

    def __str__(self) -> str:
        return f"{self.file}:{self.line} in {self.function}"


def caller() -> Source | None:
    """The innermost frame that is neither torch's nor ours; None when there is none, as in a thread of autograd's."""
    frame = sys._getframe(1)
    while frame is not None:
        code = frame.f_code
        if not code.co_filename.startswith((_TORCH, _OURS)) and not code.co_filename.startswith("<frozen"):
            return Source(code.co_filename, frame.f_lineno, code.co_name)
        frame = frame.f_back
    return None
