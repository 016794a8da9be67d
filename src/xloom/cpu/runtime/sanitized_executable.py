"""A program compiled for the sanitizer: custom calls that it would wait for itself are reported."""

from __future__ import annotations

from typing import Any

from xloom.cpu.custom_calls.custom_call import DEVICE
from xloom.cpu.runtime.executable import Executable
from xloom.reentry import check_device


class GuardedExecutable(Executable):
    """Does not start inside a custom call of a program on the same device."""

    def __call__(self, *arguments: Any, **options: Any) -> Any:
        """As `Executable`."""
        check_device(DEVICE, self.module.name)
        return super().__call__(*arguments, **options)
