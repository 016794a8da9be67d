"""Operators of `torch.library` as custom calls: what runs is the target that xloom has registered."""

from __future__ import annotations

import inspect
from typing import Any

import torch

from xloom.errors import UnsupportedError
from xloom.hlo.attributes import API_VERSION_TYPED_FFI
from xloom.hlo.module import Instruction
from xloom.hlo.shape import array_shape, tuple_shape
from xloom.torch.dtypes import hlo_dtype, torch_dtype
from xloom.torch.lowering.graph import Graph
from xloom.torch.lowering.registry import LOWERINGS, IGNORED, spelled


def custom_call(operator: Any, target: str, *, api_version: str = "") -> None:
    """Makes an operator a custom call of `target`, on the device and under torch.compile.

    `operator` is what `torch.library.custom_op` gives. Its fake kernel says the results' shapes. Tensors are operands;
    numbers, booleans and strings are attributes: of typed handlers by name, of others the text of `backend_config`.
    """
    op = operator._opoverload if hasattr(operator, "_opoverload") else operator
