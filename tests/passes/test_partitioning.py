"""Programs on global arrays, cut over devices: the parts that the devices compute make up what one device computes."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from xloom.hlo.text.lexer import Cursor
from xloom.hlo.text.parser import parse
from xloom.hlo.text.shardings import parse_sharding
from xloom.hlo.verify.module import verify
from xloom.interpreter import evaluate
from xloom.interpreter.devices import evaluate_devices
from xloom.passes.partitioning import SpmdPartitioning
from xloom.passes.partitioning.tile_assignment import Tiles, digits, groups, sharding_of, tiles_of

SUM = "sum { x = f32[] parameter(0) y = f32[] parameter(1) ROOT s = f32[] add(x, y) }\n"
DEVICES = 8
SHARDINGS = (
    "{replicated}",
    "{devices=[4,2]<=[8]}",
    "{devices=[2,4]<=[4,2]T(1,0)}",
    "{devices=[8,1]<=[8]}",
    "{devices=[1,4,2]<=[8] last_tile_dim_replicate}",
    "{devices=[2,2,2]7,6,5,4,3,2,1,0 last_tile_dim_replicate}",
    "{mesh['x'=4,'y'=2], [{'y'}, {'x':(2)2}]}",
)
OPERATORS = {
    "elementwise": "m = f32[8,8] multiply(p, q), sharding=A ROOT r = f32[8,8] add(m, p), sharding=B",
    "transpose": "t = f32[8,8] transpose(p), dimensions={1,0}, sharding=A ROOT r = f32[8,8] add(t, q), sharding=B",
    "dot": "ROOT r = f32[8,8] dot(p, q), lhs_contracting_dims={1}, rhs_contracting_dims={0}, sharding=A",
    "gram": "ROOT r = f32[8,8] dot(p, q), lhs_contracting_dims={0}, rhs_contracting_dims={0}, sharding=B",
    "sum": "z = f32[] constant(0) s = f32[8] reduce(p, z), dimensions={0}, to_apply=sum "
    "b = f32[8,8] broadcast(s), dimensions={1}, sharding=A ROOT r = f32[8,8] subtract(q, b), sharding=B",
    "sum-from-one": "z = f32[] constant(1) s = f32[] reduce(p, z), dimensions={0,1}, to_apply=sum "
    "ROOT r = f32[8,8] broadcast(s), dimensions={}, sharding=A",
    "reshape": "f = f32[4,2,8] reshape(p) g = f32[64] reshape(f) h = f32[8,8] reshape(g), sharding=A "
    "ROOT r = f32[8,8] add(h, q), sharding=B",
    "slice": "s = f32[4,8] slice(p), slice={[1:5], [0:8]} z = f32[] constant(7) "
    "ROOT r = f32[8,8] pad(s, z), padding=2_2x0_0, sharding=A",
    "reverse": "ROOT r = f32[8,8] reverse(p), dimensions={1}, sharding=A",
    "concatenate": "c = f32[16,8] concatenate(p, q), dimensions={0}, sharding=A "
    "ROOT r = f32[8,8] slice(c), slice={[0:16:2], [0:8]}, sharding=B",
    "iota": "i = f32[8,8] iota(), iota_dimension=1, sharding=A ROOT r = f32[8,8] multiply(i, p), sharding=B",
    "dynamic-slice": "i = s32[] constant(3) z = s32[] constant(0) "
    "s = f32[2,8] dynamic-slice(p, i, z), dynamic_slice_sizes={2,8}, sharding=A "
    "ROOT r = f32[8,8] dynamic-update-slice(q, s, i, z), sharding=B",
    "gather": "i = s32[8] constant({7, 1, 1, 0, 3, 2, 6, 5}), sharding={devices=[8]<=[8]} "
    "ROOT r = f32[8,8] gather(p, i), offset_dims={1}, collapsed_slice_dims={0}, start_index_map={0}, "
    "index_vector_dim=1, slice_sizes={1,8}, sharding=A",
    "gather-batch": "i = s32[8,1] constant({{3},{1},{9},{0},{3},{2},{4},{-5}}), sharding={devices=[4,1,2]<=[8] "
    "last_tile_dim_replicate} g = f32[8,4] gather(p, i), offset_dims={1}, collapsed_slice_dims={}, start_index_map={1}, "
    "operand_batching_dims={0}, start_indices_batching_dims={0}, index_vector_dim=1, slice_sizes={1,4}, sharding=A "
    "z = f32[] constant(7) ROOT r = f32[8,8] pad(g, z), padding=0_0x0_4, sharding=B",
    "scatter": "i = s32[3,1] constant({{7}, {1}, {1}}) u = f32[3,8] slice(q), slice={[2:5], [0:8]}, sharding=A "
    "ROOT r = f32[8,8] scatter(p, i, u), update_window_dims={1}, inserted_window_dims={0}, "
    "scatter_dims_to_operand_dims={0}, index_vector_dim=1, to_apply=sum, sharding=B",
    "scatter-batch": "i = s32[8,1] constant({{3},{1},{9},{0},{3},{2},{7},{-5}}) s = f32[8,1] slice(q), slice={[0:8], [2:3]} "
    "u = f32[8] reshape(s), sharding={devices=[8]<=[8]} ROOT r = f32[8,8] scatter(p, i, u), update_window_dims={}, "
    "inserted_window_dims={1}, scatter_dims_to_operand_dims={1}, input_batching_dims={0}, "
    "scatter_indices_batching_dims={0}, index_vector_dim=1, to_apply=sum, sharding=A",
    "scatter-many": "i = s32[64,1] iota(), iota_dimension=0, sharding={devices=[8,1]<=[8]} s = s32[] constant(7) "
    "n = s32[64,1] broadcast(s), dimensions={} k = s32[64,1] remainder(i, n) "
    "b = f32[8,8,8] broadcast(q), dimensions={0,2} u = f32[64,8] reshape(b), sharding=A "
    "ROOT r = f32[8,8] scatter(p, k, u), update_window_dims={1}, inserted_window_dims={0}, "
    "scatter_dims_to_operand_dims={0}, index_vector_dim=1, to_apply=sum, sharding=B",
    "while": "z = s32[] constant(0) t = (s32[], f32[8,8], f32[8,8]) tuple(z, p, q) "
    "w = (s32[], f32[8,8], f32[8,8]) while(t), condition=more, body=body "
    "ROOT r = f32[8,8] get-tuple-element(w), index=1, sharding=A",
    "conditional": "z = f32[] constant(0) s = f32[] reduce(p, z), dimensions={0,1}, to_apply=sum "
    "c = pred[] compare(s, z), direction=GT "
    "ROOT r = f32[8,8] conditional(c, p, q), true_computation=twice, false_computation=negative, sharding=A",
}
COMPUTATIONS = f"""{SUM}
more {{ s = (s32[], f32[8,8], f32[8,8]) parameter(0) i = s32[] get-tuple-element(s), index=0 k = s32[] constant(3)
  ROOT c = pred[] compare(i, k), direction=LT }}
body {{ s = (s32[], f32[8,8], f32[8,8]) parameter(0) i = s32[] get-tuple-element(s), index=0
  x = f32[8,8] get-tuple-element(s), index=1 y = f32[8,8] get-tuple-element(s), index=2 one = s32[] constant(1)
  n = s32[] add(i, one) d = f32[8,8] dot(x, y), lhs_contracting_dims={{1}}, rhs_contracting_dims={{0}}, sharding=B
  ROOT t = (s32[], f32[8,8], f32[8,8]) tuple(n, d, y) }}
twice {{ x = f32[8,8] parameter(0) ROOT r = f32[8,8] add(x, x), sharding=B }}
negative {{ x = f32[8,8] parameter(0) ROOT r = f32[8,8] negate(x) }}
"""


def pieces(array: np.ndarray, tiles: Tiles) -> list[np.ndarray]:
    """What each device has."""
    found = []
    for device in range(DEVICES):
        part = array
        for d, factors in enumerate(tiles.dims):
            part = np.split(part, tiles.count(d), axis=d)[digits(factors, DEVICES)[device]]
        found.append(part)
    return found


def program(operator: str, first: str, second: str, a: str, b: str) -> str:
    text = (
        COMPUTATIONS
        + f"""ENTRY e {{ p = f32[8,8] parameter(0), sharding={first}
      q = f32[8,8] parameter(1), sharding={second}
      {OPERATORS[operator]} }}"""
    )
    return f"HloModule m, num_partitions={DEVICES}\n" + text.replace("sharding=A", f"sharding={a}").replace(
        "sharding=B", f"sharding={b}"
    )


@settings(max_examples=80, deadline=None)
@given(
    st.sampled_from(sorted(OPERATORS)),
    *(st.sampled_from(SHARDINGS) for _ in range(4)),
)
def test_values(operator, first, second, a, b):
    text = program(operator, first, second, a, b)
    rng = np.random.default_rng(1)
    arrays = [rng.integers(-3, 4, (8, 8)).astype(np.float32) for _ in range(2)]
    whole = parse(text)
    wanted = evaluate(whole, *arrays)
    module = parse(text)
    assert SpmdPartitioning().run(module)
    verify(module)
    cut = [pieces(x, tiles_of(p.sharding, 2, DEVICES)) for x, p in zip(arrays, module.entry.parameters, strict=True)]
    assert [p.shape.dims for p in module.entry.parameters] == [parts[0].shape for parts in cut]
    found = evaluate_devices(module, list(map(list, zip(*cut, strict=True))), timeout=120)
    for mine, reference in zip(found, pieces(wanted, tiles_of(module.entry.root.sharding, 2, DEVICES)), strict=True):
        np.testing.assert_array_equal(mine, reference)


@pytest.mark.parametrize("text", SHARDINGS)
def test_tiles_are_what_the_sharding_says(text):
    tiles = tiles_of(parse_sharding(Cursor(text)), 2, DEVICES)
    assert tiles_of(sharding_of(tiles, DEVICES), 2, DEVICES).dims == tiles.dims
    for factors in filter(None, tiles.dims):
        found = groups(factors, DEVICES)
        assert sorted(d for group in found for d in group) == list(range(DEVICES))
        for group in found:
            assert digits(factors, DEVICES)[group].tolist() == list(range(len(group)))


def test_what_agrees_costs_no_exchange():
    cut = "{devices=[8,1]<=[8]}"
    module = parse(program("elementwise", cut, cut, cut, cut))
    SpmdPartitioning().run(module)
    assert [i.opcode for i in module.entry] == ["parameter", "parameter", "multiply", "add"]


def test_rows_and_columns_change_places_in_one_exchange():
    module = parse(
        "HloModule m, num_partitions=8 ENTRY e { p = f32[8,8] parameter(0), sharding={devices=[8,1]<=[8]}\n"
        "ROOT r = f32[8,8] negate(p), sharding={devices=[1,8]<=[8]} }"
    )
    SpmdPartitioning().run(module)
    exchanges = [i.opcode for i in module.entry if i.opcode.startswith("all-")]
    assert exchanges == ["all-to-all"]


def test_contracted_dimensions_that_are_cut_are_summed():
    module = parse(program("dot", "{devices=[1,8]<=[8]}", "{devices=[8,1]<=[8]}", "{replicated}", "{replicated}"))
    SpmdPartitioning().run(module)
    assert [i.opcode for i in module.entry] == ["parameter", "parameter", "dot", "all-reduce"]


def test_one_device_calls_where_the_sharding_says_so():
    module = parse(
        "HloModule m, num_partitions=8 ENTRY e { p = f32[8,8] parameter(0), sharding={devices=[8,1]<=[8]}\n"
        'ROOT r = f32[8,8] custom-call(p), custom_call_target="f", sharding={maximal device=3} }'
    )
    SpmdPartitioning().run(module)
    verify(module)
    opcodes = [i.opcode for i in module.entry]
    assert opcodes.count("conditional") == 1
    assert opcodes.count("collective-broadcast") == 1
    assert not any(i.opcode == "custom-call" for i in module.entry)


def test_a_program_without_results_has_no_sharding_of_them():
    module = parse(
        "HloModule m, num_partitions=8 ENTRY e { p = f32[8,8] parameter(0), sharding={devices=[8,1]<=[8]}\n"
        'c = f32[] custom-call(p), custom_call_target="f", custom_call_has_side_effect=true\n'
        "ROOT t = () tuple() }"
    )
    SpmdPartitioning().run(module)
    verify(module)
    assert module.entry.root.sharding is None


def test_arrays_without_elements_keep_their_shardings():
    """JAX asks what a result's is, and refuses another than that it has asked for."""
    cut = "sharding={devices=[8,1]<=[8]}"
    module = parse(
        f"HloModule m, num_partitions=8 ENTRY e {{ p = f32[0,3] parameter(0), {cut} ROOT r = f32[0,3] negate(p), {cut} }}"
    )
    SpmdPartitioning().run(module)
    verify(module)
    for each in (module.entry.parameters[0], module.entry.root):
        assert each.shape.dims == (0, 3)
        assert each.sharding == parse_sharding(Cursor("{devices=[8,1]0,1,2,3,4,5,6,7}"))
