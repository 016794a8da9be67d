"""Collectives between devices of one process: native code against the interpreter, which meets in Python."""

from itertools import pairwise

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from xloom.errors import EvaluationError, LoweringError
from xloom.hlo.text.parser import parse
from xloom.pjrt import Client
from xloom.pjrt.compiler import SpmdNative
from xloom.trace import trace

REGIONS = """
sum { x = f32[] parameter(0) y = f32[] parameter(1) ROOT s = f32[] add(x, y) }
largest { x = s32[] parameter(0) y = s32[] parameter(1) ROOT s = s32[] maximum(x, y) }
mean { x = f32[] parameter(0) y = f32[] parameter(1) s = f32[] add(x, y) h = f32[] constant(0.5)
  ROOT m = f32[] multiply(s, h) }
"""
P = "p = f32[4,6] parameter(0)\n"
FORMS = {
    "all-reduce": P + "ROOT r = f32[4,6] all-reduce(p), channel_id=1, replica_groups={{0,1},{2,3}}, to_apply=sum",
    "all-reduce-all": P + "ROOT r = f32[4,6] all-reduce(p), replica_groups={}, to_apply=sum",
    "all-reduce-flat": P
    + "ROOT r = f32[4,6] all-reduce(p), channel_id=1, replica_groups={{0,5,7},{1,2,3,4,6}}, use_global_device_ids=true, "
    "to_apply=sum",
    "all-reduce-iota": P
    + "ROOT r = f32[4,6] all-reduce(p), channel_id=1, replica_groups=[2,4]<=[4,2]T(1,0), use_global_device_ids=true, "
    "to_apply=mean",
    "all-reduce-two": P
    + "q = s32[4,6] convert(p) a = (f32[4,6], f32[4,6]) all-reduce(p, p), replica_groups={{3,1},{0,2}}, to_apply=sum\n"
    "b = s32[4,6] all-reduce(q), replica_groups={{0},{1,2,3}}, to_apply=largest\n"
    "g = f32[4,6] get-tuple-element(a), index=1 c = f32[4,6] convert(b) ROOT r = f32[4,6] subtract(g, c)",
    "all-reduce-async": P
    + "s = f32[4,6] all-reduce-start(p), channel_id=1, replica_groups={{0,2},{1,3}}, to_apply=sum\n"
    "ROOT r = f32[4,6] all-reduce-done(s)",
    "all-gather": P + "ROOT r = f32[4,24] all-gather(p), channel_id=1, replica_groups={{1,3},{0,2}}, dimensions={1}",
    "all-gather-async": P
    + "s = (f32[4,6], f32[16,6]) all-gather-start(p), replica_groups={{3,2,1,0}}, dimensions={0}\n"
    "ROOT r = f32[16,6] all-gather-done(s)",
    "reduce-scatter": P
    + "ROOT r = f32[4,3] reduce-scatter(p), channel_id=1, replica_groups={{0,1},{2,3},{4,5},{6,7}}, "
    "use_global_device_ids=true, dimensions={1}, to_apply=sum",
    "reduce-scatter-both": P
    + "ROOT r = f32[1,6] reduce-scatter(p), channel_id=1, replica_groups={{0,1},{2,3}}, dimensions={0}, to_apply=mean",
    "all-to-all": P + "ROOT r = f32[4,6] all-to-all(p), replica_groups={{0,2},{3,1}}, dimensions={1}",
    "all-to-all-tuple": P
    + "n = f32[4,6] negate(p) t = (f32[4,6], f32[4,6]) all-to-all(p, n), channel_id=1, replica_groups={{1,0}}\n"
    "a = f32[4,6] get-tuple-element(t), index=0 b = f32[4,6] get-tuple-element(t), index=1\n"
    "ROOT r = f32[8,6] concatenate(a, b), dimensions={0}",
    "collective-permute": P + "ROOT r = f32[4,6] collective-permute(p), source_target_pairs={{0,1},{1,3},{3,0}}",
    "collective-permute-async": P
    + "s = (f32[4,6], f32[4,6], u32[], u32[]) collective-permute-start(p), channel_id=2, source_target_pairs={{0,1},{1,0}}\n"
    "ROOT r = f32[4,6] collective-permute-done(s)",
    "collective-broadcast": P + "ROOT r = f32[4,6] collective-broadcast(p), replica_groups={{2,1},{0}}",
    "collective-broadcast-all": P + "ROOT r = f32[4,6] collective-broadcast(p), channel_id=1, replica_groups={{1,0}}",
    "numbers": P + "a = u32[] partition-id() b = u32[] replica-id() k = u32[] constant(10) m = u32[] multiply(b, k)\n"
    "n = u32[] add(a, m) f = f32[] convert(n) ROOT r = f32[4,6] broadcast(f), dimensions={}",
    "ragged-all-to-all": P + "o = f32[] constant(-1) out = f32[8,6] broadcast(o), dimensions={}\n"
    "b = u32[] replica-id() i = s32[] convert(b) v = s32[4] broadcast(i), dimensions={}\n"
    "starts = s32[4] constant({0, 1, 1, 3}) sizes = s32[4] constant({1, 2, 0, 1}) got = s32[4] constant({1, 1, 1, 1})\n"
    "ROOT r = f32[8,6] ragged-all-to-all(p, out, starts, sizes, v, got), replica_groups={{0,1,2,3}}",
}


@pytest.fixture(scope="module")
def clients():
    made = Client.cpu(8), Client.interpreter(8)
    yield made
    for client in made:
        client.close()


def run(client: Client, module, arrays) -> list[list[np.ndarray]]:
    program = client.compile(module)
    if client.platform_name != "interpreter":
        assert isinstance(program.executable.program, SpmdNative)
    rows = [[client.buffer_from_host(a, d)] for a, d in zip(arrays, client.devices, strict=False)]
    return [[np.asarray(buffer) for buffer in row] for row in program.execute_sharded(rows)]


def same(clients, text: str, arrays) -> None:
    module = parse(text)
    for ours, wanted in zip(*(run(client, module, arrays) for client in clients), strict=True):
        for mine, reference in zip(ours, wanted, strict=True):
            np.testing.assert_array_equal(mine, reference)


def arrays(shape=(4, 6), count=8):
    rng = np.random.default_rng(0)
    return [rng.integers(-50, 50, shape).astype(np.float32) for _ in range(count)]


@pytest.mark.parametrize("form", FORMS)
def test_form(clients, form):
    same(clients, f"HloModule m, replica_count=4, num_partitions=2{REGIONS}ENTRY e {{ {FORMS[form]} }}", arrays())


def test_a_traced_program_is_native_too(clients):
    with trace():
        same(
            clients, f"HloModule m, replica_count=2\n{REGIONS}ENTRY e {{ {FORMS['all-reduce-all']} }}", arrays(count=2)
        )


def test_what_is_not_native_is_refused(clients):
    form = "r = s32[] constant(0) ROOT b = f32[4,6] collective-broadcast(p, r), replica_groups={{0,1}}"
    module = parse(f"HloModule m, replica_count=2\nENTRY e {{ {P} {form}, has_dynamic_root=true }}")
    with pytest.raises(LoweringError, match="collective-broadcast has no native code"):
        clients[0].compile(module)


@pytest.mark.parametrize("size", [40_000, 40_003])
@pytest.mark.parametrize("counts", ["replica_count=8", "num_partitions=8", "replica_count=4, num_partitions=2"])
def test_large_sums(clients, size, counts):
    text = f"""HloModule m, {counts}{REGIONS}ENTRY e {{ p = f32[{size}] parameter(0)
      ROOT r = f32[{size}] all-reduce(p), channel_id=1, replica_groups={{{{0,3,5,6}},{{1,2,4,7}}}},
        use_global_device_ids=true, to_apply=sum }}"""
    same(clients, text, arrays((size,)))


def test_in_a_loop(clients):
    """Every turn meets anew, and partners change."""
    text = f"""HloModule m, num_partitions=8{REGIONS}
    body {{ s = (s32[], f32[4,6]) parameter(0) i = s32[] get-tuple-element(s), index=0
      x = f32[4,6] get-tuple-element(s), index=1 one = s32[] constant(1) n = s32[] add(i, one)
      a = f32[4,6] all-reduce(x), channel_id=1, replica_groups={{{{0,1}},{{2,3}},{{4,5}},{{6,7}}}}, to_apply=mean
      y = f32[4,6] collective-permute(a), channel_id=2,
        source_target_pairs={{{{0,1}},{{1,2}},{{2,3}},{{3,4}},{{4,5}},{{5,6}},{{6,7}},{{7,0}}}}
      ROOT t = (s32[], f32[4,6]) tuple(n, y) }}
    more {{ s = (s32[], f32[4,6]) parameter(0) i = s32[] get-tuple-element(s), index=0 k = s32[] constant(50)
      ROOT c = pred[] compare(i, k), direction=LT }}
    ENTRY e {{ {P} z = s32[] constant(0) t = (s32[], f32[4,6]) tuple(z, p)
      w = (s32[], f32[4,6]) while(t), condition=more, body=body
      ROOT r = f32[4,6] get-tuple-element(w), index=1 }}"""
    same(
        clients,
        text.replace("all-reduce(x), channel_id=1", "all-reduce(x), channel_id=1, use_global_device_ids=true"),
        arrays(),
    )


@st.composite
def replica_groups(draw) -> list[list[int]]:
    numbers = draw(st.permutations(range(8)))
    sizes = draw(st.sampled_from([(8,), (4, 4), (2, 2, 2, 2), (1,) * 8]))
    ends = np.cumsum((0, *sizes))
    return [list(numbers[a:b]) for a, b in pairwise(ends)]


def text_of(groups) -> str:
    return "{" + ",".join("{" + ",".join(map(str, g)) + "}" for g in groups) + "}"


OPERATORS = {
    "all-reduce": ("f32[8,8]", "use_global_device_ids=true, to_apply=sum"),
    "all-gather": ("f32[8,{8n}]", "use_global_device_ids=true, dimensions={{1}}"),
    "reduce-scatter": ("f32[{8/n},8]", "use_global_device_ids=true, dimensions={{0}}, to_apply=sum"),
    "all-to-all": ("f32[8,8]", "dimensions={{1}}"),
    "collective-broadcast": ("f32[8,8]", ""),
}


@settings(max_examples=25, deadline=None)
@given(replica_groups(), st.sampled_from(sorted(OPERATORS)))
def test_groups(clients, groups, operator):
    n = len(groups[0])
    shape, rest = OPERATORS[operator]
    shape = shape.replace("{8n}", str(8 * n)).replace("{8/n}", str(8 // n))
    text = f"""HloModule m, num_partitions=8{REGIONS}ENTRY e {{ p = f32[8,8] parameter(0)
      ROOT r = {shape} {operator}(p), channel_id=1, replica_groups={text_of(groups)}
        {"," if rest else ""} {rest.replace("{{", "{").replace("}}", "}")} }}"""
    same(clients, text, arrays((8, 8)))


@settings(max_examples=15, deadline=None)
@given(replica_groups().filter(lambda groups: len(groups[0]) > 1), st.data())
def test_ragged(clients, groups, data):
    n = len(groups[0])
    sizes = data.draw(st.lists(st.integers(0, 3), min_size=n, max_size=n))
    starts = [0, *np.cumsum(sizes[:-1]).tolist()]

    def vector(values):
        return f"s32[{n}] constant({{{', '.join(map(str, values))}}})"

    text = f"""HloModule m, replica_count=8{REGIONS}ENTRY e {{ p = f32[24,2] parameter(0)
      z = f32[] constant(-1) o = f32[32,2] broadcast(z), dimensions={{}} a = {vector(starts)} b = {vector(sizes)}
      i = u32[] replica-id() j = s32[] convert(i) k = s32[] constant(3) l = s32[] multiply(j, k)
      c = s32[{n}] broadcast(l), dimensions={{}}
      ROOT r = f32[32,2] ragged-all-to-all(p, o, a, b, c, b), replica_groups={text_of(groups)} }}"""
    same(clients, text, arrays((24, 2)))


def test_a_failure_ends_the_wait_of_all(clients):
    from xloom.calls import custom_call

    @custom_call("fails_on_one")
    def fails_on_one(out, x):
        if x.reshape(-1)[0] == 5:
            raise ValueError("device five has had enough")
        out[...] = x

    text = f"""HloModule m, num_partitions=8{REGIONS}ENTRY e {{ p = f32[4] parameter(0)
      c = f32[4] custom-call(p), custom_call_target="fails_on_one"
      ROOT r = f32[4] all-reduce(c), channel_id=1, replica_groups={{{{0,1,2,3,4,5,6,7}}}}, use_global_device_ids=true,
        to_apply=sum }}"""
    client = clients[0]
    program = client.compile(parse(text))
    for first in (0, 0, 100):
        rows = [[client.buffer_from_host(np.full(4, k + first, np.float32), client.devices[k])] for k in range(8)]
        results = program.execute_sharded(rows)
        if first:
            assert np.asarray(results[3][0])[0] == 828
            continue
        for k, (result,) in enumerate(results):
            with pytest.raises(Exception, match="device five has had enough") as error:
                np.asarray(result)
            assert isinstance(error.value, EvaluationError) == (k != 5)


def test_many_runs_at_once(clients):
    """More than one run is under way on the same devices, and all are right."""
    text = f"""HloModule m, num_partitions=8{REGIONS}ENTRY e {{ p = f32[16] parameter(0)
      ROOT r = f32[16] all-reduce(p), channel_id=1, replica_groups={{{{0,1,2,3,4,5,6,7}}}}, use_global_device_ids=true,
        to_apply=sum }}"""
    client = clients[0]
    program = client.compile(parse(text))
    runs = []
    for n in range(40):
        rows = [[client.buffer_from_host(np.full(16, n + k, np.float32), client.devices[k])] for k in range(8)]
        runs.append(program.execute_sharded(rows))
    for n, results in enumerate(runs):
        assert all((np.asarray(r) == 8 * n + 28).all() for (r,) in results)
