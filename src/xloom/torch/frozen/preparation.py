"""A translated graph, made ready for weights that stay as they are."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import replace

import torch

from xloom.llvm.target import process_target
from xloom.passes import run_passes
from xloom.torch.frozen.division import divided
from xloom.torch.frozen.filter_lines import put_in_lines
from xloom.torch.frozen.filter_panels import put_in_panels
from xloom.torch.frozen.narrow_weights import widen_last
from xloom.torch.frozen.scale_folding import fold_scales
from xloom.torch.frozen.weight_panels import put_weights_in_panels
from xloom.torch.frozen.weight_tiles import put_in_tiles
from xloom.torch.fx_graph import Translated

_SIMPLIFICATION = "algebraic-simplification,layout-simplification,cse,dce"


def frozen(translated: Translated, weights: Collection[int]) -> Translated:
    """The graph with what is computed of `weights`, arguments of it, in a module of its own; or as it is."""
    count, held = len(translated.arguments), len(translated.held)
    first = count + len(translated.stretches)
    static = {k for k, argument in enumerate(translated.arguments) if argument in weights}
    static.update(range(first, first + held))
    if not static:
        return translated
    module = translated.module.clone("")
    for i in module.entry:  # of values inside a program layouts say nothing, but would keep transposes from meeting
        i.shape = i.shape.with_default_layout()
    run_passes(module, _SIMPLIFICATION, verify=False)
    fold_scales(module.entry, static)
    run_passes(module, f"channels-last,{_SIMPLIFICATION}", verify=False)
    widen_last(module.entry, static)
    if process_target().has_tiles:
        run_passes(module, f"dilated-input-phases,{_SIMPLIFICATION}", verify=False)
    put_in_tiles(module.entry, static)
    put_in_panels(module.entry, static)
    put_weights_in_panels(module.entry, static)
    put_in_lines(module.entry, static)
    division = divided(module, static)
    if division is None:
        return replace(translated, module=module)
    kept = division.kept
    sources: list[int | torch.Tensor] = [
        translated.arguments[k] if k < count else translated.held[k - first] for k in division.taken
    ]
    return replace(
        translated,
        module=division.rest,
        arguments=[translated.arguments[k] for k in kept if k < count],
        stretches=[translated.stretches[k - count] for k in kept if count <= k < first],
        held=[translated.held[k - first] for k in kept if first <= k < first + held],
        needs_key=first + held in kept,
        weights=division.weights,
        sources=sources,
    )
