"""Small models of timm, by their names there, with ten classes and images of 64 pixels or what they need."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

import torch

from tests.judges.models.model import Model


def _made(name: str, size: int = 64, **fields: Any) -> Model:
    import timm  # pyright: ignore[reportMissingImports]

    return Model(timm.create_model(name, num_classes=10, **fields), (torch.randn(4, 3, size, size),))


_SIZED: dict[str, dict[str, Any]] = {
    "vit_tiny_patch16_224": {"img_size": 64, "depth": 2},
    "swin_tiny_patch4_window7_224": {"img_size": 56, "size": 56, "depths": (1, 1, 1, 1)},
    "eva02_tiny_patch14_224": {"img_size": 56, "size": 56, "depth": 2},
    "mixer_s32_224": {"img_size": 64},
    "cait_xxs24_224": {"img_size": 64, "depth": 2},
    "levit_128s": {"img_size": 64, "size": 64},
    "crossvit_tiny_240": {"img_size": 240, "size": 240, "depth": ((1, 1, 0), (1, 1, 0), (1, 1, 0))},
    "xcit_nano_12_p16_224": {"img_size": 64, "depth": 2},
    "coatnet_pico_rw_224": {"img_size": 64},
    "maxvit_pico_rw_256": {"img_size": 64},
    "efficientvit_m0": {"img_size": 64},
    "coat_lite_tiny": {"img_size": 64, "serial_depths": (1, 1, 1, 1)},
    "davit_tiny": {"depths": (1, 1, 1, 1)},
    "twins_svt_small": {"img_size": 64, "depths": (1, 1, 1, 1)},
    "swinv2_tiny_window8_256": {"img_size": 64, "depths": (1, 1, 1, 1)},
    "sequencer2d_s": {"layers": (1, 1, 1, 1)},
    "convit_tiny": {"img_size": 64, "depth": 2, "local_up_to_layer": 1},
    "tnt_s_patch16_224": {"img_size": 64, "depth": 2},
}
_PLAIN = [
    "resnet10t", "mobilenetv3_small_050", "regnetx_002", "ghostnet_050", "seresnet18", "convnextv2_atto",
    "edgenext_xx_small", "inception_next_atto", "repvgg_a0", "pvt_v2_b0", "test_byobnet",
    "densenet121", "mobilenetv2_050", "efficientnet_b0", "dla34", "hrnet_w18_small", "xception41", "res2net50_14w_8s",
    "mobileone_s0", "fastvit_t8", "poolformer_s12", "nfnet_l0", "convmixer_768_32", "mambaout_femto", "starnet_s1",
    "efficientvit_b0", "mobilevitv2_050", "resnest14d",
]  # fmt: skip

MODELS: dict[str, Callable[[], Model]] = {
    **{name: partial(_made, name) for name in _PLAIN},
    **{name: partial(_made, name, **fields) for name, fields in _SIZED.items()},
}
