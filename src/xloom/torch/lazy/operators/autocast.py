"""`torch.autocast("xla")`: which operators compute in the narrow type, and which in f32."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch

# as torch's lists for its own devices: products gain from narrow types, sums and exponentials lose by them
_NARROW = """
conv1d conv2d conv3d conv_transpose1d conv_transpose2d.input conv_transpose3d.input convolution
_convolution prelu addmm addmv addr matmul mm mv linear addbmm baddbmm bmm chain_matmul
linalg_multi_dot scaled_dot_product_attention linalg_vecdot
"""
_WIDE = """
acos asin cosh erfinv exp expm1 log log10 log2 log1p reciprocal rsqrt sinh tan pow.Tensor_Scalar
pow.Tensor_Tensor pow.Scalar softplus layer_norm native_layer_norm group_norm norm.Scalar
nuclear_norm cosine_similarity poisson_nll_loss cosine_embedding_loss nll_loss nll_loss2d
hinge_embedding_loss kl_div l1_loss smooth_l1_loss huber_loss mse_loss margin_ranking_loss
multilabel_margin_loss soft_margin_loss triplet_margin_loss multi_margin_loss
binary_cross_entropy_with_logits dist pdist cdist renorm logsumexp softmax.int log_softmax.int
cumsum cumprod prod sum sum.dim_IntList
"""
_PROMOTED = """
addcdiv addcmul atan2 bilinear cross dot grid_sampler index_put tensordot scatter_add
"""


def register() -> list[torch.library.Library]:
    """Registers the kernels; operators in no list pass through."""
    through = torch.library.Library("_", "IMPL", "AutocastPrivateUse1")
    through.fallback(torch.library.fallthrough_kernel)
    library = torch.library.Library("aten", "IMPL", "AutocastPrivateUse1")
    rules: list[tuple[str, Callable[[Any], torch.dtype]]] = [
        (_NARROW, lambda _: torch.get_autocast_dtype("xla")),
        (_WIDE, lambda _: torch.float32),
        (_PROMOTED, _widest),
    ]
    for names, dtype_of in rules:
        for name in names.split():
            packet, _, overload = name.partition(".")
            op = getattr(getattr(torch.ops.aten, packet), overload or "default")
            library.impl(name, _kernel(op, dtype_of))
    return [through, library]


def _kernel(op: Any, dtype_of: Callable[[Any], torch.dtype]) -> Callable[..., Any]:
    excluded = torch._C.DispatchKeySet(torch._C.DispatchKey.AutocastPrivateUse1)  # type: ignore[attr-defined]

    def run(*args: Any, **kwargs: Any) -> Any:
        dtype = dtype_of((args, kwargs))
        with torch._C._ExcludeDispatchKeyGuard(excluded):
            return op(*_cast(args, dtype), **{name: _cast(each, dtype) for name, each in kwargs.items()})

    return run


def _castable(value: Any) -> bool:
    return isinstance(value, torch.Tensor) and value.is_floating_point() and value.dtype is not torch.float64


def _cast(value: Any, dtype: torch.dtype) -> Any:
    if _castable(value):
        return value if value.dtype is dtype else value.to(dtype)
    if isinstance(value, (list, tuple)):
        return type(value)([_cast(each, dtype) for each in value])
    return value


def _widest(value: Any) -> torch.dtype:
    if isinstance(value, (list, tuple)):
        found = [_widest(each) for each in value]
        return torch.float32 if torch.float32 in found else torch.get_autocast_dtype("xla")
    if isinstance(value, dict):
        return _widest(list(value.values()))
    return torch.float32 if _castable(value) and value.dtype is torch.float32 else torch.get_autocast_dtype("xla")
