"""Which versions of PyTorch xloom works with: its device is made of parts that change without notice."""

from __future__ import annotations

import re

import torch

from xloom.supported_package import SupportedPackage

OLDEST, NEWEST = (2, 13, 0), (2, 15, 0)
"""The first and the last release that is tested. Later ones are taken as long as they have what is reached into."""

REACHED_INTO = {
    "torch": "_register_device_module",
    "torch._C": """DispatchKey DispatchKeySet DisableTorchFunctionSubclass Generator
        _ExcludeDispatchKeyGuard _ForceDispatchKeyGuard _disabled_torch_function_impl
        _dispatch_has_kernel_for_dispatch_key _dispatch_tls_local_exclude_set _dispatch_tls_local_include_set
        _is_multithreading_enabled _set_multithreading_enabled""",
    "torch._C._acc": "DeviceGuard PrivateUse1Hooks register_python_privateuseone_hook",
    "torch._C._autograd": "DeviceType",
    "torch._decomp": "core_aten_decompositions decomposition_table get_decompositions register_decomposition",
    "torch._ops": "OpOverload",
    "torch._prims_common": "suggest_memory_format",
    "torch._utils": "_rebuild_device_tensor_from_cpu_tensor _rebuild_parameter _rebuild_tensor_v2",
    "torch.autograd.graph": "_engine_run_backward",
    "torch.optim.optimizer": "_foreach_supported_types register_optimizer_step_post_hook",
}
"""What is not PyTorch's public interface, by module."""


def check_version() -> None:
    """Raises UnsupportedError for a PyTorch that xloom does not work with; it says which of the two must change."""
    called = str(torch.__version__)
    found = tuple(int(number) for number in re.findall(r"\d+", called)[:3])
    SupportedPackage("PyTorch", "torch", OLDEST, NEWEST, REACHED_INTO).check(found, called)
