"""Programs with arrays of bounded dynamic size: arguments padded, results sliced."""

from __future__ import annotations

from typing import Any

from xloom.hlo.module import Module
from xloom.interpreter.values import from_argument, miscounted
from xloom.passes.dynamic.arrays import at_bounds, cut
from xloom.passes.runner import run_passes

# a scan whose computation has arrays of dynamic size has them in a loop
_TO_STATIC = "call-inlining,tuple-simplification,dce,scan-expansion,call-inlining,tuple-simplification,dynamic-padding"


def padded_to_bounds(module: Module) -> tuple[Module, bool]:
    """A module with arrays as large as the bounds of those of dynamic size, and whether it differs."""
    padded = module.clone()
    padded.config.input_output_alias, padded.config.buffer_donors = [], []  # arguments are copied to their bounds
    padded.config.parameter_layouts = padded.config.result_layout = None
    *_, padding = run_passes(padded, _TO_STATIC, verify=False)
    return padded, padding.changed


class DynamicExecutable:
    """Runs the static form of `module` that the pass `dynamic-padding` has made."""

    key = None
    """No machine code is kept under the module that it comes from."""

    def __init__(self, module: Module, padded: Any):
        self.module = module
        self.memory = padded.memory
        self.padded = padded
        """Native code for arrays as large as their bounds."""
        self._parameters = [(p.name, p.shape) for p in module.entry.parameters]
        self._result = module.entry.root.shape

    @property
    def outfeed(self) -> list[Any]:
        """What runs have fed out, in order."""
        return self.padded.outfeed

    def __call__(self, *arguments: Any, **keywords: Any) -> Any:
        """As `Executable`; arrays have their run-time sizes. Raises ShapeError for those that exceed a bound."""
        if len(arguments) != len(self._parameters):
            raise miscounted(self.module.name, self._parameters, len(arguments))
        values = [from_argument(a, shape, name) for a, (name, shape) in zip(arguments, self._parameters, strict=True)]
        padded = at_bounds(values, [shape for _, shape in self._parameters])
        return cut(self.padded(*padded, **keywords), self._result)
