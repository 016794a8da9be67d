"""What strangers install: wheel and source distribution, built twice, and installed into clean environments.

    make judge-wheel                     bare, jax, torch, mpi and cuda
    make judge-wheel ONLY=bare,jax

Both must have the same bytes each time. Each environment is empty but for the wheel and its extra, and runs its main
job; what is told: what is in the wheel and how large it is, how long installing and the job take, and how long
`import xloom` takes by itself, beside the imports of its dependencies.
"""

from __future__ import annotations

import argparse
import hashlib
import os
import subprocess
import sys
import tempfile
import time
import zipfile
from collections import Counter
from pathlib import Path

ROOT = Path(__file__).parent.parent.parent

_BARE = """
import numpy as np, xloom as xl
b = xl.Builder("double")
x = b.parameter(xl.f32[3], "x")
b.add(x, x)
module = b.build()
a = np.array([1, 2, 3], np.float32)
assert (xl.compile(module)(a) == 2 * a).all() and (xl.evaluate(xl.parse(str(module)), a) == 2 * a).all()
"""
_JAX = """
import jax, jax.numpy as jnp
assert jax.default_backend() == "xloom", jax.default_backend()
loss = jax.jit(jax.value_and_grad(lambda w, x: jnp.tanh(x @ w).sum()))
value, gradient = loss(jnp.ones((4, 2)), jnp.ones((3, 4)))
assert gradient.shape == (4, 2) and abs(float(value) - 6 * float(jnp.tanh(4.0))) < 1e-5
"""
_TORCH = """
import torch
model = torch.nn.Sequential(torch.nn.Linear(4, 8), torch.nn.ReLU(), torch.nn.Linear(8, 2))
x = torch.randn(3, 4)
compiled = torch.compile(model, backend="xloom")
assert torch.allclose(compiled(x), model(x), atol=1e-5)
"""
_MPI = """
from xloom.distributed.library import find
print(find())
"""
_CUDA = """
import subprocess
program = '''
ENTRY main {
  x = f32[64,64] parameter(0)
  ROOT y = f32[64,64] dot(x, x), lhs_contracting_dims={1}, rhs_contracting_dims={0}
}
'''
with open("dot.hlo", "w") as file:
    file.write(program)
def said(*words):
    return subprocess.run(["xloom", *words, "dot.hlo"], capture_output=True, text=True, check=True).stdout
assert "FFMA" in said("opt", "--emit", "sass", "--target", "sm_90a")
assert "equal to interpreter" in said("run", "--on", "emulator", "--compare", "interpreter")
"""
JOBS = {
    "bare": (_BARE, {}),
    "jax": (_JAX, {"JAX_PLATFORMS": "xloom"}),
    "torch": (_TORCH, {}),
    "mpi": (_BARE + _MPI, {}),
    "cuda": (_CUDA, {}),
}
"""The main job of each environment, and its variables."""

_IMPORT = """
import time
import numpy, ml_dtypes
start = time.perf_counter()
import xloom
print(time.perf_counter() - start)
"""


def main() -> None:
    """Exits with status 1 where something failed."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--only", default="", help=f"environments, with commas between: {', '.join(JOBS)}")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        wheel = _built(folder)
        for environment in [e for e in options.only.split(",") if e] or list(JOBS):
            _tried(wheel, environment, folder / environment)


def _built(folder: Path) -> Path:
    """The wheel, of two that must be equal."""
    for kind, arguments in (("wheel", ["--wheel"]), ("source distribution", ["--sdist"])):
        files = []
        for turn in ("first", "second"):
            command = [sys.executable, "-m", "build", *arguments, "--outdir", str(folder / turn / kind), str(ROOT)]
            subprocess.run(command, check=True, capture_output=True)
            files += list((folder / turn / kind).iterdir())
        digests = {hashlib.sha256(file.read_bytes()).hexdigest() for file in files}
        if len(digests) != 1:
            raise SystemExit(f"two builds of the {kind} differ")
        print(f"{files[0].name}: {files[0].stat().st_size / 2**20:.2f} MiB, the same bytes twice")
    wheel = next((folder / "first" / "wheel").iterdir())
    sizes: Counter[str] = Counter()
    with zipfile.ZipFile(wheel) as archive:
        for entry in archive.infolist():
            parts = entry.filename.split("/")
            sizes["/".join(parts[:2]) if len(parts) > 2 else parts[0]] += entry.file_size
    for part, size in sizes.most_common():
        print(f"  {part:40} {size / 2**10:8.0f} KiB")
    return wheel


def _tried(wheel: Path, environment: str, folder: Path) -> None:
    subprocess.run([sys.executable, "-m", "venv", str(folder)], check=True)
    python = folder / "bin" / "python"
    extra = "" if environment == "bare" else f"[{environment}]"
    start = time.perf_counter()
    install = ["-m", "pip", "install", "--quiet", "--disable-pip-version-check", f"{wheel}{extra}"]
    subprocess.run([str(python), *install, "--constraint", str(ROOT / "constraints.txt")], check=True)
    installed = time.perf_counter() - start
    job, variables = JOBS[environment]
    path = f"{python.parent}:{os.environ['PATH']}"
    own = {**os.environ, **variables, "PATH": path, "XLOOM_CACHE_DIR": str(folder / "cache")}
    for name in ("PYTHONPATH", "PYTHONDONTWRITEBYTECODE"):
        own.pop(name, None)
    seconds = []
    for _ in range(2):
        start = time.perf_counter()
        done = subprocess.run(
            [str(python), "-c", job], env=own, capture_output=True, text=True, check=False, cwd=folder
        )
        if done.returncode:
            raise SystemExit(f"{environment}: the main job failed\n{done.stderr}")
        seconds.append(time.perf_counter() - start)
    told = subprocess.run([str(python), "-c", _IMPORT], env=own, capture_output=True, text=True, check=True, cwd=folder)
    print(
        f"{environment}: installed in {installed:.0f} s, main job {seconds[0]:.1f} s at first and {seconds[1]:.1f} s "
        f"then, import xloom {float(told.stdout) * 1e3:.0f} ms of its own"
    )


if __name__ == "__main__":
    main()
