"""What is done to a module before it is planned for a GPU: what every backend does, and what suits its kernels."""

from __future__ import annotations

from xloom.codegen import preparation
from xloom.codegen.fusion.epilogue_fusion import EpilogueFusion
from xloom.cuda.attention_fusion import AttentionFusion
from xloom.cuda.leading_collectives import LeadingCollectives
from xloom.cuda.narrow_products import NarrowProducts
from xloom.cuda.sorted_top_k import SortedTopK
from xloom.cuda.window_selections import WindowSelections
from xloom.hlo.module import Module
from xloom.passes import DeadCodeElimination, TupleSimplification
from xloom.passes.torch_linalg import TorchFactorisations

_OWN = (
    TorchFactorisations(),
    NarrowProducts(),
    SortedTopK(),
    WindowSelections(),
    TupleSimplification(),
    DeadCodeElimination(),
    EpilogueFusion(every=True),
)
_BLOCKING = f"product-blocking{{least={1 << 30},block={1 << 28}}}"
"""Blocks of products come one after another: each keeps all multiprocessors busy, and only what is huge is divided."""


def prepared(module: Module) -> Module:
    """A copy of `module` in the form that the planner takes, as `codegen.preparation` says."""
    own = (LeadingCollectives(), *_OWN) if is_spmd(module) else _OWN
    return preparation.prepared(module, own=own, products=(AttentionFusion(),), blocking=_BLOCKING)


def is_spmd(module: Module) -> bool:
    """Whether several devices run the program at once."""
    return module.config.replica_count * module.config.num_partitions > 1
