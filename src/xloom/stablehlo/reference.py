"""Runs an HLO module on jaxlib's XLA:CPU, as a reference (extra `jax`)."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from xloom.errors import EvaluationError, MissingExtraError
from xloom.hlo.module import Module


def run_on_xla_cpu(module: Module, arguments: Sequence[Any]) -> list[np.ndarray]:
    """The results, flat. Raises MissingExtraError without jaxlib, EvaluationError when it does not take the module."""
    return [np.asarray(r[0]) for r in compiled_by_xla_cpu(module, arguments)()]


def compiled_by_xla_cpu(module: Module, arguments: Sequence[Any]) -> Callable[[], list[list[Any]]]:
    """A run of the module, which returns when its results are there. Raises as `run_on_xla_cpu`."""
    try:
        import jax
        from jax._src import compiler, xla_bridge
        from jax._src.lib import _jax  # pyright: ignore[reportPrivateImportUsage]
        from jaxlib import _hlo  # pyright: ignore[reportAttributeAccessIssue]
    except ImportError as error:
        raise MissingExtraError(f"jaxlib is not installed ({error})", hint="pip install 'xloom[jax]'") from error
    with jax.enable_x64(True):
        client = xla_bridge.get_backend("cpu")
        device = client.local_devices()[0]
        options = compiler.get_compile_options(num_replicas=1, num_partitions=1)
        try:
            proto = module.to_proto()
            computation = _hlo.XlaComputation(proto)
            program = _jax.mlir.xla_computation_to_mlir_module(computation)
            loaded = client.compile_and_load(program, _jax.DeviceList((device,)), options)
            leaves = [jax.device_put(np.asarray(a), device) for a in _leaves(arguments)]
        except Exception as error:
            raise EvaluationError(f"XLA:CPU refuses this module: {str(error).splitlines()[0]}") from error

    def run() -> list[list[Any]]:
        try:
            results = loaded.execute_sharded(leaves).disassemble_into_single_device_arrays()
            return jax.block_until_ready(results)
        except Exception as error:
            raise EvaluationError(f"XLA:CPU fails to run this module: {str(error).splitlines()[0]}") from error

    return run


def _leaves(values: Sequence[Any]) -> list[Any]:
    return [leaf for v in values for leaf in (_leaves(v) if isinstance(v, tuple) else [v])]
