"""Kernels of the user's as custom calls, on a simulated driver where functions of the host stand for them."""

import contextlib
import ctypes
import struct
import sys
import types

import numpy as np
import pytest

import xloom as xl
from tests.cuda.simulation import gpu_of, simulated_client
from xloom.calls import remove
from xloom.cuda.emulator.executable import emulated
from xloom.cuda.user_kernels import cuda_source, register_kernel, register_kernel_object
from xloom.errors import CustomCallError

X = np.arange(6, dtype=np.float32)
PTX = "//\n.version 8.0\n.target sm_80\n.visible .entry scale() { ret; }\n"
MODULE = """HloModule kernels
ENTRY e { x = f32[6] parameter(0) y = f32[6] add(x, x)
  ROOT r = f32[6] custom-call(y), custom_call_target="user.kernel" }"""


@pytest.fixture(autouse=True)
def forgotten():
    yield
    remove("user.kernel", "CUDA")


def array_at(data):
    (address,) = struct.unpack("<Q", data)
    return np.ctypeslib.as_array((ctypes.c_float * 6).from_address(address))


def scaled(seen):
    """In place of a kernel `scale(const float* x, float* y, float factor)`."""

    def function(grid, block, parameters):
        seen.append((grid, block))
        x, y, factor = parameters
        array_at(y)[...] = array_at(x) * struct.unpack("<f", factor)[0]

    return function


def test_ptx():
    seen = []
    client, machine = simulated_client()
    machine.stand_in(PTX.encode(), "scale", scaled(seen), [8, 8, 4])
    register_kernel(
        "user.kernel",
        PTX,
        "scale",
        grid=lambda out, x: (out.shape[0] + 3) // 4,
        block=(4, 2),
        arguments=lambda out, x: [x, out, np.float32(3)],
    )
    executable = client.compile(xl.parse(MODULE))
    for _ in range(2):
        (found,) = executable.execute([client.buffer_from_host(X)])
        assert np.array_equal(np.asarray(found), 6 * X)
    assert seen == [((2, 1, 1), (4, 2, 1))] * 2
    assert machine.calls.count("cuModuleLoadDataEx") == 2  # of the program's own kernel, and of this one


def test_the_arrays_are_what_a_kernel_gets_by_default(tmp_path):
    client, machine = simulated_client()
    image = bytearray(b"\x7fELF" + bytes(60))
    struct.pack_into("<QQ", image, 32, len(image), 0)  # where its tables are, which are empty
    path = tmp_path / "copy.cubin"
    path.write_bytes(bytes(image))

    def copy(grid, block, parameters):
        array_at(parameters[1])[...] = array_at(parameters[0])

    machine.stand_in(bytes(image), "user.kernel", copy, [8, 8])
    register_kernel("user.kernel", path, grid=1, block=32, shared_bytes=64 << 10)
    (found,) = client.compile(xl.parse(MODULE)).execute([client.buffer_from_host(X)])
    assert np.array_equal(np.asarray(found), 2 * X)
    assert "cuFuncSetAttribute" in machine.calls  # it has more shared memory than comes without asking


def test_what_is_no_argument_and_no_file(tmp_path):
    client, machine = simulated_client()
    machine.stand_in(PTX.encode(), "scale", scaled([]), [8, 8, 4])
    register_kernel("user.kernel", PTX, "scale", grid=1, block=1, arguments=lambda out, x: [x, out, 3.0])
    with pytest.raises(CustomCallError, match=r"given a float, whose size in C nothing says[\s\S]*np\.int32"):
        client.compile(xl.parse(MODULE)).execute([client.buffer_from_host(X)])
    with pytest.raises(CustomCallError, match="cannot read the kernel"):
        register_kernel("user.kernel", tmp_path / "nothing.ptx", grid=1, block=1)
    with pytest.raises(CustomCallError, match="the emulator runs no kernels but xloom's own"):
        emulated(xl.parse(MODULE))(X)


class Nvrtc:
    """The library's functions, of a compiler that takes what has `__global__`."""

    def __init__(self):
        self.source, self.options = b"", []

    def nvrtcVersion(self, major, minor):
        major._obj.value, minor._obj.value = 13, 0
        return 0

    def nvrtcCreateProgram(self, program, source, name, *headers):
        self.source = source
        return 0

    def nvrtcCompileProgram(self, program, count, options):
        self.options.append(options[0].decode())
        return 0 if b"__global__" in self.source else 6

    def nvrtcGetProgramLogSize(self, program, size):
        size._obj.value = 6
        return 0

    def nvrtcGetProgramLog(self, program, log):
        log.raw = b"wrong\0"
        return 0

    def nvrtcGetCUBINSize(self, program, size):
        size._obj.value = len(self.source)
        return 0

    def nvrtcGetCUBIN(self, program, data):
        data.raw = self.source
        return 0

    def nvrtcDestroyProgram(self, program):
        return 0


def test_cuda_source(monkeypatch):
    nvrtc = Nvrtc()
    client, machine = simulated_client(target="sm_90")
    monkeypatch.setattr(cuda_source, "_nvrtc", lambda: nvrtc)
    monkeypatch.setenv("XLOOM_CACHE", "0")
    source = (
        'extern "C" __global__ void scale(const float* x, float* y, float f) { y[threadIdx.x] = x[threadIdx.x] * f; }'
    )
    machine.stand_in(source.encode(), "scale", scaled([]), [8, 8, 4])
    given = {"grid": 1, "block": 6, "arguments": lambda out, x: [x, out, ctypes.c_float(2)]}
    register_kernel("user.kernel", source, "scale", **given)
    executable = client.compile(xl.parse(MODULE))
    for _ in range(2):
        (found,) = executable.execute([client.buffer_from_host(X)])
    assert np.array_equal(np.asarray(found), 4 * X) and nvrtc.options == ["--gpu-architecture=sm_90a"]
    register_kernel("user.kernel", "void wrong;", **given)
    with pytest.raises(CustomCallError, match=r"does not compile for sm_90a:\nwrong"):
        client.compile(xl.parse(MODULE)).execute([client.buffer_from_host(X)])
    monkeypatch.setattr(cuda_source, "_nvrtc", lambda: None)
    monkeypatch.setenv("NVCC", "no-such-nvcc")
    with pytest.raises(CustomCallError, match=r"no-such-nvcc[\s\S]*pip install nvidia-cuda-nvrtc"):
        client.compile(xl.parse(MODULE)).execute([client.buffer_from_host(X)])


def of_library(module, **members):
    """An object of another library's kernel class."""
    return type("Kernel", (), {"__module__": module, **members})()


def test_kernels_of_numba(monkeypatch):
    seen = []

    def configured(self, configuration):
        def launch(x, y):
            seen.append(configuration)
            y.from_host(x.to_host() + 1)

        return launch

    cuda = types.SimpleNamespace(external_stream=lambda handle: ("stream", handle))
    monkeypatch.setitem(sys.modules, "numba.cuda", cuda)
    client, _ = simulated_client()
    register_kernel_object("user.kernel", of_library("numba.cuda.dispatcher", __getitem__=configured), grid=2, block=32)
    (found,) = client.compile(xl.parse(MODULE)).execute([client.buffer_from_host(X)])
    assert np.array_equal(np.asarray(found), 2 * X + 1)
    assert seen == [((2, 1, 1), (32, 1, 1), ("stream", gpu_of(client).compute), 0)]


def test_kernels_of_cupy(monkeypatch):
    streams, seen = [], []

    @contextlib.contextmanager
    def external(handle):
        streams.append(handle)
        yield

    def launch(self, grid, block, given, shared_mem):
        seen.append((grid, block, shared_mem, given[2]))
        given[1][0].from_host(given[0][0].to_host() + given[2])

    cupy = types.SimpleNamespace(
        cuda=types.SimpleNamespace(ExternalStream=external), asarray=lambda view: (view, view.__cuda_array_interface__)
    )
    monkeypatch.setitem(sys.modules, "cupy", cupy)
    client, _ = simulated_client()
    register_kernel_object(
        "user.kernel",
        of_library("cupy._core.raw", __call__=launch),
        grid=1,
        block=lambda out, x: x.shape,
        shared_bytes=128,
        arguments=lambda out, x: [x, out, np.float32(5)],
    )
    (found,) = client.compile(xl.parse(MODULE)).execute([client.buffer_from_host(X)])
    assert np.array_equal(np.asarray(found), 2 * X + 5)
    assert seen == [((1, 1, 1), (6, 1, 1), 128, 5)] and streams == [gpu_of(client).compute]


def test_kernels_of_triton(monkeypatch):
    seen = []

    @contextlib.contextmanager
    def stream(handle):
        seen.append(handle)
        yield

    def configured(self, grid):
        def launch(x, y, BLOCK):
            seen.append((grid, BLOCK, x.data_ptr() != y.data_ptr(), str(x.dtype)))
            y.from_host(x.to_host() * 10)

        return launch

    torch = types.SimpleNamespace(cuda=types.SimpleNamespace(stream=stream, ExternalStream=lambda handle: handle))
    monkeypatch.setitem(sys.modules, "torch", torch)
    client, _ = simulated_client()
    kernel = of_library("triton.runtime.jit", __getitem__=configured)
    register_kernel_object("user.kernel", kernel, grid=3, options={"BLOCK": 64})
    (found,) = client.compile(xl.parse(MODULE)).execute([client.buffer_from_host(X)])
    assert np.array_equal(np.asarray(found), 20 * X)
    assert seen == [gpu_of(client).compute, ((3, 1, 1), 64, True, "float32")]


def test_what_is_no_kernel():
    with pytest.raises(CustomCallError, match=r"a builtins\.list for custom call 'user\.kernel' is no kernel"):
        register_kernel_object("user.kernel", [], grid=1)
