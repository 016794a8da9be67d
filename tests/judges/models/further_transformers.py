"""Further models of transformers, by name: experts, state spaces, local attention, codecs, backbones, time series."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

import torch

from tests.judges.models.model import Model
from tests.judges.models.transformers_models import (
    EXPERTS,
    GPT,
    GROUPED,
    STAGES,
    TEXT,
    TWO_TEXTS,
    VISION,
    image,
    made,
    random_tokens,
    text,
    two_texts,
)

_FOUR: dict[str, Any] = {"num_local_experts": 4, "num_experts_per_tok": 2}
_SOUND: dict[str, Any] = dict(
    hidden_size=32, num_hidden_layers=2, num_attention_heads=4, intermediate_size=48, conv_dim=(16, 16, 16),
    conv_stride=(5, 2, 2), conv_kernel=(10, 3, 3), num_conv_pos_embeddings=16, num_conv_pos_embedding_groups=2,
    mask_time_prob=0.0,
)  # fmt: skip
_T5: dict[str, Any] = dict(vocab_size=99, d_model=32, d_kv=8, d_ff=48, num_layers=2, num_heads=4)
_SERIES: dict[str, Any] = dict(
    prediction_length=4, context_length=8, lags_sequence=[1, 2], num_time_features=2, d_model=16, encoder_layers=2,
    decoder_layers=2, encoder_attention_heads=2, decoder_attention_heads=2, encoder_ffn_dim=32, decoder_ffn_dim=32,
)  # fmt: skip
_PATCHES: dict[str, Any] = dict(
    num_input_channels=3, context_length=32, patch_length=8, patch_stride=8, d_model=16, prediction_length=4
)


def _tokens_alone(model: str, config: str, **fields: Any) -> Model:
    return Model(made(model, config, fields), (), {"input_ids": random_tokens()})


def _sound(model: str, config: str, **fields: Any) -> Model:
    return Model(made(model, config, _SOUND | fields), (), {"input_values": torch.randn(2, 800)})


def _codec(model: str, config: str, **fields: Any) -> Model:
    return Model(made(model, config, fields), (), {"input_values": torch.randn(2, 1, 512)})


def _video(model: str, config: str, **fields: Any) -> Model:
    inputs = {"pixel_values": torch.randn(2, 4, 3, 32, 32)}
    return Model(made(model, config, VISION | {"num_frames": 4} | fields), (), inputs)


def _forecast(model: str, config: str, **fields: Any) -> Model:
    past = {"past_values": torch.randn(2, 10), "past_time_features": torch.randn(2, 10, 2)}
    future = {"future_values": torch.randn(2, 4), "future_time_features": torch.randn(2, 4, 2)}
    return Model(made(model, config, _SERIES | fields), (), past | future | {"past_observed_mask": torch.ones(2, 10)})


def _patches(model: str, config: str, **fields: Any) -> Model:
    return Model(made(model, config, _PATCHES | fields), (), {"past_values": torch.randn(2, 32, 3)})


def _vits() -> Model:
    fields = dict(
        vocab_size=99, hidden_size=16, num_hidden_layers=2, num_attention_heads=2, ffn_dim=32, flow_size=16,
        spectrogram_bins=9, upsample_initial_channel=16, upsample_rates=[2, 2], upsample_kernel_sizes=[4, 4],
        resblock_kernel_sizes=[3], resblock_dilation_sizes=[[1, 3]], prior_encoder_num_flows=2,
        posterior_encoder_num_wavenet_layers=2, prior_encoder_num_wavenet_layers=2, duration_predictor_num_flows=2,
        noise_scale=0.0, noise_scale_duration=0.0,
    )  # fmt: skip
    return _tokens_alone("VitsModel", "VitsConfig", **fields)


def _text_and_image(model: str, config: str, **fields: Any) -> Model:
    inputs = {"input_ids": random_tokens(), "pixel_values": torch.randn(2, 3, 32, 32)}
    return Model(made(model, config, {"text_config": TEXT, "vision_config": VISION} | fields), (), inputs)


MODELS: dict[str, Callable[[], Model]] = {
    "cohere2": partial(text, "Cohere2ForCausalLM", "Cohere2Config", sliding_window=4, **GROUPED),
    "olmoe": partial(text, "OlmoeForCausalLM", "OlmoeConfig", num_experts=4, num_experts_per_tok=2),
    "stablelm": partial(text, "StableLmForCausalLM", "StableLmConfig", num_key_value_heads=4),
    "phimoe": partial(text, "PhimoeForCausalLM", "PhimoeConfig", num_local_experts=4, **GROUPED),
    "codegen": partial(text, "CodeGenForCausalLM", "CodeGenConfig", rotary_dim=4, **GPT),
    "gpt_bigcode": partial(text, "GPTBigCodeForCausalLM", "GPTBigCodeConfig", **GPT),
    "mpt": partial(text, "MptForCausalLM", "MptConfig", d_model=32, n_heads=4, n_layers=2, max_seq_len=64),
    "qwen2moe": partial(
        text, "Qwen2MoeForCausalLM", "Qwen2MoeConfig", num_experts=4, shared_expert_intermediate_size=16, **EXPERTS,
        **GROUPED,
    ),
    "qwen3next": partial(
        text, "Qwen3NextForCausalLM", "Qwen3NextConfig", head_dim=8, num_experts=4, linear_num_value_heads=4,
        shared_expert_intermediate_size=16, linear_num_key_heads=2, linear_key_head_dim=8, linear_value_head_dim=8,
        layer_types=["linear_attention", "full_attention"], **EXPERTS, **GROUPED,
    ),
    "granitemoe": partial(text, "GraniteMoeForCausalLM", "GraniteMoeConfig", **_FOUR, **GROUPED),
    "gpt_oss": partial(text, "GptOssForCausalLM", "GptOssConfig", head_dim=8, sliding_window=4, **_FOUR, **GROUPED),
    "jetmoe": partial(text, "JetMoeForCausalLM", "JetMoeConfig", num_key_value_heads=2, kv_channels=8, **_FOUR),
    "jamba": partial(
        text, "JambaForCausalLM", "JambaConfig", num_experts=4, num_experts_per_tok=2, mamba_d_state=4,
        mamba_dt_rank=4, attn_layer_period=2, attn_layer_offset=1, expert_layer_period=2, expert_layer_offset=1,
        use_mamba_kernels=False, **GROUPED,
    ),
    "bamba": partial(
        text, "BambaForCausalLM", "BambaConfig", mamba_d_state=8, mamba_n_heads=8, mamba_d_head=8, mamba_n_groups=1,
        mamba_chunk_size=4, attn_layer_indices=[1], **GROUPED,
    ),
    "rwkv": partial(
        _tokens_alone, "RwkvForCausalLM", "RwkvConfig", vocab_size=99, context_length=64, hidden_size=32,
        num_hidden_layers=2, attention_hidden_size=32, intermediate_size=48,
    ),
    "lfm2": partial(text, "Lfm2ForCausalLM", "Lfm2Config", layer_types=["conv", "full_attention"], **GROUPED),
    "diffllama": partial(text, "DiffLlamaForCausalLM", "DiffLlamaConfig", **GROUPED),
    "deberta": partial(text, "DebertaModel", "DebertaConfig", relative_attention=True, pos_att_type="p2c|c2p"),
    "funnel": partial(
        _tokens_alone, "FunnelModel", "FunnelConfig", vocab_size=99, d_model=32, n_head=4, d_head=8, d_inner=48,
        block_sizes=[1, 1], num_decoder_layers=1,
    ),
    "convbert": partial(text, "ConvBertModel", "ConvBertConfig", embedding_size=16, conv_kernel_size=3),
    "fnet": partial(_tokens_alone, "FNetModel", "FNetConfig", **TEXT),
    "big_bird": partial(
        text, "BigBirdModel", "BigBirdConfig", attention_type="block_sparse", block_size=2, num_random_blocks=1
    ),
    "canine": partial(
        text, "CanineModel", "CanineConfig", max_position_embeddings=64, num_hash_buckets=16, downsampling_rate=4,
        local_transformer_stride=8,
    ),
    "pegasus_x": partial(
        two_texts, "PegasusXForConditionalGeneration", "PegasusXConfig", **TWO_TEXTS, block_size=4,
        num_global_tokens=2, stagger_local_blocks=True,
    ),
    "switch": partial(
        two_texts, "SwitchTransformersForConditionalGeneration", "SwitchTransformersConfig", num_experts=4,
        num_sparse_encoder_layers=1, num_sparse_decoder_layers=1, router_jitter_noise=0.0, **_T5,
    ),
    "hubert": partial(_sound, "HubertModel", "HubertConfig"),
    "wavlm": partial(_sound, "WavLMModel", "WavLMConfig"),
    "encodec": partial(
        _codec, "EncodecModel", "EncodecConfig", hidden_size=16, num_filters=4, upsampling_ratios=[4, 2],
        num_lstm_layers=1, codebook_size=32, codebook_dim=16, target_bandwidths=[1.5, 3.0], sampling_rate=2400,
    ),
    "dac": partial(
        _codec, "DacModel", "DacConfig", encoder_hidden_size=8, downsampling_ratios=[2, 4], decoder_hidden_size=32,
        n_codebooks=2, codebook_size=16, codebook_dim=4,
    ),
    "vits": _vits,
    "beit": partial(image, "BeitModel", "BeitConfig", **VISION, use_relative_position_bias=True),
    "swinv2": partial(image, "Swinv2Model", "Swinv2Config", **STAGES),
    "focalnet": partial(
        image, "FocalNetModel", "FocalNetConfig", image_size=32, patch_size=2, embed_dim=16, depths=[1, 1],
        hidden_sizes=[16, 32], focal_levels=[2, 2], focal_windows=[3, 3],
    ),
    "mobilevit": partial(
        image, "MobileViTModel", "MobileViTConfig", image_size=32, hidden_sizes=[16, 16, 16],
        neck_hidden_sizes=[8, 8, 8, 16, 16, 16, 32],
    ),
    "swiftformer": partial(image, "SwiftFormerModel", "SwiftFormerConfig", image_size=32, depths=[1, 1], embed_dims=[8, 16]),
    "videomae": partial(_video, "VideoMAEModel", "VideoMAEConfig", tubelet_size=2),
    "timesformer": partial(_video, "TimesformerModel", "TimesformerConfig"),
    "siglip": partial(_text_and_image, "SiglipModel", "SiglipConfig"),
    "patchtst": partial(
        _patches, "PatchTSTForPrediction", "PatchTSTConfig", num_attention_heads=2, num_hidden_layers=2, ffn_dim=32,
        loss="mse",
    ),
    "patchtsmixer": partial(_patches, "PatchTSMixerForPrediction", "PatchTSMixerConfig", num_layers=2),
    "autoformer": partial(_forecast, "AutoformerModel", "AutoformerConfig", label_length=4, moving_average=5),
    "informer": partial(_forecast, "InformerModel", "InformerConfig", attention_type="full"),
}  # fmt: skip
