"""Kernels of the pages that stand for operators compute what these do, on other values than the pages'."""

import re
import subprocess
import sys
from pathlib import Path

import pytest

DOCS = Path(__file__).parent.parent / "docs"
BEFORE = """
import xloom.passes
import xloom.passes.outline

def outline_and_keep(module, *arguments, outline=xloom.passes.outline.outline_pattern, **options):
    done = outline(module, *arguments, **options)
    if done.found:
        OUTLINED.append(module.clone(""))
    return done

OUTLINED = []
xloom.passes.outline_pattern = xloom.passes.outline.outline_pattern = outline_and_keep
"""
AFTER = """
from xloom.calls.registry import registered
from xloom.interpreter.samples import random_arguments
from xloom.testing import check_call

agree = set()
for module in OUTLINED:
    targets = {i["custom_call_target"] for i in module.instructions if i.opcode == "custom-call"}
    for platform in {r.platform for r in registered() if r.name in targets}:
        report = check_call(module, *random_arguments(module, 1), platform=platform)
        agree |= {(call.target, platform) for call in report.calls}
print("agree:", sorted(agree))
"""
KERNELS = {
    "backend-simulator.md": [("ToyGelu", "toy")],
    "jax.md": [("page.softmax", "Host")],
    "patterns.md": [("Leaky", "Host"), ("MyAttention", "Host"), ("TypedLeaky", "Host")],
    "pytorch.md": [("page.gelu", "Host")],
}


@pytest.mark.parametrize("page", KERNELS)
def test_kernels_of_pages_compute_what_they_stand_for(page):
    blocks = re.findall(r"```python\n(.*?)```", (DOCS / page).read_text(), re.S)
    source = "\n".join([BEFORE, *blocks, AFTER])
    done = subprocess.run([sys.executable, "-c", source], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    assert done.stdout.splitlines()[-1] == f"agree: {KERNELS[page]}"
