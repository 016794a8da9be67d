"""The first five minutes of a stranger: each path of the README's table, in a clean environment, with a clock.

    make paths                       all
    make paths ONLY=jax,student WHEEL=dist/xloom-0.1.0-py3-none-any.whl

An environment has the wheel and the extra of its path alone. Seconds are of installing, and of each step with nothing
cached; a step fails unless it prints what it is to print.
"""

from __future__ import annotations

import argparse
import os
import re
import shutil
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import NamedTuple

ROOT = Path(__file__).parent.parent.parent
LIMIT = 300.0
"""Seconds of a path, installing included."""


class Walk(NamedTuple):
    """What somebody does first."""

    extra: str
    steps: tuple[tuple[str, str], ...]
    """Shell commands, each with a pattern of what it prints."""
    files: tuple[str, ...] = ()
    """Of the repository's examples, which they have copied."""


_JAX = """
import jax, jax.numpy as jnp
step = jax.jit(jax.value_and_grad(lambda w, x: jnp.mean(jnp.tanh(x @ w) ** 2)))
w, x = jnp.ones((64, 8)) / 64, jnp.ones((32, 64))
for _ in range(20):
    loss, gradient = step(w, x)
    w = w - gradient
print("loss", loss, "on", jax.devices()[0].client.platform_version)
"""
_TORCH = """
import torch
model = torch.nn.Sequential(torch.nn.Linear(64, 128), torch.nn.GELU(), torch.nn.Linear(128, 8))
compiled, optimizer = torch.compile(model, backend="xloom"), torch.optim.SGD(model.parameters(), 0.1)
x, y = torch.randn(32, 64), torch.randn(32, 8)
for _ in range(5):
    optimizer.zero_grad()
    loss = torch.nn.functional.mse_loss(compiled(x), y)
    loss.backward()
    optimizer.step()
print("trained", loss.item())
"""
_PYTHON_KERNEL = """
import numpy as np, xloom as xl
@xl.custom_call("clip_norm")
def clip_norm(out, x):
    out[:] = x / max(1.0, np.linalg.norm(x))
b = xl.Builder("uses_it")
x = b.parameter(xl.f32[4])
b.custom_call("clip_norm", [x], xl.f32[4])
print(xl.compile(b.build())(np.array([3, 4, 0, 0], np.float32)))
"""
_BACKEND = """
import numpy as np, xloom as xl
from xloom.cpu.runtime.executable import CompiledMemoryStats
from xloom.pjrt import Client, Compiler
class Counted:
    memory = CompiledMemoryStats(0, 0, 0, 0)
    def __init__(self, module): self.module, self.runs = module, 0
    def run(self, arguments, launch):
        self.runs += 1
        return xl.evaluate(self.module, *arguments)
    def rendezvous(self): pass
class CountingCompiler(Compiler):
    platform_name = device_kind = "counting"
    platform_version = "1"
    def compile(self, module): return Counted(module)
client = Client(CountingCompiler())
b = xl.Builder("double")
x = b.parameter(xl.f32[3])
b.add(x, x)
executable = client.compile(b.build())
(result,) = executable.execute([client.buffer_from_host(np.arange(3, dtype=np.float32))])
print("my device says", np.asarray(result), executable.executable.program.runs)
"""
_HLO = "mlp.hlo"
PATHS = {
    "jax": Walk("jax", ((f"XLOOM_AS_CPU=1 python -c '{_JAX}'", r"loss 0\.\d+ on [\s\S]*xloom"),)),
    "torch": Walk("torch", ((f"python -c '{_TORCH}'", r"trained \d"),)),
    "kernel-python": Walk("", ((f"python -c '{_PYTHON_KERNEL}'", r"\[0\.6 0\.8 0\.  0\. \]"),)),
    "kernel-c": Walk(
        "",
        (
            ("xloom run call.hlo --load do_custom_call.c", r"float32\[2048\]"),
            ("xloom run call.hlo --load do_custom_call.c --sanitize", r"float32\[2048\]"),
        ),
        ("do_custom_call.c",),
    ),
    "gpu-code": Walk(
        "",
        (
            (f"xloom opt --emit ptx --target sm_90a {_HLO}", r"\.entry"),
            (f"xloom opt --explain kernel --target sm_90a {_HLO}", "multiprocessor"),
            (f"xloom run {_HLO} --on emulator --compare interpreter", "equal to interpreter"),
        ),
        (_HLO,),
    ),
    "backend": Walk("", ((f"python -c '{_BACKEND}'", r"my device says \[0\. 2\. 4\.\] 1"),)),
    "compiler": Walk(
        "",
        (
            (f"xloom opt -p algebraic-simplification,cse,dce {_HLO}", "HloModule"),
            (f"xloom opt --emit schedule {_HLO}", "ENTRY"),
            (f"xloom opt --emit asm {_HLO}", "xloom_main"),
            (f"xloom show {_HLO}", r"\.html"),
            (f"xloom bench {_HLO} --repeats 3", "run"),
        ),
        (_HLO,),
    ),
    "student": Walk(
        "",
        (
            ("xloom ops reduce-window", "window"),
            (f"xloom run {_HLO} --on interpreter", r"float32\[4, 3\]"),
            (f"xloom run {_HLO} --compare interpreter", "equal to interpreter"),
        ),
        (_HLO,),
    ),
}
CALL = """HloModule call
ENTRY main {
  a = f32[128] parameter(0)
  b = f32[2048] parameter(1)
  ROOT c = f32[2048] custom-call(a, b), custom_call_target="do_custom_call", api_version=API_VERSION_ORIGINAL
}
"""


def walked(path: Walk, wheel: str, folder: Path) -> tuple[float, list[float]]:
    """Seconds of installing and of each step. Raises SystemExit where a step fails."""
    subprocess.run([sys.executable, "-m", "venv", str(folder / "venv")], check=True)
    python = folder / "venv" / "bin" / "python"
    named = f"{wheel}[{path.extra}]" if path.extra else wheel
    command = [str(python), "-m", "pip", "install", "--quiet", "--disable-pip-version-check", named]
    start = time.perf_counter()
    subprocess.run([*command, "--constraint", str(ROOT / "constraints.txt")], check=True)
    installed = time.perf_counter() - start
    for name in path.files:
        shutil.copy(ROOT / "examples" / name, folder)
    (folder / "call.hlo").write_text(CALL)
    environment = {k: v for k, v in os.environ.items() if not k.startswith(("PYTHON", "JAX_", "XLOOM_"))}
    environment |= {
        "PATH": f"{python.parent}:{environment['PATH']}",
        "XLOOM_CACHE_DIR": str(folder / "cache"),
    }
    seconds = []
    for step, pattern in path.steps:
        start = time.perf_counter()
        done = subprocess.run(
            ["bash", "-c", step], cwd=folder, env=environment, capture_output=True, text=True, check=False
        )
        seconds.append(time.perf_counter() - start)
        if done.returncode or not re.search(pattern, done.stdout):
            raise SystemExit(f"{step}\nexit status {done.returncode}\n{done.stdout[-2000:]}\n{done.stderr[-2000:]}")
    return installed, seconds


def built(folder: Path) -> str:
    """A wheel of this checkout."""
    command = [sys.executable, "-m", "build", "--wheel", "--outdir", str(folder), str(ROOT)]
    subprocess.run(command, check=True, capture_output=True)
    return str(next(folder.iterdir()))


def main() -> int:
    """Prints a line a path; 1 if one takes longer than five minutes."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--only", default="", help=f"paths, with commas between: {', '.join(PATHS)}")
    parser.add_argument("--wheel", default="", help="a wheel; else one is built")
    options = parser.parse_args()
    late = 0
    with tempfile.TemporaryDirectory() as name:
        wheel = str(Path(options.wheel).resolve()) if options.wheel else built(Path(name) / "wheel")
        for path in [p for p in options.only.split(",") if p] or PATHS:
            folder = Path(name) / path
            folder.mkdir()
            installed, seconds = walked(PATHS[path], wheel, folder)
            shutil.rmtree(folder)
            late += installed + sum(seconds) > LIMIT
            steps = " + ".join(f"{s:.1f}" for s in seconds)
            print(f"{path:14} installed in {installed:.0f} s, then {steps} s", flush=True)
    return bool(late)


if __name__ == "__main__":
    sys.exit(main())
