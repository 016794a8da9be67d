"""xloom in the place of JAX's CPU: `XLOOM_AS_CPU=1`, or `install_as_cpu()` before JAX makes its devices."""

from __future__ import annotations

import re
from typing import Any

from xloom.environment import XLA_FLAGS
from xloom.errors import UnsupportedError
from xloom.jax.denormals import flushes_denormals
from xloom.jax.inherited_rules import CPU
from xloom.jax.registration import is_registered, register
from xloom.jax.versions import check_version

JAXLIB = "jaxlib"
"""The name that jaxlib's own CPU has then."""
_OF_THE_CPU = 0
_LAST = -1
_FORCED_COUNT = re.compile(r"--xla_force_host_platform_device_count=(\d+)")


def install_as_cpu() -> None:
    """Makes xloom JAX's platform `cpu`; jaxlib's own is `jax.devices("jaxlib")` from then on.

    Nothing happens if it is so already. Raises UnsupportedError when JAX has made its devices before.
    """
    if is_registered(CPU):
        return
    check_version()
    from jax._src import xla_bridge
    from jax._src.xla_bridge import BackendRegistration, _backend_factories, _backends

    if _backends:
        raise UnsupportedError(
            "JAX has made its devices already, which use jaxlib's CPU",
            hint="call xloom.jax.install_as_cpu() before anything asks JAX for arrays or devices, or set XLOOM_AS_CPU",
        )
    theirs = xla_bridge.make_cpu_client
    _backend_factories[JAXLIB] = BackendRegistration(theirs, _LAST, fail_quietly=True)
    register(CPU, _options, _OF_THE_CPU)


def _options() -> dict[str, Any]:
    """What a client is made with: as many devices as jaxlib would make, of programs that flush denormals as its do,
    unless the environment has them kept."""
    import jax

    asked = getattr(jax.config, "jax_num_cpu_devices")  # noqa: B009 - made at run time
    forced = _FORCED_COUNT.findall(XLA_FLAGS.text)
    count = asked if asked >= 0 else forced[-1] if forced else None
    own = {"platform_name": CPU, "flushes_denormals": flushes_denormals(by_itself=True)}
    return own if count is None else {**own, "num_devices": int(count)}
