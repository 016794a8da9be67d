"""The user's test: a command that is given the path of a module."""

from __future__ import annotations

import os
import shlex
import signal
import subprocess
import tempfile
from contextlib import suppress
from pathlib import Path

from xloom.errors import XloomError
from xloom.hlo.module import Module


class Script:
    """`Script("./fails.sh")(module)`: True if the command, with the path of the module's text, exits with status 0.

    It runs in a folder of its own, with relative programs found from here, for `seconds` at most: after that the module
    does not fail. Raises XloomError when there is no such command.
    """

    def __init__(self, command: str, seconds: float = 60.0):
        self._command = shlex.split(command)
        if not self._command:
            raise XloomError("the test is empty", hint="give a command, such as ./fails.sh")
        if os.sep in self._command[0]:
            self._command[0] = str(Path(self._command[0]).absolute())
        self._seconds = seconds

    def __call__(self, module: Module) -> bool:
        """Runs the command, all of whose processes end with it."""
        with tempfile.TemporaryDirectory(prefix="xloom-reduce-") as folder:
            path = Path(folder) / "module.hlo"
            path.write_text(module.to_text(print_large_constants=True), encoding="utf-8")
            try:
                process = subprocess.Popen(
                    [*self._command, str(path)],
                    cwd=folder,
                    stdin=subprocess.DEVNULL,
                    stdout=subprocess.DEVNULL,
                    stderr=subprocess.DEVNULL,
                    start_new_session=True,
                )
            except OSError as error:
                hint = "chmod +x makes a file a command, whose first line says what runs it: #!/bin/sh"
                raise XloomError(f"cannot run the test {self._command[0]}: {error.strerror}", hint=hint) from error
            try:
                return process.wait(self._seconds) == 0
            except subprocess.TimeoutExpired:
                return False
            finally:
                with suppress(ProcessLookupError):
                    os.killpg(process.pid, signal.SIGKILL)
                process.wait()
