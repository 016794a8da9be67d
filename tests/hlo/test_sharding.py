"""Shardings and replica groups: text and canonical form against jaxlib's, groups against their definition."""

import math
import random

import numpy as np
import pytest

from xloom.errors import ParseError, ShapeError
from xloom.hlo.device_mesh import Axis, Iota, Mesh
from xloom.hlo.dtype import f32
from xloom.hlo.shape import tuple_shape
from xloom.hlo.text.lexer import Cursor
from xloom.hlo.text.shardings import parse_replica_groups, parse_sharding

_hlo = pytest.importorskip("jaxlib._hlo")

SHARDINGS = [
    "{replicated}",
    "{manual}",
    "{unknown}",
    "{unreduced}",
    "{maximal device=3}",
    "{device=-1 maximal}",
    "{replicated manual}",
    "{devices=[2,1]0,1}",
    "{devices=[2,2]3,1,0,2}",
    "{devices=[1,1]<=[1]}",
    "{devices=[2,2]<=[4]}",
    "{devices=[2,2]<=[2,2]T(1,0)}",
    "{devices=[2,4]<=[1,4,1,2]T(3,0,1,2)}",
    "{devices=[2,2]<=[4] last_tile_dim_replicate}",
    "{devices=[1,2]0,1 last_tile_dim_replicate}",
    "{devices=[2,1]0,1 last_tile_dim_replicate}",
    "{devices=[2,1,2]1,0,3,2 last_tile_dim_replicate}",
    "{devices=[2,6]<=[4,3]T(1,0) last_tile_dim_replicate}",
    "{devices=[2,4]<=[2,2,2]T(2,1,0) last_tile_dim_replicate}",
    "{devices=[1,1,4]<=[4] last_tile_dims={manual}}",
    "{devices=[2,1,1]<=[2] last_tile_dims={manual,replicated}}",
    "{devices=[2,2,2,2]<=[16] last_tile_dims={replicated, manual}}",
    "{devices=[1,2,2,2]3,2,1,0,7,6,5,4 last_tile_dims={replicated,manual}}",
    "{devices=[1,2,2,2]<=[8] last_tile_dims={unreduced,manual}}",
    "{devices=[1,2,2]0,1,2,3 last_tile_dims={maximal}}",
    "{replicated shard_as 1}",
    "{devices=[2,2]<=[4] shard_like 3}",
    '{replicated metadata={op_name="a\\"b"}}',
    '{replicated shard_as 2 metadata={{op_name="a"},{op_type="t" source_line=3}}}',
    "{mesh['a'=2,'b'=4], [{'a'}, {'b'}]}",
    '{mesh["a"=2,"b"=4] [{"1","a"}, {?}]}',
    "{mesh['a'=2,'b'=4], [{'a', ?}, {'b':(1)2}], replicated={'b':(2)2}}",
    "{mesh['a'=2,'b'=4], replicated}",
    "{mesh['a'=2,'b'=4], []}",
    "{mesh['a'=2,'b'=4], [], manual={'a','b'}}",
    "{mesh['a'=2,'b'=4], [{},{}], unreduced={'a','b'}}",
    "{mesh['a'=2,'b'=4], manual}",
    "{mesh['a'=2,'b'=4], unreduced}",
    "{mesh['a'=2,'b'=4], device_ids=([4,2]T(1,0)), [{'b'}, {}]}",
    "{mesh['a'=2,'b'=4], device_ids=([8]), [{'b'}, {}]}",
    "{mesh['a'=2,'b'=2], device_ids=(3,2,1,0), [{'b'}, {}], metadata={op_name=\"q\"}}",
    "{maximal_mesh[device_id=3]}",
    '{maximal_mesh[device_id=3], metadata={op_name="q"}}',
    "{mesh[], replicated}",
    "{{replicated}, /* two */ {maximal device=1}}",
    "{}",
]


def theirs(shardings: list[str], shape: str = "f32[]") -> list[str]:
    lines = [f"p{k} = {shape} parameter({k}), sharding={s}" for k, s in enumerate(shardings)]
    module = _hlo.hlo_module_from_text("ENTRY e {\n" + "\n".join(lines) + "\nROOT t = () tuple() }")
    found = {}
    for line in module.to_string().splitlines():
        if "sharding=" in line:
            found[int(line.split("parameter(")[1].split(")")[0])] = line.split("sharding=")[1]
    return [found[k] for k in range(len(shardings))]


def ours(text: str) -> str:
    cursor = Cursor(f" {text}, metadata", offset=1)
    value = parse_sharding(cursor)
    assert cursor.pos == len(text) + 1
    return str(value)


def test_prints_what_jaxlib_prints():
    assert [ours(s) for s in SHARDINGS] == theirs(SHARDINGS)


def test_parses_what_it_prints():
    for text in SHARDINGS:
        assert ours(ours(text)) == ours(text)


def random_sharding(rng: random.Random) -> str:
    count = rng.choice([2, 4, 6, 8, 12, 16, 24, 32, 36])

    def sizes(rank: int) -> list[int]:
        out, left, prime = [1] * rank, count, 2
        while left > 1:
            while left % prime == 0:
                out[rng.randrange(rank)] *= prime
                left //= prime
            prime += 1
        return out

    def joined(values: list) -> str:
        return ",".join(map(str, values))

    dims = sizes(rng.randint(1, 5))
    subgroups = rng.randint(0, min(3, len(dims)))
    if rng.random() < 0.6:
        reshape = sizes(rng.randint(1, 4))
        order = list(range(len(reshape)))
        rng.shuffle(order)
        devices = f"<=[{joined(reshape)}]" + (f"T({joined(order)})" if len(order) > 1 else "")
    else:
        numbers = list(range(count))
        if rng.random() < 0.7:
            rng.shuffle(numbers)
        devices = joined(numbers)
    text = f"{{devices=[{joined(dims)}]{devices}"
    if subgroups:
        kinds = rng.choices(["manual", "replicated", "unreduced", "maximal"], [3, 3, 1, 1], k=subgroups)
        text += f" last_tile_dims={{{joined(kinds)}}}"
    return text + "}"


def test_canonical_form_of_random_tilings():
    rng = random.Random(7)
    cases = [random_sharding(rng) for _ in range(1500)]
    for case, expected in zip(cases, theirs(cases), strict=True):
        assert ours(case) == expected, case


def test_normalized_repeats_one_sharding_for_each_leaf():
    for text in ("{replicated}", "{{replicated}, {maximal device=1}}", "{}"):
        sharding = parse_sharding(Cursor(text))
        nested = tuple_shape([f32[2], tuple_shape([f32[3], f32[()]])])
        for shape, spelled in ((f32[2], "f32[2]"), (nested, "(f32[2], (f32[3], f32[]))"), (tuple_shape([]), "()")):
            assert [str(sharding.normalized(shape))] == theirs([text], spelled)


@pytest.mark.parametrize(
    "text, message",
    [
        ("{replicate}", "no 'replicate'"),
        ("{}, {", ""),
        ("{{}}", "needs devices="),
        ("{replicated", "expected"),
        ("{maximal}", "exactly one device"),
        ("{devices=[2,2]0,1}", "2 devices for 4 tiles"),
        ("{devices=[1]0}", "more than one device"),
        ("{devices=[2,2]<=[3]}", "different numbers of devices"),
        ("{devices=[2,2]<=[2,2]T(0,0)}", "not a permutation"),
        ("{devices=[2,2]<=[2,2]}", "expected 'T'"),
        ("{devices=[2]0,1 last_tile_dims={manual,manual}}", "2 last tile dimensions in 1"),
        ("{devices=[2]0,1 last_tile_dims={unknown}}", "cannot be 'unknown'"),
        ("{manual device=1}", "has no devices"),
        ("{mesh['a'=2], [{'b'}]}", "no axis 'b'"),
        ("{mesh['a'=2], [{'a'}, {'a'}]}", "used twice"),
        ("{mesh['a'=2,'a'=2], []}", "same name"),
        ("{mesh['a'=4], [{'a':(1)2, 'a':(2)2}]}", "are one part"),
        ("{mesh['a'=4], [{'a':(3)2}]}", "not a part of an axis"),
        ("{mesh['a'=2], device_ids=(0,1), []}", "another order"),
        ("{mesh['a'=2], [{?, 'a'}]}", "'?' stands last"),
        ("{mesh[], manual}", "without axes"),
    ],
)
def test_errors_point(text, message):
    if not message:
        cursor = Cursor(text)
        parse_sharding(cursor)
        assert cursor.pos == 2
        return
    with pytest.raises(ParseError, match=message.replace("[", r"\[").replace("?", r"\?")) as caught:
        parse_sharding(Cursor(f"\n {text}", offset=2))
    assert caught.value.span is not None
    assert caught.value.span.line == 2


GROUPS = [
    "{{0,1},{2,3}}",
    "{ {0}, {} }",
    "{}",
    "{{}}",
    "[2,2]<=[4]",
    "[2,2]<=[2,2]T(0,1)",
    "[4,2]<=[2,4]T(1,0)",
    "mesh['a'=2,'b'=4] {'b','a'}",
    "mesh['a'=2,'b'=4], {'b':(2)2, 'a'}",
    "mesh['a'=2,'b'=2], device_ids=(3,2,1,0) {'a'}",
    "mesh['a'=2,'b'=4], device_ids=([4,2]T(1,0)) {'b'}",
]


@pytest.mark.parametrize("text", GROUPS)
def test_replica_groups_print_what_jaxlib_prints(text):
    module = _hlo.hlo_module_from_text(
        "add { a = f32[] parameter(0) b = f32[] parameter(1) ROOT c = f32[] add(a, b) }\n"
        f"ENTRY e {{ x = f32[2] parameter(0) ROOT y = f32[2] all-reduce(x), replica_groups={text}, to_apply=add }}"
    )
    cursor = Cursor(text + ", to_apply")
    groups = parse_replica_groups(cursor)
    assert cursor.pos == len(text)
    assert f"replica_groups={groups}, to_apply" in module.to_string()
    assert parse_replica_groups(Cursor(str(groups))) == groups


def groups(text: str, count: int = 8) -> list[list[int]]:
    return parse_replica_groups(Cursor(text)).groups(count)


def test_groups():
    assert groups("{{0,1},{2,3}}") == [[0, 1], [2, 3]]
    assert groups("{}") == groups("{{}}") == [list(range(8))]
    assert groups("[4,2]<=[2,4]T(1,0)") == [[0, 4], [1, 5], [2, 6], [3, 7]]
    # axis 'b' is the fast one
    assert groups("mesh['a'=2,'b'=4] {'b'}") == [[0, 1, 2, 3], [4, 5, 6, 7]]
    assert groups("mesh['a'=2,'b'=4] {'a'}") == [[0, 4], [1, 5], [2, 6], [3, 7]]
    assert groups("mesh['a'=2,'b'=4] {'b','a'}") == [[0, 4, 1, 5, 2, 6, 3, 7]]
    # 'b':(1)2 is the major half of 'b', 'b':(2)2 the minor
    assert groups("mesh['a'=2,'b'=4] {'b':(1)2}") == [[0, 2], [1, 3], [4, 6], [5, 7]]
    assert groups("mesh['a'=2,'b'=4] {'b':(2)2}") == [[0, 1], [2, 3], [4, 5], [6, 7]]
    assert groups("mesh['a'=2,'b'=4] {'b':(2)2,'b':(1)2}") == [[0, 2, 1, 3], [4, 6, 5, 7]]
    assert groups("mesh['a'=2,'b'=2], device_ids=(3,2,1,0) {'a'}") == [[3, 1], [2, 0]]


@pytest.mark.parametrize("text", ["[2,2,2]<=[8]", "[2,2]<=[8]", "mesh['a'=2] {}", "mesh['a'=2] {'b'}", "{{0,x}}", "x"])
def test_malformed_groups(text):
    with pytest.raises(ParseError):
        parse_replica_groups(Cursor(text))


def test_iota_transposition_is_numpys():
    rng = random.Random(3)
    found = 0
    for _ in range(500):
        reshape = tuple(rng.choice([1, 2, 3, 4]) for _ in range(rng.randint(1, 4)))
        count = math.prod(reshape)
        dims = tuple(rng.sample([count // d for d in range(1, count + 1) if count % d == 0], 1))
        dims = (*dims, count // dims[0])
        order = list(range(len(reshape)))
        rng.shuffle(order)
        iota = Iota.of(dims, reshape, tuple(order))
        plain = np.arange(count).reshape(reshape).transpose(order).reshape(dims)
        assert np.array_equal(iota.array(), plain)
        flipped = iota.transposed((1, 0))
        if flipped is not None:
            found += 1
            assert np.array_equal(flipped.array(), plain.T)
    assert found > 300


def test_a_mesh_checks_its_axes():
    mesh = Mesh(("x", "y"), (2, 8))
    mesh.check_axes([(Axis(0),), (Axis(1, 1, 2), Axis(1, 4, 2))])
    for bad in (Axis(2), Axis(1, 3, 2), Axis(1, 1, 8), Axis(1, 8, 2)):
        with pytest.raises(ShapeError):
            mesh.check_axes([(bad,)])
    with pytest.raises(ShapeError, match="used twice"):
        mesh.check_axes([(Axis(1, 1, 4),), (Axis(1, 2, 2),)])
