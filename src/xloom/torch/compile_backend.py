"""torch.compile(model, backend="xloom"): AOTAutograd's graphs, forward and backward, as native programs.

Those of tensors of the device `xla` are recorded as that device's programs are."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Mapping, Sequence
from contextlib import nullcontext
from dataclasses import replace
from functools import partial
from typing import Any

import torch
from torch._dynamo.backends.common import aot_autograd
from torch._functorch._aot_autograd.utils import make_boxed_func
from torch._functorch.aot_autograd import aot_function
from torch._functorch.partitioners import default_partition, min_cut_rematerialization_partition
from torch._guards import TracingContext, tracing
from torch._subclasses import FakeTensorMode
from torch.fx import GraphModule
from torch.utils._pytree import tree_leaves

from xloom.passes import parse_pipeline, run_passes
from xloom.torch.compiled_graph import CompiledGraph
from xloom.torch.decompositions import traced_decompositions
from xloom.torch.decompositions.whole_operators import whole_operators
from xloom.torch.dynamic_graph import DynamicGraph
from xloom.torch.frozen.preparation import frozen
from xloom.torch.fx_graph import Translated, translate
from xloom.torch.given_memory import Run, giving, values_first
from xloom.torch.graph_memory import read_from_owners
from xloom.torch.graph_on_gpu import device_of
from xloom.torch.running_statistics import only_written
from xloom.torch.unread_streams import forget_current_stream
from xloom.torch.written_arguments import in_place, old_values_saved, views_of_arguments


def compile_graph(
    graph: GraphModule,
    arguments: Sequence[Any],
    strided: int | None = 0,
    *,
    views: bool = False,
    weights: Sequence[int] = (),
    passes: str = "",
) -> Any:
    """A function that runs a graph of ATen operators; AOTAutograd calls it with a list, which it empties.

    The first `strided` results, or all, lie in memory as torch's do: with `views`, as views where they share it.
    `weights` are the numbers of arguments that are expected to stay as they are, `passes` a pipeline to run first.
    """
    device = device_of(arguments)
    # what is kept of weights is compared in the host's memory
    prepare = partial(_prepared, weights=weights if device is None else (), passes=passes)
    numbers = values_first(graph)
    strided = None if strided is None else strided + len(numbers)
    program: Run
    if any(_is_symbolic(a) for a in arguments):
        program = partial(_spread, DynamicGraph(graph, prepare, strided=strided, views=views, device=device))
    else:
        translated = prepare(translate(graph, arguments, strided=strided))
        program = CompiledGraph(translated, views=views, device=device)
    if numbers:
        program = giving(program, numbers)

    def run(boxed: list[Any]) -> list[Any]:
        results = program(boxed)
        boxed.clear()
        return results

    run._boxed_call = True  # type: ignore[attr-defined]
    return run


def _spread(run: Callable[..., list[Any]], arguments: Sequence[Any]) -> list[Any]:
    return run(*arguments)


def _prepared(translated: Translated, weights: Sequence[int], passes: str) -> Translated:
    """A graph as it is compiled; passes see what its results need, and equal operators as one."""
    if passes:
        translated = replace(translated, module=translated.module.clone(""))
        run_passes(translated.module, f"cse,dce,{passes}")
    return in_place(frozen(translated, weights))


def compile_forward(graph: GraphModule, arguments: Sequence[Any], *, views: bool = False, passes: str = "") -> Any:
    """The same of a forward graph, whose first results are what the user sees or what views are made of."""
    metadata, strided = _of_forward(graph, arguments)
    if strided is not None:
        old_values_saved(graph, metadata, strided)
    return compile_graph(graph, arguments, strided, views=views, passes=passes)


def compile_inference(graph: GraphModule, arguments: Sequence[Any], *, passes: str = "") -> Any:
    """The same of a graph without a backward one, whose weights stay as they are for several calls, as a rule."""
    metadata, strided = _of_forward(graph, arguments)
    weights: list[int] = []
    if metadata is not None:
        told = [None] * len(metadata.tokens) + metadata.input_info
        weights = [k for k in metadata.static_input_indices if k < len(told) and not _writes(told[k])]
    return compile_graph(graph, arguments, strided, views=True, weights=weights, passes=passes)


def _of_forward(graph: GraphModule, arguments: Sequence[Any]) -> tuple[Any, int | None]:
    """What AOTAutograd says of a forward graph, and how many of its results come first; None where nothing is said."""
    context = TracingContext.try_get()
    metadata = None if context is None else context.fw_metadata
    if metadata is None:
        return None, None
    if any(map(_is_symbolic, arguments)):
        views_of_arguments(graph, metadata)
    return metadata, len(metadata.tokens) + metadata.num_forward_returns


def _writes(told: Any) -> bool:
    """Whether a graph writes an argument, or gives it other memory; told is None of tokens, which order effects."""
    return told is not None and (told.mutates_data or told.mutates_storage_metadata)


def recorded(graph: GraphModule, arguments: Sequence[Any]) -> Any:
    """What runs a graph of tensors of the device: its operators are recorded, among those of code that is not compiled.

    So they are part of the same programs, and a collective comes where it does there.
    """
    return make_boxed_func(graph.forward)


def _on_device(graph: GraphModule) -> bool:
    """Whether any tensor of Dynamo's graph is one of the device."""
    values = tree_leaves([node.meta.get("example_value") for node in graph.graph.nodes])
    return any(isinstance(value, torch.Tensor) and value.device.type == "xla" for value in values)


def _is_symbolic(argument: Any) -> bool:
    if isinstance(argument, torch.Tensor):
        return any(not isinstance(d, int) for d in argument.shape)
    return isinstance(argument, (torch.SymInt, torch.SymFloat, torch.SymBool))


def partitioned(joint: GraphModule, *arguments: Any, **options: Any) -> Any:
    """The joint graph of forward and backward as two graphs."""
    only_written(joint)
    read_from_owners(joint)  # the backward graph is given what a view is of, where it reads beyond the view
    return min_cut_rematerialization_partition(joint, *arguments, **options)


def traced(function: Callable[..., Any]) -> Callable[..., Any]:
    """`function` of tensors, through AOTAutograd alone: one graph for forward, one for backward, or an error."""
    forward: Any = compile_forward  # AOTAutograd's type for it has torch's own attributes
    backward: Any = compile_graph
    compiled = aot_function(
        function,
        fw_compiler=forward,
        bw_compiler=backward,
        partition_fn=partitioned,
        decompositions=traced_decompositions(),
    )

    def run(*arguments: Any) -> Any:
        # tensors that the function makes from Python values are constants
        context = TracingContext(FakeTensorMode(allow_non_fake_inputs=True))
        with tracing(context), whole_operators():
            return compiled(*arguments)

    return run


_OPTIONS: Mapping[str, Any] = {"freezing": True, "passes": ""}
"""What `options=` of torch.compile may say, and what holds where it does not: `freezing` keeps what is computed of
weights alone while gradients are off, `passes` is a pipeline that each graph goes through before it is compiled."""
_MODES = ("default", "reduce-overhead", "max-autotune", "max-autotune-no-cudagraphs")
"""What `mode=` of torch.compile may say. All mean the same: one native program, tuned for the machine."""


def _chosen(options: Mapping[str, Any]) -> dict[str, Any]:
    """All options. Inductor's own, as scripts give them that were written for it, change nothing here."""
    unknown = sorted(set(options) - set(_OPTIONS))
    if unknown:
        from torch._inductor import list_options

        of_inductor = set(list_options())
        for name in unknown:
            if name.replace("-", "_") not in of_inductor:
                raise ValueError(f"xloom has no option {name!r} for torch.compile; it has {', '.join(_OPTIONS)}")
        warnings.warn(f"options of inductor that mean nothing to xloom: {', '.join(unknown)}", stacklevel=2)
    return {**_OPTIONS, **{name: value for name, value in options.items() if name in _OPTIONS}}


def backend(
    graph: GraphModule, arguments: list[Any], *, options: Mapping[str, Any] | None = None, mode: str = "default"
) -> Callable[..., Any]:
    """What torch.compile calls for `backend="xloom"`; `options={"freezing": False}` has weights read at each call.

    `options={"passes": "outline{pattern=gelu,target=my_gelu}"}` runs these passes over each graph. On tensors of the
    device, those of `xloom.torch.passes` run instead. Warns of inductor's own options. Raises ValueError for unknown
    options and modes, PassError for a malformed pipeline.
    """
    if mode not in _MODES:
        raise ValueError(f"torch.compile has no mode {mode!r}; it has {', '.join(_MODES)}")
    chosen = _chosen(options or {})
    passes = chosen["passes"]
    parse_pipeline(passes)
    if _on_device(graph):
        return aot_autograd(fw_compiler=recorded, partition_fn=default_partition)(graph, arguments)
    forget_current_stream(graph)
    compiled = aot_autograd(
        fw_compiler=partial(compile_forward, passes=passes),
        inference_compiler=partial(compile_inference, passes=passes)
        if chosen["freezing"]
        else partial(compile_forward, views=True, passes=passes),
        bw_compiler=partial(compile_graph, strided=None, passes=passes),
        partition_fn=partitioned,
        decompositions=traced_decompositions(),
        keep_inference_input_mutations=True,
    )
    # of symbolic sizes torch's Python code alone, which takes these operators apart, makes one graph
    with nullcontext() if any(map(_is_symbolic, arguments)) else whole_operators():
        return compiled(graph, arguments)
