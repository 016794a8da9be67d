"""What rounding alone can change: the program again on the CPU, each rounded result moved by units in its last place."""

from __future__ import annotations

from contextlib import suppress
from functools import cached_property
from typing import Any

import torch
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_map

from tests.judges.torch_composed.program import Outcome, Program, run

RUNS = 5
_MORE = 45
"""Runs where those disagree: an order of values that are nothing but rounding is another one each time."""

_UNITS = 4
_SAME = 24
"""So many letters of two messages are the same where they are of one error."""

_REACH = 8  # times the runs' distance


def _words(text: str) -> frozenset[str]:
    return frozenset(text.split())


_EXACT = _words(
    """neg abs relu sign floor ceil round trunc clamp clamp_min clamp_max maximum minimum where copy fill zero zeros ones
    full clone contiguous cat stack gather index index_select scatter index_put select_scatter slice_scatter masked_fill
    masked_select masked_scatter embedding sort topk kthvalue amax amin max min cummax cummin median flip roll repeat
    arange empty_like zeros_like ones_like full_like new_zeros new_empty new_empty_strided empty empty_strided set resize
    fmod remainder frac nan_to_num copysign constant_pad_nd tril triu lift_fresh lift_fresh_copy scalar_tensor eye
    diag_embed isclose threshold_backward max_pool2d_with_indices take index_fill index_copy as_strided_scatter
    diagonal_scatter select_backward slice_backward diagonal_backward as_strided_copy fill_diagonal nansum_ unfold_backward
    repeat_interleave view_as_complex complex frexp rot90 msort unique _unique2 logical_not bitwise_not item
    _local_scalar_dense value_selecting_reduction_backward real imag _conj_physical conj_physical resolve_conj
    """
)
_SUMS = _words(
    """mm bmm addmm addmv mv dot baddbmm convolution convolution_backward sum mean var std var_mean prod cumsum cumprod norm
    logsumexp _softmax _log_softmax logcumsumexp nansum linalg_vector_norm native_layer_norm native_batch_norm
    _native_batch_norm_legit native_group_norm native_layer_norm_backward native_batch_norm_backward index_add scatter_add
    avg_pool2d _scaled_dot_product_flash_attention_for_cpu _scaled_dot_product_flash_attention_for_cpu_backward
    _softmax_backward_data _log_softmax_backward_data _cdist_forward _cdist_backward mse_loss nll_loss_forward
    scatter_reduce index_reduce embedding_dense_backward upsample_linear1d
    """
)
_CANCEL = frozenset(["gelu", "gelu_backward", "softplus", "log_sigmoid_forward"])
"""Kernels that are off by units of their operand: what they add to 1 is near -1."""

_SUBTRACTIONS = frozenset(["add", "sub", "rsub"])
_NORMS = frozenset(["native_layer_norm", "native_group_norm", "native_batch_norm"])
_NORMWISE = ("linalg_", "_linalg_", "_fft", "cholesky", "triangular_solve", "lu_", "linalg", "_trilinear")


class Moved(TorchDispatchMode):
    """Moves rounded results; operands of sums and decompositions too, whose error is that of other operands."""

    def __init__(self, seed: int):
        super().__init__()
        self.draw = torch.Generator().manual_seed(seed)

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        kwargs = kwargs or {}
        name = func._schema.name.removeprefix("aten::")
        bare = name.rstrip("_") if not name.startswith("_") else name
        if func.is_view or bare in _EXACT or func.namespace != "aten":
            return func(*args, **kwargs)
        normwise = bare.startswith(_NORMWISE)
        least = args[0] if bare in _CANCEL else None
        if (normwise or bare in _SUMS) and not func._schema.is_mutable:
            args = tree_map(lambda leaf: self._moved(leaf, 1, normwise), args)
        found = func(*args, **kwargs)
        if bare == "_cdist_forward" and args[2] == 2:
            return self._moved_distances(found, *args[:2])
        if func._schema.is_mutable:
            narrow = max((torch.finfo(t.dtype).eps for t in _tensors(args) if t.is_floating_point()), default=0)
            for each in {id(t): t for t in _tensors(found)}.values():
                own = torch.finfo(each.dtype).eps if each.is_floating_point() else 1
                moved = self._moved(each, max(_UNITS, narrow / own), normwise)  # of narrow operands: rounded or not
                if moved is not each:
                    with suppress(RuntimeError):  # elements at one place: what was written there is exact
                        each.copy_(moved)
            return found
        return tree_map(lambda leaf: self._moved(leaf, _UNITS, normwise, least), found)

    def _moved(self, leaf: Any, units: float, normwise: bool, least: Any = None) -> Any:
        if not isinstance(leaf, torch.Tensor) or not (leaf.is_floating_point() or leaf.is_complex()) or leaf.is_meta:
            return leaf
        if not leaf.numel():
            return leaf
        units = 1 if leaf.dtype is torch.bfloat16 else units
        eps = torch.finfo(leaf.dtype).eps * units
        wide = torch.complex128 if leaf.is_complex() else torch.float64
        by = torch.rand(leaf.shape, generator=self.draw, dtype=torch.float64) * 2 - 1
        if leaf.is_complex():
            by = torch.complex(by, torch.rand(leaf.shape, generator=self.draw, dtype=torch.float64) * 2 - 1)
        size = leaf.detach().abs().to(torch.float64)
        size = size.max().expand(leaf.shape) if normwise else size
        size = size if least is None else torch.maximum(size, least.detach().abs().to(torch.float64))
        moved = leaf.detach().to(wide) + torch.where(torch.isfinite(size), size, 0) * eps * by
        out = torch.empty_like(leaf)
        out.copy_(moved)
        return out

    def _moved_distances(self, found: torch.Tensor, a: torch.Tensor, b: torch.Tensor) -> torch.Tensor:
        """By products, the square of each is |a|^2 + |b|^2 - 2ab, which of neighbours is nothing but rounding."""
        sizes = (a * a).sum(-1).unsqueeze(-1) + (b * b).sum(-1).unsqueeze(-2)
        by = torch.rand(found.shape, generator=self.draw, dtype=torch.float64).to(found.dtype) * 2 - 1
        return (found * found + by * _UNITS * torch.finfo(found.dtype).eps * sizes).clamp(min=0).sqrt()


class Cancelled(TorchDispatchMode):
    """Makes what is left of terms that are equal but for rounding exactly 0, as it is where they are rounded alike."""

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        kwargs = kwargs or {}
        found = func(*args, **kwargs)
        name = func._schema.name.removeprefix("aten::").rstrip("_")
        if name in _SUBTRACTIONS:
            a, b = (torch.as_tensor(each).abs() for each in args[:2])
            alpha = abs(kwargs.get("alpha", args[2] if len(args) > 2 else 1))
            a, b = (a * alpha, b) if name == "rsub" else (a, b * alpha)
            self._cancel(found, a + b)
        elif name in _NORMS and args[0].numel():
            self._cancel(found[0], args[0].abs().max() * found[2].abs().max())
        return found

    def _cancel(self, found: torch.Tensor, terms: torch.Tensor) -> None:
        if found.is_floating_point() or found.is_complex():
            eps = min(torch.finfo(found.dtype).eps, torch.finfo(torch.float32).eps)  # narrow types are summed as f32
            with suppress(RuntimeError):  # elements at one place
                found.masked_fill_(found.abs() <= 2 * _UNITS * eps * terms, 0)


def _tensors(found: Any) -> list[torch.Tensor]:
    if isinstance(found, torch.Tensor):
        return [found]
    return [t for each in found for t in _tensors(each)] if isinstance(found, (list, tuple)) else []


class References:
    """The CPU's outcome, and those of other roundings, which are made where one is not within a few units of it."""

    def __init__(self, program: Program):
        self._program = program
        self._failures: list[Exception] = []
        self._function = program.function()
        self.first = run(program, self._function, lambda leaf: leaf)

    def disagreement(self, found: Outcome) -> str:
        """What is wrong in an outcome, or nothing."""
        return (
            _disagreement(found, [self.first])
            and _disagreement(found, [self.first, *self._others])
            and _disagreement(found, [self.first, *self._others, *self._more])
        )

    def may_fail(self, error: BaseException) -> bool:
        """Whether rounding decides if the program fails so: of a matrix that is singular but for rounding."""
        _ = self._others
        return any(type(each) is type(error) and str(each)[:_SAME] == str(error)[:_SAME] for each in self._failures)

    @cached_property
    def _others(self) -> list[Outcome]:
        return [self._run(mode) for mode in (Cancelled(), *map(Moved, range(RUNS)))]

    @cached_property
    def _more(self) -> list[Outcome]:
        return [self._run(Moved(seed)) for seed in range(RUNS, RUNS + _MORE)]

    def _run(self, mode: TorchDispatchMode) -> Outcome:
        try:
            with mode:
                return run(self._program, self._function, lambda leaf: leaf)
        except Exception as error:  # a decomposition that fails for other roundings: everything is open
            self._failures.append(error)
            return Outcome([], [], [], [])


def _disagreement(found: Outcome, runs: list[Outcome]) -> str:
    theirs = [dict(each.named()) for each in runs]
    for name, value in found.named():
        others = [each.get(name) for each in theirs]
        if others[0] is None or value is None:
            if (value is None) != (others[0] is None):
                return f"{name} is {'not ' if value is None else ''}there"
            continue
        what = _wrong(value, [each for each in others if each is not None], len(others))
        if what:
            return f"{name}: {what}"
    if found.shared != runs[0].shared:
        return f"memory is shared by {found.shared}, not {runs[0].shared} (leaves, then results)"
    return ""


def _wrong(value: torch.Tensor, runs: list[torch.Tensor], wanted: int) -> str:
    first = runs[0]
    if value.dtype is not first.dtype:
        return f"{value.dtype} for {first.dtype}"
    if len(runs) < wanted or any(each.shape != first.shape for each in runs):
        return ""
    if value.shape != first.shape:
        return f"{list(value.shape)} for {list(first.shape)}"
    if value.is_complex():
        value, *runs = [torch.view_as_real(each) for each in (value, *runs)]
    if not value.is_floating_point():
        agreed = torch.stack([each == runs[0] for each in runs]).all(0)
        bad = agreed & (value != runs[0])
    else:
        bad = _is_far(value, runs, first.is_complex())
    if not bool(bad.any()):
        return ""
    shown = [str(each[bad][:4].tolist()) for each in (value, runs[0])]
    return f"{int(bad.sum())} of {value.numel()} differ: {shown[0]} for {shown[1]}"


def _is_far(value: torch.Tensor, runs: list[torch.Tensor], pairs: bool) -> torch.Tensor:
    eps = torch.finfo(value.dtype).eps
    tiny = torch.finfo(value.dtype).tiny
    own, all = value.to(torch.float64), torch.stack([each.to(torch.float64) for each in runs])
    finite = torch.isfinite(all)
    is_open = finite.any(0) & ~finite.all(0)
    safe = torch.where(finite, all, 0)
    low, high = safe.amin(0), safe.amax(0)
    scale, width = safe.abs().amax(0), high - low
    if pairs:
        scale, width = (each.amax(-1, keepdim=True).expand(each.shape) for each in (scale, width))
    slack = _REACH * width + 4 * eps * scale + 4 * tiny
    inside = (own >= low - slack) & (own <= high + slack)
    odd = ~finite
    kinds = torch.where(odd, all, 0)
    same_kinds = torch.stack([(k == kinds[0]) | (k.isnan() & kinds[0].isnan()) for k in kinds]).all(0)
    right_kind = (own == kinds[0]) | (own.isnan() & kinds[0].isnan())
    fine = torch.where(finite.all(0), inside, is_open | ~same_kinds | right_kind)
    if pairs:  # whether an infinite complex number has a NaN part is left open
        fine = fine | odd.any(0).any(-1, keepdim=True)
    return ~fine
