"""What a device gives to an all-gather is made where it belongs in what comes of it: native code and the interpreter."""

import numpy as np
import pytest

from xloom.codegen.buffers.assigner import assigned
from xloom.codegen.buffers.reuse import BufferReuse
from xloom.codegen.schedule.thunks import scheduled
from xloom.cpu.lower import lowered
from xloom.cpu.prepare import prepared
from xloom.errors import BufferAssignmentError
from xloom.hlo.text.parser import parse
from xloom.llvm.target import process_target
from xloom.pjrt import Client

WHO = "channel_id=1, replica_groups={{1,3},{2,0}}, use_global_device_ids=true"
GATHER = f"all-gather(s), {WHO}, dimensions={{0}}"
NEGATE = "s = f32[16,8] negate(p) "
DOT = "f32[16,8] dot(p, q), lhs_contracting_dims={1}, rhs_contracting_dims={0} "
PROGRAMS = {
    "computed": (f"{NEGATE} ROOT r = f32[32,8] {GATHER}", 1),
    "of a kernel": (f"s = {DOT} ROOT r = f32[32,8] {GATHER}", 1),
    "reshaped": (f"n = f32[16,8] negate(p) s = f32[128] reshape(n) ROOT r = f32[256] {GATHER}", 1),
    "read before": (f"{NEGATE} t = {DOT.replace('p', 's')} g = f32[32,8] {GATHER} h = f32[32,8] multiply(g, g) "
    "ROOT r = (f32[32,8], f32[16,8]) tuple(h, t)", 0),
    "read after": (f"{NEGATE} g = f32[32,8] {GATHER} ROOT r = (f32[32,8], f32[16,8]) tuple(g, s)", 0),
    "an argument": (f"ROOT r = f32[32,8] {GATHER.replace('s)', 'p)')}", 0),
    "two": (f"{NEGATE} t = {DOT} ROOT r = (f32[32,8], f32[32,8]) {GATHER.replace('s)', 's, t)')}", 2),
    "one twice": (f"{NEGATE} ROOT r = (f32[32,8], f32[32,8]) {GATHER.replace('s)', 's, s)')}", 1),
    "in blocks": (f"{NEGATE} ROOT r = f32[16,16] {GATHER.replace('={0}', '={1}')}", 0),
    "small": (f"t = f32[2,8] slice(q), slice={{[0:2],[0:8]}} s = f32[2,8] negate(t) ROOT r = f32[4,8] {GATHER}", 0),
    "changed afterwards": (f"{NEGATE} g = f32[32,8] {GATHER} h = f32[32,8] abs(g) "
    "a = f32[8,32] transpose(h), dimensions={1,0} "
    "ROOT r = f32[32,32] dot(h, a), lhs_contracting_dims={1}, rhs_contracting_dims={0}", 1),
    "of what was gathered": (f"{NEGATE} g = f32[32,8] {GATHER} n = f32[32,8] negate(g) "
    f"ROOT r = f32[64,8] all-gather(n), {WHO}, dimensions={{0}}", 3),
}  # fmt: skip
"""Programs, and how many arrays are to be made where they belong."""
TURN = """HloModule m, num_partitions=4
body { t = (s32[], f32[32,8]) parameter(0) i = s32[] get-tuple-element(t), index=0
  x = f32[32,8] get-tuple-element(t), index=1 one = s32[] constant(1) n = s32[] add(i, one) BODY
  ROOT u = (s32[], f32[32,8]) tuple(n, r) }
more { t = (s32[], f32[32,8]) parameter(0) i = s32[] get-tuple-element(t), index=0 k = s32[] constant(5)
  ROOT c = pred[] compare(i, k), direction=LT }
ENTRY e { p = f32[16,8] parameter(0) q = f32[8,8] parameter(1) a = f32[32,8] concatenate(p, p), dimensions={0}
  z = s32[] constant(0) t = (s32[], f32[32,8]) tuple(z, a) w = (s32[], f32[32,8]) while(t), condition=more, body=body
  ROOT r = f32[32,8] get-tuple-element(w), index=1 }"""
PLACE = """e = u32[] partition-id() f = u32[] constant(5) at = u32[] multiply(e, f) zero = u32[] constant(0)
  d = f32[16,8] dynamic-slice(x, at, zero), dynamic_slice_sizes={16,8} """
LOOPS = {
    "of the state": f"{PLACE} s = f32[16,8] negate(d) r = f32[32,8] {GATHER}",
    "of a part": f"{PLACE} r = f32[32,8] {GATHER.replace('s)', 'd)')}",
    "and more": f"{PLACE} s = f32[16,8] negate(d) g = f32[32,8] {GATHER} r = f32[32,8] add(g, x)",
    "made anew": f"{PLACE} s = f32[16,8] negate(d) g = f32[32,8] {GATHER} r = f32[32,8] negate(g)",
}


@pytest.fixture(scope="module")
def clients():
    made = Client.cpu(4), Client.interpreter(4)
    yield made
    for client in made:
        client.close()


def parts_of(text: str) -> int:
    assignment = assigned(scheduled(prepared(parse(text)).entry), process_target())
    return sum(allocation.kind == "part" for allocation in assignment.allocations.values())


def check(clients, text: str) -> None:
    rng = np.random.default_rng(0)
    rows = [[rng.integers(-9, 9, dims).astype(np.float32) for dims in ((16, 8), (8, 8))] for _ in range(4)]
    results = []
    for client in clients:
        buffers = [[client.buffer_from_host(a, d) for a in row] for row, d in zip(rows, client.devices, strict=True)]
        results.append(client.compile(parse(text)).execute_sharded(buffers))
    for ours, wanted in zip(*results, strict=True):
        for mine, reference in zip(ours, wanted, strict=True):
            np.testing.assert_array_equal(np.asarray(mine), np.asarray(reference))


@pytest.mark.parametrize("name", PROGRAMS)
def test_program(clients, name):
    body, count = PROGRAMS[name]
    head = "HloModule m, num_partitions=4\nENTRY e { p = f32[16,8] parameter(0) q = f32[8,8] parameter(1)"
    text = f"{head} {body} }}"
    assert parts_of(text) == count
    check(clients, text)


@pytest.mark.parametrize("name", LOOPS)
def test_in_a_loop(clients, name):
    text = TURN.replace("BODY", LOOPS[name])
    assert parts_of(text) == (name != "made anew")
    check(clients, text)


def test_what_is_made_over_that_which_it_is_made_from_is_found(monkeypatch):
    monkeypatch.setattr(BufferReuse, "keeps_part_apart", lambda *_: False)
    monkeypatch.setattr(BufferReuse, "_is_free_from", lambda *_: True)
    with pytest.raises(BufferAssignmentError, match="after %s is written over it"):
        lowered(prepared(parse(TURN.replace("BODY", LOOPS["of the state"]))), process_target())
