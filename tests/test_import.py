"""`import xloom` stays light."""

import os
import subprocess
import sys
from importlib import import_module

import pytest

HEAVY = ("jax", "jaxlib", "torch", "google.protobuf", "click", "rich", "llvmlite", "scipy", "cffi", "numba")


def test_import_brings_in_nothing_heavy():
    code = f"import sys, xloom; print([m for m in {HEAVY!r} if m in sys.modules])"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"


def test_public_names_exist():
    code = "import xloom; [getattr(xloom, n) for n in xloom.__all__]"
    subprocess.run([sys.executable, "-W", "error", "-c", code], check=True)


@pytest.mark.parametrize("package", ["calls", "calls.typed_ffi", "interpreter", "passes", "pjrt"])
def test_names_that_are_imported_when_they_are_asked_for_exist(package: str):
    module = import_module(f"xloom.{package}")
    assert all(hasattr(module, name) for name in module.__all__)


def test_a_client_brings_in_no_compiler():
    """What was compiled before is found without it."""
    code = "import sys, xloom.pjrt; print([m for m in sys.modules if m in ('xloom.cpu.lower', 'xloom.cpu.entry.function')])"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"


def loaded_by_compiling(modules: tuple[str, ...], **environment: str) -> str:
    """Those of the modules that another process has when it has compiled a sum, as a list's text."""
    code = (
        "import sys, xloom as xl\n"
        "xl.compile(xl.parse('HloModule m ENTRY e { p = f32[7,3] parameter(0) ROOT r = f32[7,3] add(p, p) }'))\n"
        f"print([m for m in {modules!r} if m in sys.modules])"
    )
    env = {**os.environ, **environment}
    done = subprocess.run([sys.executable, "-c", code], env=env, capture_output=True, text=True, check=True)
    return done.stdout.strip()


def test_a_program_without_calls_is_compiled_without_what_makes_calls_and_with_few_passes():
    few_need = ("xloom.calls.host", "xloom.calls.typed_ffi.call_site", "xloom.passes.every_pass", "xloom.passes.expand")
    assert loaded_by_compiling(few_need, XLOOM_CACHE="0") == "[]"


def test_a_program_compiled_before_brings_in_neither_passes_nor_what_makes_kernels_of_c():
    heavy = (
        "xloom.passes.dynamic_padding",
        "xloom.interpreter.evaluator",
        "xloom.hlo.verify",
        "xloom.calls.c_compiler",
    )
    first, second = (loaded_by_compiling(heavy) for _ in range(2))
    assert second == "[]", first
