"""CUDA C++ to machine code: by NVRTC in this process where its wheel or a toolkit is installed, else by nvcc."""

from __future__ import annotations

import ctypes
import importlib.util
import subprocess
import tempfile
from ctypes.util import find_library
from functools import lru_cache
from pathlib import Path
from typing import Any

from xloom.calls.c_compiler import compiler
from xloom.compilation_cache.cache import key_of
from xloom.cuda.run_time.images import image_cache
from xloom.errors import CustomCallError, MissingCompilerError
from xloom.llvm.target import Target

_HINT = "pip install nvidia-cuda-nvrtc brings NVRTC; a toolkit's nvcc serves too, on the path or as $NVCC"


def machine_code(source: str, target: Target) -> bytes:
    """The cubin of CUDA source for a GPU, made once.

    Raises CustomCallError with what the compiler says is wrong, MissingCompilerError where there is none.
    """
    nvrtc = _nvrtc()
    version = _nvrtc_version(nvrtc) if nvrtc is not None else "nvcc"
    key = key_of(b"cuda source", target.name.encode(), version.encode(), source.encode())
    image = image_cache.get(key)
    if image is None:
        image = _by_nvcc(source, target) if nvrtc is None else _by_nvrtc(nvrtc, source, target)
        image_cache.put(key, image)
    return image


@lru_cache(maxsize=1)
def _nvrtc() -> ctypes.CDLL | None:
    """The library, of the wheel or of the system."""
    spec = importlib.util.find_spec("nvidia")
    folders = spec.submodule_search_locations or () if spec else ()
    found = [str(path) for folder in folders for path in sorted(Path(folder).glob("*/lib/libnvrtc.so.*[0-9]"))]
    system = find_library("nvrtc")
    for name in (*found, *([system] if system else [])):
        try:
            return ctypes.CDLL(name)
        except OSError:
            continue
    return None


def _nvrtc_version(nvrtc: Any) -> str:
    major, minor = ctypes.c_int(), ctypes.c_int()
    nvrtc.nvrtcVersion(ctypes.byref(major), ctypes.byref(minor))
    return f"nvrtc {major.value}.{minor.value}"


def _by_nvrtc(nvrtc: Any, source: str, target: Target) -> bytes:
    program = ctypes.c_void_p()
    made = nvrtc.nvrtcCreateProgram(ctypes.byref(program), source.encode(), b"kernel.cu", 0, None, None)
    if made:
        raise CustomCallError(f"NVRTC takes no source: result {made}", hint="install it again")
    try:
        options = (ctypes.c_char_p * 1)(f"--gpu-architecture={target.name}".encode())
        if nvrtc.nvrtcCompileProgram(program, len(options), options):
            log = _got(nvrtc.nvrtcGetProgramLogSize, nvrtc.nvrtcGetProgramLog, program)
            said = log.rstrip(b"\0").decode(errors="replace").strip()
            raise CustomCallError(f"the CUDA source does not compile for {target.name}:\n{said}", hint="mend it")
        return _got(nvrtc.nvrtcGetCUBINSize, nvrtc.nvrtcGetCUBIN, program)
    finally:
        nvrtc.nvrtcDestroyProgram(ctypes.byref(program))


def _got(size_of: Any, get: Any, program: ctypes.c_void_p) -> bytes:
    size = ctypes.c_size_t()
    size_of(program, ctypes.byref(size))
    data = ctypes.create_string_buffer(size.value)
    get(program, data)
    return data.raw


def _by_nvcc(source: str, target: Target) -> bytes:
    try:
        command = compiler("cuda")
    except MissingCompilerError as error:
        raise MissingCompilerError(f"{error.message}, nor NVRTC", hint=_HINT) from None
    with tempfile.TemporaryDirectory() as folder:
        path, cubin = Path(folder) / "kernel.cu", Path(folder) / "kernel.cubin"
        path.write_text(source)
        done = subprocess.run(
            [*command, "-cubin", f"-arch={target.name}", str(path), "-o", str(cubin)],
            capture_output=True,
            text=True,
            check=False,
        )
        if done.returncode:
            message = f"the CUDA source does not compile for {target.name}:\n{done.stderr.strip()}"
            raise CustomCallError(message, hint="mend it; $NVCC names another compiler")
        return cubin.read_bytes()
