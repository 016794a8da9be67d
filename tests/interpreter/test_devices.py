"""Collectives over several devices."""

import numpy as np
import pytest

import xloom as xl
from xloom.interpreter.devices import evaluate_devices

ADD = "add { a = f32[] parameter(0) b = f32[] parameter(1) ROOT s = f32[] add(a, b) }\n"


def run(body, count=4, partitions=False, **options):
    module = xl.parse(ADD + f"ENTRY e {{ x = f32[4] parameter(0) {body} }}")
    values = [[np.arange(4, dtype=np.float32) + 10 * k] for k in range(count)]
    numbers = {"replicas": 1, "partitions": count} if partitions else {"replicas": count, "partitions": 1}
    return values, evaluate_devices(module, values, **numbers, **options)


def test_all_reduce_in_groups():
    x, y = run("ROOT r = f32[4] all-reduce(x), replica_groups={{0,3},{1,2}}, to_apply=add")
    assert np.array_equal(y[0], x[0][0] + x[3][0]) and np.array_equal(y[3], y[0])
    assert np.array_equal(y[1], x[1][0] + x[2][0])


def test_reduce_scatter_and_all_gather_are_all_reduce():
    x, y = run(
        "p = f32[1] reduce-scatter(x), replica_groups={}, dimensions={0}, to_apply=add "
        "ROOT r = f32[4] all-gather(p), replica_groups={}, dimensions={0}"
    )
    total = sum(v[0] for v in x)
    assert all(np.array_equal(v, total) for v in y)


def test_all_to_all_transposes():
    x, y = run("ROOT r = f32[4] all-to-all(x), replica_groups={}, dimensions={0}")
    table = np.stack([v[0] for v in x])
    assert np.array_equal(np.stack(y), table.T)


def test_permute_leaves_zeros():
    x, y = run("ROOT r = f32[4] collective-permute(x), source_target_pairs={{0,1},{1,2}}")
    assert np.array_equal(y[1], x[0][0]) and np.array_equal(y[2], x[1][0])
    assert not y[0].any() and not y[3].any()


def test_forms_without_a_meaning_are_refused():
    form = "z = s32[] constant(0) ROOT r = f32[4] collective-broadcast(x, z), replica_groups={{0,1,2,3}}"
    with pytest.raises(xl.UnsupportedError, match="a root that is an operand"):
        run(f"{form}, has_dynamic_root=true")
    form = "z = (s32[]) tuple(o) ROOT r = f32[4] collective-permute(x, y, z, z), source_target_pairs={{0,1}}"
    with pytest.raises(xl.UnsupportedError, match="slices sent into an operand"):
        run(f"y = f32[4] negate(x) o = s32[] constant(0) {form}, slice_sizes={{{{2}}}}")


def test_partitions_and_ids():
    _, y = run("ROOT r = u32[] partition-id()", partitions=True)
    assert [int(v) for v in y] == [0, 1, 2, 3]
    x, z = run("ROOT r = f32[4] all-reduce(x), channel_id=1, replica_groups={{0}}, to_apply=add", partitions=True)
    assert np.array_equal(z[2], sum(v[0] for v in x))


def test_an_error_reaches_everyone():
    with pytest.raises(xl.XloomError):
        run('c = f32[4] custom-call(x), custom_call_target="nobody" ROOT r = f32[4] all-reduce(c), to_apply=add')


def test_a_missing_member_is_named():
    # devices 0 and 1 wait for each other at different collectives
    module = xl.parse(
        ADD
        + """left { x = f32[4] parameter(0) ROOT r = f32[4] all-reduce(x), replica_groups={{0,1}}, to_apply=add }
    right { x = f32[4] parameter(0) ROOT r = f32[4] all-reduce(x), replica_groups={{0,1}}, to_apply=add }
    ENTRY e { x = f32[4] parameter(0) d = u32[] replica-id() i = s32[] convert(d)
      ROOT r = f32[4] conditional(i, x, x), branch_computations={left, right} }"""
    )
    arguments = [[np.zeros(4, np.float32)] for _ in range(2)]
    with pytest.raises(xl.EvaluationError, match="never arrived"):
        evaluate_devices(module, arguments, replicas=2, partitions=1, timeout=0.3)
