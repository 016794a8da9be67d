"""One program for each kind of call, and what it must give."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

import xloom as xl
from tests.judges.custom_calls.kernels import MESSAGE, OPAQUE
from xloom.errors import CustomCallError
from xloom.hlo.module import Module

X = np.arange(4, dtype=np.float32)
Y = np.full(4, 10, np.float32)
_SUM = sum(OPAQUE)

_BODIES = {
    "array": "x = f32[4] parameter(0) ROOT c = f32[4] custom-call(x)",
    "nested tuple": "x = (f32[4], (f32[4])) parameter(0) ROOT c = (f32[4], (f32[4])) custom-call(x)",
    "scratch": "x = f32[4] parameter(0) c = (f32[4], f32[4]) custom-call(x)",
    "alias": "x = f32[4] parameter(0) ROOT c = f32[4] custom-call(x), output_to_operand_aliasing={{}: (0, {})}",
    "failure": "x = f32[4] parameter(0) ROOT c = f32[4] custom-call(x)",
    "opaque": "x = f32[4] parameter(0) ROOT c = f32[4] custom-call(x)",
}


def program(kind: str, version: str, typed: bool) -> Module:
    """The module that calls `t`."""
    text = f'{_BODIES[kind]}, custom_call_target="t", api_version={version}'
    if kind == "opaque":
        text += f', backend_config={{text = "{OPAQUE.decode()}"}}' if typed else f', backend_config="{OPAQUE.decode()}"'
    if kind == "scratch":
        text += " ROOT r = f32[4] get-tuple-element(c), index=0"
    return xl.parse(f"ENTRY e {{ {text} }}")


def verdict(kind: str, run: Callable[..., Any], module: Module) -> str:
    """What is wrong with a run, or an empty string."""
    if kind == "failure":
        try:
            run(module, X)
        except CustomCallError as error:
            return "" if MESSAGE in str(error) and "%c" in str(error) else f"another message: {error}"
        return "it does not fail"
    if kind == "nested tuple":
        first, (second,) = run(module, (X, (Y,)))
        return "" if np.array_equal(first, X + Y) and np.array_equal(second, X - Y) else "other values"
    expected = {"array": 2 * X, "scratch": 2 * X, "alias": X + 1, "opaque": X + _SUM}[kind]
    return "" if np.array_equal(run(module, X), expected) else "other values"
