"""A program compiled ahead of time, called from C and from C++ without Python."""

import subprocess
import tempfile
from pathlib import Path

import numpy as np

import xloom as xl

HERE = Path(__file__).parent


def built(source: Path, folder: Path) -> Path:
    """An executable of C or C++ that calls the library in `folder`."""
    output = folder / source.suffix[1:]
    compiler = ["cc"] if source.suffix == ".c" else ["c++", "-std=c++17"]
    command = [
        *compiler,
        "-O2",
        "-Wall",
        "-Werror",
        "-I",
        folder,
        source,
        "-L",
        folder,
        "-lmlp",
        f"-Wl,-rpath,{folder}",
    ]
    subprocess.run([*command, "-lpthread", "-o", output], check=True)
    return output


with tempfile.TemporaryDirectory() as name:
    folder = Path(name)
    saved = xl.export(HERE / "mlp.hlo").save(folder / "libmlp.so")
    print(f"{saved.program.name}: {saved.program.stat().st_size // 1024} KiB, and {saved.header.name}")
    for source in ("call_exported.c", "call_exported.cpp"):
        print(f"{source}:")
        print(subprocess.run([built(HERE / source, folder)], check=True, capture_output=True, text=True).stdout, end="")
    x = (np.arange(4)[:, None] - np.arange(8)).astype(np.float32) / 4
    print("Python:")
    for row in xl.load_exported(saved.program)(x, np.float32(2)):
        print(*(f"{p:.6f}" for p in row))
