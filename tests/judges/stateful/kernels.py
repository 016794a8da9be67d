"""The kernels of these programs, registered under `state.<kernel>.<abi>`: in C by each ABI, and in Python."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np

from xloom import calls
from xloom.calls.c_compiler import compile_source

ABIS = {
    "original": "API_VERSION_ORIGINAL",
    "status": "API_VERSION_STATUS_RETURNING",
    "unified": "API_VERSION_STATUS_RETURNING_UNIFIED",
    "typed": "API_VERSION_TYPED_FFI",
    "ctypes": "API_VERSION_ORIGINAL",
    "python": "API_VERSION_ORIGINAL",
}
"""How a kernel is called, and the `api_version` that the call says."""

KERNELS = ("turn", "both", "fork", "spare", "ends", "pair")
"""See kernels.c for what they do."""

_PREFIX = "state."


def target(kernel: str, abi: str) -> str:
    """The name under which a kernel is registered."""
    return f"{_PREFIX}{kernel}.{abi}"


def register() -> None:
    """Registers all of them."""
    import ctypes

    import jaxlib

    source = Path(__file__).with_name("kernels.c")
    path = compile_source(source, include_dirs=[Path(jaxlib.__file__).parent / "include"])
    library = ctypes.CDLL(str(path))
    for kernel in KERNELS:
        for abi in ABIS:
            name = target(kernel, abi)
            if abi == "python":
                calls.custom_call(name)(_IN_PYTHON[kernel])
            elif abi == "ctypes":
                calls.register_pointer(name, library[f"{kernel}_original"])
            elif abi != "typed" or kernel != "pair":  # typed calls have no tuples
                calls.register_symbol(name, path, f"{kernel}_{abi}")


def _flat(x: np.ndarray) -> np.ndarray:
    return np.array(x).reshape(-1)


def _turn(out: np.ndarray, sizes: np.ndarray, x: np.ndarray) -> None:
    out[...] = np.roll(_flat(x), 1).reshape(x.shape)


def _both(out: Any, sizes: np.ndarray, x: np.ndarray, y: np.ndarray) -> None:
    turned, reverse = np.roll(_flat(x), 1).reshape(x.shape), _flat(y)[::-1].reshape(y.shape)
    out[0][...], out[1][...] = turned, reverse


def _fork(out: Any, sizes: np.ndarray, x: np.ndarray) -> None:
    flat = _flat(x)
    out[0][...], out[1][...] = flat[::-1].reshape(x.shape), np.roll(flat, 1).reshape(x.shape)


def _spare(out: Any, sizes: np.ndarray, x: np.ndarray) -> None:
    _turn(out[0], sizes, x)
    out[1][...] = 7


def _ends(out: np.ndarray, sizes: np.ndarray, x: np.ndarray) -> None:
    if out.size > 1:
        first, last = (0,) * out.ndim, (-1,) * out.ndim
        out[first], out[last] = out[last], out[first]


def _pair(out: Any, sizes: np.ndarray, pair: Any) -> None:
    _both(out, sizes, *pair)


_IN_PYTHON = {"turn": _turn, "both": _both, "fork": _fork, "spare": _spare, "ends": _ends, "pair": _pair}
