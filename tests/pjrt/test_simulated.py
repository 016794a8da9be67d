"""Simulated accelerators as a backend."""

import numpy as np
import pytest

import xloom as xl
from xloom.pjrt import Client, PjrtError, SimCompiler
from xloom.sim import DeviceArray, DeviceMemoryError, Simulator

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
