"""CUDA source: compiled and registered wherever nvcc is, called by the same code as the simulator's, run on a GPU."""

import ctypes
import re
import shutil

import numpy as np
import pytest

import xloom as xl
from xloom.calls import c_compiler, device_abi, load_source, register_c, registry
from xloom.sim import Simulator

# one source for both: CUDA on a GPU, plain loops where nvcc does not compile it
SOURCE = """
#include <string.h>
#include <xloom/custom_call.h>
#ifdef __CUDACC__
__global__ static void Twice(const float* x, float* y, int n) {
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i < n) y[i] = 2 * x[i];
}
static const char* Launch(void* stream, const float* x, float* y, int n) {
  Twice<<<(n + 255) / 256, 256, 0, (cudaStream_t)stream>>>(x, y, n);
  cudaError_t error = cudaGetLastError();
  return error == cudaSuccess ? 0 : cudaGetErrorString(error);
}
#else
static const char* Launch(void* stream, const float* x, float* y, int n) {
  for (int i = 0; i < n; ++i) y[i] = 2 * x[i];
  return stream ? 0 : "there is no stream";
}
#endif
extern "C" void twice(void* stream, void** buffers, const char* opaque, size_t opaque_len,
                      XlaCustomCallStatus* status) {
  const char* message = Launch(stream, (const float*)buffers[0], (float*)buffers[1], opaque_len ? 1000 : 0);
  if (message) XlaCustomCallStatusSetFailure(status, message, strlen(message));
}
XLA_REGISTER_CUSTOM_CALL_TARGET(twice, "CUDA");
"""
X = np.arange(1000, dtype=np.float32)
needs_nvcc = pytest.mark.skipif(shutil.which("nvcc") is None, reason="needs nvcc")


class Gpu(Simulator):
    """Calls what is registered for CUDA, with addresses of the host."""

    platform = "CUDA"


def module():
    b = xl.Builder("m")
    x = b.parameter(xl.f32[1000])
    version = "API_VERSION_STATUS_RETURNING"
    b.custom_call("twice", [x], xl.f32[1000], name="called", api_version=version, opaque=b"all")
    return b.build()


def driver_is_present():
    try:
        return ctypes.CDLL("libcuda.so.1").cuInit(0) == 0
    except OSError:
        return False


@pytest.fixture(scope="module")
def library(tmp_path_factory):
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("XLOOM_CACHE_DIR", str(tmp_path_factory.mktemp("cache")))
        return c_compiler.compile_source(SOURCE, language="cuda")


@pytest.fixture(autouse=True)
def cache(tmp_path, monkeypatch):
    monkeypatch.setenv("XLOOM_CACHE_DIR", str(tmp_path))


@needs_nvcc
def test_a_file_registers_what_it_offers_for_cuda(tmp_path):
    path = tmp_path / "kernels.cu"
    path.write_text(SOURCE)
    assert [(r.name, r.platform) for r in load_source(path)] == [("twice", "CUDA")]
    assert not registry.is_registered("twice", "Host")


@needs_nvcc
def test_a_text_is_registered_by_symbol_for_cuda():
    made = register_c("other name", SOURCE, "twice", language="cuda", abi="status-returning")
    assert (made.platform, made.abi) == ("CUDA", "status-returning")
    assert registry.lookup("other name", "CUDA") is made


@needs_nvcc
def test_the_library_has_code_for_the_device(library):
    data = library.read_bytes()
    assert b".nv_fatbin" in data and re.search(rb"_ZN?\w*5Twice\w*PKfPfi", data)


@needs_nvcc
@pytest.mark.skipif(driver_is_present(), reason="there is a driver")
def test_without_a_driver_the_failure_is_the_calls(library):
    registry.add(registry.Registration("twice", "CUDA", address=address(library)))
    with pytest.raises(xl.CustomCallError, match=r"'twice' failed: CUDA driver version is insufficient .*\(at %called"):
        Gpu().run(module(), X)


@needs_nvcc
@pytest.mark.skipif(not driver_is_present(), reason="needs a GPU and its driver")
def test_on_a_gpu(library):
    registration = registry.add(registry.Registration("twice", "CUDA", address=address(library)))
    runtime = ctypes.CDLL("libcudart.so")
    places = [ctypes.c_void_p() for _ in range(2)]
    for place in places:
        assert runtime.cudaMalloc(ctypes.byref(place), ctypes.c_size_t(X.nbytes)) == 0
    y = np.zeros_like(X)
    default = 4  # cudaMemcpyDefault
    assert runtime.cudaMemcpy(places[0], ctypes.c_void_p(X.ctypes.data), ctypes.c_size_t(X.nbytes), default) == 0
    call = module().entry.root
    assert device_abi.call(registration, call, 0, [p.value or 0 for p in places], b"all") is None
    assert runtime.cudaMemcpy(ctypes.c_void_p(y.ctypes.data), places[1], ctypes.c_size_t(X.nbytes), default) == 0
    assert np.array_equal(y, 2 * X)


def test_the_same_source_for_the_host_proves_the_convention():
    register_c("twice", SOURCE, language="c++", platform="CUDA")
    assert np.array_equal(Gpu().run(module(), X), 2 * X)
    library = c_compiler.compile_source(SOURCE, language="c++")
    registration = registry.Registration("twice", "CUDA", address=address(library))
    y = np.zeros_like(X)
    buffers = [X.ctypes.data, y.ctypes.data]
    assert device_abi.call(registration, module().entry.root, 0, buffers, b"all") == "there is no stream"


@needs_nvcc
def test_compile_errors_show_the_source_line(tmp_path):
    path = tmp_path / "bad.cu"
    path.write_text("\n__global__ int f() { }\n")
    with pytest.raises(xl.CustomCallError, match=r"bad\.cu\(2\)"):
        load_source(path)


def test_no_compiler_is_said(monkeypatch):
    monkeypatch.setenv("PATH", "")
    monkeypatch.delenv("NVCC", raising=False)
    with pytest.raises(xl.MissingCompilerError, match="no CUDA compiler was found") as caught:
        register_c("twice", SOURCE, language="cuda")
    assert "NVCC" in caught.value.hint


def test_files_of_no_known_language(tmp_path):
    with pytest.raises(xl.CustomCallError, match=r"kernel\.f90 is of no known language"):
        load_source(tmp_path / "kernel.f90")


def address(library):
    return ctypes.cast(ctypes.CDLL(str(library)).twice, ctypes.c_void_p).value or 0
