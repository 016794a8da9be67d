"""What is done to a module when it is imported: importing some of torch takes long, and most programs do without."""

from __future__ import annotations

import sys
from collections.abc import Callable, Sequence
from importlib.abc import Loader, MetaPathFinder
from importlib.machinery import ModuleSpec, PathFinder
from types import ModuleType
from typing import Any

_Change = Callable[[Any], None]


def when_imported(name: str, change: _Change) -> None:
    """Gives a module to a function: now if it is there, else when it has run."""
    if name in sys.modules:
        change(sys.modules[name])
    else:
        sys.meta_path.insert(0, _Finder(name, change))


def replace(name: str, change: Callable[[Any], Any], module: ModuleType) -> None:
    """Has a function of a module be another one, made of it, also where others have imported it."""
    own = getattr(module, name)
    changed = change(own)
    for each in list(sys.modules.values()):
        if getattr(each, "__dict__", {}).get(name) is own:
            setattr(each, name, changed)


class _Finder(MetaPathFinder):
    """Finds one module as Python does, once."""

    def __init__(self, name: str, change: _Change):
        self._name, self._change = name, change

    def find_spec(self, fullname: str, path: Sequence[str] | None, target: Any = None) -> ModuleSpec | None:
        """The spec of the one module."""
        if fullname != self._name:
            return None
        sys.meta_path.remove(self)
        spec = PathFinder.find_spec(fullname, path, target)
        if spec is not None and spec.loader is not None:
            spec.loader = _Changing(spec.loader, self._change)
        return spec


class _Changing(Loader):
    """Another loader, after which the module is changed."""

    def __init__(self, loader: Loader, change: _Change):
        self._loader, self._change = loader, change

    def __getattr__(self, name: str) -> Any:
        return getattr(self._loader, name)  # what asks for sources

    def create_module(self, spec: ModuleSpec) -> ModuleType | None:
        return self._loader.create_module(spec)

    def exec_module(self, module: ModuleType) -> None:
        self._loader.exec_module(module)
        self._change(module)
