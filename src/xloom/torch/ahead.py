"""Models compiled ahead of time: torch.export's graph as one program, which holds the model's weights."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np
import torch
from torch.export import ExportedProgram
from torch.export.graph_signature import InputKind, OutputKind
from torch.utils._pytree import tree_flatten, tree_unflatten

from xloom.errors import ShapeError
from xloom.hlo.module import Module
from xloom.torch.arrays import as_array
from xloom.torch.compiled_graph import CompiledGraph
from xloom.torch.decompositions import traced_decompositions
from xloom.torch.frozen.preparation import frozen
from xloom.torch.fx_graph import translate


class Exported:
    """A model without Python: called as the model is, with tensors of the shapes that it was exported for."""

    def __init__(self, exported: ExportedProgram):
        exported = exported.run_decompositions({**traced_decompositions()})
        signature = exported.graph_signature
        tensors = {**exported.state_dict, **exported.constants}
        self._held = held_tensors(exported)
        self._outputs = [
            tensors[str(spec.target)].detach() if spec.kind is OutputKind.BUFFER_MUTATION else None
            for spec in signature.output_specs
        ]
        for spec in signature.output_specs:
            if spec.kind not in (OutputKind.USER_OUTPUT, OutputKind.BUFFER_MUTATION):
                hint = "export the model for inference: model.eval(), results that are tensors, no loss"
                raise ShapeError(f"an exported program with a result of kind {spec.kind.name}", hint=hint)
        assert exported.call_spec.out_spec is not None
        self._spec, self._result_spec = exported.call_spec.in_spec, exported.call_spec.out_spec
        examples = examples_of(exported)
        self._examples = [e for e, held in zip(examples, self._held, strict=True) if held is None]
        written = {str(s.target) for s in signature.output_specs if s.kind is OutputKind.BUFFER_MUTATION}
        weights = [
            k
            for k, spec in enumerate(signature.input_specs)
            if self._held[k] is not None and str(spec.target) not in written
        ]
        translated = translate(exported.graph_module, examples, "exported")
        self._module = translated.module
        self._program = CompiledGraph(frozen(translated, weights))

    @property
    def module(self) -> Module:
        """The program's HLO: of the weights as they are and the arguments, whatever is kept of the weights."""
        return self._module

    def __call__(self, *arguments: Any, **keywords: Any) -> Any:
        """The model's result. Raises ShapeError for arguments of other shapes."""
        flat, spec = tree_flatten((arguments, keywords))
        if spec != self._spec:
            raise ShapeError(
                f"the arguments are nested as {spec}, the model was exported with {self._spec}",
                hint="call it as the model was called for the export, keywords too",
            )
        for argument, example in zip(flat, self._examples, strict=True):
            given, wanted = _told(argument), _told(example)
            if given != wanted:
                raise ShapeError(
                    f"an argument of {given}, exported for {wanted}",
                    hint="export the model once more, or use torch.compile, which compiles for every shape",
                )
        given = iter(flat)
        results = self._program([next(given) if held is None else held for held in self._held])
        values = []
        for result, buffer in zip(results, self._outputs, strict=True):
            if buffer is None:
                values.append(result)
            else:
                buffer.copy_(result)
        return tree_unflatten(values, self._result_spec)


def held_tensors(exported: ExportedProgram) -> list[torch.Tensor | None]:
    """For each argument of an exported graph the weight that it is, or nothing."""
    tensors = {**exported.state_dict, **exported.constants}
    return [
        None if spec.kind is InputKind.USER_INPUT else tensors[str(spec.target)].detach()
        for spec in exported.graph_signature.input_specs
    ]


def examples_of(exported: ExportedProgram) -> list[Any]:
    """What an exported graph was traced with."""
    return [n.meta["val"] for n in exported.graph.nodes if n.op == "placeholder"]


def _told(argument: Any) -> str:
    """A tensor's shape; of a number, which is part of the program, its value."""
    return str(list(argument.shape)) if isinstance(argument, torch.Tensor) else f"value {argument}"


def export(model: torch.nn.Module, arguments: Sequence[Any], keywords: Mapping[str, Any] | None = None) -> Exported:
    """Compiles a model for arguments of these shapes; later changes of its weights count."""
    return Exported(torch.export.export(model, tuple(arguments), dict(keywords or {})))


def program_of(function: Callable[..., Any], arguments: Sequence[Any]) -> tuple[Module, list[np.ndarray]]:
    """A model's or function's HLO as it is before any pass, and the values of the program's parameters for arguments.

    Raises LoweringError for operators that there is no HLO for.
    """
    model = function if isinstance(function, torch.nn.Module) else _Function(function)
    exported = torch.export.export(model, tuple(arguments)).run_decompositions({**traced_decompositions()})
    name = getattr(function, "__name__", type(function).__name__)
    translated = translate(exported.graph_module, examples_of(exported), name)
    flat, _ = tree_flatten((tuple(arguments), {}))
    given = iter(flat)
    tensors = [next(given) if held is None else held for held in held_tensors(exported)]
    values = [tensors[k] for k in translated.arguments]
    values += [each.of(tensors[each.argument]) for each in translated.stretches]
    values += translated.held
    if translated.needs_key:
        values.append(torch.zeros(2, dtype=torch.uint64, device="cpu"))
    return translated.module, [as_array(v.detach().contiguous()).copy() for v in values]


class _Function(torch.nn.Module):
    """A function as a model, as torch.export takes no other."""

    def __init__(self, function: Callable[..., Any]):
        super().__init__()
        self._function = function

    def forward(self, *arguments: Any) -> Any:
        return self._function(*arguments)
