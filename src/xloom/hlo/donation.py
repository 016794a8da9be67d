"""Which parameters a module may take the memory of."""

from __future__ import annotations

from xloom.hlo.module import Module


def donated_parameters(module: Module) -> list[int]:
    """The numbers of the parameters of which a caller gives the memory away, for aliased results or anything else."""
    config = module.config
    return sorted({a.parameter for a in config.input_output_alias} | {p for p, _ in config.buffer_donors})
