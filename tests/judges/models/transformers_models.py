"""Small models of transformers, by name: text, images, sound, and from one text to another."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

import torch

from tests.judges.models.model import Model

TEXT: dict[str, Any] = dict(
    hidden_size=32, num_hidden_layers=2, num_attention_heads=4, intermediate_size=48, vocab_size=99,
    max_position_embeddings=64, pad_token_id=0,
)  # fmt: skip
VISION: dict[str, Any] = dict(
    hidden_size=32, num_hidden_layers=2, num_attention_heads=4, intermediate_size=48, image_size=32, patch_size=8
)
TWO_TEXTS: dict[str, Any] = dict(
    d_model=32, encoder_layers=2, decoder_layers=2, encoder_attention_heads=4, decoder_attention_heads=4,
    encoder_ffn_dim=48, decoder_ffn_dim=48, max_position_embeddings=64, vocab_size=99,
)  # fmt: skip
STAGES: dict[str, Any] = dict(image_size=32, patch_size=2, embed_dim=16, depths=[2, 2], num_heads=[2, 4], window_size=4)


def made(model: str, config: str, fields: dict[str, Any]) -> Any:
    import transformers  # pyright: ignore[reportMissingImports]

    return getattr(transformers, model)(getattr(transformers, config)(**fields))


def random_tokens(length: int = 12) -> torch.Tensor:
    return torch.randint(3, 99, (2, length))


def text(model: str, config: str, **fields: Any) -> Model:
    tokens = random_tokens()
    mask = torch.ones_like(tokens)
    mask[0, 9:] = 0
    return Model(made(model, config, TEXT | fields), (), {"input_ids": tokens, "attention_mask": mask})


def image(model: str, config: str, size: int = 32, **fields: Any) -> Model:
    return Model(made(model, config, fields), (), {"pixel_values": torch.randn(2, 3, size, size)})


def two_texts(model: str, config: str, **fields: Any) -> Model:
    texts = {"input_ids": random_tokens(), "decoder_input_ids": random_tokens(7)}
    return Model(made(model, config, fields), (), texts)


def _clip() -> Model:
    fields = {"text_config": TEXT, "vision_config": VISION, "projection_dim": 16}
    inputs = {"input_ids": random_tokens(), "pixel_values": torch.randn(2, 3, 32, 32)}
    return Model(made("CLIPModel", "CLIPConfig", fields), (), inputs)


def _whisper() -> Model:
    fields = dict(
        max_source_positions=16, max_target_positions=16, num_mel_bins=8, pad_token_id=0, bos_token_id=1,
        eos_token_id=2, decoder_start_token_id=1,
    )  # fmt: skip
    inputs = {"input_features": torch.randn(2, 8, 32), "decoder_input_ids": random_tokens(7)}
    return Model(made("WhisperForConditionalGeneration", "WhisperConfig", TWO_TEXTS | fields), (), inputs)


def _wav2vec2() -> Model:
    fields = dict(
        hidden_size=32, num_hidden_layers=2, num_attention_heads=4, intermediate_size=48, conv_dim=(16, 16, 16),
        conv_stride=(5, 2, 2), conv_kernel=(10, 3, 3), num_conv_pos_embeddings=16, num_conv_pos_embedding_groups=2,
        mask_time_prob=0.0,
    )  # fmt: skip
    return Model(made("Wav2Vec2Model", "Wav2Vec2Config", fields), (), {"input_values": torch.randn(2, 800)})


GROUPED = {"num_key_value_heads": 2}
GPT = {"n_embd": 32, "n_layer": 2, "n_head": 4, "n_positions": 64}
EXPERTS = {"num_experts_per_tok": 2, "moe_intermediate_size": 16}
_LATENT = dict(
    num_key_value_heads=4, q_lora_rank=16, kv_lora_rank=16, qk_rope_head_dim=8, qk_nope_head_dim=8, v_head_dim=8,
    n_routed_experts=4, n_group=2, topk_group=1, first_k_dense_replace=1,
)  # fmt: skip
_QUERY = {"head_dim": 8, "query_pre_attn_scalar": 8}

MODELS: dict[str, Callable[[], Model]] = {
    "bert": partial(text, "BertModel", "BertConfig"),
    "roberta": partial(text, "RobertaForMaskedLM", "RobertaConfig", pad_token_id=1),
    "gpt2": partial(text, "GPT2LMHeadModel", "GPT2Config", **GPT),
    "gptneox": partial(text, "GPTNeoXForCausalLM", "GPTNeoXConfig"),
    "gptj": partial(text, "GPTJForCausalLM", "GPTJConfig", rotary_dim=4, **GPT),
    "llama": partial(text, "LlamaForCausalLM", "LlamaConfig", **GROUPED),
    "mistral": partial(text, "MistralForCausalLM", "MistralConfig", sliding_window=4, **GROUPED),
    "mixtral": partial(text, "MixtralForCausalLM", "MixtralConfig", num_local_experts=4, **GROUPED),
    "qwen3": partial(text, "Qwen3ForCausalLM", "Qwen3Config", head_dim=8, **GROUPED),
    "qwen3moe": partial(
        text, "Qwen3MoeForCausalLM", "Qwen3MoeConfig", head_dim=8, num_experts=4, **EXPERTS, **GROUPED
    ),
    "gemma2": partial(text, "Gemma2ForCausalLM", "Gemma2Config", **_QUERY, **GROUPED),
    "gemma3": partial(text, "Gemma3ForCausalLM", "Gemma3TextConfig", **_QUERY, **GROUPED),
    "phi3": partial(text, "Phi3ForCausalLM", "Phi3Config", **GROUPED),
    "falcon": partial(text, "FalconForCausalLM", "FalconConfig"),
    "bloom": partial(text, "BloomForCausalLM", "BloomConfig", n_layer=2, n_head=4),
    "opt": partial(text, "OPTForCausalLM", "OPTConfig", ffn_dim=48, word_embed_proj_dim=32),
    "deepseek3": partial(text, "DeepseekV3ForCausalLM", "DeepseekV3Config", **_LATENT, **EXPERTS),
    "mamba": partial(text, "MambaForCausalLM", "MambaConfig", state_size=4),
    "mamba2": partial(
        text, "Mamba2ForCausalLM", "Mamba2Config", state_size=8, num_heads=8, head_dim=8, n_groups=1, chunk_size=4
    ),
    "albert": partial(text, "AlbertModel", "AlbertConfig", embedding_size=16),
    "deberta2": partial(
        text, "DebertaV2Model", "DebertaV2Config", relative_attention=True, pos_att_type="p2c|c2p"
    ),
    "longformer": partial(text, "LongformerModel", "LongformerConfig", attention_window=[4, 4], pad_token_id=1),
    "modernbert": partial(text, "ModernBertModel", "ModernBertConfig"),
    "xlnet": partial(
        lambda: Model(
            made("XLNetModel", "XLNetConfig", dict(vocab_size=99, d_model=32, n_layer=2, n_head=4, d_inner=48)),
            (),
            {"input_ids": random_tokens()},
        )
    ),
    "t5": partial(
        two_texts, "T5ForConditionalGeneration", "T5Config", vocab_size=99, d_model=32, d_kv=8, d_ff=48, num_layers=2,
        num_heads=4,
    ),
    "bart": partial(two_texts, "BartForConditionalGeneration", "BartConfig", **TWO_TEXTS),
    "whisper": _whisper,
    "wav2vec2": _wav2vec2,
    "clip": _clip,
    "vit": partial(image, "ViTModel", "ViTConfig", **VISION),
    "dinov2": partial(image, "Dinov2Model", "Dinov2Config", **VISION | {"intermediate_size": None}),
    "swin": partial(image, "SwinModel", "SwinConfig", **STAGES),
    "convnext": partial(
        image, "ConvNextModel", "ConvNextConfig", hidden_sizes=[8, 16], depths=[1, 1], num_stages=2
    ),
    "segformer": partial(
        image, "SegformerModel", "SegformerConfig", hidden_sizes=[8, 16], depths=[1, 1], num_encoder_blocks=2,
        sr_ratios=[2, 1], num_attention_heads=[1, 2], patch_sizes=[7, 3], strides=[4, 2], mlp_ratios=[2, 2],
    ),
}  # fmt: skip
