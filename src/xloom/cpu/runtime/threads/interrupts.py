"""Python's side of a long run's looks at signals: who is asked, and what a handler has raised."""

from __future__ import annotations

import ctypes
import os
import threading
from typing import Any

from xloom.cpu.runtime.threads.poll_ir import Word

_FUNCTIONS = {
    Word.ENSURE: "PyGILState_Ensure",
    Word.CHECK_SIGNALS: "PyErr_CheckSignals",
    Word.FETCH: "PyErr_Fetch",
    Word.NORMALIZE: "PyErr_NormalizeException",
    Word.RELEASE: "PyGILState_Release",
    Word.CALL: "PyObject_CallFunctionObjArgs",
    Word.SET_TRACEBACK: "PyException_SetTraceback",
    Word.SET_ATTRIBUTE: "PyObject_SetAttrString",
    Word.DROP: "Py_DecRef",
}


class Interrupts:
    """The words at an address, which native code reads."""

    def __init__(self, address: int):
        self._words = (ctypes.c_void_p * len(Word)).from_address(address)
        for word, name in _FUNCTIONS.items():
            self._words[word] = ctypes.cast(getattr(ctypes.pythonapi, name), ctypes.c_void_p).value
        self._note_main_thread()
        os.register_at_fork(after_in_child=self._note_main_thread)

    def _note_main_thread(self) -> None:
        self._words[Word.MAIN_THREAD] = threading.main_thread().ident

    def taken(self) -> BaseException:
        """What a handler raised in the run that it ended, which is in the main thread."""
        kind, value, trace = (self._take(word) for word in (Word.TYPE, Word.VALUE, Word.TRACEBACK))
        if not isinstance(value, BaseException):
            return kind() if isinstance(kind, type) and issubclass(kind, BaseException) else KeyboardInterrupt()
        return value.with_traceback(trace)

    def _take(self, word: Word) -> Any:
        address, self._words[word] = self._words[word], None
        if not address:
            return None
        found = ctypes.cast(address, ctypes.py_object).value
        ctypes.pythonapi.Py_DecRef(ctypes.py_object(found))
        return found
