"""LLVM modules that know their target, so that whoever emits into one can ask what the processor can do."""

from __future__ import annotations

from llvmlite import ir

from xloom.llvm.target import Target


class TargetModule(ir.Module):
    """A module whose code is for `target`."""

    def __init__(self, target: Target):
        super().__init__()
        self.target = target


def target_of(b: ir.IRBuilder) -> Target:
    """What the code is for that `b` emits."""
    module = b.module
    assert isinstance(module, TargetModule)
    return module.target
