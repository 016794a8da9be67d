"""torchvision beside a torch for the CPU: its wheel has operators for CUDA, which do not load, and names two anyway."""

from __future__ import annotations

import importlib.util

import torch

_BOXES = "(Tensor dets, Tensor scores, float iou_threshold) -> Tensor"


def declare_vision_operators() -> None:
    """Lets `import torchvision` succeed, as timm and transformers need it, where its operators are missing."""
    if importlib.util.find_spec("torchvision") is None or hasattr(torch.ops.torchvision, "nms"):
        return
    try:
        import torchvision  # noqa: F401  # pyright: ignore[reportMissingImports]
    except RuntimeError:
        for name in ("nms", "qnms"):
            torch.library.define(f"torchvision::{name}", _BOXES)
