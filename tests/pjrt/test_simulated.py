"""Simulated accelerators as a backend."""

from typing import Any

import numpy as np
import pytest

import xloom as xl
from xloom.pjrt import Client, Code, InterpreterCompiler, PjrtError, SimCompiler
from xloom.pjrt.error import code_of
from xloom.sim import DeviceArray, DeviceMemoryError, Simulator
from xloom.trace import trace

DOUBLE = xl.parse("HloModule double\nENTRY e { x = f32[4] parameter(0)  ROOT y = f32[4] add(x, x) }")


class Small(Simulator):
    platform = "small"
    opcodes = frozenset({"add"})
    memory_bytes = 4096


def test_data_is_in_the_device_s_memory():
    client = Client.sim(Small)
    buffer = client.buffer_from_host(np.arange(4, dtype=np.float32))
    assert isinstance(buffer.ready.result(), DeviceArray)
    (result,) = client.compile(DOUBLE).execute([buffer])
    assert isinstance(result.ready.result(), DeviceArray)
    assert np.array_equal(np.asarray(result), [0, 2, 4, 6])
    assert client.platform_name == "small" and str(result.device) == "small:0"


def test_each_device_has_a_memory():
    client = Client.sim(Small, devices=2)
    first, second = client.devices
    here = client.buffer_from_host(np.ones(4, np.float32), first)
    there = here.copy_to(second.default_memory)
    assert isinstance(client.compiler, SimCompiler)
    used = [s.memory.used for s in client.compiler.simulators]
    assert used[0] == used[1] > 0
    (result,) = client.compile(DOUBLE).execute_portable([there], second)
    assert result.device is second and np.array_equal(np.asarray(result), np.full(4, 2))


def test_host_memory_is_not_the_device_s():
    client = Client.sim(Small)
    buffer = client.buffer_from_host(np.ones(4, np.float32), client.devices[0].memory_space("pinned_host"))
    assert isinstance(buffer.ready.result(), np.ndarray)


def test_what_the_device_has_not_is_refused_when_it_is_compiled():
    module = xl.parse("HloModule m\nENTRY e { x = f32[4] parameter(0)  ROOT y = f32[4] tanh(x) }")
    with pytest.raises(xl.UnsupportedError, match="the device small has no tanh"):
        Client.sim(Small).compile(module)


def test_all_that_the_device_has_not_is_named_at_once():
    xl.custom_call("there", platform="small")(lambda out, x: None)
    module = xl.parse("""HloModule lacking
      ENTRY e { x = f32[4] parameter(0)
      t = f32[4] tanh(x), metadata={op_name="layer/tanh" source_file="model.py" source_line=3}
      u = f32[4] tanh(t)  s = f32[4] add(t, u)
      c = f32[4] custom-call(s), custom_call_target="elsewhere"  d = f32[4] custom-call(c), custom_call_target="there"
      ROOT y = f32[2,2] reshape(d) }""")
    with pytest.raises(xl.UnsupportedError) as caught:
        Client.sim(Small).compile(module)
    assert str(caught.value).splitlines()[:3] == [
        "the device small lacks what 4 instructions of lacking need:",
        "  tanh that gives f32[4], at t of layer/tanh, model.py:3; u",
        "  reshape that gives f32[2,2], at y",
    ]
    assert "no custom call 'elsewhere' is registered" in str(caught.value) and "it has: add" in str(caught.value)


def test_a_compiler_that_takes_few_operators():
    class Few(InterpreterCompiler):
        platform_name = "few"

        def takes(self, instruction):
            return instruction.opcode != "tanh"

    client = Client(Few())
    client.compile(DOUBLE)
    with pytest.raises(xl.UnsupportedError, match=r"few lacks what 2 instructions of m need:\n  tanh .* at t; u"):
        client.compile(
            xl.parse("HloModule m ENTRY e { x = f32[] parameter(0) t = f32[] tanh(x) ROOT u = f32[] tanh(t) }")
        )


def test_statistics():
    client = Client.sim(Small)
    device = client.devices[0]
    held = client.buffer_from_host(np.ones(100, np.float32))
    found = device.memory_stats()
    assert found == {
        "bytes_in_use": 448,
        "peak_bytes_in_use": 448,
        "num_allocs": 1,
        "largest_alloc_size": 448,
        "bytes_limit": 4096,
        "largest_free_block_bytes": 4096 - 448,
    }
    held.delete()
    again = device.memory_stats()
    assert again is not None and again["bytes_in_use"] == 0 and again["peak_bytes_in_use"] == 448
    assert Client.interpreter().devices[0].memory_stats() is None


def test_a_program_for_which_the_memory_is_too_small():
    module = xl.parse("""ENTRY e { x = f32[600] parameter(0)
      ROOT y = f32[600] add(x, x), metadata={source_file="model.py" source_line=5} }""")
    client = Client.sim(Small)
    buffer = client.buffer_from_host(np.ones(600, np.float32))
    with pytest.raises(MemoryError, match=r"out of device memory: 2400 bytes .* \(at y, model.py:5\)") as caught:
        np.asarray(client.compile(module).execute([buffer])[0])
    assert code_of(caught.value) is Code.RESOURCE_EXHAUSTED


def test_traces():
    client = Client.sim(Small)
    with trace() as taken:
        buffer = client.buffer_from_host(np.ones(4, np.float32))
        np.asarray(client.compile(DOUBLE).execute([buffer])[0])
    names = {kind: [s["name"] for s in taken.spans(kind)] for kind in ("compile", "execute", "kernel", "transfer")}
    assert names == {
        "compile": ["double"],
        "execute": ["double"],
        "kernel": ["y"],
        "transfer": ["host to device", "device to host"],
    }
    (run,), (kernel,) = taken.spans("execute"), taken.spans("kernel")
    assert taken.thread_names()[run["tid"]] == "small:0" and kernel["tid"] == run["tid"]
    assert run["ts"] <= kernel["ts"] and kernel["ts"] + kernel["dur"] <= run["ts"] + run["dur"]


def test_memory_that_the_host_cannot_read_is_not_lent():
    client = Client.sim(Small)
    device = client.devices[0]
    lend: Any = np.from_dlpack
    with pytest.raises(BufferError, match=r"the host cannot read device\(small:0\)"):
        lend(client.buffer_from_host(np.ones(4, np.float32)))
    host = client.buffer_from_host(np.ones(4, np.float32), device.memory_space("pinned_host"))
    assert np.array_equal(lend(host), np.ones(4))


def test_arguments_in_the_host_s_memory_are_copied_to_the_device():
    client = Client.sim(Small)
    host = client.buffer_from_host(np.ones(4, np.float32), client.devices[0].memory_space("pinned_host"))
    (result,) = client.compile(DOUBLE).execute([host])
    assert isinstance(result.ready.result(), DeviceArray) and np.array_equal(np.asarray(result), np.full(4, 2))


def test_results_in_another_device_s_memory():
    client = Client.sim(Small, devices=2)
    compiler, here = client.compiler, client.buffer_from_host(np.ones(4, np.float32))
    assert isinstance(compiler, SimCompiler)
    program = client.compile(DOUBLE)
    elsewhere = compiler.to_device(np.ones(4, np.float32), 1)
    program.executable.program.run = lambda arguments, launch: elsewhere
    with pytest.raises(xl.EvaluationError, match=r"float32\[4\] as result 0, which is not in the memory of small:0"):
        program.execute([here])[0].block_until_ready()
    program.executable.program.run = lambda arguments, launch: np.ones(4, np.float32)
    with pytest.raises(xl.EvaluationError, match="not in the memory of small:0"):
        program.execute([here])[0].block_until_ready()


def test_full_memory():
    client = Client.sim(Small)
    with pytest.raises(DeviceMemoryError, match="out of device memory"):
        client.buffer_from_host(np.zeros(10_000, np.float32))
    host = client.buffer_from_host(np.zeros(10_000, np.float32), client.devices[0].memory_space("pinned_host"))
    with pytest.raises(DeviceMemoryError, match="out of device memory"):
        host.copy_to(client.devices[0].default_memory).block_until_ready()


def test_deleted_buffers_are_refused():
    client = Client.sim(Small)
    buffer = client.buffer_from_host(np.ones(4, np.float32))
    buffer.delete()
    with pytest.raises(PjrtError, match="deleted or donated"):
        client.compile(DOUBLE).execute([buffer])
