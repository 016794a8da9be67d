"""A module that is bytes until one of its attributes is asked for."""

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
    """A module that is read with the first of its attributes that is asked for or set.

    Until then it cannot have changed, and `identity` stands for it.
    """

    def __init__(self, identity: str, declaration: Module, read: Callable[[], Module]):
        vars(self).update(identity=identity, declaration=declaration, _read=read)

    def __getattr__(self, name: str) -> Any:
        if not name.startswith("__"):  # what Python looks for in any object
            _ensure_read(self)
            if name in vars(self):
                return vars(self)[name]
        raise AttributeError(f"a module has no attribute {name!r}")

    def __setattr__(self, name: str, value: Any) -> None:
        _ensure_read(self)
        super().__setattr__(name, value)

    def __reduce_ex__(self, protocol: SupportsIndex) -> str | tuple[Any, ...]:
        """Reads it for `copy` and `pickle`, which would share or lose what reads it."""
        _ensure_read(self)
        return super().__reduce_ex__(protocol)


def _ensure_read(module: LazyModule) -> None:
    with _reading:
        read = vars(module).get("_read")
        if read is not None:  # no other thread was first
            found = read()
            for computation in found.computations:
                computation.module = module
            object.__setattr__(module, "__dict__", vars(found))


def identity_of(module: Module) -> str | None:
    """What stands for a module that has not been decoded: the same for the same program."""
    return vars(module).get("identity")


def declaration_of(module: Module) -> Module:
    """What callers see of a module: itself or, while it is unread, its declaration."""
    return vars(module).get("declaration", module)


def changed_when_read(module: Module, name: str, change: Callable[[Module], object]) -> Module:
    """The module after `change`, which is made when it is read; `name` tells it from others in what stands for it."""
    identity = identity_of(module)
    if identity is None:
        change(module)
        return module

    def read() -> Module:
        change(module)
        return module

    return LazyModule(f"{identity} {name}", declaration_of(module), read)


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
