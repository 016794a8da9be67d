"""The examples run as they stand, and do what they say."""

import re
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent
EXAMPLES = ROOT / "examples"


def run(name: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run([sys.executable, EXAMPLES / name], capture_output=True, text=True, check=False)


def test_custom_call_in_c_and_python():
    done = run("custom_call.py")
    assert done.returncode == 0, done.stderr
    assert "kernel in C: equal to plain HLO" in done.stdout
    assert "kernel in Python: equal to plain HLO" in done.stdout


def test_carried_module_is_expanded():
    done = run("expand.py")
    assert done.returncode == 0, done.stderr
    before, after = (part for part in done.stdout.split("HloModule fused")[1:])
    assert "custom-call(" in before and "backend_config=" in before
    assert "custom-call(" not in after
    assert "%AddComputation.14.clone (" in after and "to_apply=%AddComputation.14.clone" in after
    assert "constant({1, 0, 0, 0, 0, 0, 0, 0, 0, 0})" in after
    assert "equal to the custom call" in after


def test_failure_stops_the_program():
    done = run("failure.py")
    assert done.returncode == 1
    assert done.stdout == ""
    assert "the square root of a negative number was asked for" in done.stderr
    assert re.search(r"%root, .*failure\.py:\d+", done.stderr)


@pytest.mark.parametrize(
    ("name", "framework"), [("train_on_systolic_array.py", "jax"), ("train_on_systolic_array_torch.py", "torch")]
)
def test_a_transformer_trains_on_a_systolic_array(name, framework):
    pytest.importorskip(framework)
    done = run(name)
    assert done.returncode == 0, done.stderr
    assert done.stdout.count("of the bound away") == 8
    assert "systolic.attention" in done.stdout and "systolic.gelu" in done.stdout
    heads, *_, sums, elapsed = [row.split() for row in done.stdout[done.stdout.index("cycles") :].splitlines()]
    assert heads[:6] == ["cycles", "share", "runs", "dma", "matrix", "vector"]
    assert int(sums[0]) == sum(map(int, sums[2:5])) > int(elapsed[0]) > 100_000


def test_a_program_is_called_from_c_and_cpp():
    done = run("export.py")
    assert done.returncode == 0, done.stderr
    _, *parts = re.split(r"\n(?=call_exported|Python)", done.stdout.strip())
    assert [part.split(":")[0] for part in parts] == ["call_exported.c", "call_exported.cpp", "Python"]
    assert len({part.split(":\n")[1] for part in parts}) == 1


def test_the_systolic_array_is_a_small_file():
    assert len((EXAMPLES / "systolic_array.py").read_text().splitlines()) < 100


@pytest.mark.parametrize(
    "page",
    [
        "README.md",
        "docs/architecture.md",
        "docs/backend-simulator.md",
        "docs/checks.md",
        "docs/cuda.md",
        "docs/custom-calls.md",
        "docs/debugging.md",
        "docs/errors.md",
        "docs/export.md",
        "docs/get-hlo.md",
        "docs/patterns.md",
        "docs/notebooks.md",
        "docs/show.md",
        "docs/write-a-backend.md",
        "docs/jax.md",
        "docs/pytorch.md",
        "docs/systolic-array.md",
    ],
)
def test_python_in_pages_runs(page):
    blocks = re.findall(r"```python\n(.*?)```", (ROOT / page).read_text(), re.S)
    assert blocks
    command = [sys.executable, "-W", "error", "-c", "\n".join(blocks)]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr


@pytest.mark.parametrize("page", ["architecture.md", "checks.md", "debugging.md", "errors.md", "get-hlo.md"])
def test_pages_show_what_their_code_prints(page):
    """An indented block below Python is what that prints."""
    text = (ROOT / "docs" / page).read_text()
    parts = re.findall(r"```python\n(.*?)```\n(?:\n((?:    [^\n]*\n)+))?", text, re.S)
    mark = "\x01"
    source = "".join(f"{code}\nprint({mark!r})\n" for code, _ in parts)
    done = subprocess.run([sys.executable, "-W", "error", "-c", source], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    printed = [[line.split() for line in part.strip().splitlines()] for part in done.stdout.split(mark)[:-1]]
    shown = [[line.split() for line in said.splitlines()] for _, said in parts]
    assert printed == shown
