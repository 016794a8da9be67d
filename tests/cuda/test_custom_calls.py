"""Custom calls on GPUs: each ABI, layouts, tuples, scratch memory, what the sanitizer finds. On a simulated driver."""

import ctypes
from pathlib import Path

import numpy as np
import pytest

import xloom as xl
from tests.cuda.simulation import gpu_of, simulated_client
from xloom.calls import register_c, remove
from xloom.calls.sanitizer import sanitize
from xloom.cuda.emulator.executable import emulated
from xloom.cuda.run_time import transfers
from xloom.cuda.run_time.device_view import DeviceView
from xloom.errors import CustomCallError, UnregisteredCallError
from xloom.pjrt import CompileOptions

HANDLERS = Path(__file__).parent.parent / "calls" / "typed_handlers.cc"
HEAD = """
#include <stddef.h>
#include <string.h>
#include <stdint.h>
#include <xloom/custom_call.h>
"""
TRIPLE = "for (int k = 0; k < 6; ++k) ((float*)buffers[1])[k] = 3 * ((float*)buffers[0])[k];"
X = np.arange(6, dtype=np.float32).reshape(2, 3)


@pytest.fixture(autouse=True)
def forgotten():
    yield
    remove("cuda.test", "CUDA")


def program(attributes="", operands="x", result="f32[2,3]", more="", shape="f32[2,3]"):
    return xl.parse(f"""HloModule calls
ENTRY e {{ x = {shape} parameter(0) {more}
  ROOT r = {result} custom-call({operands}), custom_call_target="cuda.test"{attributes},
    metadata={{source_file="model.py" source_line=7}} }}""")


def in_c(body, parameters="void* stream, void** buffers, const char* opaque, size_t opaque_len", **options):
    """Registers a function that does `body` at once, where one for a GPU would enqueue it."""
    register_c("cuda.test", f"{HEAD}void f({parameters}) {{ {body} }}", "f", platform="CUDA", **options)


def ran_at_once(module, *arrays):
    """On a device that does what it is given at once."""
    client, machine = simulated_client()
    machine.is_eager = True
    found = client.compile(module).execute([client.buffer_from_host(a) for a in arrays])
    return [np.asarray(each) for each in found]


def later(function):
    """Registers a Python function that enqueues `function(out, *inputs)` on arrays of the host's memory."""
    kept = []

    @xl.custom_call("cuda.test", platform="CUDA")
    def enqueues(out, *inputs):
        callback = ctypes.CFUNCTYPE(None, ctypes.c_void_p)(lambda _: function(on_host(out), *map(on_host, inputs)))
        kept.append(callback)
        enqueues.driver.call("cuLaunchHostFunc", flat(out)[0].stream, ctypes.cast(callback, ctypes.c_void_p).value, 0)

    return enqueues


def flat(value):
    return [leaf for each in value for leaf in flat(each)] if isinstance(value, tuple) else [value]


def on_host(view):
    if isinstance(view, tuple):
        return tuple(map(on_host, view))
    memory = (ctypes.c_uint8 * max(1, view.nbytes)).from_address(view.address)
    return np.ndarray(view.shape, view.dtype, memoryview(memory), strides=view.strides)


def ran_later(module, function, *arrays):
    call = later(function)
    client, _ = simulated_client()
    call.driver = gpu_of(client).driver
    found = client.compile(module).execute([client.buffer_from_host(a) for a in arrays])
    return [np.asarray(each) for each in found]


def test_python_functions_get_views_and_a_stream():
    def twice(out, x):
        out[...] = 2 * x

    more = "y = f32[2,3] add(x, x)"  # which a kernel makes before
    (found,) = ran_later(program(operands="y", more=more), twice, X)
    assert np.array_equal(found, 4 * X)


def test_views_say_what_libraries_ask():
    seen = []

    @xl.custom_call("cuda.test", platform="CUDA")
    def look(out, x):
        seen.extend([out, x])

    ran_at_once(program(), X)
    out, x = seen
    assert isinstance(x, DeviceView) and x.data_ptr() == x.address and x.strides == (12, 4)
    said = x.__cuda_array_interface__
    assert said["shape"] == (2, 3) and said["typestr"] == "<f4" and said["data"] == (x.address, True)
    assert out.__cuda_array_interface__["data"][1] is False and said["stream"] == x.stream


def test_opaque_bytes_and_the_order_of_buffers():
    in_c("if (stream && opaque_len == 24 && buffers[0] == buffers[1]) memcpy(buffers[2], opaque, opaque_len);")
    data = "abcdefghijklmnopqrstuvwx"
    (found,) = ran_at_once(program(f', backend_config="{data}"', operands="x, x"), X)
    assert found.tobytes().decode() == data


@pytest.mark.parametrize("version", ["STATUS_RETURNING", "STATUS_RETURNING_UNIFIED"])
def test_a_call_that_fails(version):
    parameters = "void* stream, void** buffers, const char* opaque, size_t n, XlaCustomCallStatus* status"
    in_c('XlaCustomCallStatusSetFailure(status, "no such plan", 12);', parameters)
    client, _ = simulated_client()
    executable = client.compile(program(f", api_version=API_VERSION_{version}"))
    with pytest.raises(CustomCallError, match=r"custom call 'cuda.test' failed: no such plan \(at %r, model.py:7\)"):
        executable.execute([client.buffer_from_host(X)])


def test_tuples_are_flat_and_tokens_are_none():
    def swap(out, pair):
        out[0][...], out[1][0][...] = pair[1], pair[0]

    more = "i = f32[4] iota(), iota_dimension=0 t = (f32[2,3], f32[4]) tuple(x, i)"
    module = program(operands="t", result="(f32[4], (f32[2,3]))", more=more)
    call = later(swap)
    client, _ = simulated_client()
    call.driver = gpu_of(client).driver
    found = client.compile(module).execute([client.buffer_from_host(X)])
    assert np.array_equal(np.asarray(found[0]), np.arange(4))
    (nested,) = found[1].ready.result()
    assert np.array_equal(transfers.to_host(nested), X)


def test_layouts_are_what_the_call_asks_for():
    def copy_columns(out, x):
        assert x.strides == (4, 8) and out.strides == (4, 8)
        out[...] = x + 1

    layouts = ", operand_layout_constraints={f32[2,3]{0,1}}"
    more = "ROOT q = f32[2,3] add(r, r)"
    text = f"""HloModule calls
ENTRY e {{ x = f32[2,3] parameter(0)
  r = f32[2,3]{{0,1}} custom-call(x), custom_call_target="cuda.test"{layouts}
  {more} }}"""
    (found,) = ran_later(xl.parse(text), copy_columns, X)
    assert np.array_equal(found, 2 * (X + 1))


def test_an_output_that_starts_as_an_operand():
    def add_one(out, x):
        assert out.ctypes.data == x.ctypes.data
        out += 1

    (found,) = ran_later(program(", output_to_operand_aliasing={{}: (0, {})}"), add_one, X)
    assert np.array_equal(found, X + 1)


def test_calls_in_loops():
    def twice(out, x):
        out[...] = 2 * x

    call = later(twice)
    module = xl.parse("""HloModule calls
condition { p = (s32[], f32[2,3]) parameter(0) i = s32[] get-tuple-element(p), index=0
  n = s32[] constant(3) ROOT r = pred[] compare(i, n), direction=LT }
body { p = (s32[], f32[2,3]) parameter(0) i = s32[] get-tuple-element(p), index=0 one = s32[] constant(1)
  j = s32[] add(i, one) v = f32[2,3] get-tuple-element(p), index=1
  w = f32[2,3] custom-call(v), custom_call_target="cuda.test" ROOT t = (s32[], f32[2,3]) tuple(j, w) }
ENTRY e { x = f32[2,3] parameter(0) i = s32[] constant(0) p = (s32[], f32[2,3]) tuple(i, x)
  w = (s32[], f32[2,3]) while(p), condition=condition, body=body
  ROOT y = f32[2,3] get-tuple-element(w), index=1 }""")
    client, _ = simulated_client()
    call.driver = gpu_of(client).driver
    (found,) = client.compile(module).execute([client.buffer_from_host(X)])
    assert np.array_equal(np.asarray(found), 8 * X)


@pytest.mark.parametrize(("handler", "count"), [("stream", 1), ("surroundings", 5)])
def test_typed_handlers_have_a_stream_and_memory_of_the_device(handler, count):
    jax = pytest.importorskip("jax")
    options = {"platform": "CUDA", "language": "c++", "include_dirs": [jax.ffi.include_dir()]}
    register_c("cuda.test", HANDLERS, handler, **options)
    client, machine = simulated_client(2)
    machine.is_eager = True
    result = f"{'u64[1]' if handler == 'stream' else 's64[5]'}"
    text = f"""HloModule typed
ENTRY e {{ ROOT r = {result} custom-call(), custom_call_target="cuda.test", api_version=API_VERSION_TYPED_FFI }}"""
    executable = client.compile(xl.parse(text), CompileOptions(device_assignment=((1,),)))
    before = machine.calls.count("cuMemAllocAsync")
    (found,) = map(np.asarray, executable.execute([]))
    if handler == "stream":
        assert found[0] == gpu_of(client, 1).compute
    else:
        assert found[1] == 1 and found[3] and found[4] == 8
        assert machine.calls.count("cuMemAllocAsync") >= before + 2  # the result, and what it asked for


def test_what_is_not_registered_for_gpus():
    client, _ = simulated_client()
    with pytest.raises(UnregisteredCallError, match=r"no custom call 'cuda\.test' is registered for platform 'CUDA'"):
        client.compile(program())


def test_the_emulator_makes_calls_too():
    in_c(TRIPLE)
    assert np.array_equal(emulated(program())(X), 3 * X)


WRONG = {
    "y[k] = 1": ("k < 7", "wrote to the element past the end of the result"),
    "(y - 1)[k] = 1": ("k < 7", r"wrote to the element before the result"),
    "y[k] = ++x[k]": ("k < 6", r"wrote to element \[0, 0\] of operand 0"),
    "y[k] = 2": ("k < 3", r"did not write element \[1, 0\] and 2 more of the result"),
}


@pytest.mark.parametrize("body", WRONG)
def test_the_sanitizer(body):
    condition, message = WRONG[body]
    in_c(f"float *x = buffers[0], *y = buffers[1]; for (int k = 0; {condition}; ++k) {body};")
    client, machine = simulated_client()
    executable, x = client.compile(program()), client.buffer_from_host(X)
    machine.is_eager = True
    with sanitize(), pytest.raises(CustomCallError, match=f"custom call 'cuda.test' {message} \\(at %r, model.py:7"):
        executable.execute([x])


def test_the_sanitizer_lets_right_calls_pass():
    in_c(TRIPLE)
    client, machine = simulated_client()
    executable, x = client.compile(program()), client.buffer_from_host(X)
    machine.is_eager = True
    with sanitize():
        (found,) = executable.execute([x])
    assert np.array_equal(np.asarray(found), 3 * X)
