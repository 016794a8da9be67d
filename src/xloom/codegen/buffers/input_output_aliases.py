"""Which results take the memory of an argument that the caller gives away."""

from __future__ import annotations

from dataclasses import dataclass

from xloom.codegen.buffer_values import leaf_count, leaf_number, leaf_shapes
from xloom.hlo.module import Module
from xloom.hlo.shape import Shape


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
    """Those that the module's header writes down, then one for each further donor that has a result of its shape."""
    config = module.config
    parameters = [p.shape for p in module.entry.parameters]
    result = module.entry.root.shape
    found: list[Alias] = []
    for entry in config.input_output_alias:
        argument = _leaf(parameters, entry.parameter, entry.parameter_index)
        _add(found, Alias(leaf_number(result, entry.output_index), argument, entry.parameter, entry.must))
    results = leaf_shapes(result)
    arguments = [leaf for shape in parameters for leaf in leaf_shapes(shape)]
    for parameter, index in config.buffer_donors:
        argument = _leaf(parameters, parameter, index)
        donor = arguments[argument]
        taken = {alias.result for alias in found}
        for k, shape in enumerate(results):
            if k not in taken and (shape.dtype, shape.dims) == (donor.dtype, donor.dims):
                _add(found, Alias(k, argument, parameter))
                break
    return found


def _leaf(parameters: list[Shape], parameter: int, index: tuple[int, ...]) -> int:
    before = sum(leaf_count(shape) for shape in parameters[:parameter])
    return before + leaf_number(parameters[parameter], index)


def _add(found: list[Alias], new: Alias) -> None:
    """Memory is given once, and to one result."""
    if all(new.result != old.result and new.argument != old.argument for old in found):
        found.append(new)
