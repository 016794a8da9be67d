"""Transformers in evaluation, for which torch has operators of whole layers."""

from copy import deepcopy

import pytest
import torch
from torch import nn

import xloom.torch  # noqa: F401
from xloom.pjrt import Client
from xloom.torch.lazy.runtime import device_client

HIDDEN = torch.tensor([[False, False, True], [False, True, True]])
CAUSAL = torch.ones(3, 3, dtype=torch.bool).triu(1)
MASKS = {
    "no mask": {},
    "keys": {"src_key_padding_mask": HIDDEN},
    "causal": {"mask": CAUSAL},
    "both": {"src_key_padding_mask": HIDDEN, "mask": CAUSAL},
}


@pytest.fixture(autouse=True)
def _interpreted(monkeypatch):
    """What is compiled is tested elsewhere."""
    interpreter = Client.interpreter()
    monkeypatch.setattr(device_client, "client", lambda: interpreter)


@pytest.mark.parametrize("masks", MASKS.values(), ids=MASKS)
@pytest.mark.parametrize("norm_first", [False, True], ids=["norm last", "norm first"])
def test_encoder(norm_first, masks):
    torch.manual_seed(0)
    activation = "gelu" if norm_first else "relu"
    layer = nn.TransformerEncoderLayer(8, 2, 16, batch_first=True, norm_first=norm_first, activation=activation)
    host = nn.TransformerEncoder(layer, 2, enable_nested_tensor=False).eval()
    x = torch.randn(2, 3, 8)
    with torch.no_grad():
        found = deepcopy(host).to("xla")(x.to("xla"), **{name: mask.to("xla") for name, mask in masks.items()})
        torch.testing.assert_close(found.cpu(), host(x, **masks))


@pytest.mark.filterwarnings("ignore:The PyTorch API of nested tensors:UserWarning")
def test_an_encoder_that_would_have_its_rows_nested():
    torch.manual_seed(0)
    host = nn.TransformerEncoder(nn.TransformerEncoderLayer(8, 2, 16, batch_first=True), 2).eval()
    x = torch.randn(2, 3, 8)
    with torch.no_grad():
        found = deepcopy(host).to("xla")(x.to("xla"), src_key_padding_mask=HIDDEN.to("xla"))
        torch.testing.assert_close(found.cpu()[~HIDDEN], host(x, src_key_padding_mask=HIDDEN)[~HIDDEN])


@pytest.mark.parametrize("options", [{}, {"average_attn_weights": False}, {"need_weights": False}], ids=str)
def test_attention_of_heads(options):
    torch.manual_seed(0)
    host = nn.MultiheadAttention(8, 2, batch_first=True).eval()
    x = torch.randn(2, 3, 8)
    with torch.no_grad():
        expected = host(x, x, x, **options)
        found = deepcopy(host).to("xla")(*3 * [x.to("xla")], **options)
    for ours, theirs in zip(found, expected, strict=True):
        assert (ours is None) == (theirs is None)
        if theirs is not None:
            torch.testing.assert_close(ours.cpu(), theirs)
