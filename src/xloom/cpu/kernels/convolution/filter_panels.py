"""Filters that lie in memory as tiles of the output read them: in panels of features, each of adjacent elements.

A convolution whose filter has the shape [places..., inputs, outputs] says in its backend config that it lies as
[outputs / width, places..., inputs, width]. Runs of memory are long then, so that a filter that comes from memory comes
as fast as memory allows.
"""

from __future__ import annotations

from xloom.hlo.dtype import f32
from xloom.hlo.instruction import Instruction
from xloom.llvm.target import Target

_CONFIG = "filter_panels="
_WIDTHS = {32: (64, 48, 32), 16: (16, 24)}
"""Of a panel, by the number of registers, the first one that divides the features: those of a tile. Of wider panels,
tiles read lines so far apart that they share a part of the first cache.
"""

_LARGE = 1 / 2
"""Of the second cache, what a filter takes that comes from memory at each use."""


def panel_width(convolution: Instruction) -> int:
    """How many features of the output a panel of its filter has; 0 where the filter lies as its shape says."""
    config = convolution.backend_config
    return int(config.removeprefix(_CONFIG)) if config.startswith(_CONFIG) else 0


def useful_width(convolution: Instruction, target: Target) -> int:
    """How wide panels are best; 0 where it is better that there are none."""
    (_, w), labels, rank = convolution.operands, convolution["dim_labels"], convolution.shape.rank
    features = labels.kernel_input_feature, labels.kernel_output_feature
    if features != (rank - 2, rank - 1) or (labels.input_feature, labels.output_feature) != (rank - 1, rank - 1):
        return 0
    if w.shape.nbytes < _LARGE * target.caches.second:  # the input would be read for each panel for little
        return 0
    groups = max(convolution["feature_group_count"], convolution["batch_group_count"])
    if groups > 1 or not w.shape.dtype is convolution.shape.dtype is f32:
        return 0
    outputs = w.shape.dims[-1]
    return next((n for n in _WIDTHS[target.registers.count] if outputs > n and outputs % n == 0), 0)


def in_panels(width: int) -> str:
    """The backend config of a convolution whose filter lies in panels."""
    return f"{_CONFIG}{width}"
