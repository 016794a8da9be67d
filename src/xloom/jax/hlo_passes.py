"""xloom's passes inside stock XLA, through the HLO-module transformation hook of JAX (`jax.extend.xla`).

XLA hands over each module after its own passes, fusion included, and before it schedules and emits it.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Sequence
from typing import Any

from xloom.errors import MissingExtraError
from xloom.hlo.proto.decoder import decode
from xloom.passes import Pass, PassRun, parse_pipeline, run_passes

_numbers = itertools.count()


class UsePasses:
    """Passes that XLA runs, from when this is made until `close`; also a context manager. See `use_passes`."""

    def __init__(self, passes: Sequence[Pass], platforms: Sequence[str], unfuse: bool, compare: bool):
        self.passes = list(passes)
        self.platforms = list(platforms)
        self.runs: list[tuple[str, list[PassRun]]] = []
        """What the passes did: the name of each module that XLA compiled, and a record a pass."""
        self._unfuse = unfuse
        self._compare = compare
        self._name = f"xloom-{next(_numbers)}"
        self._close: Callable[[], None] | None = _register(self._name, self._transform, self.platforms)

    def close(self) -> None:
        """Ends it; what was compiled meanwhile is compiled anew when it is called again."""
        if self._close is not None:
            self._close()
            self._close = None

    def __enter__(self) -> UsePasses:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def _transform(self, data: bytes) -> bytes | None:
        module = decode(data)
        if self._unfuse:
            run_passes(module, "fusion-inlining{custom=true},dce", verify=False)
        runs = run_passes(module, self.passes, compare=self._compare)
        self.runs.append((module.name, runs))
        # a module that the passes leave alone stays fused
        return module.to_proto() if any(run.changed for run in runs) else None


def use_passes(
    passes: str | Sequence[Pass],
    *,
    platforms: str | Sequence[str] = "cpu",
    unfuse: bool = True,
    compare: bool = False,
) -> UsePasses:
    """Makes XLA run `passes` over each module that it compiles for `platforms`.

    with xloom.jax.use_passes("outline{pattern=gelu,target=MyGelu}"):
        y = jax.jit(f)(x)

    `unfuse` takes XLA's fusions apart first, so that passes see operators; a module that they do not change stays as
    XLA fused it. `compare` checks values with the interpreter after each pass. Functions that are compiled already
    are compiled anew, and JAX's persistent compilation cache is off meanwhile, because it does not know of passes. An
    error in a pass ends the compilation, as JAX's error with the pass's message. Raises PassError for a malformed
    pipeline, MissingExtraError where JAX is absent or older than the hook (0.10.2).
    """
    pipeline = parse_pipeline(passes) if isinstance(passes, str) else passes
    return UsePasses(pipeline, [platforms] if isinstance(platforms, str) else platforms, unfuse, compare)


def _register(name: str, transform: Callable[[bytes], bytes | None], platforms: Sequence[str]) -> Callable[[], None]:
    """Registers with XLA; the function that undoes it."""
    try:
        import jax
        from jax.experimental.compilation_cache import compilation_cache
        from jax.extend import xla

        stage = xla.PipelineStage.PRE_SCHEDULER
    except (ImportError, AttributeError) as error:
        raise MissingExtraError("passes inside XLA need JAX 0.10.2 or newer", hint="pip install xloom[jax]") from error
    cached: Any = jax.config.values["jax_enable_compilation_cache"]

    def renew(cache: bool) -> None:
        jax.config.update("jax_enable_compilation_cache", cache)
        compilation_cache.reset_cache()
        jax.clear_caches()

    def close() -> None:
        xla.clear_hlo_module_transformation(name, stage, platforms)
        renew(cached)

    xla.register_hlo_module_transformation(transform, name=name, stage=stage, platforms=platforms)
    renew(False)
    return close
