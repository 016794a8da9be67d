"""An LSTM's layer as torch takes networks apart on CPUs, where nothing is derived."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor
from torch.nn import functional as F

from xloom.torch.decompositions.registry import aten, decomposes


@decomposes(aten.mkldnn_rnn_layer.default)
def lstm_layer(
    x: Tensor,
    of_input: Tensor,
    of_hidden: Tensor,
    input_bias: Tensor,
    hidden_bias: Tensor,
    hidden: Tensor,
    cell: Tensor,
    reverse: bool,
    batch_sizes: list[int],
    mode: int,
    hidden_size: int,
    num_layers: int,
    has_biases: bool,
    *others: Any,
) -> tuple[Tensor, Tensor, Tensor, Tensor]:
    """All hidden states, the last one and the last cell, of steps along the first dimension; a workspace of nothing.

    Torch makes it for one layer of one direction, of which all sequences are as long as `x`; it alone says `reverse`.
    """
    biases = (input_bias, hidden_bias) if has_biases else (None, None)
    h, c = hidden[0], cell[0]
    states: list[Tensor] = []
    steps = F.linear(x, of_input, biases[0]).unbind()
    for step in reversed(steps) if reverse else steps:
        i, f, g, o = (step + F.linear(h, of_hidden, biases[1])).chunk(4, 1)
        c = f.sigmoid() * c + i.sigmoid() * g.tanh()
        h = o.sigmoid() * c.tanh()
        states.append(h)
    along = torch.stack(states[::-1] if reverse else states)
    return along, h.unsqueeze(0), c.unsqueeze(0), x.new_empty(0, dtype=torch.uint8)
