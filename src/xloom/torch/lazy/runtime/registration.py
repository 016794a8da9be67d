"""Makes `xla` a device of torch's: its name, its module, its memory, and what autograd asks of a device."""

from __future__ import annotations

import ctypes
import sys
from typing import Any

import torch
from torch._utils import _rebuild_device_tensor_from_cpu_tensor
from torch.optim.optimizer import _foreach_supported_types, register_optimizer_step_post_hook

from xloom.torch.lazy.operators import attention, autocast, host_arguments, nested_attention, other_layouts, ranges
from xloom.torch.lazy.recording import dispatch, table
from xloom.torch.lazy.runtime import (
    accelerator,
    device_module,
    dynamo,
    forward_mode,
    generators,
    loaded_memory,
    transfer,
)
from xloom.torch.lazy.runtime.execution import flush
from xloom.torch.lazy.tensor import conversion_methods, moved_parameters, tensor, uninitialized
from xloom.torch.lazy.views import in_place

_python_error_is_set = ctypes.pythonapi.PyErr_Occurred  # raises the error that is set
_escaped: list[BaseException] = []
_OWN = torch._C._autograd.DeviceType.PrivateUse1  # type: ignore[attr-defined]


_acc: Any = torch._C._acc  # type: ignore[attr-defined]


class _Guard(_acc.DeviceGuard):
    """Says which device type it guards: that is all that autograd asks.

    The engine also asks while an error of a backward step unwinds, where no Python can be called unless the error is
    taken out of the interpreter first; without that the process would end. `_run_backward` raises it again.
    """

    def type_(self) -> Any:
        try:
            _python_error_is_set()
        except BaseException as error:
            _escaped.append(error)
        return _OWN


class _Hook(_acc.PrivateUse1Hooks):
    """The device is there."""

    def is_available(self) -> bool:
        return True

    def has_primary_context(self, dev_id: int) -> bool:
        return True

    def is_built(self) -> bool:
        return True


def _with_escaped_errors(engine_run_backward: Any) -> Any:
    def _engine_run_backward(*args: Any, **kwargs: Any) -> Any:
        _escaped.clear()
        # in this thread: an engine that ran before the device was registered has no thread for it
        before = torch._C._is_multithreading_enabled()
        torch._C._set_multithreading_enabled(False)
        try:
            return engine_run_backward(*args, **kwargs)
        except BaseException:
            if _escaped:
                raise _escaped.pop(0) from None
            raise
        finally:
            torch._C._set_multithreading_enabled(before)

    return _engine_run_backward


_libraries: list[torch.library.Library] = []  # registrations last as long as these


def _linear(*args: Any) -> Any:
    raise AssertionError("tensors of the device are dispatched to Python")


def _pinned(tensor: torch.Tensor, device: Any = None) -> torch.Tensor:
    """A tensor of the host as it is: the device reads any memory of the host without a copy between."""
    return tensor


def register() -> None:
    """Registers the device, once."""
    table.find_by(dispatch.find)
    torch._register_device_module("xla", sys.modules[device_module.__name__])
    conversion_methods.register()
    uninitialized.register()
    moved_parameters.register()
    in_place.register()
    dynamo.register()
    nested_attention.register()
    accelerator.register()
    generators.register()
    loaded_memory.register()
    _acc.register_python_privateuseone_hook(_Hook())
    _acc.register_python_privateuseone_device_guard(_Guard())
    run_backward = _with_escaped_errors(torch.autograd.graph._engine_run_backward)
    torch.autograd._engine_run_backward = torch.autograd.graph._engine_run_backward = run_backward  # type: ignore
    library = torch.library.Library("aten", "IMPL")
    library.impl("empty.memory_format", transfer.empty, "PrivateUse1")
    library.impl("empty_strided", transfer.empty_strided, "PrivateUse1")
    library.impl("_copy_from", transfer.copy_from, "PrivateUse1")
    library.impl("_local_scalar_dense", transfer.number, "PrivateUse1")
    library.impl("_efficientzerotensor", transfer.empty, "PrivateUse1")
    # with a kernel for the device it is one operator to autograd, and so is its gradient
    forward_mode.register(_linear)
    split = host_arguments.tensor_split
    library.impl("tensor_split.tensor_indices_or_sections", split, "AutogradPrivateUse1")
    loss = host_arguments.reduced_ctc_loss
    library.impl("ctc_loss.Tensor", lambda *args: loss(args, None), "AutogradPrivateUse1")
    for key in ("CPU", "AutogradCPU"):
        library.impl("pin_memory", _pinned, key)
    library.impl("scaled_dot_product_attention", attention.attention, "AutogradPrivateUse1")
    ranges.register(library)
    _libraries.append(library)
    other_layouts.register(library)
    _libraries.extend(autocast.register())
    _foreach_supported_types.append(tensor.XlaTensor)
    register_optimizer_step_post_hook(_end_of_step)
    # files of torch's own xla tensors have it
    torch.serialization.add_safe_globals([_rebuild_device_tensor_from_cpu_tensor])


def _end_of_step(done: torch.optim.Optimizer, args: Any, kwargs: Any) -> None:
    """A step of an optimiser ends a program, so that a training loop is the same one again and again."""
    if any(isinstance(p, tensor.XlaTensor) for group in done.param_groups for p in group["params"][:1]):
        flush()
