"""Operators over lists of tensors: the operator for one tensor, for each."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from torch import Tensor
from torch._ops import OpOverload

from xloom.torch.decompositions.registry import aten, decomposes

_NAMES = (
    "abs acos add addcdiv addcmul asin atan ceil clamp_max clamp_min clone cos cosh div erf erfc exp expm1 floor frac "
    "lerp lgamma log log10 log1p log2 max maximum minimum mul neg norm pow reciprocal round rsqrt sigmoid sign sin "
    "sinh sqrt sub tan tanh trunc zero"
)
_OTHER_NAMES = {
    ("maximum", "Scalar"): "clamp_min.default",
    ("maximum", "ScalarList"): "clamp_min.default",
    ("minimum", "Scalar"): "clamp_max.default",
    ("minimum", "ScalarList"): "clamp_max.default",
    ("clamp_max", "Scalar"): "clamp_max.default",
    ("clamp_max", "ScalarList"): "clamp_max.default",
    ("clamp_min", "Scalar"): "clamp_min.default",
    ("clamp_min", "ScalarList"): "clamp_min.default",
    ("clamp_min", "List"): "clamp_min.Tensor",
    ("clamp_max", "List"): "clamp_max.Tensor",
    ("norm", "Scalar"): "linalg_vector_norm.default",
    ("pow", "Scalar"): "pow.Tensor_Scalar",
    ("pow", "ScalarList"): "pow.Tensor_Scalar",
    ("pow", "List"): "pow.Tensor_Tensor",
    ("pow", "ScalarAndTensor"): "pow.Scalar",
    ("lerp", "List"): "lerp.Tensor",
    ("lerp", "ScalarList"): "lerp.Scalar",
}


def for_one(name: str, kind: str) -> Any:
    """The operator for one tensor, of the one for lists with this name, without its prefix, and overload name."""
    spelled = _OTHER_NAMES.get((name, kind))
    if spelled is None:
        packet = getattr(aten, name, None)
        overloads = () if packet is None else packet.overloads()
        wanted = {"List": "Tensor", "ScalarList": "Scalar"}.get(kind, kind)
        spelled = next((f"{name}.{o}" for o in (wanted, "default") if o in overloads), None)
        if spelled is None:
            return None
    packet, overload = spelled.split(".")
    return getattr(getattr(aten, packet), overload)


def arguments_of_each(
    op: OpOverload, each: OpOverload, args: Sequence[Any], kwargs: Mapping[str, Any]
) -> list[tuple[list[Any], dict[str, Any]]]:
    """What `each` is called with, for each of the tensors that `op` is called with."""
    schema = each._schema.arguments
    # what comes after the tensors may be for keywords only: addcmul(x, y, z, *, value)
    positions = sum(not a.kwarg_only for a in schema)
    by_name = [a.name for a in schema if a.kwarg_only]
    lists = [str(a.type).startswith("List[") for a in op._schema.arguments]
    count = next(len(a) for a, is_list in zip(args, lists, strict=False) if is_list)
    found = []
    for k in range(count):
        one = [a[k] if is_list else a for a, is_list in zip(args, lists, strict=False)]
        named = {n: v[k] if isinstance(v, list) else v for n, v in kwargs.items()}
        named |= zip(by_name, one[positions:], strict=False)
        del one[positions:]
        found.append((one, named))
    return found


def _definition(op: OpOverload, each: OpOverload) -> Callable[..., list[Tensor]]:
    def listed(*args: Any, **kwargs: Any) -> list[Tensor]:
        return [each(*one, **named) for one, named in arguments_of_each(op, each, args, kwargs)]

    return listed


def _register() -> None:
    for name in _NAMES.split():
        packet = getattr(aten, f"_foreach_{name}")
        for overload in packet.overloads():
            op, each = getattr(packet, overload), for_one(name, overload)
            # torch traces none of those whose factors are elements of a tensor
            has_factors = overload == "Tensor" and name in ("addcdiv", "addcmul")
            if each is not None and not has_factors and not any(a.is_out for a in op._schema.arguments):
                decomposes(op)(_definition(op, each))


_register()


@decomposes(aten._foreach_copy.default)
def foreach_copy(targets: list[Tensor], sources: list[Tensor], non_blocking: bool = False) -> list[Tensor]:
    """Each source, as its target is."""
    return [aten.copy.default(*pair) for pair in zip(targets, sources, strict=True)]


@decomposes(aten._new_zeros_with_same_feature_meta.default)
def new_zeros_with_same_feature_meta(x: Tensor, other: Tensor, *, self_num_batch_dims: int = 0) -> Tensor:
    """Zeros for a tangent of `other`, as many as the first dimensions of x say."""
    return x.new_zeros([*x.shape[:self_num_batch_dims], *other.shape])
