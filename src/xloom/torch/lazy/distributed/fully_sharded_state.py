"""Whole parameters of FullyShardedDataParallel that are asked for on the host are parameters of a copy there meanwhile.

torch has the module's own parameters become tensors of the host, which those of the device cannot.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from functools import wraps
from typing import Any

import torch
from torch.nn import Parameter

from xloom.torch.lazy.runtime.late_imports import when_imported
from xloom.torch.lazy.tensor.tensor import XlaTensor


def register() -> None:
    """Has them be so, also if FullyShardedDataParallel is imported later."""
    when_imported("torch.distributed.fsdp._flat_param", _copy)


def _copy(module: Any) -> None:
    own = module.FlatParamHandle.to_cpu

    @contextmanager
    @wraps(own)
    def to_cpu(self: Any) -> Iterator[None]:
        with _on_host(self) if isinstance(self.flat_param, XlaTensor) else own(self):
            yield

    module.FlatParamHandle.to_cpu = to_cpu


@contextmanager
def _on_host(handle: Any) -> Iterator[None]:
    """Views of the flat parameter are those of its copy, which is written back."""
    whole, views = handle.flat_param, handle._get_unflat_views
    host = whole.detach().cpu()
    handle._get_unflat_views = lambda tensor=host: views(tensor)
    try:
        if handle._use_orig_params:  # otherwise torch makes parameters of the views
            _register(handle)
        yield
    finally:
        handle._get_unflat_views = views
        with torch.no_grad():
            whole.copy_(host)
        handle._use_unsharded_views(as_params=handle._use_orig_params)


def _register(handle: Any) -> None:
    """Has the modules show others in place of their own parameters, which keep what they are."""
    whole = handle.flat_param
    for view, (name, module, _), own in zip(handle._get_unflat_views(), whole._param_infos, whole._params, strict=True):
        handle._setattr_param(module, name, Parameter(view, requires_grad=own.requires_grad))
    for name, module, _, first_name, first_module, _ in whole._shared_param_infos:
        handle._setattr_param(module, name, getattr(first_module, first_name))
