"""PJRT's objects without JAX."""

import json
import threading
import time

import ml_dtypes
import numpy as np
import pytest

from xloom.hlo.text.parser import parse
from xloom.pjrt import Client, Code, CompileOptions, Future, HostBufferSemantics, PjrtError
from xloom.pjrt.capi import structs
from xloom.pjrt.capi.topologies import Topology
from xloom.pjrt.compiler import CpuCompiler
from xloom.pjrt.device import described
from xloom.pjrt.options import assignment_proto
from xloom.pjrt.protobuf_wire_format import embedded, scalar
from xloom.pjrt.queue import LIMIT, Queue

PAIR = """HloModule pair
ENTRY e {
  p = f32[4] parameter(0)
  q = f32[4] parameter(1)
  a = f32[4] add(p, q)
  ROOT t = (f32[4], f32[4]) tuple(a, p)
}"""
DONATED = """HloModule donated, input_output_alias={ {}: (0, {}, may-alias) }
ENTRY e {
  p = f32[4] parameter(0)
  q = f32[4] parameter(1)
  ROOT a = f32[4] add(p, q)
}"""
REDUCED = """HloModule reduced, replica_count=4
sum { x = f32[] parameter(0) y = f32[] parameter(1) ROOT s = f32[] add(x, y) }
ENTRY e {
  p = f32[4] parameter(0)
  ROOT a = f32[4] all-reduce(p), replica_groups={{0,1,2,3}}, to_apply=sum
}"""
X = np.arange(4, dtype=np.float32)


@pytest.fixture(params=["cpu", "interpreter"])
def client(request):
    made = getattr(Client, request.param)()
    yield made
    made.close()


def test_execute(client):
    program = client.compile(parse(PAIR))
    total, first = program.execute([client.buffer_from_host(X), client.buffer_from_host(X + 1)])
    assert np.array_equal(total, 2 * X + 1)
    assert np.array_equal(np.from_dlpack(first), X)
    assert str(total.on_device_shape) == "f32[4]{0}"
    assert total.memory_space.kind == "device"


def test_donation(client):
    program = client.compile(parse(DONATED))
    x, y = client.buffer_from_host(X), client.buffer_from_host(X)
    program.execute([x, y], not_donated=[0])
    (total,) = program.execute([x, y])
    assert np.array_equal(total, 2 * X)
    assert x.is_deleted and not y.is_deleted
    with pytest.raises(PjrtError, match="Buffer has been deleted or donated"):
        program.execute([x, y])
    with pytest.raises(PjrtError, match="deleted or donated"):
        np.asarray(x)
    with pytest.raises(PjrtError, match="previously donated in the same call"):
        program.execute([y, y])


def test_bad_arguments(client):
    program = client.compile(parse(PAIR))
    x = client.buffer_from_host(X)
    with pytest.raises(PjrtError, match="supplied 1 buffers but compiled program expected 2"):
        program.execute([x])
    program.delete()
    with pytest.raises(PjrtError, match="deleted executable"):
        program.execute([x, x])
    with pytest.raises(PjrtError, match="for 4 devices, and there are 1"):
        client.compile(parse(REDUCED))


def test_serialized(client):
    program = client.compile(parse(PAIR))
    again = client.deserialize(program.executable.serialize())
    x = client.buffer_from_host(X)
    assert np.array_equal(again.execute([x, x])[0], 2 * X)
    assert again.executable.fingerprint == program.executable.fingerprint
    with pytest.raises(PjrtError, match="not an executable"):
        client.deserialize(b"something else")


def test_a_damaged_executable_is_refused(client):
    data = client.compile(parse(PAIR)).executable.serialize()
    for at in (0, 13, 20, 46, 60, len(data) // 2, len(data) - 1):
        for damaged in (data[:at], data[:at] + bytes([data[at] ^ 1]) + data[at + 1 :]):
            with pytest.raises(PjrtError, match=r"not an executable|damaged"):
                client.deserialize(damaged)
    with pytest.raises(PjrtError, match="damaged"):
        client.deserialize(data + b"more")


@pytest.mark.parametrize("kind", ["cpu", "interpreter"])
def test_several_devices(kind):
    client = getattr(Client, kind)(devices=4)
    program = client.compile(parse(REDUCED))
    arguments = [[client.buffer_from_host(X * k, device)] for k, device in enumerate(client.devices)]
    for each in (program, client.deserialize(program.executable.serialize())):
        for (total,), device in zip(each.execute_sharded(arguments), client.devices, strict=True):
            assert np.array_equal(total, X * 6)
            assert total.device is device
    client.close()


def test_host_buffer_semantics():
    client, array = Client.cpu(), X.copy()
    copy = client.buffer_from_host(array)
    view = client.buffer_from_host(array, semantics=HostBufferSemantics.IMMUTABLE_ZERO_COPY)
    array[0] = 7
    assert np.asarray(copy)[0] == 0
    assert np.asarray(view)[0] == 7
    swapped = client.buffer_from_host(X.astype(">f4"), semantics=HostBufferSemantics.IMMUTABLE_ZERO_COPY)
    assert np.array_equal(swapped, X)


def test_memories():
    client = Client.cpu(2)
    x = client.buffer_from_host(X, client.devices[1].memory_space("pinned_host"))
    assert x.memory_space.kind == "pinned_host"
    there = x.copy_to(client.devices[0].default_memory)
    x.delete()
    assert np.array_equal(there, X)
    assert there.device.id == 0


def test_errors_come_through_futures():
    client = Client.cpu()
    program = client.compile(parse(PAIR))
    bad = client.buffer_from_host(X)
    bad.ready = Future.failed(PjrtError(Code.DATA_LOSS, "gone"))
    for result in program.execute([bad, bad]):
        with pytest.raises(PjrtError, match="gone"):
            np.asarray(result)


def test_what_is_not_ready_is_waited_for():
    client = Client.cpu()
    program = client.compile(parse(PAIR))
    late = client.buffer_from_host(X)
    late.ready = Future()
    results = program.execute([late, late])
    assert not results[0].ready.is_ready
    late.ready.set(X)
    assert np.array_equal(results[0], 2 * X)
    client.close()


def late(go, seen, value):
    def work():
        go.wait()
        seen.append(value)

    return work


def test_queue_is_bounded():
    queue, go, seen = Queue("test"), threading.Event(), []
    submitted = []

    def submit():
        for k in range(3 * LIMIT):
            queue.submit(late(go, seen, k))
            submitted.append(k)

    submitter = threading.Thread(target=submit)
    submitter.start()
    for _ in range(6000):
        if len(submitted) == LIMIT:
            break
        time.sleep(0.01)
    submitter.join(0.2)
    assert len(submitted) == LIMIT and not seen
    go.set()
    submitter.join()
    queue.close()
    assert seen == list(range(3 * LIMIT))


def test_queue_ends_while_others_wait_for_it():
    queue, go, seen = Queue("test"), threading.Event(), []

    def submit(name):
        for k in range(LIMIT):
            queue.submit(late(go, seen, (name, k)))

    submitters = [threading.Thread(target=submit, args=(name,)) for name in "abc"]
    for submitter in submitters:
        submitter.start()
    time.sleep(0.05)
    closer = threading.Thread(target=queue.close)
    closer.start()
    time.sleep(0.05)
    go.set()
    for thread in (*submitters, closer):
        thread.join(10)
        assert not thread.is_alive()
    assert len(seen) == 3 * LIMIT  # all of it is done


def test_queue_keeps_order():
    queue, seen, done = Queue("test"), [], threading.Event()
    for k in range(100):
        queue.submit(lambda k=k: seen.append(k))
    queue.submit(lambda: queue.submit(done.set))  # its own thread does not wait for itself
    assert done.wait(10)
    queue.close()
    assert seen == list(range(100))


def test_queue_tells_whether_long_work_is_left():
    queue, go, seen = Queue("test"), threading.Event(), []
    queue.submit(late(go, seen, "short"), is_short=True)
    assert queue.is_nearly_done
    queue.submit(late(go, seen, "long"))
    assert not queue.is_nearly_done
    go.set()
    ended = threading.Event()
    queue.submit(ended.set, is_short=True)
    assert ended.wait(10) and queue.is_nearly_done
    queue.close()
    assert seen == ["short", "long"]


def test_future_callbacks():
    future, seen = Future(), []
    future.on_ready(lambda f: seen.append(f.value))
    assert not future.wait(0.01)
    future.set(3)
    future.on_ready(lambda f: seen.append(f.value + 1))
    assert seen == [3, 4]
    assert future.result() == 3


def test_compile_options():
    assignment = assignment_proto(((0, 1), (2, 3)))
    options = CompileOptions.from_proto(embedded(3, scalar(4, 2) + scalar(5, 2) + embedded(9, assignment)))
    assert (options.num_replicas, options.num_partitions) == (2, 2)
    assert options.devices() == ((0, 1), (2, 3))
    assert CompileOptions.from_proto(b"").devices() == ((0,),)
    with pytest.raises(PjrtError, match="not a serialised message"):
        CompileOptions.from_proto(b"\x1a\x7f")


def test_names_are_those_of_the_header():
    assert [code.name for code in Code] == structs.ERROR_CODES.split()
    names = [semantics.name.replace("_", "") for semantics in HostBufferSemantics]
    assert names == structs.HOST_BUFFER_SEMANTICS.upper().split()


def test_excess_precision():
    module = parse("""HloModule m
      ENTRY e { x = bf16[8] parameter(0)  y = bf16[8] parameter(1)
        s = bf16[8] add(x, y)  ROOT d = bf16[8] subtract(s, x) }""")
    client = Client.cpu()
    arguments = [client.buffer_from_host(np.full(8, n, ml_dtypes.bfloat16)) for n in (256, 1)]
    override = embedded(7, embedded(1, b"xla_allow_excess_precision") + embedded(2, scalar(2, 0)))
    exact = CompileOptions(allow_excess_precision=False)
    for options, wanted in (
        (CompileOptions(), 1),
        (CompileOptions.from_proto(override), 0),
        (exact, 0),
        (CompileOptions.from_proto(exact.to_proto()), 0),
    ):
        (found,) = client.compile(module, options).execute(arguments)
        assert (np.asarray(found) == wanted).all()


def test_a_topology_has_the_devices_of_each_process():
    compiler = CpuCompiler()
    made = Topology(compiler, described(compiler, (2, 1)))
    assert [(each.id, each.process_index) for each in made.descriptions] == [(0, 0), (1, 0), (2048, 1)]
    assert json.loads(made.serialize())[2] == [2, 1]
    alone = Topology(compiler, described(compiler, (3,)))
    assert alone.serialize() != made.serialize()
