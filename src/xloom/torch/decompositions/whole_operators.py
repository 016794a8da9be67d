"""Operators that torch would take apart before it derives them, in ways that cost much.

Taken apart, resampling is an indexed read, and its gradient adds at indices that only the run knows.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from threading import RLock
from typing import Any

from torch._C import DispatchKey
from torch._ops import OpOverload

from xloom.torch.decompositions.inverse_stft import inverse_stft
from xloom.torch.decompositions.registry import aten

_PACKETS = (
    *(
        getattr(aten, f"{exact}{rank}d")
        for exact in ("upsample_nearest", "_upsample_nearest_exact")
        for rank in (1, 2, 3)
    ),
    aten.upsample_linear1d,
    aten.upsample_bilinear2d,
    aten.upsample_trilinear3d,
    aten.upsample_bicubic2d,
)
_TAKEN_APART = {aten.istft.default: inverse_stft}
_KEYS = (DispatchKey.Autograd, DispatchKey.CompositeImplicitAutograd)
_lock = RLock()
_open: list[dict[tuple[OpOverload, DispatchKey], Any]] = []


@contextmanager
def whole_operators() -> Iterator[None]:
    """What is traced meanwhile has some operators as they are, and their gradients; others are taken apart better."""
    with _lock:
        if not _open:
            _open.append(_taken())
        else:
            _open.append({})
    try:
        yield
    finally:
        with _lock:
            kernels = _open.pop()
            if _open:
                _open[-1].update(kernels)
            else:
                _give_back(kernels)


def _taken() -> dict[tuple[OpOverload, DispatchKey], Any]:
    """Torch's Python code for them, which its dispatcher prefers."""
    found = {}
    for op in _operators():
        for key in _KEYS:
            if key in op.py_kernels:
                found[op, key] = op.py_kernels.pop(key)
        if op in _TAKEN_APART:
            op.py_kernels[DispatchKey.CompositeImplicitAutograd] = _TAKEN_APART[op]
        op._dispatch_cache.clear()
    return found


def _give_back(kernels: dict[tuple[OpOverload, DispatchKey], Any]) -> None:
    for (op, key), kernel in kernels.items():
        op.py_kernels[key] = kernel
        op._dispatch_cache.clear()


def _operators() -> Iterator[OpOverload]:
    for packet in _PACKETS:
        yield packet.default
        yield packet.vec
    yield from _TAKEN_APART
