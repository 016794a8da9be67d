"""Programs of several GPUs, which copy from each other's memory: against the interpreter, on a simulated driver."""

import numpy as np
import pytest

import xloom as xl
from tests.cuda.simulation import simulated_client
from xloom.cuda.run_time.device import CudaDevice
from xloom.errors import EvaluationError, LoweringError
from xloom.pjrt import Client, CompileOptions, PjrtError

ADD = "add { a = f32[] parameter(0) b = f32[] parameter(1) ROOT c = f32[] add(a, b) }\n"
BODIES = {
    "all-reduce": "f32[4,6] all-reduce(x), to_apply=add, replica_groups={}",
    "all-reduce of groups": "f32[4,6] all-reduce(x), to_apply=add, replica_groups={{0,2},{1,3}}",
    "reduce-scatter": "f32[1,6] reduce-scatter(x), to_apply=add, dimensions={0}, replica_groups={{0,1,2,3}}",
    "all-gather": "f32[16,6] all-gather(x), dimensions={0}, replica_groups={{0,1,2,3}}",
    "all-gather of columns": "f32[4,12] all-gather(x), dimensions={1}, replica_groups={{0,1},{3,2}}",
    "all-to-all": "f32[4,6] all-to-all(x), dimensions={0}, replica_groups={{0,1,2,3}}",
    "all-to-all of columns": "f32[4,6] all-to-all(x), dimensions={1}, replica_groups={{0,1},{2,3}}",
    "collective-permute": "f32[4,6] collective-permute(x), source_target_pairs={{0,1},{1,2},{2,0}}",
    "collective-broadcast": "f32[4,6] collective-broadcast(x), replica_groups={{2,0},{1}}",
    "replica-id": "u32[] replica-id()",
}


def module_of(body):
    return xl.parse(f"HloModule m, replica_count=4\n{ADD}ENTRY e {{ x = f32[4,6] parameter(0)\n  ROOT r = {body} }}")


def each(seed=0):
    return [np.random.default_rng(seed + k).standard_normal((4, 6)).astype(np.float32) for k in range(4)]


def ran(client, module, arrays, options=None):
    executable = client.compile(module, options)
    rows = [[client.buffer_from_host(a, d)] for a, d in zip(arrays, executable.devices, strict=True)]
    return [np.asarray(row[0]) for row in executable.execute_sharded(rows)]


@pytest.mark.parametrize("name", BODIES)
def test_collectives_as_the_interpreter_has_them(name):
    module = module_of(BODIES[name])
    expected = ran(Client.interpreter(4), module, each())
    for seed in range(2):
        client, _ = simulated_client(4, seed=seed)
        for ours, theirs in zip(ran(client, module, each()), expected, strict=True):
            np.testing.assert_allclose(ours, theirs, rtol=1e-6)


def test_replicas_and_partitions():
    text = f"""HloModule m, replica_count=2, num_partitions=2
{ADD}ENTRY e {{ x = f32[4,6] parameter(0)
  r = f32[4,6] all-reduce(x), to_apply=add, channel_id=1, use_global_device_ids=true, replica_groups={{{{0,3}},{{1,2}}}}
  p = u32[] partition-id() f = f32[] convert(p) b = f32[4,6] broadcast(f), dimensions={{}} ROOT s = f32[4,6] add(r, b) }}"""
    module, options = xl.parse(text), CompileOptions(2, 2)
    expected = ran(Client.interpreter(4), module, each(), options)
    client, _ = simulated_client(4)
    for ours, theirs in zip(ran(client, module, each(), options), expected, strict=True):
        np.testing.assert_allclose(ours, theirs, rtol=1e-6)


def test_a_loop_of_collectives():
    text = f"""HloModule m, replica_count=2
{ADD}
condition {{ p = (s32[], f32[4,6]) parameter(0) i = s32[] get-tuple-element(p), index=0
  n = s32[] constant(3) ROOT r = pred[] compare(i, n), direction=LT }}
body {{ p = (s32[], f32[4,6]) parameter(0) i = s32[] get-tuple-element(p), index=0 one = s32[] constant(1)
  j = s32[] add(i, one) v = f32[4,6] get-tuple-element(p), index=1
  w = f32[4,6] all-reduce(v), to_apply=add, replica_groups={{}} ROOT t = (s32[], f32[4,6]) tuple(j, w) }}
ENTRY e {{ x = f32[4,6] parameter(0) i = s32[] constant(0) p = (s32[], f32[4,6]) tuple(i, x)
  w = (s32[], f32[4,6]) while(p), condition=condition, body=body ROOT y = f32[4,6] get-tuple-element(w), index=1 }}"""
    client, _ = simulated_client(2)
    for found in ran(client, xl.parse(text), each()[:2]):
        np.testing.assert_allclose(found, 4 * (each()[0] + each()[1]), rtol=1e-5)


def test_devices_that_do_not_wait_for_each_other_are_found(monkeypatch):
    follow = CudaDevice.follow

    def forgetful(self, stream, completion):
        if completion is None or completion._device is self:
            follow(self, stream, completion)

    monkeypatch.setattr(CudaDevice, "follow", forgetful)
    wrong = 0
    module = xl.parse(
        f"HloModule m, replica_count=4\n{ADD}ENTRY e {{ x = f32[4,6] parameter(0) y = f32[4,6] exponential(x)\n"
        f"  ROOT r = {BODIES['all-gather'].replace('(x)', '(y)')} }}"
    )
    expected = np.concatenate([np.exp(x) for x in each()])
    for seed in range(6):
        client, _ = simulated_client(4, seed=seed)
        try:
            wrong += any(not np.allclose(found, expected) for found in ran(client, module, each()))
        except (PjrtError, EvaluationError):
            wrong += 1
    assert wrong


def test_who_waits_for_a_device_that_failed_is_told():
    client, _ = simulated_client(2, memory_bytes=1 << 20)
    text = f"""HloModule m, replica_count=2
{ADD}ENTRY e {{ x = f32[] parameter(0) b = f32[1024,512] broadcast(x), dimensions={{}}
  y = f32[1024,512] all-reduce(b), to_apply=add, replica_groups={{}} ROOT r = f32[1024,512] add(y, b) }}"""
    executable = client.compile(xl.parse(text))
    rows = [[client.buffer_from_host(np.float32(1), device)] for device in executable.devices]
    with pytest.raises(Exception, match=r"out of device memory|another device failed"):
        for row in executable.execute_sharded(rows):
            row[0].block_until_ready()


def test_one_emulated_gpu_is_none_for_several():
    with pytest.raises(LoweringError, match="a program of several devices is none for one emulated GPU"):
        Client.cuda_emulator(devices=4).compile(module_of(BODIES["all-gather"]))
