"""torch's operators that take graphs or operators: cond, while_loop, scan, map, flex attention; those of checkpoints.

Semantics: torch._higher_order_ops, torch._prims.rng_prims. Graphs become computations of their own, as control flow has
them.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from operator import attrgetter
from typing import Any

import torch
from torch._higher_order_ops.flex_attention import sdpa_dense
from torch._subclasses.fake_tensor import FakeTensor
from torch.fx import GraphModule, Node
from torch.fx.experimental.proxy_tensor import make_fx
from torch.utils._pytree import tree_flatten, tree_unflatten

from xloom.errors import LoweringError
from xloom.hlo import dtype as dt
from xloom.hlo.instruction import Instruction
from xloom.torch.decompositions import traced_decompositions
from xloom.torch.dtypes import hlo_dtype
from xloom.torch.lowering import Graph, lower
from xloom.torch.lowering.loops import repeated

Inline = Callable[[Graph, GraphModule, Sequence[Any]], list[Any]]
"""Adds the operators of a graph, on these values, to an HLO graph; the values of its results."""
_op = torch.ops.higher_order


def lower_higher_order(g: Graph, node: Node, args: Sequence[Any], kwargs: dict[str, Any], inline: Inline) -> list[Any]:
    """The results of an operator of `HIGHER_ORDER`. Raises LoweringError for what HLO has no control flow for."""
    return HIGHER_ORDER[node.target](g, node, args, kwargs, inline)


def _cond(g: Graph, node: Node, args: Sequence[Any], kwargs: dict[str, Any], inline: Inline) -> list[Any]:
    condition, *branches, operands = args
    if not isinstance(condition, Instruction):
        return inline(g, branches[0 if condition else 1], operands)
    state = g.tuple(*_instructions(operands))
    computations = []
    for name, branch in zip(("true", "false"), branches, strict=True):
        inner = g.subgraph(name)
        parameter = inner.parameter(state.shape)
        results = inline(inner, branch, _like(operands, _elements(inner, parameter)))
        computations.append(inner.builder.finish(inner.tuple(*_arrays(inner, node, results))))
    chosen = g.conditional(
        g.reshape_to(g.cast(condition, dt.pred), ()),
        state,
        state,
        true_computation=computations[0],
        false_computation=computations[1],
    )
    return _elements(g, chosen)


def _while_loop(g: Graph, node: Node, args: Sequence[Any], kwargs: dict[str, Any], inline: Inline) -> list[Any]:
    condition, step, carried, further = args
    carried = _arrays(g, node, carried)
    given = [*carried, *further]
    state = g.tuple(*_instructions(given))
    more = g.subgraph("more")
    (going,) = inline(more, condition, _like(given, _elements(more, more.parameter(state.shape))))
    going = (
        more.reshape_to(more.cast(going, dt.pred), ())
        if isinstance(going, Instruction)
        else more.scalar(going, dt.pred)
    )
    body = g.subgraph("step")
    inner = _like(given, _elements(body, body.parameter(state.shape)))
    results = _arrays(body, node, inline(body, step, inner))
    root = body.tuple(*results, *_instructions(inner[len(carried) :]))
    loop = g.while_(state, body=body.builder.finish(root), condition=more.builder.finish(going))
    return _elements(g, loop)[: len(carried)]


def _scan(g: Graph, node: Node, args: Sequence[Any], kwargs: dict[str, Any], inline: Inline) -> list[Any]:
    combine, initial, arrays, further = args
    made = node.meta["val"][len(initial) :]
    return _stepped(g, node, combine, initial, arrays, further, made, inline)


def _map(g: Graph, node: Node, args: Sequence[Any], kwargs: dict[str, Any], inline: Inline) -> list[Any]:
    function, arrays, further = args
    return _stepped(g, node, function, [], arrays, further, node.meta["val"], inline)


# scan(f, s, x) == (s_n, [y_1, ..., y_n]) where (s_k, y_k) == f(s_(k-1), x_k)
def _stepped(
    g: Graph,
    node: Node,
    combine: GraphModule,
    initial: Sequence[Instruction],
    arrays: Sequence[Instruction],
    further: Sequence[Any],
    made: Sequence[Any],
    inline: Inline,
) -> list[Any]:
    count = arrays[0].shape.dims[0]
    outputs = [g.full([int(d) for d in m.shape], 0, hlo_dtype(m.dtype)) for m in made]
    constant = _instructions(further)
    sizes = len(initial), len(outputs), len(arrays)

    def step(inner: Graph, k: Instruction, state: list[Instruction]) -> list[Instruction]:
        parts = iter(state)
        carried, written, read = ([next(parts) for _ in range(size)] for size in sizes)
        left = list(parts)
        values = [*carried, *(_row(inner, x, k) for x in read), *_like(further, left)]
        results = _arrays(inner, node, inline(inner, combine, values))
        new, rows = results[: len(carried)], results[len(carried) :]
        stored = [_with_row(inner, whole, row, k) for whole, row in zip(written, rows, strict=True)]
        return [*new, *stored, *read, *left]

    state = repeated(g, count, step, [*initial, *outputs, *arrays, *constant])
    return state[: len(initial) + len(outputs)]


def _row(g: Graph, array: Instruction, k: Instruction) -> Instruction:
    starts = [k, *[g.scalar(0, dt.s64)] * (array.shape.rank - 1)]
    row = g.dynamic_slice(array, *starts, dynamic_slice_sizes=(1, *array.shape.dims[1:]))
    return g.reshape_to(row, array.shape.dims[1:])


def _with_row(g: Graph, array: Instruction, row: Instruction, k: Instruction) -> Instruction:
    starts = [k, *[g.scalar(0, dt.s64)] * (array.shape.rank - 1)]
    return g.dynamic_update_slice(array, g.reshape_to(row, (1, *row.shape.dims)), *starts)


def _dense(reference: Callable[..., Any]) -> Callable[..., list[Any]]:
    """What torch's own `reference` for such an operator does, operator by operator."""

    def lowered(g: Graph, node: Node, args: Sequence[Any], kwargs: dict[str, Any], inline: Inline) -> list[Any]:
        leaves, spec = tree_flatten((node.args, node.kwargs), is_leaf=lambda x: isinstance(x, Node))
        values = tree_flatten((list(args), kwargs))[0]
        traced = [_example(leaf) for leaf in leaves]
        tensors = [k for k, value in enumerate(traced) if isinstance(value, FakeTensor)]

        def function(*given: torch.Tensor) -> Any:
            filled = list(traced)
            for k, tensor in zip(tensors, given, strict=True):
                filled[k] = tensor
            positional, named = tree_unflatten(filled, spec)
            return [r for r in tree_flatten(reference(*positional, **named))[0] if r is not None]

        fakes = [traced[k] for k in tensors]
        with fakes[0].fake_mode:
            graph = make_fx(torch.func.functionalize(function), decomposition_table=traced_decompositions())(*fakes)
        found = iter(inline(g, graph, [values[k] for k in tensors]))
        results, form = tree_flatten(node.meta["val"])
        return tree_unflatten([None if value is None else next(found) for value in results], form)

    return lowered


def _example(leaf: Any) -> Any:
    """What a graph was traced with there: a tensor, or a graph that an operator takes."""
    if not isinstance(leaf, Node):
        return leaf
    if leaf.op != "get_attr" or "val" in leaf.meta:
        return leaf.meta["val"]
    return attrgetter(str(leaf.target))(leaf.graph.owning_module)


# run_and_save(op) == (s, op(s)), and run_with(s, op) == op(s), where s is what the generator begins with
def _run_and_save(g: Graph, node: Node, args: Sequence[Any], kwargs: dict[str, Any], inline: Inline) -> list[Any]:
    operator, *operands = args
    state = g.random_state()
    return [g.reshape_to(g.bitcast_convert(state, shape=dt.u8[2, 8]), (16,)), _drawn(g, operator, operands, kwargs)]


def _run_with(g: Graph, node: Node, args: Sequence[Any], kwargs: dict[str, Any], inline: Inline) -> list[Any]:
    state, operator, *operands = args
    before = g.state
    g.state = g.bitcast_convert(g.reshape_to(state, (2, 8)), shape=dt.u64[2])
    try:
        return _drawn(g, operator, operands, kwargs)
    finally:
        g.state = before


def _drawn(g: Graph, operator: Any, operands: Sequence[Any], kwargs: dict[str, Any]) -> Any:
    g.read = None  # which results are read is said of the node, whose results have others in them
    return lower(g, operator, list(operands), kwargs)


HIGHER_ORDER: dict[Any, Callable[..., list[Any]]] = {
    _op.cond: _cond,
    _op.while_loop: _while_loop,
    _op.scan: _scan,
    _op.map_impl: _map,
    _op.flex_attention: _dense(sdpa_dense),
    _op.run_and_save_rng_state: _run_and_save,
    _op.run_with_rng_state: _run_with,
}


def _elements(g: Graph, whole: Instruction) -> list[Instruction]:
    return [g.get_tuple_element(whole, index=k) for k in range(len(whole.shape.elements))]


def _instructions(values: Sequence[Any]) -> list[Instruction]:
    return [v for v in values if isinstance(v, Instruction)]


def _like(values: Sequence[Any], instructions: Sequence[Instruction]) -> list[Any]:
    """The values with other instructions; numbers stay."""
    given = iter(instructions)
    return [next(given) if isinstance(v, Instruction) else v for v in values]


def _arrays(g: Graph, node: Node, values: Sequence[Any]) -> list[Instruction]:
    """The values as arrays; integers, booleans and floats as torch keeps them."""
    found = []
    for value in values:
        if isinstance(value, Instruction):
            found.append(value)
        elif isinstance(value, bool | int | float):
            kind = dt.pred if isinstance(value, bool) else dt.s64 if isinstance(value, int) else dt.f64
            found.append(g.scalar(value, kind))
        else:
            message = f"{node.target} of a {type(value).__name__}, which is no array"
            raise LoweringError(message, hint="give it tensors and numbers alone")
    return found
