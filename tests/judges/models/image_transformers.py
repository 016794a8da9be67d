"""Models of transformers that see, by name: backbones, images beside text, detectors, masks, depth."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

import torch

from tests.judges.models.model import Model
from tests.judges.models.transformers_models import STAGES, TEXT, VISION, image, made, random_tokens

_RESNET: dict[str, Any] = dict(embedding_size=8, hidden_sizes=[8, 16], depths=[1, 1], layer_type="basic")
_DETECTOR: dict[str, Any] = dict(
    d_model=32, encoder_layers=1, decoder_layers=1, encoder_attention_heads=4, decoder_attention_heads=4,
    encoder_ffn_dim=48, decoder_ffn_dim=48, num_queries=5, auxiliary_loss=False, use_timm_backbone=False,
    use_pretrained_backbone=False, backbone=None,
)  # fmt: skip


def _resnet(last: int) -> Any:
    import transformers  # pyright: ignore[reportMissingImports]

    config: Any = transformers.ResNetConfig
    return config(**_RESNET, out_indices=list(range(1, last + 1)))


def _vilt() -> Model:
    fields = TEXT | VISION | dict(num_images=-1, max_image_length=-1)
    inputs = {"input_ids": random_tokens(), "pixel_values": torch.randn(2, 3, 32, 32)}
    # of its answers, as the model itself draws its patches' order
    return Model(made("ViltForQuestionAnswering", "ViltConfig", fields), (), inputs)


def _layoutlmv3() -> Model:
    fields = TEXT | dict(
        input_size=32, patch_size=8, coordinate_size=6, shape_size=4, max_2d_position_embeddings=64, rel_pos_bins=8,
        rel_2d_pos_bins=8,
    )  # fmt: skip
    corners = torch.randint(0, 32, (2, 12, 4)).sort(-1).values
    inputs = {"input_ids": random_tokens(), "bbox": corners, "pixel_values": torch.randn(2, 3, 32, 32)}
    return Model(made("LayoutLMv3Model", "LayoutLMv3Config", fields), (), inputs)


def _lxmert() -> Model:
    fields = dict(
        vocab_size=99, hidden_size=32, num_attention_heads=4, intermediate_size=48, l_layers=1, x_layers=1, r_layers=1,
        visual_feat_dim=16,
    )  # fmt: skip
    inputs = {"input_ids": random_tokens(), "visual_feats": torch.randn(2, 5, 16), "visual_pos": torch.rand(2, 5, 4)}
    return Model(made("LxmertModel", "LxmertConfig", fields), (), inputs)


def _pairs(model: str, config: str, **fields: Any) -> Model:
    inputs = {"input_ids": random_tokens(), "pixel_values": torch.randn(2, 3, 32, 32)}
    return Model(made(model, config, {"text_config": TEXT, "vision_config": VISION} | fields), (), inputs)


def _detr() -> Model:
    fields = _DETECTOR | {"backbone_config": _resnet(2)}
    return Model(made("DetrModel", "DetrConfig", fields), (), {"pixel_values": torch.randn(2, 3, 64, 64)})


def _deformable_detr() -> Model:
    fields = _DETECTOR | {"backbone_config": _resnet(2), "num_feature_levels": 2}
    return Model(
        made("DeformableDetrModel", "DeformableDetrConfig", fields), (), {"pixel_values": torch.randn(2, 3, 64, 64)}
    )


def _sam() -> Model:
    sees = VISION | dict(output_channels=16, window_size=2, global_attn_indexes=[1], num_pos_feats=8, mlp_dim=48)
    asks = dict(hidden_size=16, image_size=32, patch_size=8, mask_input_channels=4, num_point_embeddings=4)
    masks = dict(
        hidden_size=16, mlp_dim=32, num_hidden_layers=2, num_attention_heads=2, iou_head_hidden_dim=16
    )  # fmt: skip
    fields = {"vision_config": sees, "prompt_encoder_config": asks, "mask_decoder_config": masks}
    inputs = {"pixel_values": torch.randn(2, 3, 32, 32), "input_points": 32 * torch.rand(2, 1, 2, 2)}
    return Model(made("SamModel", "SamConfig", fields), (), inputs)


def _git() -> Model:
    fields = TEXT | dict(vision_config=VISION, bos_token_id=1, eos_token_id=2)
    inputs = {"input_ids": random_tokens(), "pixel_values": torch.randn(2, 3, 32, 32)}
    return Model(made("GitForCausalLM", "GitConfig", fields), (), inputs)


def _vjepa2() -> Model:
    fields = VISION | dict(
        crop_size=32, frames_per_clip=4, pred_hidden_size=32, pred_num_attention_heads=4, pred_num_hidden_layers=1,
        pred_num_mask_tokens=2, mlp_ratio=2,
    )  # fmt: skip
    return Model(made("VJEPA2Model", "VJEPA2Config", fields), (), {"pixel_values_videos": torch.randn(2, 4, 3, 32, 32)})


MODELS: dict[str, Callable[[], Model]] = {
    "dinov3": partial(image, "DINOv3ViTModel", "DINOv3ViTConfig", **VISION, num_register_tokens=2),
    "dinov3_convnext": partial(
        image, "DINOv3ConvNextModel", "DINOv3ConvNextConfig", hidden_sizes=[8, 16, 16, 32], depths=[1, 1, 1, 1]
    ),
    "mobilenet_v2": partial(image, "MobileNetV2Model", "MobileNetV2Config", image_size=32, depth_multiplier=0.35),
    "mobilenet_v1": partial(image, "MobileNetV1Model", "MobileNetV1Config", image_size=32, depth_multiplier=0.25),
    "efficientnet": partial(
        image, "EfficientNetModel", "EfficientNetConfig", image_size=32, hidden_dim=1280, kernel_sizes=[3, 5],
        in_channels=[32, 8], out_channels=[8, 16], strides=[1, 2], num_block_repeats=[1, 1], expand_ratios=[1, 4],
        depthwise_padding=[], width_coefficient=1.0, depth_coefficient=1.0,
    ),
    "vilt": _vilt,
    "layoutlmv3": _layoutlmv3,
    "lxmert": _lxmert,
    "blip": partial(_pairs, "BlipModel", "BlipConfig", projection_dim=16),
    "groupvit": partial(
        _pairs, "GroupViTModel", "GroupViTConfig", projection_dim=16, projection_intermediate_dim=32,
        vision_config=VISION | dict(depths=[1, 1, 1], num_group_tokens=[4, 2, 0], num_output_groups=[4, 2, 0]),
    ),
    "levit": partial(
        image, "LevitModel", "LevitConfig", 64, image_size=64, hidden_sizes=[16, 32, 48], num_attention_heads=[2, 2, 4],
        depths=[1, 1, 1], key_dim=[8, 8, 8],
    ),
    "cvt": partial(
        image, "CvtModel", "CvtConfig", 32, embed_dim=[8, 16, 32], num_heads=[1, 2, 4], depth=[1, 2, 3],
        cls_token=[False, False, True],
    ),
    "poolformer": partial(image, "PoolFormerModel", "PoolFormerConfig", hidden_sizes=[8, 8, 16, 16], depths=[1, 1, 1, 1]),
    "donut_swin": partial(image, "DonutSwinModel", "DonutSwinConfig", **STAGES),
    "convnextv2": partial(image, "ConvNextV2Model", "ConvNextV2Config", hidden_sizes=[8, 16], depths=[1, 1], num_stages=2),
    "vitdet": partial(
        image, "VitDetModel", "VitDetConfig", **VISION, window_size=2, window_block_indices=[0],
        use_relative_position_embeddings=True, residual_block_indices=[1],
    ),
    "yolos": partial(image, "YolosModel", "YolosConfig", **VISION | {"image_size": [32, 32]}, num_detection_tokens=4),
    "swin2sr": partial(
        image, "Swin2SRModel", "Swin2SRConfig", 16, image_size=16, embed_dim=16, depths=[1, 1], num_heads=[2, 2],
        window_size=4,
    ),
    "superpoint": partial(
        image, "SuperPointForKeypointDetection", "SuperPointConfig", encoder_hidden_sizes=[8, 8, 16, 16],
        decoder_hidden_size=16, descriptor_decoder_dim=16,
    ),
    "detr": _detr,
    "deformable_detr": _deformable_detr,
    "hiera": partial(
        image, "HieraModel", "HieraConfig", embed_dim=8, image_size=[32, 32], depths=[1, 1], num_heads=[1, 2],
        patch_stride=[4, 4], query_stride=[2, 2], masked_unit_size=[4, 4], masked_unit_attention=[True, False],
        num_query_pool=1,
    ),
    "dpt": partial(
        image, "DPTForDepthEstimation", "DPTConfig", **VISION | {"num_hidden_layers": 4}, is_hybrid=False,
        backbone_out_indices=[0, 1, 2, 3], neck_hidden_sizes=[8, 8, 16, 16], fusion_hidden_size=16,
    ),
    "sam": _sam,
    "git": _git,
    "aimv2": partial(image, "Aimv2VisionModel", "Aimv2VisionConfig", **VISION),
    "glpn": partial(
        image, "GLPNForDepthEstimation", "GLPNConfig", hidden_sizes=[8, 8, 16, 16], depths=[1, 1, 1, 1],
        num_attention_heads=[1, 1, 2, 2], sr_ratios=[4, 2, 1, 1], decoder_hidden_size=8,
    ),
    "regnet": partial(
        image, "RegNetModel", "RegNetConfig", embedding_size=8, hidden_sizes=[8, 16, 16, 16], depths=[1, 1, 1, 1],
        groups_width=4,
    ),
    "vjepa2": _vjepa2,
}  # fmt: skip
