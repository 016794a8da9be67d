"""The interface of torch_xla, over this device: scripts written for it run as they are."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterable
from functools import partial
from importlib.machinery import ModuleSpec
from types import ModuleType
from typing import Any

import torch

from xloom.torch import metrics
from xloom.torch.lazy.compatibility import debug_metrics, debugging, processes
from xloom.torch.lazy.runtime import device_client, device_module, random_state
from xloom.torch.lazy.runtime.step import step, sync
from xloom.torch.lazy.tensor.tensor import DEVICE


def device(index: int | None = None) -> torch.device:
    """The device. Raises RuntimeError for another number."""
    device_module.set_device(index or 0)
    return DEVICE


def devices() -> list[torch.device]:
    """All devices: one."""
    return [DEVICE]


def device_count() -> int:
    """One."""
    return 1


def mark_step(wait: bool = False) -> None:
    """`sync`, as scripts used to spell it."""
    sync(wait)


def wait_device_ops(devices: Iterable[Any] = ()) -> None:
    """Waits for what was started."""
    device_client.wait()


def optimizer_step(
    optimizer: torch.optim.Optimizer, barrier: bool = False, optimizer_args: dict[str, Any] | None = None
) -> Any:
    """A step of the optimiser on the mean of all processes' gradients; it ends a program."""
    processes.reduce_gradients(optimizer)
    loss = optimizer.step(**(optimizer_args or {}))
    if barrier:
        sync()
    return loss


def xla_device(n: int | None = None, devkind: str | None = None) -> torch.device:
    """`device`, as scripts used to spell it."""
    return device(n)


def set_rng_state(seed: int, device: Any = None) -> None:
    """Seeds the generator."""
    random_state.manual_seed(seed)


def save(data: Any, file_or_path: Any, master_only: bool = True, global_master: bool = False) -> None:
    """`torch.save` of copies on the host, by the first process unless told otherwise."""
    from torch.utils._pytree import tree_map_only

    if master_only and processes.ordinal():
        return
    torch.save(tree_map_only(torch.Tensor, lambda t: t.detach().cpu(), data), file_or_path)


def get_memory_info(device: Any = None) -> dict[str, int]:
    """The host's memory, which is the device's: what this process uses at most, and all there is."""
    import os
    import resource

    total = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    return {"bytes_used": resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024, "bytes_limit": total}


def compile(function: Callable[..., Any]) -> Callable[..., Any]:
    """A function whose calls are one program each."""
    from functools import wraps

    @wraps(function)
    def call(*args: Any, **kwargs: Any) -> Any:
        with step():
            return function(*args, **kwargs)

    return call


def exported_program_to_stablehlo(exported: Any, options: Any = None) -> Any:
    """A program of torch.export's compiled: it is called as the model is. It holds HLO; there is no StableHLO text."""
    from xloom.torch.ahead import Exported  # imports torch.export, which takes a while

    return Exported(exported)


def send_cpu_data_to_device(data: Any, device: Any = DEVICE, input_sharding: Any = None) -> Any:
    """The same containers with copies of their tensors on the device; a tensor is in a list."""
    from torch.utils._pytree import tree_map_only

    data = [data] if isinstance(data, torch.Tensor) else data
    return tree_map_only(torch.Tensor, lambda tensor: tensor.to(device), data)


def autocast(
    device: Any = DEVICE, enabled: bool = True, dtype: torch.dtype = torch.bfloat16, cache_enabled: bool = True
) -> torch.autocast:
    """`torch.autocast` for the device."""
    return torch.autocast("xla", dtype=dtype, enabled=enabled, cache_enabled=cache_enabled)


class MpDeviceLoader:
    """A loader whose batches are on the device, and each of which begins a program."""

    def __init__(self, loader: Iterable[Any], device: Any = DEVICE, **options: Any):
        self._loader = loader

    def __iter__(self) -> Any:
        from torch.utils._pytree import tree_map_only

        for batch in self._loader:
            sync()
            yield tree_map_only(torch.Tensor, lambda t: t.to(DEVICE), batch)
        sync()

    def __len__(self) -> int:
        return len(self._loader)  # type: ignore[arg-type]


class MpModelWrapper:
    """A model that processes started by fork have in common, until each moves it to its device."""

    def __init__(self, model: torch.nn.Module):
        self._model = model

    def to(self, device: Any) -> torch.nn.Module:
        """The model there."""
        return self._model.to(device)


def _namespace(name: str, **members: Any) -> ModuleType:
    module = ModuleType(name)
    module.__spec__ = ModuleSpec(name, None)  # by which libraries ask whether there is one
    module.__dict__.update(members)
    return module


xm = _namespace(
    "torch_xla.core.xla_model",
    xla_device=xla_device,
    mark_step=mark_step,
    optimizer_step=optimizer_step,
    wait_device_ops=wait_device_ops,
    set_rng_state=set_rng_state,
    get_rng_state=lambda device=None: random_state.initial_seed(),
    get_memory_info=get_memory_info,
    save=save,
    xla_device_hw=lambda device: device_client.hardware(),
    set_replication=lambda device, devices: None,
    get_xla_supported_devices=lambda devkind=None, max_devices=None: [str(DEVICE)],
    **processes.NAMES,
    is_xla_tensor=lambda tensor: tensor.device.type == "xla",
    send_cpu_data_to_device=send_cpu_data_to_device,
    add_step_closure=lambda closure, args=(), run_async=False: (sync(), closure(*args))[1],
)
"""torch_xla.core.xla_model."""

met = _namespace(
    "torch_xla.debug.metrics",
    metrics_report=debug_metrics.metrics_report,
    clear_all=metrics.clear,
    clear_counters=metrics.clear,
    counter_names=debug_metrics.counter_names,
    counter_value=debug_metrics.counter_value,
    clear_metrics=metrics.clear,
    metric_names=debug_metrics.metric_names,
    metric_data=debug_metrics.metric_data,
    executed_fallback_ops=debug_metrics.executed_fallback_ops,
    short_metrics_report=debug_metrics.short_metrics_report,
)
"""torch_xla.debug.metrics."""


def install_as_torch_xla() -> None:
    """Makes `import torch_xla` give this interface. Raises ImportError when the real one is loaded."""
    loaded = sys.modules.get("torch_xla")
    if loaded is not None and loaded is not _installed.get("torch_xla"):
        raise ImportError("torch_xla is loaded already; install before anything imports it")
    pl = _namespace("torch_xla.distributed.parallel_loader", MpDeviceLoader=MpDeviceLoader)
    xr = _namespace("torch_xla.runtime", **processes.RUNTIME_NAMES, device_type=device_client.hardware)
    xr.__dict__.update(use_spmd=lambda: None, global_device_count=device_count, addressable_device_count=device_count)
    xr.__dict__.update(global_runtime_device_count=device_count, is_spmd=lambda: False)
    core = _namespace("torch_xla.core", xla_model=xm, __path__=[])
    debug = _namespace("torch_xla.debug", metrics=met, __path__=[])
    xmp = _namespace("torch_xla.distributed.xla_multiprocessing", spawn=processes.spawn, MpModelWrapper=MpModelWrapper)
    xla_backend = _namespace("torch_xla.distributed.xla_backend")
    spmd = _namespace("torch_xla.distributed.spmd")
    distributed = _namespace(
        "torch_xla.distributed",
        parallel_loader=pl,
        xla_multiprocessing=xmp,
        xla_backend=xla_backend,
        spmd=spmd,
        __path__=[],
    )
    top = _namespace(
        "torch_xla", core=core, debug=debug, distributed=distributed, runtime=xr, launch=processes.spawn, __path__=[]
    )
    top.__dict__.update(device=device, devices=devices, device_count=device_count, sync=sync, step=step)
    top.__dict__["__version__"] = torch.__version__.partition("+")[0]  # its releases are numbered as torch's
    top.__dict__.update(compile=compile, manual_seed=device_module.manual_seed)
    experimental = _namespace("torch_xla.experimental", __path__=[])
    for each in (debugging.eager_mode, debugging.is_eager_mode, debugging.eager_mode_context):
        setattr(experimental, each.__name__, each)
    internal = _namespace("torch_xla._XLAC", _get_xla_tensors_hlo=debugging.tensors_hlo)
    amp = _namespace("torch_xla.amp", autocast=autocast, GradScaler=partial(torch.amp.GradScaler, "xla"), __path__=[])
    stablehlo = _namespace("torch_xla.stablehlo", exported_program_to_stablehlo=exported_program_to_stablehlo)
    top.__dict__.update(experimental=experimental, _XLAC=internal, amp=amp, stablehlo=stablehlo)
    for module in (
        top,
        core,
        xm,
        debug,
        met,
        distributed,
        pl,
        xmp,
        xla_backend,
        spmd,
        xr,
        experimental,
        internal,
        amp,
        stablehlo,
    ):
        _installed[module.__name__] = sys.modules[module.__name__] = module


_installed: dict[str, ModuleType] = {}
