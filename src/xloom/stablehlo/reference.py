"""Runs an HLO module on a backend of PJRT by jaxlib's client, as a reference: XLA:CPU, or another (extra `jax`)."""

from __future__ import annotations

import functools
import os
from collections.abc import Collection, Sequence
from typing import Any

import numpy as np

from xloom.errors import EvaluationError, MissingExtraError
from xloom.hlo.donation import donated_parameters
from xloom.hlo.module import Module

CPU = "cpu"
"""JAX's platform whose code is XLA:CPU's."""
_ASK = "is it xloom or the other that is wrong? `xloom run --compare interpreter` asks the interpreter"


def run_on_xla_cpu(module: Module, arguments: Sequence[Any]) -> list[np.ndarray]:
    """The results, flat. Raises MissingExtraError without jaxlib, EvaluationError when it does not take the module."""
    return run_by_pjrt(CPU, module, arguments)


def run_by_pjrt(backend: str, module: Module, arguments: Sequence[Any]) -> list[np.ndarray]:
    """The results, flat. `backend` is a platform of JAX's, or the path of a library that is a PJRT plugin.

    Raises as `run_on_xla_cpu`, and EvaluationError where there is no such backend.
    """
    return [np.asarray(r[0]) for r in compiled_by_pjrt(backend, module, arguments)()]


def compiled_by_xla_cpu(module: Module, arguments: Sequence[Any]) -> PjrtProgram:
    """The module, and arguments to run it on. Raises as `run_on_xla_cpu`."""
    return compiled_by_pjrt(CPU, module, arguments)


def compiled_by_pjrt(backend: str, module: Module, arguments: Sequence[Any]) -> PjrtProgram:
    """The module, and arguments to run it on. Raises as `run_by_pjrt`."""
    try:
        import jax
        from jax._src import compiler
        from jax._src.lib import _jax  # pyright: ignore[reportPrivateImportUsage]
        from jaxlib import _hlo  # pyright: ignore[reportAttributeAccessIssue]
    except ImportError as error:
        raise MissingExtraError(f"jaxlib is not installed ({error})", hint="pip install 'xloom[jax]'") from error
    name = "XLA:CPU" if backend == CPU else backend
    with jax.enable_x64(True):
        client = _client(backend)
        device = client.local_devices()[0]
        options = compiler.get_compile_options(num_replicas=1, num_partitions=1)
        try:
            proto = module.to_proto()
            computation = _hlo.XlaComputation(proto)
            program = _jax.mlir.xla_computation_to_mlir_module(computation)
            loaded = client.compile_and_load(program, _jax.DeviceList((device,)), options)
            leaves = [jax.device_put(np.asarray(a), device) for a in _leaves(arguments)]
            numbers = _leaves([_numbered(a, k) for k, a in enumerate(arguments)])
        except Exception as error:
            raise EvaluationError(f"{name} refuses this module: {str(error).splitlines()[0]}", hint=_ASK) from error

    donated = donated_parameters(module)
    return PjrtProgram(name, loaded, leaves, [k for k, number in enumerate(numbers) if number in donated])


class PjrtProgram:
    """A module that a backend has compiled, and arguments."""

    def __init__(self, backend: str, loaded: Any, arguments: list[Any], donated: Collection[int]):
        self._backend, self._loaded, self._arguments, self._donated = backend, loaded, arguments, donated

    def fresh_arguments(self) -> list[Any]:
        """The arguments for one run: copies of those that it takes the memory of."""
        import jax

        return jax.block_until_ready([a.copy() if k in self._donated else a for k, a in enumerate(self._arguments)])

    def __call__(self, arguments: list[Any] | None = None) -> list[list[Any]]:
        """Runs it until its results are there, on `fresh_arguments`. Raises EvaluationError where the backend fails."""
        import jax

        try:
            given = self.fresh_arguments() if arguments is None else arguments
            results = self._loaded.execute_sharded(given).disassemble_into_single_device_arrays()
            return jax.block_until_ready(results)
        except Exception as error:
            reason = str(error).splitlines()[0]
            raise EvaluationError(f"{self._backend} fails to run this module: {reason}", hint=_ASK) from error


@functools.cache
def _client(backend: str) -> Any:
    """One for each process: two of a plugin may not share a device."""
    from jax._src import xla_bridge
    from jaxlib import xla_client

    try:
        if os.sep not in backend:
            return xla_bridge.get_backend(backend)
        if not xla_client.pjrt_plugin_loaded(backend):
            xla_client.load_pjrt_plugin_dynamically(backend, backend)
        return xla_client.make_c_api_client(backend)
    except Exception as error:
        raise EvaluationError(
            f"there is no backend {backend!r}: {str(error).splitlines()[0]}",
            hint="JAX_PLATFORMS names the platforms of JAX that are there, as xloom,cpu; a path is a plugin's library",
        ) from error


def _leaves(values: Sequence[Any]) -> list[Any]:
    return [leaf for v in values for leaf in (_leaves(v) if isinstance(v, tuple) else [v])]


def _numbered(value: Any, number: int) -> Any:
    """The same, with a number in place of each array."""
    return tuple(_numbered(v, number) for v in value) if isinstance(value, tuple) else number
