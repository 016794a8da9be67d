"""Which results take the memory of an argument that the caller gives away."""

from __future__ import annotations

from dataclasses import dataclass

from xloom.codegen.buffer_values import leaf_count, leaf_number
from xloom.hlo.donation import result_aliases
from xloom.hlo.module import Module


@dataclass(frozen=True)
class Alias:
    """An array of the result that lies where an array of the arguments does; both are leaves by number."""

    result: int
    argument: int
    parameter: int
    """Whose leaf the argument is."""
    must: bool = False
    """The program does not run unless the caller gives the parameter away."""


def aliases(module: Module) -> list[Alias]:
    """Those of the module."""
    parameters, result = module.parameter_shapes, module.result_shape
    return [
        Alias(
            leaf_number(result, each.output_index),
            sum(map(leaf_count, parameters[: each.parameter]))
            + leaf_number(parameters[each.parameter], each.parameter_index),
            each.parameter,
            each.must,
        )
        for each in result_aliases(module)
    ]
