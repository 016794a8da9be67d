"""jaxlib's MLIR bindings, imported when they are first needed (extra `jax`)."""

from __future__ import annotations

import resource
import threading
from collections.abc import Callable
from dataclasses import dataclass
from functools import lru_cache
from typing import Any, TypeVar

from xloom.errors import MissingExtraError

T = TypeVar("T")

# MLIR recurses through nested regions, types and calls, and a stack overflow kills the process; what is not used of
# this costs nothing
_STACK_BYTES = 1 << 30
_SMALL, _STACK_PER_BYTE = 2048, 2048
"""Bytes of a program that the main thread's stack does for, and of the stack that each takes at most: measured 1270."""
_stack_size_lock = threading.Lock()


@dataclass(frozen=True)
class Bindings:
    """What we use of jaxlib."""

    version: str
    ir: Any
    stablehlo: Any
    new_context: Callable[[], Any]
    to_bytecode: Callable[[Any], bytes]
    to_computation: Callable[[bytes], Any]
    read_artifact: Callable[[Any, bytes], Any]
    run_passes: Callable[..., None]
    """Of a module a pipeline; with `verified=False` what it makes need not be valid."""

    def operations(self, operation: Any, *names: str) -> list[Any]:
        """Those inside `operation`, itself included, that have one of `names`; without names, all."""
        found: list[Any] = []

        def visit(inner: Any) -> Any:
            if not names or inner.name in names:
                found.append(inner.operation)
            return self.ir.WalkResult.ADVANCE

        operation.walk(visit)
        return found


@lru_cache(maxsize=1)
def load_bindings() -> Bindings:
    """jaxlib's modules. Raises MissingExtraError when jax is not installed."""
    try:
        from jax._src.interpreters import mlir as jax_mlir
        from jax._src.lib import _jax  # pyright: ignore[reportPrivateImportUsage]
        from jaxlib.mlir import ir, passmanager
        from jaxlib.mlir.dialects import stablehlo
        from jaxlib.version import __version__ as version
    except ImportError as error:
        raise MissingExtraError(
            f"StableHLO is read through jaxlib, which is not installed ({error})",
            hint="pip install 'xloom[jax]'",
        ) from error
    stablehlo.register_stablehlo_passes()

    def run_passes(module: Any, pipeline: str, *, verified: bool = True) -> None:
        passes = passmanager.PassManager.parse(pipeline)
        passes.enable_verifier(verified)
        passes.run(module.operation)

    return Bindings(
        version=version,
        ir=ir,
        stablehlo=stablehlo,
        new_context=jax_mlir.make_ir_context,
        to_bytecode=jax_mlir.module_to_bytecode,
        to_computation=_jax.mlir.mlir_module_to_xla_computation,
        read_artifact=stablehlo.deserialize_portable_artifact,
        run_passes=run_passes,
    )


def on_deep_stack(work: Callable[[], T], size: int) -> T:
    """`work()` on a program of `size` bytes, in a thread with a stack for deeply nested ones.

    A small one cannot be, and to begin a thread takes a fifth of its time.
    """
    if size <= _SMALL and threading.current_thread() is threading.main_thread() and _is_stack_deep():
        return work()
    outcome: list[T] = []
    failure: list[BaseException] = []

    def run() -> None:
        try:
            outcome.append(work())
        except BaseException as error:
            failure.append(error)

    with _stack_size_lock:  # the size is a setting of the process, for threads started from now on
        before = threading.stack_size(_STACK_BYTES)
        try:
            thread = threading.Thread(target=run, name="xloom-mlir")
            thread.start()
        finally:
            threading.stack_size(before)
    thread.join()
    if failure:
        raise failure[0]
    return outcome[0]


def _is_stack_deep() -> bool:
    """True where small programs take up to half of the main thread's stack."""
    bytes_, _ = resource.getrlimit(resource.RLIMIT_STACK)
    return bytes_ == resource.RLIM_INFINITY or bytes_ >= 2 * _SMALL * _STACK_PER_BYTE
