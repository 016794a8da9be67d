"""A process that runs tests of torch's suites on one side, for torch_suites.py: `torch_child.py FILE IDS OUT SIDE`.

With the word `default` after these, tests make their tensors on that side's device where they name none.

Writes JSON lines to OUT: each test when it starts, and its verdict. With no IDS it lists the tests instead. Tests have
names without a device, the same on both sides. A test of the side `xla` in which nothing used the device has the
verdict `unused`.
"""

import json
import re
import sys
from collections.abc import Callable
from functools import partial
from importlib import import_module
from importlib.machinery import ModuleSpec
from pathlib import Path
from types import FunctionType, ModuleType
from typing import Any

import pytest
from suite_reporter import Reporter

VENDOR = "torch_npu"


class Missing:
    """Part of a package that is not here: an error that names it wherever it is used."""

    def __init__(self, name: str):
        self.__name__ = name

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__"):
            raise AttributeError(name)
        return Missing(f"{self.__name__}.{name}")

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        if len(args) == 1 and isinstance(args[0], FunctionType):  # a decorator: what it makes fails when it is called
            return lambda *_, **__: self()
        raise NotImplementedError(f"not offered: {self.__name__}")

    def __mro_entries__(self, bases: Any) -> Any:
        return (object,)


def _missing_of(module: str, name: str) -> Missing:
    if name.startswith("__"):
        raise AttributeError(name)
    return Missing(f"{module}.{name}")


class StandIns:
    """Finds modules of packages that are not here."""

    def __init__(self, *packages: str):
        self.packages = packages

    def find_spec(self, name: str, path: Any = None, target: Any = None) -> ModuleSpec | None:
        """Any module of them."""
        return ModuleSpec(name, self, is_package=True) if name.partition(".")[0] in self.packages else None  # type: ignore

    def create_module(self, spec: ModuleSpec) -> ModuleType:
        """An empty one, whose members are missing."""
        module = ModuleType(spec.name)

        module.__getattr__ = partial(_missing_of, spec.name)  # type: ignore[method-assign]
        return module

    def exec_module(self, module: ModuleType) -> None:
        """Nothing to run."""


def stand_in_for_vendor(side: str) -> None:
    """The vendor's package: its device's module is ours, its test case torch's."""
    import torch
    from torch.testing._internal import common_utils

    vendor = import_module(VENDOR)
    setattr(vendor, side, getattr(torch, side))
    if side == "cpu":
        torch.cpu.get_device_name = lambda device=None: "cpu"  # type: ignore[attr-defined]
        torch.cpu.is_bf16_supported = lambda: True  # type: ignore[attr-defined]
    case = import_module(f"{VENDOR}.testing.testcase")
    case.TestCase, case.run_tests = VendorTestCase.made(), common_utils.run_tests  # type: ignore[attr-defined]
    supported = import_module(f"{VENDOR}.testing.common_utils")
    supported.SupportedDevices = lambda names: lambda function: function  # type: ignore[attr-defined]
    import_module("url").get_url = lambda name: name  # type: ignore[attr-defined]


class VendorTestCase:
    """torch's TestCase with the assertion that vendors add to it."""

    @staticmethod
    def made() -> type:
        """The class; torch's test utilities are imported by then."""
        from torch.testing._internal.common_utils import TestCase

        class Case(TestCase):
            def assertRtolEqual(self, x: Any, y: Any, prec: float = 1e-4, prec16: float = 1e-3) -> None:
                self.assertEqual(x, y, rtol=prec, atol=prec)

        return Case


def stand_in_for_parts_of_torch_xla() -> None:
    """Its tests' own utilities; members that we do not offer say so when they are used."""
    import torch_xla_utilities

    for name, module in list(sys.modules.items()):
        if name.partition(".")[0] == "torch_xla":
            module.__getattr__ = partial(_missing_of, name)  # type: ignore[method-assign]
    sys.modules["torch_xla.utils.utils"] = import_module("torch_xla.utils").utils = torch_xla_utilities  # type: ignore


def names_of_later_versions() -> None:
    """What suites of the next versions import, where this one has it under another name."""
    for module, later, now in (
        ("common_methods_invocations", "binary_ufuncs_and_refs", "binary_ufuncs"),
        ("common_utils", "skipIfMps", "skipIfMPS"),
    ):
        where: Any = import_module(f"torch.testing._internal.{module}")
        setattr(where, later, getattr(where, now))


def open_to_all_devices(side: str) -> None:
    """Every test that is made for devices is made for this side's, with the CPU's dtypes."""
    from torch.testing._internal import common_device_type as made

    instantiate = made.instantiate_device_type_tests
    base = "privateuse1" if side == "xla" else side

    def instantiate_here(generic: Any, scope: Any, *args: Any, **kwargs: Any) -> None:
        instantiate(generic, scope, only_for=(base,))

    made.instantiate_device_type_tests = instantiate_here
    for mark in ("onlyPRIVATEUSE1", "skipXLA", "expectedFailureXLA"):  # they speak of others' devices
        setattr(made, mark, lambda function: function)
    if side == "xla":
        made.PrivateUse1TestBase.setUpClass()  # the name of the device comes with it
        made.PrivateUse1TestBase._get_dtypes = classmethod(_dtypes_of_cpu)  # type: ignore[assignment]


def _dtypes_of_cpu(cls: Any, test: Any) -> Any:
    dtypes = getattr(test, "dtypes", None)
    return dtypes and dtypes.get("cpu", dtypes["all"])


def name_of(side: str) -> Callable[[str], str]:
    """A test's name without the device."""
    suffix, word = re.compile(rf"{side.upper()}$"), re.compile(rf"(.*_){side}(?=_|$|\[)")  # the last one

    def name(nodeid: str) -> str:
        file, *classes, test = nodeid.split("::")
        return "::".join([file, *(suffix.sub("", c) for c in classes), word.sub(r"\1device", test)])

    return name


def main() -> int:
    """Runs or lists them."""
    file, ids, out, side, *by_default = sys.argv[1:]
    sys.meta_path.append(StandIns(VENDOR, "url", "torch_xla"))  # type: ignore[arg-type]
    traces = None
    if side == "xla":
        import xloom.torch
        from xloom.torch.metrics import METRICS

        xloom.torch.install_as_torch_xla()
        stand_in_for_parts_of_torch_xla()
        traces = lambda: repr(METRICS)  # noqa: E731
    stand_in_for_vendor(side)
    names_of_later_versions()
    open_to_all_devices(side)
    if by_default:
        import torch

        torch.set_default_device(side)
    sys.path.insert(0, str(Path.cwd()))  # where suites have what they share
    chosen = json.loads(Path(ids).read_text()) if ids else None
    reporter = Reporter(chosen, Path(out), name_of(side), traces)
    options = ["-q", "--tb=short", "-p", "no:cacheprovider", "-W", "ignore"]
    return pytest.main([*options, *([] if ids else ["--collect-only"]), file], plugins=[reporter])


if __name__ == "__main__":
    sys.exit(main())
