"""Custom calls out of shared libraries."""

from __future__ import annotations

import ctypes
from collections.abc import Iterable, Mapping
from dataclasses import replace
from pathlib import Path

from xloom.calls.pointers import EXECUTE, add_native, address_of, check_stages
from xloom.calls.registry import Condition, Registration, add, registered
from xloom.calls.xla_symbols import SYMBOLS, open_with_xla_symbols
from xloom.errors import CustomCallError, near


class _Row(ctypes.Structure):
    _fields_ = [
        ("name", ctypes.c_char_p),
        ("platform", ctypes.c_char_p),
        ("function", ctypes.c_void_p),
        ("abi", ctypes.c_char_p),
    ]


_at_load: dict[str, list[Registration]] = {}
"""What libraries have registered themselves, by place: they do it when they are loaded, so only once."""


def load_library(
    path: str | Path,
    *,
    when: Condition | Mapping[str, Condition] | None = None,
    layouts: str | Mapping[str, str] = "",
) -> list[Registration]:
    """Registers what a library offers by XLA_REGISTER_CUSTOM_CALL_TARGET of our header, or XLA_FFI_REGISTER_HANDLER.

    `when` and `layouts` say which calls of the pass `outline` these take, and in which layouts, see custom_call: one
    for all that the library offers, or a dictionary by name. Raises CustomCallError when the library cannot be loaded,
    or offers nothing, or nothing of such a name.
    """
    offers = _offers(path)
    names = {r.name for r in offers}
    for option, given in (("when", when), ("layouts", layouts)):
        if isinstance(given, Mapping):
            _check_offered(path, option, given, names)
    return [
        add(
            replace(
                offer,
                when=when.get(offer.name) if isinstance(when, Mapping) else when,
                layouts=layouts.get(offer.name, "") if isinstance(layouts, Mapping) else layouts,
            )
        )
        for offer in offers
    ]


def _check_offered(path: str | Path, option: str, given: Iterable[str], names: set[str]) -> None:
    for name in given:
        if name not in names:
            hint = near(name, names) or f"it offers {', '.join(sorted(names))}"
            raise CustomCallError(f"{option}= names {name!r}, which {path} does not offer", hint=hint)


def _offers(path: str | Path) -> list[Registration]:
    """What a library says of itself."""
    before = registered()
    library = _open(path)
    made = _at_load.setdefault(library._name, [r for r in registered() if r not in before])
    if made:
        return made
    try:
        table = library.xloom_custom_calls_by_abi
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
        Registration(
            row.name.decode(),
            row.platform.decode(),
            address=row.function,
            abi=(row.abi.decode() or None) if row.platform == b"Host" else None,
            source=f"{path}",
            keep=(library,),
        )
        for row in (rows[k].contents for k in range(count))
    ]


def register_symbol(
    name: str,
    path: str | Path,
    symbol: str | Mapping[str, str] | None = None,
    *,
    platform: str = "Host",
    abi: str | None = None,
    when: Condition | None = None,
    layouts: str = "",
) -> Registration:
    """Registers function `symbol` (default: `name`) of the library at `path` under `name`.

    For a typed handler with stages, `symbol` is a dictionary of symbols by stage; see register_pointer, for `when` and
    `layouts`, too.
    """
    library = _open(path)
    by_stage = symbol if isinstance(symbol, Mapping) else {EXECUTE: symbol or name}
    check_stages(name, by_stage)
    addresses = {stage: _address(library, path, function) for stage, function in by_stage.items()}
    source = f"{path}:{by_stage[EXECUTE]}"
    return add_native(
        name, addresses, platform=platform, abi=abi, source=source, keep=library, when=when, layouts=layouts
    )


def _address(library: ctypes.CDLL, path: str | Path, symbol: str) -> int:
    try:
        function = library[symbol]
    except AttributeError:
        raise CustomCallError(
            f"{path} has no symbol {symbol!r}",
            hint='it is not static, and in C++ extern "C"; see nm -D for what there is',
        ) from None
    return address_of(function)


def _open(path: str | Path) -> ctypes.CDLL:
    place = str(Path(path).resolve())
    try:
        try:
            return ctypes.CDLL(place)
        except OSError as error:
            if not any(symbol in str(error) for symbol in SYMBOLS):
                raise
            return open_with_xla_symbols(place)
    except OSError as error:
        if not Path(place).exists():
            raise CustomCallError(f"there is no file {path}", hint=f"a path begins in {Path.cwd()}") from None
        raise CustomCallError(
            f"cannot load {path}: {error}",
            hint="compile against xloom/custom_call.h (xloom.include_dir()), which needs no other symbols",
        ) from None
