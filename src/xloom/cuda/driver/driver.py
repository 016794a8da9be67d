"""A driver: its entry points, and the few things that are asked of it in more than one place."""

from __future__ import annotations

import ctypes
from collections.abc import Mapping
from functools import cached_property
from typing import Any

from xloom.cuda.driver.entry_points import CONDITIONAL_NODES
from xloom.cuda.driver.results import SUCCESS, DriverError, hint_of


class Driver:
    """The driver's entry points by name; a call that is refused raises."""

    def __init__(self, functions: Mapping[str, Any], name: str):
        """`functions` has one of the type that `entry_points.prototype` says for each of `ENTRY_POINTS`, and for those
        of `CONDITIONAL_NODES` that there are."""
        self.functions = functions
        self.name = name
        """Where they are from, for messages."""

    def call(self, entry: str, *arguments: Any) -> None:
        """Calls an entry point. Raises DriverError for what it refuses, or what earlier work did wrong."""
        result = self.functions[entry](*arguments)
        if result != SUCCESS:
            raise DriverError(result, f"calling {entry}", hint=hint_of(result))

    def made(self, entry: str, *arguments: Any, kind: Any = ctypes.c_void_p) -> Any:
        """What an entry point writes to its first argument: a handle, or a number of `kind`; None for null."""
        out = kind()
        self.call(entry, ctypes.addressof(out), *arguments)
        return out.value

    def written(self, entry: str, *arguments: Any) -> Any:
        """The same where the handle is what the last argument points to."""
        out = ctypes.c_void_p()
        self.call(entry, *arguments, ctypes.addressof(out))
        return out.value

    def address(self, entry: str) -> int:
        """Where an entry point is, for native code that calls it."""
        return ctypes.cast(self.functions[entry], ctypes.c_void_p).value or 0

    def attribute(self, number: int, device: int) -> int:
        """A CUdevice_attribute."""
        return self.made("cuDeviceGetAttribute", number, device, kind=ctypes.c_int)

    @cached_property
    def has_conditional_nodes(self) -> bool:
        """Whether graphs can have loops and branches that the device decides."""
        return all(name in self.functions for name in CONDITIONAL_NODES) and self.version >= (12, 4)

    @property
    def version(self) -> tuple[int, int]:
        """The version of CUDA that it is of."""
        return divmod(self.made("cuDriverGetVersion", kind=ctypes.c_int) // 10, 100)
