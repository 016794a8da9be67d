"""`jax.extend.xla`: functions from serialised HLO to serialised HLO, run over what is compiled on our platforms too."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from xloom.hlo.module import Module
from xloom.hlo.proto.decoder import decode
from xloom.jax.inherited_rules import CPU, is_ours
from xloom.pjrt.transformations import register_transformation

_Transform = Callable[[bytes], bytes | None]

INLINED = "call-inlining,dce"
"""What passes see of a module is what JAX lowers without its calls."""

_ends: dict[tuple[str, str, int], list[Callable[[], None]]] = {}
"""What takes a transform away again, by platform, name and stage."""
_platforms: set[str] = set()


def take_transforms(platform: str) -> None:
    """Has JAX tell of them for the platform, from 0.10.2 on."""
    import jaxlib

    _xla: Any = getattr(jaxlib, "_xla", None)
    if not hasattr(_xla, "register_xla_transform"):
        return
    _platforms.add(platform)
    if len(_platforms) > 1:
        return
    in_process, clear_in_process = _xla.register_xla_transform, _xla.clear_xla_transform
    by_client, clear_by_client = _xla.register_xla_transform_c_api, _xla.clear_xla_transform_c_api

    def register(name: str, stage: int, transform: _Transform) -> None:
        in_process(name, stage, transform)
        if CPU in _platforms:
            _add(CPU, name, stage, transform)

    def clear(name: str, stage: int) -> bool:
        return bool(clear_in_process(name, stage)) | _clear(CPU, name, stage)

    def register_by_client(client: Any, name: str, stage: int, transform: _Transform) -> None:
        if not _is_ours(client):
            by_client(client, name, stage, transform)
        elif client.platform != CPU:  # which was told above
            _add(client.platform, name, stage, transform)

    def clear_client(client: Any, name: str, stage: int) -> bool:
        return _clear(client.platform, name, stage) if _is_ours(client) else clear_by_client(client, name, stage)

    _xla.register_xla_transform, _xla.clear_xla_transform = register, clear
    _xla.register_xla_transform_c_api, _xla.clear_xla_transform_c_api = register_by_client, clear_client


def _is_ours(client: Any) -> bool:
    return client.platform in _platforms and is_ours(client, client.platform)


def _add(platform: str, name: str, stage: int, transform: _Transform) -> None:
    def run(module: Module) -> Module:
        from xloom.passes import run_passes  # which few processes need

        run_passes(module, INLINED, verify=False)
        changed = transform(module.to_proto())
        return module if changed is None else decode(changed)

    _ends.setdefault((platform, name, stage), []).append(register_transformation(platform, run))


def _clear(platform: str, name: str, stage: int) -> bool:
    ends = _ends.pop((platform, name, stage), [])
    for end in ends:
        end()
    return bool(ends)
