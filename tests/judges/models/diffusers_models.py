"""Small models of diffusers, by name: networks of noise, transformers of images and of video, and autoencoders."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch

from tests.judges.models.model import Model

_BLOCKS: dict[str, Any] = dict(block_out_channels=(16, 32), layers_per_block=1, norm_num_groups=8)
_HEADS: dict[str, Any] = dict(num_attention_heads=2, attention_head_dim=8, num_layers=2)
_DOWN: dict[str, Any] = dict(down_block_types=("DownEncoderBlock2D",) * 2)
_CODER: dict[str, Any] = dict(block_out_channels=(16, 32), norm_num_groups=8, **_DOWN)
_UP: dict[str, Any] = dict(up_block_types=("UpDecoderBlock2D",) * 2)
_CROSS: dict[str, Any] = dict(
    cross_attention_dim=16, attention_head_dim=4, down_block_types=("CrossAttnDownBlock2D", "DownBlock2D")
)


def _library() -> Any:
    import diffusers  # pyright: ignore[reportMissingImports]

    return diffusers


def _times() -> torch.Tensor:
    return torch.tensor([3, 7])


def _unet() -> Model:
    kinds = dict(down_block_types=("DownBlock2D", "AttnDownBlock2D"), up_block_types=("AttnUpBlock2D", "UpBlock2D"))
    return Model(_library().UNet2DModel(sample_size=16, **kinds, **_BLOCKS), (torch.randn(2, 3, 16, 16), _times()))


def _unet_of_text() -> Model:
    kinds = dict(up_block_types=("UpBlock2D", "CrossAttnUpBlock2D"), **_CROSS)
    module = _library().UNet2DConditionModel(sample_size=16, **kinds, **_BLOCKS)
    return Model(module, (torch.randn(2, 4, 16, 16), _times(), torch.randn(2, 5, 16)))


def _controlnet() -> Model:
    module = _library().ControlNetModel(conditioning_embedding_out_channels=(8, 16), **_CROSS, **_BLOCKS)
    inputs = (torch.randn(2, 4, 16, 16), _times(), torch.randn(2, 5, 16), torch.randn(2, 3, 32, 32))
    return Model(module, inputs)


def _autoencoder() -> Model:
    return Model(_library().AutoencoderKL(**_CODER, **_UP), (torch.randn(2, 3, 32, 32),))


def _quantised_autoencoder() -> Model:
    return Model(_library().VQModel(num_vq_embeddings=16, **_CODER, **_UP), (torch.randn(2, 3, 16, 16),))


def _small_autoencoder() -> Model:
    channels = dict(encoder_block_out_channels=(8, 8, 8), decoder_block_out_channels=(8, 8, 8))
    blocks = dict(num_encoder_blocks=(1, 1, 1), num_decoder_blocks=(1, 1, 1))
    return Model(_library().AutoencoderTiny(**channels, **blocks), (torch.randn(2, 3, 32, 32),))


def _video_autoencoder() -> Model:
    fields = dict(block_out_channels=(32, 64), layers_per_block=1, **_DOWN)  # its norms have 32 groups
    return Model(_library().AutoencoderKLTemporalDecoder(**fields), (torch.randn(2, 3, 16, 16),), {"num_frames": 2})


def _dit() -> Model:
    fields = dict(sample_size=8, in_channels=4, out_channels=8, num_embeds_ada_norm=10)
    classes = {"timestep": _times(), "class_labels": torch.tensor([1, 2])}
    return Model(_library().DiTTransformer2DModel(**fields, **_HEADS), (torch.randn(2, 4, 8, 8),), classes)


def _sd3() -> Model:
    fields = dict(
        sample_size=8, patch_size=2, in_channels=4, out_channels=4, caption_projection_dim=16, joint_attention_dim=16,
        pooled_projection_dim=16,
    )  # fmt: skip
    inputs = dict(
        hidden_states=torch.randn(2, 4, 8, 8), encoder_hidden_states=torch.randn(2, 5, 16),
        pooled_projections=torch.randn(2, 16), timestep=_times(),
    )  # fmt: skip
    return Model(_library().SD3Transformer2DModel(**fields, **_HEADS), (), inputs)


def _flux() -> Model:
    fields = dict(
        patch_size=1, in_channels=4, num_layers=1, num_single_layers=1, attention_head_dim=16, num_attention_heads=2,
        joint_attention_dim=32, pooled_projection_dim=32, axes_dims_rope=[4, 4, 8],
    )  # fmt: skip
    inputs = dict(
        hidden_states=torch.randn(2, 16, 4), encoder_hidden_states=torch.randn(2, 5, 32),
        pooled_projections=torch.randn(2, 32), timestep=torch.tensor([0.3, 0.7]), img_ids=torch.zeros(16, 3),
        txt_ids=torch.zeros(5, 3),
    )  # fmt: skip
    return Model(_library().FluxTransformer2DModel(**fields), (), inputs)


def _ltx() -> Model:
    fields = dict(in_channels=8, out_channels=8, cross_attention_dim=16, caption_channels=16)
    inputs = (torch.randn(2, 12, 8), torch.randn(2, 5, 16), _times(), torch.ones(2, 5))
    size = {"num_frames": 1, "height": 3, "width": 4}
    return Model(_library().LTXVideoTransformer3DModel(**fields, **_HEADS), inputs, size)


def _prior() -> Model:
    fields = dict(embedding_dim=16, num_embeddings=5, additional_embeddings=4)
    inputs = (torch.randn(2, 16), _times(), torch.randn(2, 16), torch.randn(2, 5, 16))
    return Model(_library().PriorTransformer(**fields, **_HEADS), inputs)


def _transformer() -> Model:
    fields = dict(in_channels=8, cross_attention_dim=16, norm_num_groups=4)
    texts = {"encoder_hidden_states": torch.randn(2, 5, 16)}
    return Model(_library().Transformer2DModel(**fields, **_HEADS), (torch.randn(2, 8, 6, 6),), texts)


def _pixart() -> Model:
    fields = dict(sample_size=8, in_channels=4, out_channels=8, cross_attention_dim=16, caption_channels=12)
    sizes = {"resolution": None, "aspect_ratio": None}
    inputs = dict(encoder_hidden_states=torch.randn(2, 5, 12), timestep=_times(), added_cond_kwargs=sizes)
    module = _library().PixArtTransformer2DModel(**fields, **_HEADS, use_additional_conditions=False)
    return Model(module, (torch.randn(2, 4, 8, 8),), inputs)


def _sana() -> Model:
    fields = dict(
        in_channels=4, out_channels=4, cross_attention_dim=16, num_cross_attention_heads=2, sample_size=8,
        cross_attention_head_dim=8, caption_channels=12, patch_size=1,
    )  # fmt: skip
    inputs = (torch.randn(2, 4, 8, 8), torch.randn(2, 5, 12), _times())
    return Model(_library().SanaTransformer2DModel(**fields, **_HEADS), inputs)


def _aura() -> Model:
    fields = dict(
        sample_size=8, in_channels=4, out_channels=4, num_mmdit_layers=1, num_single_dit_layers=1,
        attention_head_dim=8, num_attention_heads=2, joint_attention_dim=16, caption_projection_dim=16,
        pos_embed_max_size=16,
    )  # fmt: skip
    inputs = (torch.randn(2, 4, 8, 8), torch.randn(2, 5, 16), torch.tensor([0.3, 0.7]))
    return Model(_library().AuraFlowTransformer2DModel(**fields), inputs)


def _wan() -> Model:
    fields = dict(
        patch_size=(1, 2, 2), num_attention_heads=2, attention_head_dim=12, in_channels=4, out_channels=4, text_dim=16,
        freq_dim=32, ffn_dim=32, num_layers=2,
    )  # fmt: skip
    inputs = (torch.randn(1, 4, 2, 8, 8), torch.tensor([3]), torch.randn(1, 5, 16))
    return Model(_library().WanTransformer3DModel(**fields), inputs)


def _cogvideo() -> Model:
    fields = dict(
        in_channels=4, out_channels=4, time_embed_dim=8, text_embed_dim=16, sample_width=8, sample_height=8,
        sample_frames=5, patch_size=2, temporal_compression_ratio=4, max_text_seq_length=5,
    )  # fmt: skip
    inputs = (torch.randn(1, 2, 4, 8, 8), torch.randn(1, 5, 16), torch.tensor([3]))
    return Model(_library().CogVideoXTransformer3DModel(**fields, **_HEADS), inputs)


def _unet_of_video() -> Model:
    fields = dict(
        sample_size=8, cross_attention_dim=16, attention_head_dim=4,
        down_block_types=("CrossAttnDownBlock3D", "DownBlock3D"), up_block_types=("UpBlock3D", "CrossAttnUpBlock3D"),
    )  # fmt: skip
    inputs = (torch.randn(1, 4, 2, 8, 8), torch.tensor([3]), torch.randn(1, 5, 16))
    return Model(_library().UNet3DConditionModel(**fields, **_BLOCKS), inputs)


def _adapter() -> Model:
    module = _library().T2IAdapter(channels=[8, 16], num_res_blocks=1, downscale_factor=8, adapter_type="full_adapter")
    return Model(module, (torch.randn(2, 3, 32, 32),))


def _deep_autoencoder() -> Model:
    fields = dict(
        latent_channels=4, attention_head_dim=4, encoder_block_out_channels=(8, 16), decoder_block_out_channels=(8, 16),
        encoder_layers_per_block=(1, 1), decoder_layers_per_block=(1, 1),
        encoder_block_types=("ResBlock", "EfficientViTBlock"), decoder_block_types=("ResBlock", "EfficientViTBlock"),
        encoder_qkv_multiscales=((), (5,)), decoder_qkv_multiscales=((), (5,)), decoder_norm_types="rms_norm",
    )  # fmt: skip
    return Model(_library().AutoencoderDC(**fields), (torch.randn(2, 3, 16, 16),))


def _sound_autoencoder() -> Model:
    fields = dict(
        encoder_hidden_size=8, downsampling_ratios=[2, 4], channel_multiples=[1, 2], decoder_channels=8,
        decoder_input_channels=4, audio_channels=2,
    )  # fmt: skip
    return Model(_library().AutoencoderOobleck(**fields), (torch.randn(2, 2, 64),))


def _uneven_autoencoder() -> Model:
    fields = dict(down_block_out_channels=(16, 32), up_block_out_channels=(16, 32), norm_num_groups=8)
    return Model(_library().AsymmetricAutoencoderKL(**fields, **_DOWN, **_UP), (torch.randn(2, 3, 32, 32),))


def _lumina() -> Model:
    fields = dict(
        sample_size=8, in_channels=4, hidden_size=24, num_layers=1, num_refiner_layers=1, num_attention_heads=3,
        num_kv_heads=1, multiple_of=16, cap_feat_dim=16, axes_dim_rope=(4, 2, 2), axes_lens=(32, 32, 32),
    )  # fmt: skip
    inputs = (torch.randn(2, 4, 8, 8), _times(), torch.randn(2, 5, 16), torch.ones(2, 5, dtype=torch.bool))
    return Model(_library().Lumina2Transformer2DModel(**fields), inputs)


def _latte() -> Model:
    fields = dict(
        sample_size=8, in_channels=4, out_channels=8, patch_size=2, cross_attention_dim=16, caption_channels=16,
        norm_type="ada_norm_single", num_embeds_ada_norm=10, video_length=2,
    )  # fmt: skip
    inputs = (torch.randn(1, 4, 2, 8, 8), torch.tensor([3]), torch.randn(1, 5, 16))
    return Model(_library().LatteTransformer3DModel(**fields, **_HEADS), inputs)


def _cogview() -> Model:
    fields = dict(
        patch_size=2, in_channels=4, out_channels=4, num_layers=1, attention_head_dim=8, num_attention_heads=2,
        text_embed_dim=16, time_embed_dim=8, condition_dim=2, pos_embed_max_size=8, sample_size=8,
    )  # fmt: skip
    size = torch.tensor([[64, 64]] * 2)
    inputs = (torch.randn(2, 4, 8, 8), torch.randn(2, 5, 16), _times(), size, torch.zeros(2, 2), size)
    return Model(_library().CogView3PlusTransformer2DModel(**fields), inputs)


def _chroma() -> Model:
    fields = dict(
        patch_size=1, in_channels=4, num_layers=1, num_single_layers=1, attention_head_dim=16, num_attention_heads=2,
        joint_attention_dim=32, axes_dims_rope=[4, 4, 8], approximator_hidden_dim=16, approximator_layers=1,
        approximator_num_channels=16,
    )  # fmt: skip
    places = torch.zeros(16, 3), torch.zeros(5, 3)
    inputs = (torch.randn(2, 16, 4), torch.randn(2, 5, 32), torch.tensor([0.3, 0.7]), *places)
    return Model(_library().ChromaTransformer2DModel(**fields), inputs)


def _mochi() -> Model:
    fields = dict(patch_size=2, pooled_projection_dim=16, in_channels=4, text_embed_dim=16, time_embed_dim=8)
    known = torch.ones(1, 5, dtype=torch.bool)
    inputs = (torch.randn(1, 4, 2, 8, 8), torch.randn(1, 5, 16), torch.tensor([3]), known)
    return Model(_library().MochiTransformer3DModel(**fields, **_HEADS), inputs)


def _qwen_image() -> Model:
    fields = dict(
        patch_size=2, in_channels=16, out_channels=4, num_layers=1, attention_head_dim=16, num_attention_heads=2,
        joint_attention_dim=16, axes_dims_rope=(8, 4, 4),
    )  # fmt: skip
    known = torch.ones(1, 5, dtype=torch.bool)
    inputs = (torch.randn(1, 16, 16), torch.randn(1, 5, 16), known, torch.tensor([0.3]), [(1, 4, 4)])
    return Model(_library().QwenImageTransformer2DModel(**fields), inputs)


def _uvit() -> Model:
    fields = dict(
        hidden_size=16, cond_embed_dim=8, micro_cond_encode_dim=8, micro_cond_embed_dim=40, encoder_hidden_size=16,
        vocab_size=16, codebook_size=15, block_out_channels=16, num_hidden_layers=1, num_attention_heads=2,
        block_num_heads=2, in_channels=16, intermediate_size=32, num_res_blocks=1, sample_size=8,
    )  # fmt: skip
    inputs = (torch.randint(0, 16, (2, 8, 8)), torch.randn(2, 5, 16), torch.randn(2, 8), torch.rand(2, 5))
    return Model(_library().UVit2DModel(**fields), inputs)


def _unet_of_frames() -> Model:
    fields = dict(
        sample_size=16, in_channels=4, out_channels=4, block_out_channels=(32, 64), cross_attention_dim=16,
        down_block_types=("CrossAttnDownBlockSpatioTemporal", "DownBlockSpatioTemporal"),
        up_block_types=("UpBlockSpatioTemporal", "CrossAttnUpBlockSpatioTemporal"), num_attention_heads=(2, 4),
        layers_per_block=1, addition_time_embed_dim=8, projection_class_embeddings_input_dim=24, num_frames=2,
    )  # fmt: skip
    inputs = (torch.randn(1, 2, 4, 16, 16), torch.tensor([3]), torch.randn(1, 1, 16), torch.rand(1, 3))
    return Model(_library().UNetSpatioTemporalConditionModel(**fields), inputs)


def _wan_autoencoder() -> Model:
    fields = dict(base_dim=8, z_dim=4, dim_mult=[1, 1], num_res_blocks=1, temperal_downsample=[False])
    return Model(_library().AutoencoderKLWan(**fields), (torch.randn(1, 3, 1, 16, 16),))


MODELS: dict[str, Callable[[], Model]] = {
    "unet": _unet,
    "unet_of_text": _unet_of_text,
    "controlnet": _controlnet,
    "autoencoder": _autoencoder,
    "quantised_autoencoder": _quantised_autoencoder,
    "small_autoencoder": _small_autoencoder,
    "video_autoencoder": _video_autoencoder,
    "dit": _dit,
    "sd3": _sd3,
    "flux": _flux,
    "ltx": _ltx,
    "prior": _prior,
    "transformer": _transformer,
    "pixart": _pixart,
    "sana": _sana,
    "aura": _aura,
    "wan": _wan,
    "cogvideo": _cogvideo,
    "unet_of_video": _unet_of_video,
    "adapter": _adapter,
    "deep_autoencoder": _deep_autoencoder,
    "sound_autoencoder": _sound_autoencoder,
    "uneven_autoencoder": _uneven_autoencoder,
    "lumina": _lumina,
    "latte": _latte,
    "cogview": _cogview,
    "chroma": _chroma,
    "mochi": _mochi,
    "qwen_image": _qwen_image,
    "uvit": _uvit,
    "unet_of_frames": _unet_of_frames,
    "wan_autoencoder": _wan_autoencoder,
}
