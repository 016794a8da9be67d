"""Models of transformers that read text and sound in other ways, by name: hashes, landmarks, recurrences, tables."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

import torch

from tests.judges.models.model import Model
from tests.judges.models.transformers_models import (
    EXPERTS,
    GROUPED,
    TEXT,
    TWO_TEXTS,
    made,
    random_tokens,
    text,
    two_texts,
)

_SPECTRUM: dict[str, Any] = dict(
    hidden_size=32, num_hidden_layers=2, num_attention_heads=4, intermediate_size=48, patch_size=4, max_length=16,
    num_mel_bins=16, frequency_stride=4, time_stride=4,
)  # fmt: skip
_MLA: dict[str, Any] = dict(
    num_key_value_heads=4, q_lora_rank=16, kv_lora_rank=16, qk_rope_head_dim=8, qk_nope_head_dim=8, v_head_dim=8,
    n_routed_experts=4, n_group=1, topk_group=1, first_k_dense_replace=1,
)  # fmt: skip


def _boxes(model: str, config: str) -> Model:
    given = text(model, config, max_2d_position_embeddings=64)
    corners = torch.randint(0, 32, (2, 12, 4)).sort(-1).values
    return Model(given.module, (), {**given.keywords, "bbox": corners})


def _reformer() -> Model:
    fields = dict(
        vocab_size=99, hidden_size=32, num_attention_heads=2, attention_head_size=8, feed_forward_size=48,
        attn_layers=["local", "lsh"], local_attn_chunk_length=4, lsh_attn_chunk_length=16, axial_pos_shape=[4, 4],
        axial_pos_embds_dim=[16, 16], max_position_embeddings=16, is_decoder=True, num_buckets=2, hash_seed=0,
    )  # fmt: skip
    return Model(made("ReformerModel", "ReformerConfig", fields), (), {"input_ids": random_tokens(16)})


def _sentences(model: str, config: str, **fields: Any) -> Model:
    return Model(made(model, config, fields), (), {"input_ids": random_tokens()})


def _sound(model: str, config: str, input_name: str, *shape: int, **fields: Any) -> Model:
    return Model(made(model, config, fields), (), {input_name: torch.randn(shape)})


def _table() -> Model:
    given = text("TapasModel", "TapasConfig", type_vocab_sizes=[3, 16, 16, 2, 16, 16, 4])
    kinds = torch.randint(0, 2, (2, 12, 7))
    return Model(given.module, (), {**given.keywords, "token_type_ids": kinds})


def _decision() -> Model:
    fields = dict(state_dim=5, act_dim=3, hidden_size=32, max_ep_len=16, n_layer=2, n_head=4)
    path = dict(
        states=torch.randn(2, 6, 5), actions=torch.randn(2, 6, 3), rewards=torch.randn(2, 6, 1),
        returns_to_go=torch.randn(2, 6, 1), timesteps=torch.arange(6).expand(2, 6),
    )  # fmt: skip
    return Model(made("DecisionTransformerModel", "DecisionTransformerConfig", fields), (), path)


def _perceiver() -> Model:
    fields = dict(num_latents=4, d_latents=16, d_model=8, num_blocks=1, num_self_attends_per_block=2)
    heads = dict(num_self_attention_heads=2, num_cross_attention_heads=2)
    return Model(made("PerceiverModel", "PerceiverConfig", fields | heads), (), {"inputs": torch.randn(2, 9, 8)})


def _entities() -> Model:
    fields = TEXT | dict(entity_vocab_size=9, entity_emb_size=16)
    places = torch.tensor([[[1, 2, -1], [4, -1, -1]]] * 2)
    entities = {"entity_ids": torch.randint(1, 9, (2, 2)), "entity_position_ids": places}
    return Model(made("LukeModel", "LukeConfig", fields), (), {"input_ids": random_tokens(), **entities})


def _moonshine() -> Model:
    fields = dict(
        vocab_size=99, hidden_size=32, intermediate_size=48, encoder_num_hidden_layers=1, decoder_num_hidden_layers=1,
        encoder_num_attention_heads=4, decoder_num_attention_heads=4,
    )  # fmt: skip
    inputs = {"input_values": torch.randn(2, 2000), "decoder_input_ids": random_tokens(5)}
    return Model(made("MoonshineModel", "MoonshineConfig", fields), (), inputs)


MODELS: dict[str, Callable[[], Model]] = {
    "reformer": _reformer,
    "perceiver": _perceiver,
    "decision": _decision,
    "tapas": _table,
    "layoutlm": partial(_boxes, "LayoutLMModel", "LayoutLMConfig"),
    "electra": partial(text, "ElectraModel", "ElectraConfig", embedding_size=16),
    "mobilebert": partial(
        text, "MobileBertModel", "MobileBertConfig", embedding_size=32, true_hidden_size=16, intra_bottleneck_size=16
    ),
    "squeezebert": partial(text, "SqueezeBertModel", "SqueezeBertConfig", embedding_size=32),
    "roformer": partial(text, "RoFormerModel", "RoFormerConfig", embedding_size=16),
    "nystromformer": partial(
        _sentences, "NystromformerModel", "NystromformerConfig", **TEXT | {"max_position_embeddings": 12},
        num_landmarks=4, segment_means_seq_len=12, conv_kernel_size=5,
    ),
    "esm": partial(text, "EsmModel", "EsmConfig", position_embedding_type="rotary", token_dropout=False),
    "xlm": partial(text, "XLMModel", "XLMConfig", emb_dim=32, n_layers=2, n_heads=4, n_words=99),
    "ctrl": partial(text, "CTRLModel", "CTRLConfig", n_embd=32, dff=48, n_layer=2, n_head=4, n_positions=64),
    "gpt_neo": partial(
        text, "GPTNeoForCausalLM", "GPTNeoConfig", num_layers=2, num_heads=4, window_size=4,
        attention_types=[[["global", "local"], 1]],
    ),
    "deepseek2": partial(text, "DeepseekV2ForCausalLM", "DeepseekV2Config", **_MLA, **EXPERTS),
    "recurrent_gemma": partial(
        text, "RecurrentGemmaForCausalLM", "RecurrentGemmaConfig", lru_width=32, attention_window_size=4,
        block_types=["recurrent", "attention"], **GROUPED,
    ),
    "falcon_mamba": partial(text, "FalconMambaForCausalLM", "FalconMambaConfig", state_size=4),
    "zamba2": partial(
        text, "Zamba2ForCausalLM", "Zamba2Config", mamba_d_state=8, n_mamba_heads=8, mamba_ngroups=1, chunk_size=4,
        layers_block_type=["mamba", "hybrid"], num_mem_blocks=1, use_mamba_kernels=False, num_key_value_heads=4,
    ),
    "led": partial(
        two_texts, "LEDForConditionalGeneration", "LEDConfig", attention_window=[4, 4],
        max_encoder_position_embeddings=64, max_decoder_position_embeddings=64, **TWO_TEXTS,
    ),
    "prophetnet": partial(
        two_texts, "ProphetNetModel", "ProphetNetConfig", vocab_size=99, hidden_size=32, encoder_ffn_dim=48,
        num_encoder_layers=2, num_encoder_attention_heads=4, decoder_ffn_dim=48, num_decoder_layers=2,
        num_decoder_attention_heads=4, max_position_embeddings=64,
    ),
    "longt5": partial(
        two_texts, "LongT5ForConditionalGeneration", "LongT5Config", vocab_size=99, d_model=32, d_kv=8, d_ff=48,
        num_layers=2, num_heads=4, local_radius=4, encoder_attention_type="transient-global", global_block_size=4,
    ),
    "ast": partial(_sound, "ASTModel", "ASTConfig", "input_values", 2, 16, 16, **_SPECTRUM),
    "data2vec_audio": partial(
        _sound, "Data2VecAudioModel", "Data2VecAudioConfig", "input_values", 2, 800, hidden_size=32,
        num_hidden_layers=2, num_attention_heads=4, intermediate_size=48, conv_dim=(16, 16, 16),
        conv_stride=(5, 2, 2), conv_kernel=(10, 3, 3), num_conv_pos_embeddings=2, num_conv_pos_embedding_groups=2,
        conv_pos_kernel_size=5, mask_time_prob=0.0,
    ),
    "wav2vec2_bert": partial(
        _sound, "Wav2Vec2BertModel", "Wav2Vec2BertConfig", "input_features", 2, 20, 16, hidden_size=32,
        num_hidden_layers=2, num_attention_heads=4, intermediate_size=48, feature_projection_input_dim=16,
        mask_time_prob=0.0, conv_depthwise_kernel_size=5,
    ),
    "umt5": partial(
        two_texts, "UMT5ForConditionalGeneration", "UMT5Config", vocab_size=99, d_model=32, d_kv=8, d_ff=48,
        num_layers=2, num_heads=4,
    ),
    "m2m100": partial(two_texts, "M2M100ForConditionalGeneration", "M2M100Config", **TWO_TEXTS),
    "minimax": partial(
        text, "MiniMaxForCausalLM", "MiniMaxConfig", head_dim=8, num_local_experts=4, block_size=4,
        layer_types=["linear_attention", "full_attention"], **GROUPED,
    ),
    "falcon_h1": partial(
        text, "FalconH1ForCausalLM", "FalconH1Config", mamba_d_ssm=32, mamba_n_heads=4, mamba_d_head=8,
        mamba_n_groups=1, mamba_d_state=8, mamba_chunk_size=4, head_dim=8, **GROUPED,
    ),
    "llama4": partial(
        text, "Llama4ForCausalLM", "Llama4TextConfig", head_dim=8, num_local_experts=4, num_experts_per_tok=1,
        intermediate_size_mlp=48, attention_chunk_size=8, **GROUPED,
    ),
    "exaone4": partial(
        text, "Exaone4ForCausalLM", "Exaone4Config", sliding_window=4, sliding_window_pattern=2, **GROUPED
    ),
    "apertus": partial(text, "ApertusForCausalLM", "ApertusConfig", **GROUPED),
    "bitnet": partial(text, "BitNetForCausalLM", "BitNetConfig", **GROUPED),
    "distilbert": partial(text, "DistilBertModel", "DistilBertConfig", dim=32, n_layers=2, n_heads=4, hidden_dim=48),
    "mpnet": partial(text, "MPNetModel", "MPNetConfig", pad_token_id=1),
    "luke": _entities,
    "moonshine": _moonshine,
    "sew": partial(
        _sound, "SEWModel", "SEWConfig", "input_values", 2, 800, squeeze_factor=2, hidden_size=32,
        num_hidden_layers=2, num_attention_heads=4, intermediate_size=48, conv_dim=(16, 16, 16),
        conv_stride=(5, 2, 2), conv_kernel=(10, 3, 3), num_conv_pos_embeddings=16, num_conv_pos_embedding_groups=2,
        mask_time_prob=0.0,
    ),
}  # fmt: skip
