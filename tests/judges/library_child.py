"""A process that runs tests of a library's own suite, for libraries.py: `library_child.py IDS OUT DOOR SIDE FILE...`.

It runs in the checkout. Writes JSON lines to OUT: each test when it starts, and its verdict; `unused` is what passed on
xloom without a program of ours. With no IDS it lists the tests of the files instead.
"""

import json
import os
import random
import sys
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from suite_reporter import Reporter

NO_OPTIONS_OF_THEIRS = ["-o", "addopts=", "-o", "xfail_strict=false", "--rootdir=.", "-W", "ignore", "-p", "no:xdist"]


def compilations() -> Callable[[], Any]:
    """What changes where JAX compiles."""
    import jax

    events: Counter[str] = Counter()
    jax.monitoring.register_event_duration_secs_listener(lambda event, *_, **__: events.update([event]))
    return lambda: sum(count for event, count in events.items() if "backend_compile" in event)


def make_default_platform_ours() -> None:
    """What suites set for the CPU holds for the platform."""
    import jax

    update = type(jax.config).update

    def update_ours(config: Any, name: str, value: Any) -> None:
        if name == "jax_platform_name" and value == "cpu":
            return
        if name == "jax_num_cpu_devices":
            os.environ["XLOOM_NUM_DEVICES"] = str(value)
        update(config, name, value)

    type(jax.config).update = update_ours  # type: ignore[method-assign]


class SeedsAreTheSame:
    """Both sides draw the same numbers from generators of the process, whatever has run before."""

    def pytest_collectstart(self) -> None:
        """Modules draw when they are imported."""
        random.seed(0)
        np.random.seed(0)
        if torch := sys.modules.get("torch"):
            torch.manual_seed(0)

    def pytest_runtest_setup(self) -> None:
        """And so do tests."""
        self.pytest_collectstart()


class PlatformIsKnown:
    """MuJoCo XLA knows its implementation for `cpu`, `gpu` and `tpu` by name: the platform has that of all three."""

    def pytest_collection_finish(self) -> None:
        """The library is imported by then."""
        module = sys.modules.get("mujoco.mjx._src.io")
        if module is not None:
            vars(module)["_resolve_impl"] = lambda device: vars(module)["types"].Impl.JAX


class DeviceIsOurs:
    """Gives suites of torch libraries the device for the CPU, where they choose one."""

    def pytest_collection_finish(self) -> None:
        """The suites' own modules are imported by then."""
        import torch

        for module in list(sys.modules.values()):
            if isinstance(devices := vars(module).get("TEST_DEVICES"), dict):  # kornia's
                devices["cpu"] = torch.device("xla")
            if "_select_rand_best_device" in vars(module):  # torchmetrics'
                vars(module)["_select_rand_best_device"] = lambda: "xla"


def main() -> int:
    """Runs or lists them."""
    ids, out, door, side, *files = sys.argv[1:]
    sys.path.pop(0)
    traces: Callable[[], Any] | None = None
    plugins: list[Any] = [SeedsAreTheSame()]
    if side != "cpu" and door == "jax":
        traces = compilations()
        if side == "xloom":
            make_default_platform_ours()
            plugins.append(PlatformIsKnown())
    elif side == "xloom":
        import xloom.torch  # noqa: F401 - makes the device
        from xloom.torch.metrics import METRICS

        traces = lambda: repr(METRICS)  # noqa: E731
        plugins.append(DeviceIsOurs())
    chosen = json.loads(Path(ids).read_text()) if ids else None
    plugins.append(Reporter(chosen, Path(out), traces=traces))
    if chosen is not None:
        files = list(dict.fromkeys(name.partition("::")[0] for name in chosen))
    options = ["-q", "--tb=short", "-p", "no:cacheprovider", "--continue-on-collection-errors", *NO_OPTIONS_OF_THEIRS]
    return pytest.main([*options, *([] if ids else ["--collect-only"]), *files], plugins=plugins)


if __name__ == "__main__":
    sys.exit(main())
