"""Functions of JAX and PyTorch, models and files, as modules with arguments: `xl.testing.first_difference`."""

from __future__ import annotations

import sys
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np

import xloom
from xloom.difference import FirstDifference
from xloom.difference.search import Program
from xloom.difference.search import first_difference as search
from xloom.difference.sides import side
from xloom.hlo.module import Module


def first_difference(
    f: Module | str | Path | Callable[..., Any], args: Sequence[Any], *, against: str = "interpreter", on: str = "cpu"
) -> FirstDifference | None:
    """The first operator of a program whose value differs by more than rounding; None if there is none.

    `f` is a module or its file, a function of JAX, or a function or model of PyTorch, as HLO before any pass; `args`
    are its arguments. `on` says whose values are judged, `against` who is right: "cpu" (native code), "interpreter",
    "jaxlib" (XLA:CPU), or "pjrt:" and a platform of JAX's or the path of a plugin. Each operator is judged for the
    values that its operands have `on` that side. Raises ShapeError for arguments that do not fit, LoweringError for
    operators of PyTorch that there is no HLO for.
    """
    module, values = _program(f, args)
    return search(Program(module, side(on)), Program(module, side(against)), values)


def _program(f: Any, args: Sequence[Any]) -> tuple[Module, Sequence[Any]]:
    if isinstance(f, Module):
        return f, args
    if isinstance(f, str | Path):
        return xloom.load(f), args
    torch = sys.modules.get("torch")  # what has no tensors is none of its functions
    if torch is not None and (isinstance(f, torch.nn.Module) or any(isinstance(a, torch.Tensor) for a in args)):
        from xloom.torch.ahead import program_of

        return program_of(f, args)
    import jax

    lowered = jax.jit(lambda *given: f(*given), keep_unused=True).lower(*args)
    module = xloom.from_stablehlo(lowered.as_text(debug_info=True))
    return module, [np.asarray(jax.numpy.asarray(leaf)) for leaf in jax.tree.leaves(args)]
