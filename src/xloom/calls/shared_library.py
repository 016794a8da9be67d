"""Custom calls out of shared libraries."""

from __future__ import annotations

import ctypes
from pathlib import Path

from xloom.calls.external_status import SYMBOL_PREFIX, open_with_status_symbols
from xloom.calls.registry import Registration, add
from xloom.errors import CustomCallError


class _Row(ctypes.Structure):
    _fields_ = [
        ("name", ctypes.c_char_p),
        ("platform", ctypes.c_char_p),
        ("function", ctypes.c_void_p),
    ]


def load_library(path: str | Path) -> list[Registration]:
    """Registers what a library offers by XLA_REGISTER_CUSTOM_CALL_TARGET of our header.

    Raises CustomCallError when the library cannot be loaded, or offers nothing.
    """
    library = _open(path)
    try:
        table = library.xloom_custom_call_table
    except AttributeError:
        raise CustomCallError(
            f"{path} offers no custom calls",
            hint="register them with XLA_REGISTER_CUSTOM_CALL_TARGET of xloom/custom_call.h, or name their symbols",
        ) from None
    table.restype, table.argtypes = ctypes.c_size_t, [ctypes.POINTER(ctypes.POINTER(ctypes.POINTER(_Row)))]
    rows = ctypes.POINTER(ctypes.POINTER(_Row))()
    count = table(ctypes.byref(rows))
    if count == 0:
        raise CustomCallError(f"{path} offers no custom calls", hint="use XLA_REGISTER_CUSTOM_CALL_TARGET")
    return [
        add(
            Registration(
                row.name.decode(),
                row.platform.decode(),
                address=row.function,
                source=f"{path}",
                keep=(library,),
            )
        )
        for row in (rows[k].contents for k in range(count))
    ]


def register_symbol(
    name: str, path: str | Path, symbol: str | None = None, *, platform: str = "Host", abi: str | None = None
) -> Registration:
    """Registers function `symbol` (default: `name`) of the library at `path` under `name`."""
    library = _open(path)
    symbol = symbol or name
    try:
        function = library[symbol]
    except AttributeError:
        raise CustomCallError(
            f"{path} has no symbol {symbol!r}", hint='in C++, declare it extern "C"; see nm -D for what there is'
        ) from None
    address = ctypes.cast(function, ctypes.c_void_p).value or 0
    return add(Registration(name, platform, address=address, abi=abi, source=f"{path}:{symbol}", keep=(library,)))


def _open(path: str | Path) -> ctypes.CDLL:
    place = str(Path(path).resolve())
    try:
        try:
            return ctypes.CDLL(place)
        except OSError as error:
            if SYMBOL_PREFIX not in str(error):
                raise
            return open_with_status_symbols(place)
    except OSError as error:
        raise CustomCallError(
            f"cannot load {path}: {error}",
            hint="compile against xloom/custom_call.h (xloom.include_dir()), which needs no other symbols",
        ) from None
