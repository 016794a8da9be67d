"""A module that is there as bytes until somebody looks into it."""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import Any, SupportsIndex

from xloom.hlo.computation import Computation
from xloom.hlo.instruction import Instruction
from xloom.hlo.module import Module

BODY = "xloom.body"
"""The custom call that stands for what a declared module does."""

_reading = threading.RLock()


class LazyModule(Module):
    """A module that becomes an ordinary one with the first of its attributes that is read or set.

    Until then nobody can have changed it, and `identity` stands for it.
    """

    def __init__(self, identity: str, declaration: Module, read: Callable[[], Module]):
        vars(self).update(identity=identity, declaration=declaration, _read=read)

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__"):  # what Python looks for in any object
            raise AttributeError(name)
        _become_read(self)
        return getattr(self, name)

    def __setattr__(self, name: str, value: Any) -> None:
        _become_read(self)
        setattr(self, name, value)

    def __reduce_ex__(self, protocol: SupportsIndex) -> str | tuple[Any, ...]:
        """Reads it for `copy` and `pickle`, which would share or lose what reads it."""
        _become_read(self)
        return self.__reduce_ex__(protocol)


def _become_read(module: LazyModule) -> None:
    with _reading:
        if type(module) is LazyModule:  # no other thread was first
            found = vars(module)["_read"]()
            for computation in found.computations:
                computation.module = module
            object.__setattr__(module, "__dict__", vars(found))
            object.__setattr__(module, "__class__", Module)


def identity_of(module: Module) -> str | None:
    """What stands for a module that nobody has looked into: the same for the same program."""
    return vars(module).get("identity")


def declaration_of(module: Module) -> Module:
    """What callers see of a module: itself or, while it is unread, its declaration."""
    return vars(module).get("declaration", module)


def declared(module: Module) -> Module:
    """A module of the same name, configuration, parameters and result, and nothing between those."""
    found = Module(module.name)
    found.config = module.config
    entry = Computation(module.entry.name)
    for parameter in module.entry.parameters:
        _declare(entry, parameter, "parameter", dict(parameter.attrs))
    _declare(entry, module.entry.root, "custom-call", {"custom_call_target": BODY})
    found.add(entry, entry=True)
    return found


def _declare(entry: Computation, value: Instruction, opcode: str, attrs: dict[str, Any]) -> None:
    entry.add(Instruction(value.name, opcode, value.shape, (), attrs)).sharding = value.sharding
