"""xloom's passes over the modules that JAX compiles: inside stock XLA, and on platforms of xloom's own.

Stock XLA has a hook (`jax.extend.xla`): it hands over each module after its own passes, fusion included, and before it
schedules and emits it. Platforms of xloom's run the passes over what JAX lowers, calls inlined, before all others.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Sequence
from typing import Any

from xloom.errors import MissingExtraError, UnsupportedError
from xloom.hlo.module import Module
from xloom.hlo.proto.decoder import decode
from xloom.jax.registration import is_registered
from xloom.jax.xla_transforms import INLINED
from xloom.passes import Pass, PassRun, parse_pipeline, run_passes
from xloom.pjrt.transformations import register_transformation

_UNFUSED = "fusion-inlining{custom=true},dce"
_numbers = itertools.count()


class UsePasses:
    """Passes that run from when this is made until `close`; also a context manager. See `use_passes`."""

    def __init__(self, passes: Sequence[Pass], platforms: Sequence[str], unfuse: bool, compare: bool):
        self.passes = list(passes)
        self.platforms = list(platforms)
        self.runs: list[tuple[str, list[PassRun]]] = []
        """What the passes did: the name of each module that was compiled, and a record a pass."""
        self._unfuse = unfuse
        self._compare = compare
        ours = [platform for platform in self.platforms if is_registered(platform)]
        others = [platform for platform in self.platforms if platform not in ours]
        ends = [_register(f"xloom-{next(_numbers)}", self._in_xla, others)] if others else []
        ends += [register_transformation(platform, self._of_ours) for platform in ours]
        self._ends: list[Callable[[], object]] = [*ends, _without_caches()]

    def close(self) -> None:
        """Ends it; what was compiled meanwhile is compiled anew when it is called again."""
        while self._ends:
            self._ends.pop(0)()

    def __enter__(self) -> UsePasses:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def _in_xla(self, data: bytes) -> bytes | None:
        module = decode(data)
        if self._unfuse:
            run_passes(module, _UNFUSED, verify=False)
        # a module that the passes leave alone stays fused
        return module.to_proto() if self._changed(module) else None

    def _of_ours(self, module: Module) -> Module:
        run_passes(module, INLINED, verify=False)
        self._changed(module)
        return module

    def _changed(self, module: Module) -> bool:
        runs = run_passes(module, self.passes, compare=self._compare)
        self.runs.append((module.name, runs))
        return any(run.changed for run in runs)


def use_passes(
    passes: str | Sequence[Pass],
    *,
    platforms: str | Sequence[str] = (),
    unfuse: bool = True,
    compare: bool = False,
) -> UsePasses:
    """Runs `passes` over each module that is compiled for `platforms`, by default JAX's default one.

    with xloom.jax.use_passes("outline{pattern=gelu,target=MyGelu}"):
        y = jax.jit(f)(x)

    These may be stock XLA's, xloom's, and those of `register_backend`. Of nested ones, each sees what outer ones have
    made. `unfuse` takes XLA's fusions apart first, so that passes see operators; a module that they do not change stays
    as XLA fused it. `compare` checks values with the interpreter after each pass. Functions that are compiled already
    are compiled anew, and JAX's persistent compilation cache is off meanwhile, because it does not know of passes. An
    error in a pass ends the compilation, as JAX's error with the pass's message. Raises PassError for a malformed
    pipeline, UnsupportedError when JAX has none of the platforms, MissingExtraError where JAX is absent or, for stock
    XLA, older than the hook (0.10.2).
    """
    pipeline = parse_pipeline(passes) if isinstance(passes, str) else passes
    return UsePasses(pipeline, _known([platforms] if isinstance(platforms, str) else platforms), unfuse, compare)


def _known(platforms: Sequence[str]) -> Sequence[str]:
    try:
        import jax
    except ImportError as error:
        raise MissingExtraError("passes in JAX need JAX", hint="pip install xloom[jax]") from error
    if not platforms:
        return [jax.default_backend()]
    if not any(map(_is_present, platforms)):
        raise UnsupportedError(
            f"JAX has no platform {' or '.join(map(repr, platforms))}",
            hint=f"the default one is {jax.default_backend()!r}; JAX_PLATFORMS=xloom makes it xloom's",
        )
    return platforms


def _is_present(platform: str) -> bool:
    import jax

    try:
        return bool(jax.devices(platform))
    except RuntimeError:
        return False


def _register(name: str, transform: Callable[[bytes], bytes | None], platforms: Sequence[str]) -> Callable[[], object]:
    """Registers with XLA; the function that undoes it."""
    try:
        from jax.extend import xla

        stage = xla.PipelineStage.PRE_SCHEDULER
    except (ImportError, AttributeError) as error:
        raise MissingExtraError("passes inside XLA need JAX 0.10.2 or newer", hint="pip install xloom[jax]") from error
    xla.register_hlo_module_transformation(transform, name=name, stage=stage, platforms=platforms)
    return lambda: xla.clear_hlo_module_transformation(name, stage, platforms)


def _without_caches() -> Callable[[], object]:
    """JAX forgets what it has compiled, and keeps nothing; the function that undoes it forgets that, too."""
    import jax
    from jax.experimental.compilation_cache import compilation_cache

    cached: Any = jax.config.values["jax_enable_compilation_cache"]

    def renew(cache: bool) -> None:
        jax.config.update("jax_enable_compilation_cache", cache)
        compilation_cache.reset_cache()
        jax.clear_caches()

    renew(False)
    return lambda: renew(cached)
