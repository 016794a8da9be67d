"""Kernels that other libraries compile: Numba's, CuPy's and Triton's, launched by these in the program's stream."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from importlib import import_module
from typing import Any

from xloom.calls import custom_call
from xloom.calls.registry import Condition
from xloom.cuda.names import CALL_PLATFORM
from xloom.cuda.user_kernels.registered import Chosen, size_of, views_in
from xloom.errors import CustomCallError

Launch = Callable[[Any, tuple[int, int, int], tuple[int, int, int], int, int, Sequence[Any], Mapping[str, Any]], None]
"""Of a kernel: grid, block, bytes of shared memory, stream, arguments, keyword arguments."""


def register_kernel_object(
    name: str,
    kernel: Any,
    *,
    grid: Chosen,
    block: Chosen = 1,
    shared_bytes: int = 0,
    arguments: Callable[..., Sequence[Any]] | None = None,
    options: Mapping[str, Any] | None = None,
    when: Condition | None = None,
    layouts: str = "",
) -> None:
    """Registers a kernel of `numba.cuda.jit`, a `cupy.RawKernel` or a `triton.jit` for the custom call `name` on GPUs.

    It gets the arrays of the operands, then of the result, or what `arguments` makes of the result and the operands.
    Triton's has its blocks' size by itself: `options` are the keyword arguments of its launch, constants among them.
    The rest is as `register_kernel` has it. Raises CustomCallError for what is none of these.
    """
    launch = _launch_of(name, kernel)

    def call(out: Any, *inputs: Any) -> None:
        views = [*views_in(inputs), *views_in((out,))]
        if not views:
            message = f"the kernel of custom call {name!r} is given no array"
            raise CustomCallError(message, hint="it launches nothing of tokens alone: give the call an array")
        given = views if arguments is None else arguments(out, *inputs)
        sizes = [size_of(each, out, inputs) for each in (grid, block)]
        launch(kernel, sizes[0], sizes[1], shared_bytes, views[0].stream, given, options or {})

    custom_call(name, platform=CALL_PLATFORM, when=when, layouts=layouts)(call)


def _launch_of(name: str, kernel: Any) -> Launch:
    """How the library launches it, which the module of its type names."""
    library = type(kernel).__module__.partition(".")[0]
    if library not in _LAUNCHES:
        raise CustomCallError(
            f"a {type(kernel).__module__}.{type(kernel).__qualname__} for custom call {name!r} is no kernel",
            hint="pass one of numba.cuda.jit, cupy.RawKernel or triton.jit; register_kernel takes PTX and cubin",
        )
    return _LAUNCHES[library]


def _numba(
    kernel: Any, grid: Any, block: Any, shared_bytes: int, stream: int, given: Sequence[Any], options: Mapping[str, Any]
) -> None:
    cuda = import_module("numba.cuda")
    kernel[grid, block, cuda.external_stream(stream), shared_bytes](*given, **options)


def _cupy(
    kernel: Any, grid: Any, block: Any, shared_bytes: int, stream: int, given: Sequence[Any], options: Mapping[str, Any]
) -> None:
    cupy = import_module("cupy")
    with cupy.cuda.ExternalStream(stream):
        arrays = [cupy.asarray(each) if hasattr(each, "__cuda_array_interface__") else each for each in given]
        kernel(grid, block, tuple(arrays), shared_mem=shared_bytes, **options)


def _triton(
    kernel: Any, grid: Any, block: Any, shared_bytes: int, stream: int, given: Sequence[Any], options: Mapping[str, Any]
) -> None:
    torch = import_module("torch")  # whose current stream Triton launches in
    with torch.cuda.stream(torch.cuda.ExternalStream(stream)):
        kernel[grid](*given, **options)


_LAUNCHES: dict[str, Launch] = {"numba": _numba, "numba_cuda": _numba, "cupy": _cupy, "triton": _triton}
