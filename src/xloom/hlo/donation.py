"""Which parameters a module may take the memory of, and for which results."""

from __future__ import annotations

from xloom.hlo.module import InputOutputAlias, Module


def result_aliases(module: Module) -> list[InputOutputAlias]:
    """The results that take the memory of parameters: those that the header writes down, then one for each further
    donor that has a result of its size, in order."""
    config = module.config
    found: list[InputOutputAlias] = []
    for alias in config.input_output_alias:  # memory is given once, and to one result
        if all(_source(alias) != _source(a) and alias.output_index != a.output_index for a in found):
            found.append(alias)
    left = {index: leaf.nbytes for index, leaf in module.result_shape.leaves() if leaf.is_array}
    for alias in found:
        left.pop(alias.output_index, None)
    sources, shapes = {_source(alias) for alias in found}, module.parameter_shapes if config.buffer_donors else []
    for donor in sorted(set(config.buffer_donors) - sources):
        nbytes = shapes[donor[0]].at(donor[1]).nbytes
        result = next((index for index, size in left.items() if size == nbytes), None)
        if result is not None:
            del left[result]
            found.append(InputOutputAlias(result, *donor))
    return found


def donated_parameters(module: Module) -> list[int]:
    """The numbers of the parameters of which a caller gives the memory away: one that no result takes stays."""
    return sorted({alias.parameter for alias in result_aliases(module)})


def _source(alias: InputOutputAlias) -> tuple[int, tuple[int, ...]]:
    return alias.parameter, alias.parameter_index
