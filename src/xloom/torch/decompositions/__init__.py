"""Operators that are written with others of ATen: torch's own decompositions, and some that torch lacks."""

from __future__ import annotations

from functools import cache, wraps
from importlib import import_module
from typing import Any

from torch._ops import OpOverload

from xloom.torch.decompositions.registry import OWN, Decomposition, aten
from xloom.torch.kernel_refusals import check_traced
from xloom.torch.lowering.registry import has_lowering

FAMILIES = (
    "elementwise",
    "embedding_bag",
    "fake_quantization",
    "foreach",
    "fractional_pooling",
    "grid_sampler",
    "hinge_loss",
    "histogram",
    "jagged",
    "learnt_fake_quantization",
    "linear_cross_entropy",
    "mean_losses",
    "observed_fake_quantization",
    "places",
    "pseudo_inverse",
    "recurrent",
    "segment_reduce",
    "transformer",
    "weight_norm",
)
for _family in FAMILIES:
    import_module(f"xloom.torch.decompositions.{_family}")

# torch has these, but not among its core decompositions
_BEYOND_CORE = (aten.batch_norm_backward.default, aten.dist.default, aten.narrow_copy.default)


@cache
def decompositions() -> dict[OpOverload, Decomposition]:
    """By operator; only of operators that the lowering table lacks."""
    from torch._decomp import core_aten_decompositions, get_decompositions

    found = {**core_aten_decompositions(), **get_decompositions(_BEYOND_CORE), **OWN}
    return {op: rule for op, rule in found.items() if isinstance(op, OpOverload) and not has_lowering(op)}


@cache
def traced_decompositions() -> dict[OpOverload, Decomposition]:
    """The same for what is traced: rules that raise what torch's kernels do, which are not asked otherwise."""
    return {op: _checked(op, rule) for op, rule in decompositions().items()}


def _checked(op: OpOverload, rule: Decomposition) -> Decomposition:
    @wraps(rule)
    def checked(*args: Any, **kwargs: Any) -> Any:
        check_traced(op, args, kwargs)
        return rule(*args, **kwargs)

    return checked
