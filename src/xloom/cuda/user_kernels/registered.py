"""Kernels in images, under a name: PTX, machine code, or CUDA source that becomes some."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from xloom.calls import custom_call
from xloom.calls.registry import Condition
from xloom.cuda.names import CALL_PLATFORM
from xloom.cuda.run_time.device_view import DeviceView
from xloom.cuda.user_kernels.cuda_source import machine_code
from xloom.errors import CustomCallError

Size = int | Sequence[int]
"""Of a grid or a block: along x, or along x, y and z."""
Chosen = Size | Callable[..., Size]
"""The same, or a function of the result and the operands, as views."""
_ELF = b"\x7fELF"


def register_kernel(
    name: str,
    image: str | bytes | Path,
    symbol: str | None = None,
    *,
    grid: Chosen,
    block: Chosen,
    shared_bytes: int = 0,
    arguments: Callable[..., Sequence[Any]] | None = None,
    when: Condition | None = None,
    layouts: str = "",
) -> None:
    """Registers a kernel for the custom call `name` on GPUs.

    `image` is PTX (text), a cubin (bytes), CUDA C++ (text in which the kernel is `extern "C"`), or the Path of a file
    of one of these. `symbol` is the kernel's, by default `name`. It gets pointers to the operands' arrays, then to the
    result's, tuples flattened; or what `arguments` makes of the result and the operands: views, and scalars of ctypes
    or NumPy. `grid` and `block` are its size, or functions of the result and the operands. `when` and `layouts` are as
    `custom_call` has them. Raises CustomCallError for a file that cannot be read.
    """
    data, is_source = _read(image)
    made: dict[str, bytes] = {}

    def call(out: Any, *inputs: Any) -> None:
        views = [*views_in(inputs), *views_in((out,))]
        if not views:
            message = f"the kernel {symbol or name!r} is given no array"
            raise CustomCallError(message, hint="it launches nothing of tokens alone: give the call an array")
        memory = views[0].memory
        target = memory.target
        if is_source and target.name not in made:
            made[target.name] = machine_code(data.decode(), target)
        given = views if arguments is None else arguments(out, *inputs)
        blocks, threads = (size_of(each, out, inputs) for each in (grid, block))
        memory.launch(made.get(target.name, data), symbol or name, blocks, threads, shared_bytes, given)

    custom_call(name, platform=CALL_PLATFORM, when=when, layouts=layouts)(call)


def _read(image: str | bytes | Path) -> tuple[bytes, bool]:
    """An image's bytes, and whether they are CUDA source."""
    if isinstance(image, Path):
        try:
            image = image.read_bytes()
        except OSError as error:
            raise CustomCallError(f"cannot read the kernel: {error}", hint="name a .ptx, .cubin or .cu file") from None
    data = image.encode() if isinstance(image, str) else bytes(image)
    is_ptx = any(line.lstrip().startswith(b".version") for line in data.splitlines()[:64])
    return data, not (data.startswith(_ELF) or is_ptx)


def size_of(chosen: Chosen, out: Any, inputs: Sequence[Any]) -> tuple[int, int, int]:
    """Of a grid or a block, along x, y and z, for a call."""
    size = chosen(out, *inputs) if callable(chosen) else chosen
    x, y, z = (*((size,) if isinstance(size, int) else size), 1, 1)[:3]
    return x, y, z


def views_in(value: Sequence[Any]) -> list[DeviceView]:
    """The arrays in nested tuples; tokens are none."""
    found: list[DeviceView] = []
    for each in value:
        if isinstance(each, tuple):
            found += views_in(each)
        elif each is not None:
            found.append(each)
    return found
