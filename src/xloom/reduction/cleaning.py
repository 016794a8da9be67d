"""What is left of a module when what nothing reads is gone."""

from __future__ import annotations

from xloom.hlo.module import Module
from xloom.passes.dce import DeadCodeElimination, remove_unreachable_computations


def plain_header(module: Module) -> None:
    """Leaves out layouts of parameters and results that are those of the entry: text always says them."""
    config, entry = module.config, module.entry
    if config.parameter_layouts == [p.shape for p in entry.parameters] and config.result_layout == entry.root.shape:
        config.parameter_layouts = config.result_layout = None


def clean(module: Module) -> None:
    """Removes instructions, computations and parameters of the entry that nothing reads; what has effects stays."""
    DeadCodeElimination().run(module)
    _drop_parameters(module)


def clean_around(module: Module) -> None:
    """Removes computations and parameters of the entry that nothing reads, and no other instructions."""
    remove_unreachable_computations(module)
    _drop_parameters(module)


def _drop_parameters(module: Module) -> None:
    config, entry = module.config, module.entry
    if config.input_output_alias or config.buffer_donors or config.parameter_layouts:
        return  # the header counts parameters
    kept = []
    for parameter in entry.parameters:
        if parameter.users or parameter is entry.root:
            parameter.attrs["parameter_number"] = len(kept)
            kept.append(parameter)
        else:
            entry.remove(parameter)
