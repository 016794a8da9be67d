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


def test_a_program_compiled_before_brings_in_neither_passes_nor_what_makes_kernels_of_c():
    heavy = (
        "xloom.passes.dynamic_padding",
        "xloom.interpreter.evaluator",
        "xloom.hlo.verify",
        "xloom.calls.c_compiler",
    )
    code = (
        "import sys, xloom as xl\n"
        "xl.compile(xl.parse('HloModule m ENTRY e { p = f32[7,3] parameter(0) ROOT r = f32[7,3] add(p, p) }'))\n"
        f"print([m for m in {heavy!r} if m in sys.modules])"
    )
    first, second = (
        subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout
        for _ in range(2)
    )
    assert second.strip() == "[]", first
