"""`jax.experimental.buffer_callback`: Python code that writes the memory of a program's results."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from xloom.calls import custom_call
from xloom.cuda.names import PJRT_PLATFORM
from xloom.jax.callbacks import BUFFER_TARGET, as_cpu, callback_of, places_of


class Buffer:
    """An array of a program while it runs, as `jax.experimental.buffer_callback.Buffer`."""

    def __init__(self, array: np.ndarray):
        self._array = array
        self.shape, self.dtype, self.ndim, self.writeable = array.shape, array.dtype, array.ndim, array.flags.writeable

    def __array__(self, dtype: Any = None, copy: bool | None = None) -> np.ndarray:
        if copy or (dtype is not None and np.dtype(dtype) != self.dtype):
            return self._array.astype(dtype or self.dtype)
        return self._array

    def __dlpack__(self, **options: Any) -> Any:
        return self._array.__dlpack__(**options)

    def __dlpack_device__(self) -> Any:
        return self._array.__dlpack_device__()


class Context:
    """As `jax.experimental.buffer_callback.ExecutionContext`, of a CPU."""

    @property
    def stage(self) -> Any:
        """That of running."""
        from jax.experimental.buffer_callback import ExecutionStage

        return ExecutionStage.EXECUTE

    @property
    def stream(self) -> int:
        """Raises JaxRuntimeError: there is none."""
        from jax.errors import JaxRuntimeError

        raise JaxRuntimeError("UNIMPLEMENTED: XLA FFI GPU context is not available: this program runs on a CPU")


def lower_buffer_callbacks(platform: str) -> None:
    """Makes JAX lower them on the platform as on the CPU; a GPU's memory is not for Python."""
    if platform == PJRT_PLATFORM:
        return
    from jax._src import buffer_callback
    from jax.interpreters import mlir

    lower = buffer_callback._buffer_callback_lowering

    def lowering(context: Any, *arguments: Any, **options: Any) -> Any:
        return lower(as_cpu(context, platform), *arguments, **options)

    buffer_callback._buffer_callback_lowering = lowering
    mlir.register_lowering(buffer_callback.buffer_callback_p, lowering)
    custom_call(BUFFER_TARGET)(_call)


def _call(out: Any, *inputs: np.ndarray, attributes: Mapping[str, Any]) -> None:
    """Calls the callback that the call's attribute `index` says on the operands' and the results' own memory."""
    callback_of(attributes)(Context(), *(Buffer(array) for array in (*inputs, *places_of(out))))
