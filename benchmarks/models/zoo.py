"""The models: architectures as published, weights random, nothing downloaded."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import torch
from torch import nn

from benchmarks.models.vision_operators import declare_vision_operators

declare_vision_operators()

Inputs = tuple[torch.Tensor, ...]
_CLASSES: dict[str, Any] = {"num_labels": 1000}


@dataclass(frozen=True)
class Model:
    """How one is made, what it is given, and how much of it there is."""

    name: str
    what: str
    make: Callable[[], nn.Module]
    inputs: Callable[[int], Inputs]
    """Of a batch of so many."""
    large: bool = False
    """Its weights are gigabytes: sides run one after another, each in a process of its own."""


MODELS: dict[str, Model] = {}


def _model(name: str, what: str, inputs: Callable[[int], Inputs], *, large: bool = False) -> Callable:
    def register(make: Callable[[], nn.Module]) -> Callable[[], nn.Module]:
        MODELS[name] = Model(name, what, make, inputs, large)
        return make

    return register


def made(model: Model, dtype: torch.dtype) -> nn.Module:
    """The model with the same weights each time, for inference; statistics of batch norms are drawn too."""
    torch.manual_seed(0)
    before = torch.get_default_dtype()
    torch.set_default_dtype(dtype if model.large else before)  # twice the weights would not fit
    try:
        module = model.make().eval()
    finally:
        torch.set_default_dtype(before)
    for part in module.modules():
        if isinstance(part, nn.BatchNorm2d):
            assert part.running_mean is not None and part.running_var is not None
            part.running_mean.normal_(0, 0.1)
            part.running_var.uniform_(0.5, 1.5)
            part.weight.data.uniform_(0.5, 1.5)
            part.bias.data.normal_(0, 0.1)
    return module.to(dtype).requires_grad_(False)


class _Outputs(nn.Module):
    """A model of transformers, whose result is a tensor: the first of what it gives."""

    def __init__(self, model: nn.Module, argument: str, **options: Any):
        super().__init__()
        self.model, self.argument, self.options = model, argument, options

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.model(**{self.argument: x}, return_dict=False, **self.options)[0]


def _images(size: int) -> Callable[[int], Inputs]:
    return lambda batch: (torch.randn(batch, 3, size, size),)


def _tokens(length: int, vocabulary: int) -> Callable[[int], Inputs]:
    return lambda batch: (torch.randint(0, vocabulary, (batch, length)),)


@_model("resnet50", "ResNet-50, images of 224²", _images(224))
def _resnet50() -> nn.Module:
    from transformers import ResNetConfig, ResNetForImageClassification

    return _Outputs(ResNetForImageClassification(ResNetConfig(**_CLASSES)), "pixel_values")


@_model("mobilenet_v3", "MobileNet-v3 large, 224²", _images(224))
def _mobilenet_v3() -> nn.Module:
    from benchmarks.models.networks import MobileNetV3

    return MobileNetV3()


@_model("mobilenet_v2", "MobileNet-v2, 224²", _images(224))
def _mobilenet_v2() -> nn.Module:
    from transformers import MobileNetV2Config, MobileNetV2ForImageClassification

    config = MobileNetV2Config(**_CLASSES, tf_padding=False)
    return _Outputs(MobileNetV2ForImageClassification(config), "pixel_values")


@_model("efficientnet_b0", "EfficientNet-B0, 224²", _images(224))
def _efficientnet_b0() -> nn.Module:
    from transformers import EfficientNetConfig, EfficientNetForImageClassification

    config = EfficientNetConfig(
        width_coefficient=1.0,
        depth_coefficient=1.0,
        image_size=224,
        hidden_dim=1280,
        dropout_rate=0.2,
        depthwise_padding=[],
        **_CLASSES,
    )
    model = EfficientNetForImageClassification(config)
    model.efficientnet.pooler = nn.AdaptiveAvgPool2d(1)  # type: ignore  # its own has windows of 1280², which OpenVINO refuses
    return _Outputs(model, "pixel_values")


@_model("convnext_t", "ConvNeXt-T, 224²", _images(224))
def _convnext_t() -> nn.Module:
    from transformers import ConvNextConfig, ConvNextForImageClassification

    return _Outputs(ConvNextForImageClassification(ConvNextConfig(**_CLASSES)), "pixel_values")


@_model("vit_b", "ViT-B/16, 224²", _images(224))
def _vit_b() -> nn.Module:
    from transformers import ViTConfig, ViTForImageClassification

    return _Outputs(ViTForImageClassification(ViTConfig(**_CLASSES)), "pixel_values")


@_model("bert_base", "BERT-base, 128 tokens", _tokens(128, 30522))
def _bert_base() -> nn.Module:
    from transformers import BertConfig, BertModel

    return _Outputs(BertModel(BertConfig()), "input_ids")


@_model("unet", "U-Net of 32 to 512 channels, 256²", _images(256))
def _unet() -> nn.Module:
    from benchmarks.models.networks import UNet

    return UNet()


@_model("whisper_base", "Whisper-base's encoder, 30 s", lambda batch: (torch.randn(batch, 80, 3000),))
def _whisper_base() -> nn.Module:
    from transformers import WhisperConfig
    from transformers.models.whisper.modeling_whisper import WhisperEncoder

    config = WhisperConfig(
        d_model=512, encoder_layers=6, encoder_attention_heads=8, encoder_ffn_dim=2048, num_mel_bins=80
    )
    return _Outputs(WhisperEncoder(config), "input_features")


_LLAMA = {
    "vocab_size": 128256,
    "hidden_size": 2048,
    "intermediate_size": 8192,
    "num_hidden_layers": 16,
    "num_attention_heads": 32,
    "num_key_value_heads": 8,
    "head_dim": 64,
    "tie_word_embeddings": True,
    "max_position_embeddings": 2048,
}
_CONTEXT = 128


def _llama() -> nn.Module:
    from transformers import LlamaConfig, LlamaForCausalLM

    return LlamaForCausalLM(LlamaConfig(**_LLAMA))  # type: ignore[arg-type]


@_model("llama_1b_prefill", "1.2B decoder, 128 tokens at once", _tokens(_CONTEXT, _LLAMA["vocab_size"]), large=True)
def _llama_prefill() -> nn.Module:
    return _Outputs(_llama(), "input_ids", use_cache=False, logits_to_keep=1)


class _Decode(nn.Module):
    """One more token after those whose keys and values are given: [layers, batch, heads, tokens, size]."""

    def __init__(self, model: nn.Module):
        super().__init__()
        self.model = model

    def forward(self, token: torch.Tensor, keys: torch.Tensor, values: torch.Tensor) -> tuple[torch.Tensor, ...]:
        from transformers import DynamicCache

        cache = DynamicCache([(k, v) for k, v in zip(keys.unbind(), values.unbind(), strict=True)])
        position = torch.full((1, 1), keys.shape[3], dtype=torch.int64)
        found = self.model(input_ids=token, past_key_values=cache, position_ids=position, use_cache=True)
        own = found.past_key_values.layers
        newest = [torch.stack([getattr(each, kind)[:, :, -1:] for each in own]) for kind in ("keys", "values")]
        return (found.logits, *newest)


def _decode_inputs(batch: int) -> Inputs:
    dims = (_LLAMA["num_hidden_layers"], batch, _LLAMA["num_key_value_heads"], _CONTEXT, _LLAMA["head_dim"])
    return torch.randint(0, _LLAMA["vocab_size"], (batch, 1)), torch.randn(dims), torch.randn(dims)


@_model("llama_1b_decode", "1.2B decoder, one token after 128", _decode_inputs, large=True)
def _llama_decode() -> nn.Module:
    return _Decode(_llama())


@_model("decoder_100m", "110M decoder, 128 tokens at once", _tokens(_CONTEXT, 32000))
def _decoder_100m() -> nn.Module:
    from transformers import LlamaConfig, LlamaForCausalLM

    sizes = {"hidden_size": 768, "intermediate_size": 2048, "num_hidden_layers": 12, "num_attention_heads": 12}
    config = LlamaConfig(**sizes, vocab_size=32000, tie_word_embeddings=True, max_position_embeddings=2048)  # type: ignore[arg-type]
    return _Outputs(LlamaForCausalLM(config), "input_ids", use_cache=False, logits_to_keep=1)


@_model("tiny", "a small convolutional network, to try the harness", lambda batch: (torch.randn(batch, 3, 16, 16),))
def _tiny() -> nn.Module:
    from benchmarks.models.networks import UNet

    return UNet(width=4, depth=1)
