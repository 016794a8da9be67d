"""Programs with custom calls, and the sanitizer: what is compiled for it, and what was compiled before."""

from __future__ import annotations

import warnings
from collections.abc import Callable
from typing import Any

from xloom.calls.sanitizer import active
from xloom.cpu.custom_calls.run import DEVICE
from xloom.cpu.runtime.executable import Direct, Executable
from xloom.cpu.runtime.serialized_executable import LinkedExecutable
from xloom.hlo.module import Module
from xloom.reentry import check_device


class GuardedExecutable(Executable):
    """Does not start inside a custom call of a program on the same device."""

    def __call__(self, *arguments: Any, **options: Any) -> Any:
        """As `Executable`."""
        check_device(DEVICE, self.module.name)
        return super().__call__(*arguments, **options)


class CallingExecutable(Executable):
    """Was compiled without the sanitizer, and is compiled anew when it runs in it."""

    def __init__(
        self, module: Module, image: LinkedExecutable, key: str | None, compile_guarded: Callable[[], Executable]
    ):
        super().__init__(module, image, key)
        self._compile_guarded = compile_guarded
        self._guarded: Executable | None = None

    def __call__(self, *arguments: Any, **options: Any) -> Any:
        """As `Executable`."""
        return self._chosen.__call__(*arguments, **options) if active() else super().__call__(*arguments, **options)

    def call_into(self, arguments: Any, results: Any) -> None:
        """As `Executable`."""
        return self._chosen.call_into(arguments, results) if active() else super().call_into(arguments, results)

    def call_at(self, arguments: Any, results: Any, *, main: Callable[..., int] | None = None) -> None:
        """As `Executable`, which the sanitizer cannot watch: it warns."""
        if active():
            warnings.warn(f"the sanitizer does not watch {self.module.name}, compiled before it was on", stacklevel=2)
        super().call_at(arguments, results, main=main)

    @property
    def direct(self) -> Direct | None:
        """As `Executable`, while the sanitizer is off; who keeps it has to watch whether it is."""
        return None if active() else super().direct

    @property
    def _chosen(self) -> Executable:
        if self._guarded is None:
            self._guarded = self._compile_guarded()
        return self._guarded
