"""What is judged of a model: values and gradients through a door, in evaluation and in training, beside the CPU's."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterator
from contextlib import nullcontext
from copy import deepcopy
from functools import partial
from typing import Any

import torch

from benchmarks.models.vision_operators import declare_vision_operators
from tests.judges.child import Case
from tests.judges.models import (
    diffusers_models,
    further_transformers,
    image_transformers,
    text_transformers,
    timm_models,
    transformers_models,
)
from tests.judges.models.model import Model, without_dropout

declare_vision_operators()

FAMILIES = {
    "transformers": transformers_models.MODELS
    | further_transformers.MODELS
    | text_transformers.MODELS
    | image_transformers.MODELS,
    "timm": timm_models.MODELS,
    "diffusers": diffusers_models.MODELS,
}
MODES = ("inference", "evaluation", "training")
"""Without gradients; with gradients, in evaluation (norms as they were learnt) and in training."""

MODES_OF = {"transformers/reformer": ("inference", "training"), "transformers/groupvit": ("inference", "evaluation")}
"""Of models that have gradients in training alone, or draw random numbers there."""

VALUES, GRADIENTS = 1e-4, 1e-3
"""How far a result and a gradient may be from the CPU's: of the tensor's largest element."""
HALF = 3e-2
"""How far both may be in bfloat16, beside three times as far from float32's as the CPU's bfloat16 is."""
NOISE = 1e-3
"""Gradients that are 0 but for rounding are held against this share of the largest element of all gradients."""

Door = Callable[[Model], tuple[Model, Any]]
"""Returns the model as it is called with its arguments, and what calls it."""


def _compiled(model: Model) -> tuple[Model, Any]:
    torch._dynamo.reset()
    return model, torch.compile(model.module, backend="xloom")


def _on_device(model: Model) -> tuple[Model, Any]:
    moved = model.moved("xla")
    return moved, moved.module


DOORS: dict[str, Door] = {"compile": _compiled, "device": _on_device}


def names() -> list[str]:
    """All models, as family/model."""
    return [f"{family}/{name}" for family, models in FAMILIES.items() for name in models]


def built(name: str) -> Model:
    """The model of that name with the same weights and arguments each time."""
    family, _, model = name.partition("/")
    torch.manual_seed(0)
    made = FAMILIES[family][model]()
    without_dropout(made.module)
    return made


def modes(name: str) -> tuple[str, ...]:
    """The modes of a model."""
    return MODES_OF.get(name, MODES)


def case_name(name: str, door: str, mode: str, dtype: str) -> str:
    """The case of a model."""
    return f"{name} {door} {mode}" + (f" {dtype}" if dtype != "f32" else "")


def cases(item: tuple[str, tuple[str, ...], str]) -> Iterator[Case]:
    """A case for each of the doors and modes of a model; item: its name, the names of the doors, and the type."""
    import xloom.torch  # noqa: F401

    warnings.simplefilter("ignore")  # libraries warn of each other
    name, doors, dtype = item
    model = built(name)
    for door in doors:
        for mode in modes(name):
            wrong = _wrong if dtype == "f32" else _wrong_in_half
            yield case_name(name, door, mode, dtype), partial(wrong, model, DOORS[door], mode)


def step(model: Model, call: Any, mode: str) -> tuple[list[torch.Tensor], dict[str, torch.Tensor]]:
    """What a call gives on the host, and the gradients of the parameters by name, none for inference."""
    model.module.train(mode == "training")
    model.module.zero_grad()
    with torch.no_grad() if mode == "inference" else nullcontext():
        results = model.results(call)
        if mode != "inference":
            _loss(results).backward()
    gradients = {name: p.grad.cpu() for name, p in model.module.named_parameters() if p.grad is not None}
    return [result.detach().cpu() for result in results], gradients


def _loss(results: list[torch.Tensor]) -> torch.Tensor:
    """A number with another derivative by each element of each result."""
    losses = [(result.float() * result.float().detach().cos()).mean() for result in results if result.requires_grad]
    return torch.stack(losses).sum()


def _wrong(model: Model, door: Door, mode: str) -> str:
    """How float32 differs; where the CPU's own is far from float64's, as norms of few values are, by what that explains."""
    want, wanted = _stepped(model, mode)
    ours, call = door(Model(deepcopy(model.module), *model[1:]))
    got, given = step(ours, call, mode)
    if wrong := _of_other_kinds(got, want, given, wanted):
        return wrong
    least = NOISE * _largest(wanted)
    found = [_far(f"result {n}", a, b, VALUES, 0.0) for n, (a, b) in enumerate(zip(got, want, strict=True))]
    found += [_far(f"gradient of {n}", given[n], wanted[n], GRADIENTS, least) for n in wanted]
    complaints = "; ".join(list(filter(None, found))[:3])
    if not complaints:
        return ""
    exact = _stepped(model.of(torch.float64), mode)
    return complaints if _further_than_explained(got, want, given, wanted, exact, VALUES, least) else ""


def _wrong_in_half(model: Model, door: Door, mode: str) -> str:
    """The same in bfloat16, of which each side may round in its own way."""
    half = model.of(torch.bfloat16)
    try:
        want, wanted = _stepped(half, mode)
    except (NotImplementedError, RuntimeError):  # what the CPU does not do in this type, nobody must
        return ""
    ours, call = door(half)
    got, given = step(ours, call, mode)
    if wrong := _of_other_kinds(got, want, given, wanted):
        return wrong
    exact = _stepped(model, mode)
    return _further_than_explained(got, want, given, wanted, exact, HALF, 0.1 * _largest(exact[1]))


def _stepped(model: Model, mode: str) -> tuple[list[torch.Tensor], dict[str, torch.Tensor]]:
    """What a copy of the model gives on the host."""
    copy = Model(deepcopy(model.module), *model[1:])
    return step(copy, copy.module, mode)


def _of_other_kinds(
    got: list[torch.Tensor], want: list[torch.Tensor], given: dict[str, Any], wanted: dict[str, Any]
) -> str:
    if len(got) != len(want):
        return f"{len(got)} results for {len(want)}"
    # for a parameter that nothing depends on, AOTAutograd gives zeros where eager gives none
    odd = sorted({n for n in given.keys() - wanted.keys() if given[n].any()} | (wanted.keys() - given.keys()))
    if odd:
        return f"only one side has gradients of {odd[:5]}"
    return ""


def _largest(gradients: dict[str, torch.Tensor]) -> float:
    return max((gradient.abs().max().item() for gradient in gradients.values() if gradient.numel()), default=0.0)


def _further_than_explained(
    got: list[torch.Tensor],
    want: list[torch.Tensor],
    given: dict[str, torch.Tensor],
    wanted: dict[str, torch.Tensor],
    exact: tuple[list[torch.Tensor], dict[str, torch.Tensor]],
    tolerance: float,
    least: float,
) -> str:
    """Complaints of results and gradients that are further from those of a wider type than the CPU's explain."""
    results = enumerate(zip(got, want, exact[0], strict=True))
    found = [_further(f"result {n}", *each, tolerance, 0.0) for n, each in results]
    found += [_further(f"gradient of {n}", given[n], wanted[n], exact[1][n], tolerance, least) for n in wanted]
    return "; ".join(list(filter(None, found))[:3])


def _further(
    what: str, got: torch.Tensor, want: torch.Tensor, exact: torch.Tensor, tolerance: float, least: float
) -> str:
    """A complaint where `got` is further from the exact values than the CPU's rounding explains."""
    by_values = want.shape != exact.shape  # as many as values decide, which the CPU rounds to another number
    if got.dtype != want.dtype or (got.shape != want.shape and not by_values):
        return f"{what}: {got.dtype}{list(got.shape)} for {want.dtype}{list(want.shape)}"
    if by_values or not exact.numel():
        return ""
    finite = torch.isfinite(exact) & torch.isfinite(want)
    if not finite.any():
        return ""
    if not torch.isfinite(got[finite]).all():
        return f"{what}: other elements are finite"
    ours, theirs = [(each.double() - exact.double())[finite].abs().max().item() for each in (got, want)]
    largest = max(exact[finite].abs().max().item(), least)
    return f"{what}: off by {ours:.3g}, the CPU's by {theirs:.3g}" if ours > 3 * theirs + tolerance * largest else ""


def _far(what: str, got: torch.Tensor, want: torch.Tensor, tolerance: float, least: float) -> str:
    """A complaint where `got` is further from `want` than `tolerance` of its largest element, or of `least`."""
    if got.shape != want.shape or got.dtype != want.dtype:
        return f"{what}: {got.dtype}{list(got.shape)} for {want.dtype}{list(want.shape)}"
    if not torch.equal(torch.isfinite(got), torch.isfinite(want)):
        return f"{what}: other elements are finite"
    finite = torch.isfinite(want)
    if not finite.any():
        return ""
    largest = max(want[finite].abs().max().item(), least)
    error = (got - want)[finite].abs().max().item()
    return f"{what}: off by {error:.3g} of {largest:.3g}" if error > tolerance * largest else ""
