"""Custom calls in Python and native code, which all backends make."""

from __future__ import annotations

import ctypes
from dataclasses import replace
from typing import Any

import numpy as np

from tests.judges.programs.scene import Scene, family
from xloom import calls
from xloom.calls.registry import add
from xloom.hlo.dtype import s32
from xloom.hlo.shape import tuple_shape


@calls.custom_call("judge_roll")
def _roll(out: np.ndarray, x: np.ndarray) -> None:
    out[...] = np.roll(x, 1)


@calls.custom_call("judge_parts")
def _parts(out: tuple[np.ndarray, np.ndarray], x: np.ndarray) -> None:
    out[0][...] = x[::-1]
    out[1][...] = np.count_nonzero(x)


@ctypes.CFUNCTYPE(None, ctypes.c_void_p, ctypes.POINTER(ctypes.c_void_p))
def _swap(out: Any, operands: Any) -> None:
    """Two 32-bit numbers the other way round."""
    source, target = (ctypes.cast(p, ctypes.POINTER(ctypes.c_uint32)) for p in (operands[0], out))
    target[0], target[1] = source[1], source[0]


calls.register_pointer("judge_swap", _swap, abi="original")

for _name in ("judge_roll", "judge_parts", "judge_swap"):  # GPUs have the host do them
    add(replace(calls.lookup(_name), serves_devices=True))


@family(0.3)
def roll(scene: Scene) -> None:
    """An array in, an array out."""
    x = scene.any()
    instruction = scene.builder.custom_call("judge_roll", [x.instruction], x.shape)
    scene.keep(instruction, x.bits)


@family(0.2)
def parts(scene: Scene) -> None:
    """Two results."""
    x = scene.any(least_rank=1)
    shape = tuple_shape([x.shape, s32[()]])
    scene.unpack(scene.builder.custom_call("judge_parts", [x.instruction], shape), x.bits)


@family(0.2)
def swap(scene: Scene) -> None:
    """Through native pointers."""
    x = scene.like(scene.dtype("f32", "s32", "u32")[2,])
    instruction = scene.builder.custom_call("judge_swap", [x.instruction], x.shape, api_version="API_VERSION_ORIGINAL")
    scene.keep(instruction, x.bits)
