"""torch.compile on tensors of the device: Dynamo takes them for torch's own, so that graphs have operators.

A tensor with `__torch_dispatch__` is an object to Dynamo, whose methods in Python it traces through: graphs would have
what this package does. Which classes it takes for torch's own is written in two of its functions.
"""

from __future__ import annotations

import sys
from collections.abc import Sequence
from importlib.abc import Loader, MetaPathFinder
from importlib.machinery import ModuleSpec, PathFinder
from types import ModuleType
from typing import Any

from xloom.torch.lazy.tensor.tensor import XlaTensor

_BUILDER = "torch._dynamo.variables.builder"


def register() -> None:
    """Tells Dynamo, when it is there: importing it takes a while, and most programs do without."""
    if _BUILDER in sys.modules:
        _tell(sys.modules[_BUILDER])
    else:
        sys.meta_path.insert(0, _WhenImported())


class _WhenImported(MetaPathFinder):
    """Finds that one module as Python does."""

    def find_spec(self, fullname: str, path: Sequence[str] | None, target: Any = None) -> ModuleSpec | None:
        if fullname != _BUILDER:
            return None
        sys.meta_path.remove(self)
        spec = PathFinder.find_spec(fullname, path, target)
        if spec is not None and spec.loader is not None:
            spec.loader = _Telling(spec.loader)
        return spec


class _Telling(Loader):
    """Another loader, after which the module is told."""

    def __init__(self, loader: Loader):
        self._loader = loader

    def __getattr__(self, name: str) -> Any:
        return getattr(self._loader, name)  # what asks for sources

    def create_module(self, spec: ModuleSpec) -> ModuleType | None:
        return self._loader.create_module(spec)

    def exec_module(self, module: ModuleType) -> None:
        self._loader.exec_module(module)
        _tell(module)


def _tell(builder: Any) -> None:
    from torch._dynamo import config

    config.traceable_tensor_subclasses.add(XlaTensor)
    builder.VariableBuilder._type_dispatch()[XlaTensor] = builder.VariableBuilder.wrap_tensor
    class_of = builder.infer_subclass_type

    def infer_subclass_type(value: Any) -> Any:
        return None if type(value) is XlaTensor else class_of(value)

    builder.infer_subclass_type = infer_subclass_type
