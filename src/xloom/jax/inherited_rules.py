"""Where JAX knows platforms by name: what it does for the CPU it does for ours."""

from __future__ import annotations

from collections import ChainMap
from typing import Any

CPU = "cpu"
"""JAX's platform of that name, whose place xloom can take."""


class AsCpu:
    """A backend that passes for the CPU's."""

    platform = "cpu"

    def __init__(self, backend: Any):
        self._backend = backend

    def __getattr__(self, name: str) -> Any:
        return getattr(self._backend, name)


def is_ours(backend: Any, platform: str) -> bool:
    """Whether a client of JAX's is one of ours under that name, which may be the one that jaxlib's own has too."""
    return backend.platform == platform and backend.platform_version.startswith("PJRT C API")


def inherit_lowerings(platform: str) -> None:
    """Gives the platform the CPU's lowering rules, those of the future too, its branches, and donation."""
    from jax._src.interpreters import mlir
    from jax._src.lax.control_flow import conditionals

    rules: Any = mlir._platform_specific_lowerings
    rules[platform] = ChainMap(rules[platform], rules["cpu"])
    mlir._platforms_with_donation.append(platform)

    # of `lax.platform_dependent`
    choose, branch = conditionals._platform_index_lowering, conditionals._cond_lowering

    def platform_index(context: Any, *, platforms: Any) -> Any:
        return choose(context, platforms=_with_cpu(platforms, platform))

    def cond(context: Any, *arguments: Any, branches_platforms: Any = None, **options: Any) -> Any:
        names = branches_platforms and _with_cpu(branches_platforms, platform)
        return branch(context, *arguments, branches_platforms=names, **options)

    mlir.register_lowering(conditionals.platform_index_p, platform_index, platform=platform)
    mlir.register_lowering(conditionals.cond_p, cond, platform=platform)


def _with_cpu(branches: Any, platform: str) -> Any:
    """The platforms of each branch; the CPU's is ours too, unless there is one of our own."""
    if any(platform in names for names in branches if names):
        return branches
    return tuple((*names, platform) if names and "cpu" in names else names for names in branches)


def use_compilation_cache(platform: str) -> None:
    """Lets JAX keep the platform's executables in its persistent compilation cache."""
    from jax._src import compilation_cache

    is_used = compilation_cache.is_cache_used

    def is_cache_used(backend: Any) -> bool:
        return is_used(AsCpu(backend) if backend.platform == platform else backend)

    compilation_cache.is_cache_used = is_cache_used
