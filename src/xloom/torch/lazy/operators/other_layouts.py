"""Tensors that the device has not, and that torch makes without asking it: an error instead of one without use."""

from __future__ import annotations

from typing import Any, NoReturn

import torch

from xloom.torch.lazy.recording.table import handles
from xloom.torch.lowering.registry import no_lowering

_aten: Any = torch.ops.aten


@handles("aten._sparse_compressed_tensor_unsafe.default")
def compressed(args: Any, kwargs: Any = None) -> NoReturn:
    """All tensors in compressed sparse rows, columns or blocks are made by it."""
    raise no_lowering(_aten._sparse_compressed_tensor_unsafe.default)


@handles("aten._nested_tensor_from_mask_left_aligned.default")
def left_aligned(args: Any, kwargs: Any = None) -> bool:
    """That a mask's rows become no strided nested tensor, which encoders then do not ask for."""
    return False


def _compressed(*args: Any, **kwargs: Any) -> NoReturn:
    raise no_lowering(_aten._sparse_compressed_tensor_unsafe.default)


def _quantized(*args: Any, **kwargs: Any) -> NoReturn:
    raise no_lowering(_aten.empty_quantized.default)


def register(library: torch.library.Library) -> None:
    """Registers those that torch does not ask a tensor for."""
    library.impl("_sparse_compressed_tensor_unsafe", _compressed, "AutogradPrivateUse1")
    library.impl("empty_quantized", _quantized, "QuantizedPrivateUse1")
