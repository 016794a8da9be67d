"""An exported program, called from Python as any other."""

from __future__ import annotations

import ctypes
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

from xloom.aot.interface import Array, Interface
from xloom.cpu.runtime.memory_pool import Block
from xloom.errors import EvaluationError, ShapeError, XloomError


class LoadedExport:
    """A shared library that `export` made: `y = loaded(a, b)`. Results are arrays, a tuple of them if they are several.

    Calls of several threads wait for each other: load it once per thread to run it in parallel.
    """

    def __init__(self, path: str | Path, weights: str | Path | None = None):
        self._library = _opened(Path(path))
        try:
            told = self._library.xloom_exported_interface
        except AttributeError:
            raise XloomError(f"{path} is no exported program", hint="xloom export makes one") from None
        told.restype = ctypes.c_char_p
        self.interface = Interface.from_json(told().decode())
        self._program, self._turn = ctypes.c_void_p(), threading.Lock()
        self._run, self._message = self._function("run"), self._function("message", ctypes.c_char_p)
        self._text = self._function("status_text", ctypes.c_char_p)
        self._destroy = self._function("destroy", None)
        given = None if weights is None else str(weights).encode()
        status = self._function("create")(ctypes.byref(self._program), given)  # programs that have theirs take no file
        if status:
            raise EvaluationError(
                f"{path}: {self._text(status).decode()}", hint="weights= names the file of its weights"
            )

    def __call__(self, *arguments: Any) -> Any:
        """The results. Raises ShapeError for arguments that do not fit, EvaluationError where a custom call fails."""
        expected = self.interface.arguments
        if len(arguments) != len(expected):
            raise ShapeError(
                f"{self.interface.name} takes {len(expected)} arguments, found {len(arguments)}",
                hint=f"it takes {', '.join(f'{array.name}: {array}' for array in expected) or 'none'}, in this order",
            )
        given = [_fitting(value, array) for value, array in zip(arguments, expected, strict=True)]
        results = [_empty(array) for array in self.interface.results]
        with self._turn:
            status = self._run(self._program, _pointers(given), _pointers(results))
            message = self._message(self._program).decode(errors="replace") if status else ""
        if status:
            raise EvaluationError(message or self._text(status).decode(), where=self.interface.name)
        return results[0] if len(results) == 1 else tuple(results)

    def __del__(self) -> None:
        if getattr(self, "_program", None):
            self._destroy(self._program)

    def _function(self, name: str, result: Any = ctypes.c_int) -> Callable[..., Any]:
        function = getattr(self._library, f"{self.interface.name}_{name}")
        function.restype = result
        return function


def load_exported(path: str | Path, weights: str | Path | None = None) -> LoadedExport:
    """The program in a shared library that `export` made; `weights` is the file of its weights if they are apart.

    Raises XloomError for another file, EvaluationError where the processor or the weights do not fit.
    """
    return LoadedExport(path, weights)


def _opened(path: Path) -> ctypes.CDLL:
    try:
        return ctypes.CDLL(str(path.absolute()), mode=ctypes.RTLD_LOCAL)
    except OSError as error:
        hint = "load_exported takes what xloom export made on a system like this, as a shared library"
        raise XloomError(f"{path} cannot be loaded: {error}", hint=hint) from error


def _fitting(value: Any, array: Array) -> np.ndarray:
    given = np.asarray(value)
    if given.dtype != array.dtype.numpy or given.shape != array.dims:
        message = f"argument {array.name} must be {array}, found {given.dtype}{list(given.shape)}"
        raise ShapeError(message, hint="convert it, or export the program for its type and shape")
    return np.ascontiguousarray(given)


def _empty(array: Array) -> np.ndarray:
    return Block(array.nbytes).array.view(array.dtype.numpy).reshape(array.dims)


def _pointers(arrays: list[np.ndarray]) -> Any:
    return (ctypes.c_void_p * max(1, len(arrays)))(*[a.ctypes.data for a in arrays])
