"""The simulated accelerator: memory, streams, programs, custom calls by its ABI, and backends as subclasses."""

import ctypes
import gc
import threading
import time
from types import SimpleNamespace
from typing import ClassVar

import ml_dtypes
import numpy as np
import pytest

import xloom as xl
from xloom.calls import device_abi, register_c, register_pointer, registry
from xloom.interpreter import RULES
from xloom.sim import DeviceArray, DeviceMemory, DeviceMemoryError, Simulator, Stream

X = np.arange(4, dtype=np.float32)
LOOP = """HloModule loop
c { s = (s32[], f32[4]) parameter(0) i = s32[] get-tuple-element(s), index=0 n = s32[] constant(5)
  ROOT l = pred[] compare(i, n), direction=LT }
b { s = (s32[], f32[4]) parameter(0) i = s32[] get-tuple-element(s), index=0 o = s32[] constant(1)
  j = s32[] add(i, o) x = f32[4] get-tuple-element(s), index=1 y = f32[4] add(x, x)
  ROOT t = (s32[], f32[4]) tuple(j, y) }
ENTRY e { p = (s32[], f32[4]) parameter(0) ROOT w = (s32[], f32[4]) while(p), condition=c, body=b }"""
KERNELS = """
#include <string.h>
#include <xloom/custom_call.h>
void twice(void* stream, void** buffers, const char* opaque, size_t opaque_len) {
  for (int i = 0; i < 4; ++i) ((float*)buffers[1])[i] = 2 * ((const float*)buffers[0])[i];
}
void fails(void* stream, void** buffers, const char* opaque, size_t opaque_len, XlaCustomCallStatus* status) {
  XlaCustomCallStatusSetFailure(status, opaque, opaque_len);
}
"""


@pytest.fixture(autouse=True)
def forget():
    before = dict(registry._registered)
    yield
    registry._registered.clear()
    registry._registered.update(before)


def call(version="API_VERSION_ORIGINAL", opaque=""):
    b = xl.Builder("m")
    x = b.parameter(xl.f32[4])
    b.custom_call("t", [x], xl.f32[4], name="called", api_version=version, opaque=opaque)
    return b.build()


# -- memory
def test_memory_is_free_again_when_nobody_refers_to_it():
    memory = DeviceMemory(1024)
    a = memory.allocate(500).view(np.uint8)[10:20]
    b = memory.allocate(500)
    assert memory.holds(a) and not memory.holds(np.zeros(3)) and memory.used == 1024
    with pytest.raises(DeviceMemoryError, match=r"out of device memory: 1 bytes asked for, 1024 of 1024 in use"):
        memory.allocate(1)
    del a
    gc.collect()
    c = memory.allocate(512)
    assert memory.peak == 1024 and c.ctypes.data % 64 == 0
    del b, c
    gc.collect()
    assert memory.allocate(1024).size == 1024  # parts that are free side by side are one


def test_parts_do_not_overlap():
    memory = DeviceMemory(1 << 16)
    generator = np.random.default_rng(0)
    alive: list[tuple[np.ndarray, int]] = []
    for number in range(300):
        if len(alive) > 20:
            alive.pop(int(generator.integers(len(alive))))
        array = memory.allocate(int(generator.integers(0, 2000)))
        array[...] = number % 251
        alive.append((array, number % 251))
        assert all((a == value).all() for a, value in alive)


# -- streams
def test_work_of_a_stream_is_done_in_order():
    stream, done = Stream(), []
    for k in range(100):
        stream.enqueue(lambda k=k: done.append(k))
    stream.synchronize()
    assert done == list(range(100))


def test_events_order_streams():
    first, second, done, gate = Stream(), Stream(), [], threading.Event()
    first.enqueue(gate.wait)
    first.enqueue(lambda: done.append("first"))
    event = first.record()
    second.wait(event)
    second.enqueue(lambda: done.append("second"))
    time.sleep(0.05)
    assert done == [] and not event.is_reached()
    gate.set()
    second.synchronize()
    assert done == ["first", "second"] and event.is_reached()


def test_after_an_error_nothing_more_is_done():
    stream, done = Stream(), []

    def boom():
        raise ValueError("boom")

    stream.enqueue(boom)
    later = stream.enqueue(lambda: done.append(1))
    with pytest.raises(ValueError, match="boom"):
        stream.synchronize()
    with pytest.raises(ValueError, match="boom"):
        later.result()
    assert done == []
    stream.enqueue(lambda: done.append(2))
    stream.synchronize()
    assert done == [2]


def test_streams_end_with_their_last_reference():
    stream = Stream("shortlived")
    stream.synchronize()
    del stream
    gc.collect()
    for _ in range(6000):
        if not any(t.name == "xloom-shortlived" for t in threading.enumerate()):
            return
        time.sleep(0.01)
    raise AssertionError("the stream's thread still runs")


# -- programs
def test_programs_with_control_flow():
    count, value = Simulator().run(xl.parse(LOOP), (np.int32(0), X))
    assert count == 5 and np.array_equal(value, 32 * X)
    assert isinstance(value, np.ndarray)


def test_results_are_those_of_the_interpreter():
    module = xl.parse("""add { a = f32[] parameter(0) b = f32[] parameter(1) ROOT s = f32[] add(a, b) }
    ENTRY e { x = f32[8,4] parameter(0) z = f32[] constant(0)
      r = f32[4] reduce(x, z), dimensions={0}, to_apply=add
      t = f32[4,8] transpose(x), dimensions={1,0}
      d = f32[4,4] dot(t, x), lhs_contracting_dims={1}, rhs_contracting_dims={0}
      ROOT all = (f32[4], f32[4,4], f32[4,8]) tuple(r, d, t) }""")
    x = np.random.default_rng(0).standard_normal((8, 4)).astype(np.float32)
    for ours, expected in zip(Simulator().run(module, x), xl.evaluate(module, x), strict=True):
        assert np.array_equal(ours, expected)


def test_values_live_as_long_as_they_are_used():
    rows = "\n".join(f"x{k + 1} = f32[1024] negate(x{k})" for k in range(50))
    module = xl.parse(f"ENTRY e {{ x0 = f32[1024] parameter(0) {rows} ROOT r = f32[1024] copy(x50) }}")
    device = Simulator(memory_bytes=4 * 4096)
    x = np.ones(1024, np.float32)
    assert np.array_equal(device.run(module, x), x)
    assert device.memory.peak <= 3 * 4096
    with pytest.raises(DeviceMemoryError):
        Simulator(memory_bytes=2 * 4096).run(module, x)


def test_the_host_cannot_look_into_device_memory():
    device = Simulator()
    there = device.to_device((X, X + 1)).result()
    assert repr(there[0]) == "DeviceArray(float32[4])"
    with pytest.raises(TypeError, match=r"copy the array with Simulator\.to_host"):
        np.asarray(there[0])
    assert isinstance(there[1], DeviceArray)
    back = device.to_host(device.to_device(X)).result()
    assert np.array_equal(back, X) and not device.memory.holds(back)


def test_arguments_must_fit():
    module = xl.parse("ENTRY e { x = f32[4] parameter(0) ROOT n = f32[4] negate(x) }")
    with pytest.raises(xl.ShapeError, match="takes 1 arguments, found 0"):
        Simulator().run(module)
    with pytest.raises(xl.ShapeError, match="must be f32"):
        Simulator().run(module, np.zeros(3))


def test_latency_is_waited_for():
    module = xl.parse("ENTRY e { x = f32[4] parameter(0) a = f32[4] negate(x) ROOT n = f32[4] negate(a) }")
    begin = time.monotonic()
    Simulator(latency=0.02).run(module, X)
    assert time.monotonic() - begin >= 4 * 0.02  # in, two operators, out
    seen = []

    class Timed(Simulator):
        def seconds(self, work, nbytes):
            seen.append((work, nbytes))
            return 0.0

    Timed().run(module, X)
    assert seen == [("to_device", 16), ("negate", 32), ("negate", 32), ("to_host", 16)]


# -- custom calls
def test_c_by_the_device_abi():
    register_c("t", KERNELS, "twice", platform="sim")
    assert np.array_equal(Simulator().run(call(), X), 2 * X)


def test_failures_have_message_and_place():
    register_c("t", KERNELS, "fails", platform="sim")
    for version in ("API_VERSION_STATUS_RETURNING", "API_VERSION_STATUS_RETURNING_UNIFIED"):
        with pytest.raises(xl.CustomCallError, match=r"'t' failed: on purpose \(at %called, .*\.py:\d+\)$"):
            Simulator().run(call(version, "on purpose"), X)


def test_leaves_are_flat_and_in_device_memory():
    seen = SimpleNamespace()
    device = Simulator()

    @ctypes.CFUNCTYPE(None, ctypes.c_void_p, ctypes.POINTER(ctypes.c_void_p), ctypes.c_char_p, ctypes.c_size_t)
    def kernel(stream, buffers, opaque, size):
        seen.stream, seen.opaque, seen.size = stream, opaque, size
        seen.values = [ctypes.c_float.from_address(buffers[k]).value for k in range(3)]
        arrays = [np.ctypeslib.as_array((ctypes.c_float * 1).from_address(buffers[k])) for k in range(6)]
        seen.inside = all(device.memory.holds(a) for a in arrays)
        for k in range(3):
            ctypes.c_float.from_address(buffers[3 + k]).value = 10 + k

    register_pointer("t", kernel, platform="sim")
    module = xl.parse("""ENTRY e { a = f32[1] parameter(0) t = (f32[1], (f32[1])) parameter(1)
      ROOT c = ((f32[1], f32[1]), f32[1]) custom-call(a, t), custom_call_target="t", backend_config="opaque" }""")
    one, two, three = (np.full(1, k, np.float32) for k in (1, 2, 3))
    (x, y), z = device.run(module, one, (two, (three,)))
    assert (seen.values, seen.opaque, seen.size, seen.inside) == ([1, 2, 3], b"opaque", 6, True)
    assert seen.stream and [float(v[0]) for v in (x, y, z)] == [10, 11, 12]


def test_python_functions_see_device_memory():
    device = Simulator()

    @xl.custom_call("t", platform="sim")
    def t(out, x):
        assert device.memory.holds(out) and device.memory.holds(x) and not x.flags.writeable
        out[...] = x + 1

    assert np.array_equal(device.run(call(), X), X + 1)


def test_aliases_and_layouts():
    @xl.custom_call("t", platform="sim")
    def t(out, x):
        assert out.strides == x.strides == (4, 8) and np.shares_memory(out, x)
        out += 1

    module = xl.parse("""ENTRY e { x = f32[2,3] parameter(0)
      ROOT c = f32[2,3]{0,1} custom-call(x), custom_call_target="t", operand_layout_constraints={f32[2,3]{0,1}},
        output_to_operand_aliasing={{}: (0, {})} }""")
    x = np.arange(6, dtype=np.float32).reshape(2, 3)
    assert np.array_equal(Simulator().run(module, x), x + 1)


def test_code_for_the_host_is_not_code_for_the_device():
    xl.custom_call("t")(lambda out, x: None)
    with pytest.raises(xl.CustomCallError, match="registered for platform 'sim'") as caught:
        Simulator().run(call(), X)
    assert "it is registered for Host" in str(caught.value)


def test_abis_that_devices_do_not_have():
    register_c("t", KERNELS, "twice", platform="sim")
    with pytest.raises(xl.UnsupportedError, match="on sim says API_VERSION_UNSPECIFIED"):
        Simulator().run(call("API_VERSION_UNSPECIFIED"), X)
    registration = register_c("t", KERNELS, "fails", platform="sim", abi="status-returning")
    with pytest.raises(xl.CustomCallError, match="has the ABI status-returning"):
        device_abi.checked_version(registration, call().entry.root)


def test_markers_of_xla_mean_what_they_mean():
    module = xl.parse("""ENTRY e { x = f32[4] parameter(0)
      ROOT s = f32[4] custom-call(x), custom_call_target="Sharding" }""")
    assert np.array_equal(Simulator().run(module, X), X)


# -- backends
class Adder(Simulator):
    platform = "adder"
    opcodes = frozenset({"add", "while", "compare"})


def test_what_a_device_has_not_is_an_error_before_anything_runs():
    Adder().run(xl.parse(LOOP), (np.int32(0), X))
    done = []
    xl.custom_call("t", platform="adder")(lambda out, x: done.append(1))
    module = xl.parse("""ENTRY e { x = f32[4] parameter(0) c = f32[4] custom-call(x), custom_call_target="t"
      ROOT n = f32[4] subtract(x, c), metadata={source_file="model.py" source_line=7} }""")
    with pytest.raises(
        xl.UnsupportedError, match=r"the device adder has no subtract .*\(at n, model\.py:7\)"
    ) as caught:
        Adder().run(module, X)
    assert "it has: add, compare, while" in str(caught.value) and done == []


def test_a_device_may_look_at_types():
    class Narrow(Simulator):
        def takes(self, instruction):
            return instruction.shape.dtype is not xl.f64

    text = "ENTRY e { x = f32[4] parameter(0) ROOT n = f32[4] add(x, x) }"
    assert np.array_equal(Narrow().run(xl.parse(text), X), 2 * X)
    with pytest.raises(xl.UnsupportedError, match=r"has no add that gives f64\[4\]"):
        Narrow().run(xl.parse(text.replace("f32", "f64")), X.astype(np.float64))


def test_rules_of_a_device_hold_in_regions_and_fusions_too():
    def rounded(instruction, operands, evaluator):
        short = [x.astype(ml_dtypes.bfloat16).astype(x.dtype) for x in operands]
        return RULES["add"](instruction, short, evaluator)

    class Short(Simulator):
        rules: ClassVar = {"add": rounded}

    text = """add { a = f32[] parameter(0) b = f32[] parameter(1) ROOT s = f32[] add(a, b) }
    f { p = f32[4] parameter(0) ROOT q = f32[4] add(p, p) }
    ENTRY e { x = f32[4] parameter(0) z = f32[] constant(0)
      r = f32[] reduce(x, z), dimensions={0}, to_apply=add
      u = f32[4] fusion(x), kind=kLoop, calls=f
      ROOT t = (f32[], f32[4]) tuple(r, u) }"""
    x = np.full(4, 1.001, np.float32)
    total, double = Short().run(xl.parse(text), x)
    assert total == 4 and np.array_equal(double, np.full(4, 2, np.float32))
    exact = xl.evaluate(xl.parse(text), x)
    assert exact[0] != 4


def test_carriers_without_code_are_expanded():
    carrier = """ENTRY e { x = f32[4] parameter(0)
      ROOT c = f32[4] custom-call(x), custom_call_target="t", backend_config="
        HloModule t
        ENTRY m { y = f32[4] parameter(0) ROOT z = f32[4] add(y, y) }" }"""
    module = xl.parse(carrier)
    text = module.to_text()
    assert np.array_equal(Adder().run(module, X), 2 * X)
    assert module.to_text() == text  # the program itself stays
    xl.custom_call("t", platform="adder")(lambda out, x: out.__setitem__(slice(None), 7))
    assert np.array_equal(Adder().run(module, X), np.full(4, 7))
