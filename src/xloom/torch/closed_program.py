"""Programs of torch.export as one module that holds its weights: what `xl.export` compiles ahead of time."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from torch.export import ExportedProgram
from torch.export.graph_signature import InputKind, OutputKind
from torch.utils._pytree import keystr, tree_flatten_with_path, tree_map, tree_unflatten

from xloom.cpu.compile import compile
from xloom.errors import LoweringError
from xloom.hlo.instruction import Instruction
from xloom.hlo.literal import literal
from xloom.hlo.module import Module
from xloom.torch.ahead import examples_of, held_tensors
from xloom.torch.arrays import as_array
from xloom.torch.decompositions import traced_decompositions
from xloom.torch.frozen.preparation import frozen
from xloom.torch.fx_graph import translate


@dataclass(frozen=True)
class ClosedProgram:
    """A module whose parameters are the user's tensors alone, row-major; its results are, too."""

    module: Module
    arguments: list[str]
    results: list[str]


def closed_program(program: ExportedProgram | torch.nn.Module, arguments: Sequence[Any]) -> ClosedProgram:
    """The module of a program, or of a model exported for `arguments`; what is computed of weights alone is computed.

    Raises LoweringError for a program that changes its buffers or draws random numbers, and for operators that there is
    no HLO for.
    """
    if not isinstance(program, ExportedProgram):
        program = torch.export.export(program, tuple(arguments))
    names = [spec.arg.name for spec in program.graph_signature.input_specs if spec.kind is InputKind.USER_INPUT]
    assert program.example_inputs is not None
    arguments, keywords = program.example_inputs
    exported = torch.export.export(_RowMajor(program.module()), tuple(arguments), dict(keywords))
    exported = exported.run_decompositions({**traced_decompositions()})
    if any(spec.kind is OutputKind.BUFFER_MUTATION for spec in exported.graph_signature.output_specs):
        raise LoweringError("a program that changes its buffers", hint="export the model after model.eval()")
    held = held_tensors(exported)
    translated = translate(exported.graph_module, examples_of(exported), "exported")
    translated = frozen(translated, [k for k, tensor in enumerate(held) if tensor is not None])
    if translated.needs_key:
        raise LoweringError("a program that draws random numbers", hint="export the model after model.eval()")
    if translated.assertions:
        raise LoweringError(
            f"a program that asserts something of its values: {translated.assertions[0]}",
            hint="take torch._assert and checks of values out of the model: a call from C could not be told",
        )
    values: list[torch.Tensor | None] = [held[k] for k in translated.arguments]
    values += [each.of(_known(held[each.argument])) for each in translated.stretches]
    values += translated.held
    constants = [None if value is None else as_array(value.detach().contiguous()) for value in values]
    if translated.weights is not None:
        sources = [_known(held[s]) if isinstance(s, int) else s for s in translated.sources]
        constants += compile(translated.weights)(*[as_array(s.detach().contiguous()) for s in sources])
    given = [k for k, tensor in enumerate(held) if tensor is None]
    user = [names[given.index(k)] for k in translated.arguments if held[k] is None]
    assert exported.call_spec.out_spec is not None
    leaves = tree_unflatten(list(range(len(translated.results))), exported.call_spec.out_spec)
    results = [f"result{keystr(path)}" for path, _ in tree_flatten_with_path(leaves)[0]]
    return ClosedProgram(_with_constants(translated.module, constants), user, results)


class _RowMajor(torch.nn.Module):
    """A model whose results are arrays of their own."""

    def __init__(self, model: torch.nn.Module):
        super().__init__()
        self.model = model

    def forward(self, *arguments: Any, **keywords: Any) -> Any:
        return tree_map(_copied, self.model(*arguments, **keywords))


def _copied(result: Any) -> Any:
    return result.clone(memory_format=torch.contiguous_format) if isinstance(result, torch.Tensor) else result


def _known(tensor: torch.Tensor | None) -> torch.Tensor:
    assert tensor is not None, "a weight has no value"
    return tensor


def _with_constants(module: Module, values: Sequence[np.ndarray | None]) -> Module:
    """The module with constants for the parameters that have values, by number; the others in their order."""
    module = module.clone("")
    count = 0
    for parameter in sorted(module.entry.parameters, key=lambda p: p["parameter_number"]):
        value = values[parameter["parameter_number"]]
        if value is None:
            parameter["parameter_number"] = count
            count += 1
            continue
        attributes = {"literal": literal(value, parameter.shape.dtype)}
        constant = Instruction(parameter.name, "constant", parameter.shape, (), attributes)
        parameter.replace_all_uses_with(module.entry.add(constant))
        module.entry.remove(parameter)
    return module
