"""`import xloom` stays light."""

import subprocess
import sys

HEAVY = ("jax", "jaxlib", "torch", "google.protobuf", "click", "rich", "llvmlite", "scipy", "cffi", "numba")


def test_import_brings_in_nothing_heavy():
    code = f"import sys, xloom; print([m for m in {HEAVY!r} if m in sys.modules])"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"


def test_public_names_exist():
    code = "import xloom; [getattr(xloom, n) for n in xloom.__all__]"
    subprocess.run([sys.executable, "-W", "error", "-c", code], check=True)


def test_a_client_brings_in_no_compiler():
    """What was compiled before is found without it."""
    code = "import sys, xloom.pjrt; print([m for m in sys.modules if m in ('xloom.cpu.lower', 'xloom.cpu.entry.function')])"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"
