"""Buffers and programs whose arrays are not row-major."""

import numpy as np
import pytest

import xloom as xl
from xloom.errors import UnsupportedError
from xloom.hlo.shape import Layout
from xloom.pjrt import Client
from xloom.pjrt.buffer import HostBufferSemantics

TEXT = """HloModule m, entry_computation_layout={(f32[2,3]{0,1}, f32[2,3]{1,0})->f32[2,3]{0,1}}
  ENTRY e { x = f32[2,3]{0,1} parameter(0)  y = f32[2,3] parameter(1)  ROOT s = f32[2,3]{0,1} subtract(x, y) }"""
COLUMNS = Layout((0, 1))
X, Y = np.arange(6, dtype=np.float32).reshape(2, 3), np.array([[5, 1, 4], [9, 2, 6]], np.float32)
CLIENTS = [Client.cpu, Client.interpreter, Client.sim]


@pytest.mark.parametrize("make", CLIENTS)
def test_program(make):
    client = make()
    program = client.compile(xl.parse(TEXT))
    arguments = [client.buffer_from_host(X, layout=COLUMNS), client.buffer_from_host(Y)]
    (result,) = program.execute(arguments)
    assert result.shape.layout == COLUMNS
    np.testing.assert_array_equal(result, X - Y)
    assert result.memory_space.get(result.ready.result()).shape == (3, 2)


@pytest.mark.parametrize("make", CLIENTS)
def test_arguments_in_other_layouts(make):
    client = make()
    program = client.compile(xl.parse(TEXT))
    (result,) = program.execute([client.buffer_from_host(X), client.buffer_from_host(Y, layout=COLUMNS)])
    np.testing.assert_array_equal(result, X - Y)


def test_buffer():
    client = Client.cpu()
    buffer = client.buffer_from_host(X, layout=COLUMNS)
    np.testing.assert_array_equal(buffer, X)
    np.testing.assert_array_equal(np.from_dlpack(buffer), X)
    np.testing.assert_array_equal(buffer.ready.result(), X.T)
    copy = buffer.copy_to(client.devices[0].memory_space("pinned_host"))
    assert copy.shape == buffer.shape
    np.testing.assert_array_equal(copy, X)


def test_zero_copy():
    array = np.asfortranarray(X)
    buffer = Client.cpu().buffer_from_host(array, semantics=HostBufferSemantics.MUTABLE_ZERO_COPY, layout=COLUMNS)
    array[1, 2] = 17
    np.testing.assert_array_equal(buffer, array)


def test_serialised():
    client = Client.cpu()
    program = client.deserialize(client.compile(xl.parse(TEXT)).executable.serialize())
    assert program.executable.outputs[0].layout == COLUMNS
    (result,) = program.execute([client.buffer_from_host(X), client.buffer_from_host(Y)])
    np.testing.assert_array_equal(result, X - Y)


def test_layouts_with_tiles_are_refused():
    argument = 'tensor<4x4xf32> {mhlo.layout_mode = "{1,0:T(2,2)}"}'
    with pytest.raises(UnsupportedError, match=r"\{1,0:T\(2,2\)\} of f32\[4,4\].* has tiles"):
        xl.from_stablehlo(f"func.func @main(%x: {argument}) -> tensor<4x4xf32> {{ return %x : tensor<4x4xf32> }}")
