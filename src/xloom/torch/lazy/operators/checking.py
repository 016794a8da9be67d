"""torch's own word on arguments, so that lowerings need no checks of their own.

An operator that is new to the device is called once on tensors without memory; where that fails, on zeros of the host,
whose errors are the ones to raise, unless ones of the host have none: those are about values.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import partial
from typing import Any, NamedTuple

import torch
from torch import _meta_registrations
from torch._ops import OpOverload

from xloom.torch.kernel_refusals import (
    MOST,
    SUM_UP,
    Filled,
    bare_name,
    elements,
    is_about_arguments,
    refusal,
    tried,
    tried_on_host,
)
from xloom.torch.lazy.tensor.geometry import Geometry, geometry, without_values
from xloom.torch.lazy.tensor.tensor import XlaTensor

_TELLS_NOTHING = frozenset(
    ["index_put", "_index_put_impl", "_unsafe_index_put", "random", "complex", "polar", "max", "min"]
    + ["fractional_max_pool2d", "fractional_max_pool3d"]
)
"""Operators that take anything where there is no memory."""

_REFUSE_NUMBERS = frozenset(
    [
        *("bernoulli", "cauchy", "exponential", "geometric", "log_normal", "native_dropout", "normal", "uniform"),
        *("celu", "elu_backward", "histc", "leaky_relu_backward", "renorm", "rrelu_with_noise", "smooth_l1_loss"),
        *("clamp", "clamp_max", "clamp_min", "fill", "full", "index_fill", "masked_fill", "pow", "scatter", "where"),
        *("constant_pad_nd", "elu", "full_like", "hardshrink", "hardtanh", "leaky_relu", "new_full", "softplus"),
        *("floor_divide", "fmod", "remainder", "threshold"),
    ]
)
"""Operators of which kernels refuse some numbers, whatever the elements of tensors are."""

_REFUSE_OPTIONS = frozenset(
    ["add", "sub", "rsub", "addbmm", "addcmul", "addmm", "addmv", "addr", "baddbmm", "div", "index_add"]
)
"""The same of what is given by name, as are factors of what is added."""

_TAKE_MORE = frozenset(["histc"])
"""Operators that take integers on devices, but not on the CPU."""

_REMEMBERED = 4096
"""Types and numbers of one operator's arguments; a loop's numbers may differ each time."""

_device_hint = _meta_registrations.device_hint


def check(op: OpOverload, args: Sequence[Any], kwargs: Mapping[str, Any]) -> Any:
    """What torch returns for such arguments, but for values; None where it cannot tell. Raises what torch raises."""
    name = bare_name(op)
    if op.namespace != "aten" or name in _TAKE_MORE or name in SUM_UP:
        return None
    tells = name not in _TELLS_NOTHING
    tells = tells and not any(argument.is_out for argument in op._schema.arguments)  # whose dtype is no matter there
    small = elements(args, kwargs) <= MOST
    on_meta = tells or not small
    found, error = (_tried_on_meta if on_meta else _tried_on_host)(op, args, kwargs)
    if error is not None and tells and small:
        found, error = _tried_on_host(op, args, kwargs)
    elif not tells and not small:
        error = None
    elif error is None and tells:
        error = refusal(op, args, kwargs, _on_host)
    if error is not None and is_about_arguments(error):
        raise error.with_traceback(None) from None
    return found


def _tried_on_host(op: OpOverload, args: Sequence[Any], kwargs: Mapping[str, Any]) -> tuple[Any, Exception | None]:
    return tried_on_host(op, args, kwargs, _on_host)


def _tried_on_meta(op: OpOverload, args: Sequence[Any], kwargs: Mapping[str, Any]) -> tuple[Any, Exception | None]:
    # kernels for tensors without memory ask for the device that they stand for, and take it for CUDA
    _meta_registrations.device_hint = lambda tensor: "cpu"
    try:
        return tried(op, args, kwargs, partial(_stand_in, "meta"), torch.zeros)
    finally:
        _meta_registrations.device_hint = _device_hint


def _stand_in(device: str, each: Any, filled: Filled) -> Any:
    if isinstance(each, XlaTensor):
        return without_values(Geometry(each._alias.type, int(each.storage_offset())), device, filled)
    if isinstance(each, torch.Tensor):  # of the host: numbers as tensors, whose values are no matter
        return each if each.dim() == 0 else without_values(geometry(each), device, filled)
    if isinstance(each, torch.device):
        return torch.device(device)
    return None if isinstance(each, torch.Generator) else each


_on_host = partial(_stand_in, "cpu")


def check_once(known: set[tuple], op: OpOverload, args: Sequence[Any], kwargs: Mapping[str, Any]) -> None:
    """`check` for types that are not among the known ones."""
    kinds = [each._alias.type if each.__class__ is XlaTensor else _kind(each) for each in (*args, *kwargs.values())]
    case = (*kinds, *kwargs)
    if case not in known:
        check(op, args, kwargs)
        if len(known) >= _REMEMBERED:
            known.clear()
        known.add(case)


class NumbersAllowed(NamedTuple):
    """Numbers and types that an operator is known to take."""

    known: set[tuple]
    by_name: bool
    """Whether only what is given by name may be refused."""


def numbers_allowed(op: OpOverload) -> NumbersAllowed | None:
    """To be filled by `check_numbers`; None where no number is refused, or what is recorded is without its out=."""
    name = bare_name(op)
    into = any(argument.is_out for argument in op._schema.arguments)
    if op.namespace != "aten" or into or name not in _REFUSE_NUMBERS | _REFUSE_OPTIONS:
        return None
    return NumbersAllowed(set(), name in _REFUSE_OPTIONS)


def check_numbers(allowed: NumbersAllowed, op: OpOverload, args: Sequence[Any], kwargs: Mapping[str, Any]) -> None:
    """Raises what torch does for numbers that are not among the known ones, asked of tensors of two elements a side.

    Of one element alone, `fill_` of the CPU takes what it refuses otherwise.
    """
    if allowed.by_name and not kwargs:
        return
    known = allowed.known
    case = tuple([_number(each) for each in (*args, *kwargs.values())])
    if case in known:
        return

    def small(each: Any) -> Any:
        if isinstance(each, torch.Tensor) and (each.dim() or isinstance(each, XlaTensor)):
            return torch.zeros([min(2, size) for size in each.shape], dtype=each.dtype, device="cpu")
        return [2] * len(each) if isinstance(each, (list, tuple)) else each

    few = {name: small(each) for name, each in kwargs.items()}
    error = _tried_on_host(op, [small(each) for each in args], few)[1]
    if error is not None and elements(args, kwargs) <= MOST:  # it may be about those shapes
        error = _tried_on_host(op, args, kwargs)[1]
    if isinstance(error, RuntimeError) and not isinstance(error, NotImplementedError):
        raise error.with_traceback(None) from None
    if len(known) >= _REMEMBERED:
        known.clear()
    known.add(case)


def _number(each: Any) -> Any:
    if isinstance(each, torch.Tensor):
        host = not isinstance(each, XlaTensor) and not each.dim()
        return (each.dtype, each.item()) if host else each.dtype
    return None if isinstance(each, (list, tuple)) else (each.__class__, each)


def _kind(each: Any) -> Any:
    if each.__class__ is torch.Tensor and not each.dim():  # the usual one, of what is no tensor of the device
        return torch.Tensor, each.dtype
    if isinstance(each, (list, tuple)):
        return tuple([_kind(inner) for inner in each])
    if isinstance(each, XlaTensor):
        return each._alias.type
    if isinstance(each, torch.Tensor):
        return geometry(each) if each.dim() else (torch.Tensor, each.dtype)
    return type(each) if isinstance(each, (float, complex, torch.Generator)) else repr(each)
