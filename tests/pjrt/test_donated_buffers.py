"""Donated buffers: results lie in their memory, unless anybody else may still look at it."""

import threading

import numpy as np
import pytest

from xloom.hlo.text.parser import parse
from xloom.pjrt import Client, PjrtError

SIZES = [1000, 9_000_000]  # run at once, and by the device's thread


def step(size, kind="may"):
    """x with the numbers 1 to 3 written to it at i, and i + 1."""
    return parse(f"""HloModule step, input_output_alias={{ {{0}}: (0, {{}}, {kind}-alias) }}
ENTRY e {{
  x = f32[{size}] parameter(0)
  i = s32[] parameter(1)
  u = f32[3] constant({{1, 2, 3}})
  y = f32[{size}] dynamic-update-slice(x, u, i)
  one = s32[] constant(1)
  j = s32[] add(i, one)
  ROOT t = (f32[{size}], s32[]) tuple(y, j)
}}""")


@pytest.fixture
def client():
    made = Client.cpu()
    yield made
    made.close()


def address(buffer):
    value = buffer.ready.result()
    return value.ctypes.data


def settled(buffer):
    """The buffer, once the device's thread has let go of it."""
    buffer.block_until_ready()
    done = threading.Event()
    buffer.device.queue.submit(done.set)
    assert done.wait(60)
    return buffer


@pytest.mark.parametrize("size", SIZES)
def test_state_stays_where_it_is(client, size):
    program = client.compile(step(size))
    x, i = client.buffer_from_host(np.zeros(size, np.float32)), client.buffer_from_host(np.int32(0))
    place = address(x)
    for _ in range(4):
        before = x
        x, i = program.execute([x, i])
        assert before.is_deleted
        assert address(settled(x)) == place
    np.testing.assert_array_equal(np.asarray(x)[:8], [1, 1, 1, 1, 2, 3, 0, 0])


@pytest.mark.parametrize("size", SIZES)
def test_what_others_look_at_is_copied(client, size):
    program = client.compile(step(size))
    x, i = client.buffer_from_host(np.zeros(size, np.float32)), client.buffer_from_host(np.int32(0))
    view = x.to_host()
    y, _ = program.execute([x, i])
    np.testing.assert_array_equal(np.asarray(y)[:4], [1, 2, 3, 0])
    assert not view.any()
    seen = np.from_dlpack(settled(y))
    z, _ = program.execute([y, client.buffer_from_host(np.int32(5))])
    np.testing.assert_array_equal(np.asarray(z)[:8], [1, 2, 3, 0, 0, 1, 2, 3])
    np.testing.assert_array_equal(seen[:8], [1, 2, 3, 0, 0, 0, 0, 0])


def test_arrays_that_were_made_together_stay_where_they_are(client):
    size, count = 20_000, 60
    shape = f"f32[{size}]"
    results = ", ".join(f"x.{k}" for k in range(count))
    lines = "".join(
        f"c.{k} = f32[] constant({k}) x.{k} = {shape} broadcast(c.{k}), dimensions={{}} " for k in range(count)
    )
    made = client.compile(parse(f"ENTRY e {{ {lines} ROOT t = ({', '.join([shape] * count)}) tuple({results}) }}"))
    *others, x = made.execute([])
    place, i = address(settled(x)), client.buffer_from_host(np.int32(0))
    y, _ = client.compile(step(size)).execute([x, i])
    assert address(settled(y)) == place
    np.testing.assert_array_equal(np.asarray(y)[:4], [1, 2, 3, count - 1])
    for k, other in enumerate(others):
        assert (np.asarray(other) == k).all()


@pytest.mark.parametrize("size", SIZES)
def test_memory_that_is_used_outside_is_copied_and_its_buffer_stays(client, size):
    program = client.compile(step(size))
    x, i = client.buffer_from_host(np.zeros(size, np.float32)), client.buffer_from_host(np.int32(0))
    place = address(x)
    x.acquire_external_reference()
    y, _ = program.execute([x, i])
    assert address(y) != place and not x.is_deleted
    x.release_external_reference()
    program.execute([x, client.buffer_from_host(np.int32(0))])
    assert x.is_deleted


def test_donors_that_no_result_takes_stay(client):
    """Each result takes one of its size, of any type."""
    program = client.compile(
        parse("""HloModule m, buffer_donor={ (0, {}), (1, {}), (2, {}), (3, {}) }
ENTRY e { w = f64[500] parameter(0) x = f32[1000] parameter(1) y = f32[1000] parameter(2) z = f32[10] parameter(3)
  a = f32[1000] add(x, y) b = s32[1000] convert(y) ROOT t = (f32[1000], s32[1000]) tuple(a, b) }""")
    )
    given = [
        client.buffer_from_host(np.full(n, k, t))
        for k, (n, t) in enumerate([(500, "f8"), *[(1000, "f4")] * 2, (10, "f4")])
    ]
    a, b = program.execute(given)
    assert [x.is_deleted for x in given] == [True, True, False, False]
    np.testing.assert_array_equal(np.asarray(a), np.full(1000, 3))
    np.testing.assert_array_equal(np.asarray(b), np.full(1000, 2))


def test_the_hosts_own_memory_is_not_written_to(client):
    from xloom.pjrt.buffer import HostBufferSemantics

    program = client.compile(step(1000))
    host = np.zeros(1001, np.float32)
    for array in (host[:1000], host[1:]):
        x = client.buffer_from_host(array, semantics=HostBufferSemantics.IMMUTABLE_ZERO_COPY)
        del array
        y, _ = program.execute([x, client.buffer_from_host(np.int32(0))])
        assert np.asarray(y)[0] == 1
    assert not host.any()


def test_must_alias(client):
    program = client.compile(step(1000, "must"))
    x, i = client.buffer_from_host(np.zeros(1000, np.float32)), client.buffer_from_host(np.int32(0))
    with pytest.raises(PjrtError, match="must-alias at compile time but not donated at runtime"):
        program.execute([x, i], not_donated=[0])
    assert not x.is_deleted
    place = address(x)
    y, _ = program.execute([x, i])
    assert address(y) == place
