"""What torch's kernels refuse, though its rules for tensors without memory take it: they are given zeros, and ones."""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import torch
from torch._ops import OpOverload
from torch.utils._python_dispatch import _disable_current_modes
from torch.utils._pytree import tree_leaves, tree_map

from xloom.torch.outside import outside_dispatch
from xloom.torch.strides import extent

Filled = Callable[..., torch.Tensor]
"""torch.zeros, or torch.ones."""
StandIn = Callable[[Any, Filled], Any]
"""What a kernel is given for an argument."""

SUM_UP = frozenset(["_padded_dense_to_jagged_forward"])
"""Operators that refuse numbers whose sum is another: those of zeros and of ones are, and tell nothing."""

_OF_ONE_DTYPE_TOO = frozenset(
    ["_embedding_bag", "_embedding_bag_forward_only", "_softmax", "bucketize", "heaviside", "index_add"]
    + ["index_copy", "index_fill", "index_reduce", "index_select", "masked_scatter", "multinomial", "put"]
    + ["searchsorted", "select_scatter", "sort", "uniform"]
    + ["bitwise_and", "bitwise_left_shift", "bitwise_not", "bitwise_or", "bitwise_right_shift", "bitwise_xor"]
    + ["gcd", "lcm"]
)
"""Operators of which kernels refuse more than tensors of several dtypes, or of integers."""

_TRUST_INDICES = frozenset(["linalg_ldl_solve", "linalg_lu_solve"])
"""Operators whose kernels write where their indices say, which count from one: zeros would be written outside."""

_NO_SUCH_DTYPE = re.compile("not implemented for '|not supported for complex|support complex numbers")

_OF_DTYPES = re.compile("type|not implemented for '|[Cc]omplex|[Bb]ool|[Ii]nteg|[Ff]loat")

MOST = 1 << 20
"""So many elements are made on the host to learn what the error is; with more of them the first error has to do."""

_FEW = 1 << 14
"""So many numbers are computed with on the host to learn whether an operator takes integers, or complex numbers."""

_REMEMBERED = 4096
_taken: set[tuple] = set()
"""Operators, and dtypes that their kernels are known to take."""


def refusal(op: OpOverload, args: Sequence[Any], kwargs: Mapping[str, Any], stand_in: StandIn) -> Exception | None:
    """What the kernel raises for such arguments, whatever their elements are; None where it takes them, or isn't asked.

    It is asked where it may have a word of its own: of several dtypes, of integers and complex numbers, and by name.
    """
    tensors = [each for each in tree_leaves((tuple(args), dict(kwargs))) if isinstance(each, torch.Tensor)]
    dtypes = tuple([each.dtype for each in tensors])
    if not _may_refuse(op, dtypes) or elements(args, kwargs) > MOST:
        return None
    name = bare_name(op)
    case: tuple | None = None
    if name == "convolution":  # it would take long to ask for each
        if not _is_odd(*args):
            return None
    elif name not in _OF_ONE_DTYPE_TOO:
        case = (op, dtypes)
        small = sum(each.numel() for each in tensors) <= _FEW
        if not (_are_several(name, dtypes) or small) or case in _taken:
            return None
    error = tried_on_host(op, args, kwargs, stand_in)[1]
    if error is None and case is not None:
        if len(_taken) >= _REMEMBERED:
            _taken.clear()
        _taken.add(case)
    if error is None or not is_about_arguments(error):
        return None
    return error if case is None or _OF_DTYPES.search(str(error)) else None  # others are about values


def _may_refuse(op: OpOverload, dtypes: Sequence[torch.dtype]) -> bool:
    """Whether the kernel is worth asking about tensors of such dtypes: of most operators it is not."""
    name = bare_name(op)
    if op.namespace != "aten" or name in SUM_UP:
        return False
    exact = bool(dtypes) and not any(d.is_floating_point for d in dtypes)
    return exact or name == "convolution" or name in _OF_ONE_DTYPE_TOO or _are_several(name, dtypes)


def _are_several(name: str, dtypes: Sequence[torch.dtype]) -> bool:
    return len(set(dtypes)) > 1 and name not in _TRUST_INDICES


def check_traced(op: OpOverload, args: Sequence[Any], kwargs: Mapping[str, Any]) -> None:
    """Raises what the kernel does for tensors that are being traced, which only torch's rules have seen.

    Gradients are not asked for: what forward operators save for them has other dtypes there for some.
    """
    leaves = tree_leaves((tuple(args), dict(kwargs)))
    dtypes = [each.dtype for each in leaves if isinstance(each, torch.Tensor)]
    if bare_name(op).endswith("_backward") or not _may_refuse(op, dtypes):
        return
    with _disable_current_modes():  # those of the trace
        args, kwargs = tree_map(_of_known_sizes, (tuple(args), dict(kwargs)))
        if any(each is _UNKNOWN for each in tree_leaves((args, kwargs))):
            return
        error = refusal(op, args, kwargs, _on_host)
    if error is not None:
        raise error.with_traceback(None) from None


_UNKNOWN = object()
"""What stands for arguments that are known as the program runs, or that no kernel of the host can be given."""


def _of_known_sizes(each: Any) -> Any:
    """Without memory, for sizes the program is traced with: no program is made for these alone."""
    if isinstance(each, torch.Tensor):
        if each.layout is not torch.strided or each.is_quantized:
            return _UNKNOWN
        sizes, strides = ([_of_known_sizes(n) for n in numbers] for numbers in (each.shape, each.stride()))
        if _UNKNOWN in sizes or _UNKNOWN in strides:
            return _UNKNOWN
        return torch.empty_strided(sizes, strides, dtype=each.dtype, device="meta")
    if isinstance(each, (torch.SymInt, torch.SymFloat, torch.SymBool)):
        return each.node.hint if each.node.has_hint() else _UNKNOWN
    if isinstance(each, torch.device):
        return torch.device("cpu")
    return None if isinstance(each, torch.Generator) else each


def _on_host(each: Any, filled: Filled) -> Any:
    if not isinstance(each, torch.Tensor):
        return each
    storage = filled(extent(each.shape, each.stride()), dtype=each.dtype)
    return storage.as_strided(each.shape, each.stride())


def is_about_arguments(error: Exception) -> bool:
    """Whether the arguments are to blame, not that the kernel is missing."""
    return not isinstance(error, NotImplementedError) or _NO_SUCH_DTYPE.search(str(error)) is not None


def bare_name(op: OpOverload) -> str:
    """The same for an operator that writes its argument."""
    return op._schema.name.removeprefix("aten::").rstrip("_")


def elements(args: Sequence[Any], kwargs: Mapping[str, Any]) -> int:
    """Of the tensors, and of a result whose size is given."""
    given = [*args, *kwargs.values()]
    tensors = sum(each.numel() for each in tree_leaves(given) if isinstance(each, torch.Tensor))
    lists = [each for each in given if isinstance(each, (list, tuple)) and all(isinstance(n, int) for n in each)]
    return tensors + sum(math.prod(map(abs, sizes)) for sizes in lists)


def tried_on_host(
    op: OpOverload, args: Sequence[Any], kwargs: Mapping[str, Any], stand_in: StandIn
) -> tuple[Any, Exception | None]:
    """What torch returns for zeros or for ones, or the error that it raises for both."""
    found, error = tried(op, args, kwargs, stand_in, torch.zeros)
    if error is not None:
        of_ones, error_of_ones = tried(op, args, kwargs, stand_in, torch.ones)
        if error_of_ones is None:
            return of_ones, None
    return found, error


def tried(
    op: OpOverload, args: Sequence[Any], kwargs: Mapping[str, Any], stand_in: StandIn, filled: Filled
) -> tuple[Any, Exception | None]:
    """What torch returns for what stands in for the arguments, or the error that it raises."""
    draws = torch.Tag.nondeterministic_seeded in op.tags
    try:
        args, kwargs = tree_map(lambda each: stand_in(each, filled), (tuple(args), dict(kwargs)))
        with outside_dispatch(), torch.random.fork_rng([], enabled=draws):
            return op(*args, **kwargs), None
    except Exception as error:
        return None, error


def _is_odd(
    x: torch.Tensor,
    weight: torch.Tensor,
    bias: Any,
    stride: Any,
    padding: Any,
    dilation: Any,
    _: bool,
    more: Any,
    *__: Any,
) -> bool:
    """Whether a convolution has what kernels may refuse."""
    far = [max(pair) for pair in zip(stride, dilation, strict=False)]
    beyond = any(each >= most for each, most in zip(more, far, strict=False))
    dtypes = {each.dtype for each in (x, weight, bias) if each is not None}
    beyond |= bias is not None and bias.dim() != 1
    return beyond or len(dtypes) > 1 or min(*stride, *dilation) < 1 or min(padding) < 0
