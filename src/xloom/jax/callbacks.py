"""Python callbacks in programs: `pure_callback`, `io_callback`, `debug.print` and what else calls back."""

from __future__ import annotations

import itertools
import weakref
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np

from xloom.calls import custom_call
from xloom.calls.partitioning import local_calls
from xloom.calls.typed_ffi.attributes import parse_attributes
from xloom.cuda.names import CALL_PLATFORM, PJRT_PLATFORM
from xloom.hlo.module import Module
from xloom.jax.inherited_rules import AsCpu, is_ours
from xloom.pjrt.executable import keep_alive_hooks

_PARTITIONED = "xla_ffi_partitioned_python_cpu_callback"
"""What each device calls with its own part, as `jax.debug.print(..., partitioned=True)` does."""
_TARGETS = ("xla_ffi_python_cpu_callback", _PARTITIONED)
BUFFER_TARGET = "xla_buffer_python_cpu_callback"
"""Of `jax.experimental.buffer_callback`, whose functions get the memory itself."""


class _Callback:
    """A callback of a program, which keeps it alive."""

    def __init__(self, function: Callable[..., Sequence[Any]]):
        self.function = function
        self.number = next(_numbers)
        _callbacks[self.number] = self


_numbers = itertools.count()
_callbacks: weakref.WeakValueDictionary[int, _Callback] = weakref.WeakValueDictionary()


class _Numbering:
    """Stands for JAX's list of a program's callbacks, whose length numbers the next one; ours number the process's."""

    def __init__(self, callbacks: list[Any], keepalives: list[Any]):
        self._callbacks = callbacks
        self._keepalives = keepalives
        self._last = -1

    def append(self, function: Callable[..., Sequence[Any]]) -> None:
        """Gives a callback its number."""
        callback = _Callback(function)
        self._callbacks.append(function)  # JAX asks whether there are any
        self._keepalives.append(callback)
        self._last = callback.number

    def __len__(self) -> int:
        return self._last + 1


def as_cpu(context: Any, platform: str) -> Any:
    """A context of lowering on our platform as one of the CPU, whose callbacks are numbered by the process."""
    module_context = context.module_context
    if tuple(module_context.platforms) != (platform,) or not is_ours(module_context.get_backend(), platform):
        return context
    module_context = module_context.replace(
        platforms=("cpu",),
        backend=AsCpu(module_context.get_backend()),
        host_callbacks=_Numbering(module_context.host_callbacks, module_context.keepalives),
    )
    return context.replace(module_context=module_context)


def callback_of(attributes: Mapping[str, Any]) -> Callable[..., Any]:
    """The function that a call's attribute `index` says."""
    return _callbacks[int(attributes["index"])].function


def places_of(out: Any) -> tuple[Any, ...]:
    """The results of a call, also where it has one."""
    return out if isinstance(out, tuple) else (out,)


def lower_callbacks(platform: str) -> None:
    """Makes JAX lower callbacks on the platform as on the CPU."""
    from jax._src import callback, compiler
    from jax.interpreters import mlir

    emit, load = callback.emit_python_callback, compiler.backend_compile_and_load

    def emit_python_callback(context: Any, *arguments: Any, **options: Any) -> Any:
        return emit(as_cpu(context, platform), *arguments, **options)

    def backend_compile_and_load(
        backend: Any, module: Any, devices: Any, options: Any, host_callbacks: Sequence[Any]
    ) -> Any:
        # the program knows them by number
        return load(backend, module, devices, options, () if is_ours(backend, platform) else host_callbacks)

    callback.emit_python_callback = mlir.emit_python_callback = emit_python_callback
    compiler.backend_compile_and_load = backend_compile_and_load
    for target in _TARGETS:
        custom_call(target)(_call)
        if platform == PJRT_PLATFORM:
            custom_call(target, platform=CALL_PLATFORM)(_call_by_host)
    local_calls.add(_PARTITIONED)
    keep_alive_hooks.append(_callbacks_of)


def _callbacks_of(module: Module) -> list[_Callback]:
    """The callbacks of a program: JAX forgets a program while it still runs."""
    targets = (*_TARGETS, BUFFER_TARGET)
    calls = [i for i in module.instructions if i.opcode == "custom-call" and i["custom_call_target"] in targets]
    numbers = [np.asarray(parse_attributes(call.backend_config)["index"]) for call in calls]
    return [_callbacks[int(number)] for number in numbers]


def _call(out: Any, *inputs: Any, attributes: Mapping[str, Any]) -> None:
    """Calls the callback that the call's attribute `index` says."""
    # which it may keep: other arrays will be in the program's memory; tokens are None
    copies = [None if value is None else value.copy() for value in inputs]
    results = callback_of(attributes)(*copies)
    for place, value in zip(places_of(out), results, strict=True):
        if place is not None:
            place[...] = value


def _call_by_host(out: Any, *inputs: Any, attributes: Mapping[str, Any]) -> None:
    """The same for views of arrays on a device: the host waits for what they are made of."""
    copies = [None if value is None else value.to_host() for value in inputs]
    results = callback_of(attributes)(*copies)
    for place, value in zip(places_of(out), results, strict=True):
        if place is not None:
            place.from_host(value)
