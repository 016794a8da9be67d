"""HLO text: against jaxlib's parser and printer, and errors that point."""

import re

import numpy as np
import pytest

import xloom as xl
from xloom.hlo.opcodes import OPCODES
from xloom.hlo.text.printer import PrintOptions

_hlo = pytest.importorskip("jaxlib._hlo")

SUM = "add { a = f32[] parameter(0) b = f32[] parameter(1) ROOT s = f32[] add(a, b) }\n"

PROGRAMS = {
    "short literals": "ENTRY e { ROOT c = f32[10] constant(1) }",
    "literals": """ENTRY e {
      a = f32[2,3] constant({{1, 2.5, -0.0}, {nan, -inf, 1e-9}})
      b = pred[3] constant({1, 0, true})
      c = c64[2] constant({(1, -2), (0.1, inf)})
      d = (s32[], (u64[1], bf16[])) constant((1, ({18446744073709551615}, 3.14159)))
      f = s4[2] constant({-8, 7})
      g = f8e4m3fn[2] constant({448, -0.015625})
      h = f32[2,1,1,2] constant({{{{1,2}}},{{{3,4}}}})
      ROOT t = (f32[2,3], pred[3], c64[2]) tuple(a, b, c) }""",
    "nested operands": "ENTRY e { ROOT r = add(f32[10] parameter(0), multiply(f32[10] parameter(1), f32[10] parameter(2))) }",
    "operand shapes": "ENTRY e { %p = f32[3]{0} parameter(0) ROOT %r = f32[3]{0} negate(f32[3]{0} %p) }",
    "layouts": "ENTRY e { ROOT p = f32[8,128]{0,1:T(8,128)(2,1)S(5)} parameter(0) }",
    "dynamic": "ENTRY e { p = f32[<=8,3] parameter(0) ROOT n = s32[] get-dimension-size(p), dimensions={0} }",
    "comments": "HloModule m // a\n/* b\n c */ ENTRY e { /* d */ ROOT p = f32[] parameter(0) // e\n }",
    "reduce": SUM + "ENTRY e { x = f32[2,3] parameter(0) z = f32[] constant(0) "
    "ROOT r = f32[2] reduce(x, z), dimensions={1}, to_apply=add }",
    "window": SUM + "ENTRY e { x = f32[8,8] parameter(0) z = f32[] constant(0) ROOT r = reduce-window(x, z), "
    "window={size=2x3 stride=2x1 pad=0_0x1_1 rhs_dilate=1x2}, to_apply=add }",
    "convolution": "ENTRY e { x = f32[1,8,8,4] parameter(0) k = f32[3,3,2,4] parameter(1) ROOT c = convolution(x, k), "
    "window={size=3x3 pad=1_1x1_1}, dim_labels=b01f_01io->b01f, feature_group_count=2 }",
    "while": """cond { s = (s32[], f32[]) parameter(0) i = s32[] get-tuple-element(s), index=0
      n = s32[] constant(3) ROOT l = pred[] compare(i, n), direction=LT }
    body { s = (s32[], f32[]) parameter(0) i = s32[] get-tuple-element(s), index=0 one = s32[] constant(1)
      j = s32[] add(i, one) x = f32[] get-tuple-element(s), index=1 ROOT t = (s32[], f32[]) tuple(j, x) }
    ENTRY e { p = (s32[], f32[]) parameter(0) ROOT w = (s32[], f32[]) while(p), condition=cond, body=body }""",
    "names": "a { x = f32[] parameter(0) ROOT r = f32[] negate(x) }\n"
    "ENTRY b { x = f32[] parameter(0) ROOT r = f32[] call(x), to_apply=a }",
    "custom call": 'ENTRY e { x = f32[2] parameter(0) ROOT c = (f32[2], s8[3]) custom-call(x), custom_call_target="f\\"", '
    'api_version=API_VERSION_STATUS_RETURNING, output_to_operand_aliasing={{0}: (0, {})}, backend_config="a\nb\\t\\001" }',
    "json": 'ENTRY e { x = f32[2] parameter(0) ROOT c = f32[2] custom-call(x), custom_call_target="f", '
    'backend_config={"k": {"s": "}"}, "l": [1]} }',
    "sharding": """ENTRY e {
      a = f32[8,8] parameter(0), sharding={devices=[2,2]<=[4]}
      b = f32[8,8] parameter(1), sharding={devices=[2,1,2]0,2,1,3 last_tile_dim_replicate}
      c = f32[8,8] parameter(2), sharding={devices=[1,1,2,2]<=[2,2]T(1,0) last_tile_dims={manual, replicated}}
      d = (f32[8], f32[8]) parameter(3), sharding={{replicated}, {maximal device=1}}
      ROOT t = (f32[8,8], f32[8,8]) tuple(a, b), sharding={replicated} }""",
    "collectives": SUM
    + """ENTRY e { x = f32[8] parameter(0)
      a = f32[8] all-reduce(x), replica_groups={{0,1},{2,3}}, to_apply=add
      b = f32[16] all-gather(a), replica_groups=[2,2]<=[4], dimensions={0}, channel_id=3, use_global_device_ids=true
      ROOT c = f32[16] collective-permute(b), source_target_pairs={{0,1},{1,0}} }""",
    "async": """ENTRY e { x = f32[2,3] parameter(0)
      s = ((f32[2,3]), f32[3,2], u32[]) transpose-start(x), dimensions={1,0}
      ROOT d = f32[3,2] transpose-done(s) }""",
    "metadata": 'ENTRY e { ROOT p = f32[] parameter(0), metadata={op_type="a" op_name="b\\"c" source_file="d.py" '
    'source_line=3}, frontend_attributes={k="v",a={"x":1}} }',
    "control": "ENTRY e { a = f32[] parameter(0) b = f32[] negate(a) ROOT c = f32[] add(a, a), control-predecessors={b} }",
    "scheduled": "HloModule m, is_scheduled=true\nENTRY e { b = f32[] parameter(1) a = f32[] parameter(0) "
    "c = f32[] negate(a) ROOT r = f32[] add(a, b) }",
    "aliases": "HloModule m, input_output_alias={ {}: (0, {}, must-alias) }, replica_count=2\n"
    "ENTRY e { a = f32[] parameter(0) ROOT r = f32[] negate(a) }",
    "gather": "ENTRY e { x = f32[9,5] parameter(0) i = s32[4,1] parameter(1) ROOT g = gather(x, i), offset_dims={1}, "
    "collapsed_slice_dims={0}, start_index_map={0}, index_vector_dim=1, slice_sizes={1,5}, indices_are_sorted=true }",
    "rng": "ENTRY e { s = u64[2] parameter(0) ROOT r = (u64[2], u32[7]) rng-bit-generator(s), algorithm=rng_philox }",
}


@pytest.mark.parametrize("name", PROGRAMS)
def test_prints_what_jaxlib_prints(name):
    text = PROGRAMS[name]
    theirs = _hlo.hlo_module_from_text(text)
    module = xl.parse(text)
    assert module.to_text() == theirs.to_string()
    shapes = _hlo.HloPrintOptions()
    shapes.print_operand_shape = True
    assert module.to_text(print_operand_shape=True) == theirs.to_string(shapes)
    short = vars(PrintOptions.short_parsable())
    assert module.to_text(**short) == theirs.to_string(_hlo.HloPrintOptions.short_parsable())
    assert xl.parse(module.to_text(print_large_constants=True)).to_text() == module.to_text()
    xl.verify(module)


def test_negative_zeros_are_printed_and_read():
    # as XLA prints them; it would read them as 0
    text = "ENTRY e { a = f32[2] constant({-0.0, 0}) b = c64[] constant((-0, 1)) ROOT r = (f32[2], c64[]) tuple(a, b) }"
    module = xl.parse(xl.parse(text).to_text())
    assert "constant({-0, 0})" in module.to_text()
    a, b = xl.evaluate(module)
    assert np.signbit(a).tolist() == [True, False] and np.signbit(b.real)


def test_opcode_table_is_jaxlibs():
    known = {n for n in dir(_hlo.HloOpcode) if n.startswith("k")}
    assert len(known) == len(OPCODES)


ERRORS = [
    ("ENTRY e { ROOT a = f32[2] ad(b) }", 1, 27, "unknown opcode 'ad'", "'add'"),
    ("ENTRY e {\n  a = f32[2] parameter(0)\n  ROOT b = f32[2] negate(aa)\n}", 3, 26, "does not exist: aa", "'a'"),
    ("ENTRY e { ROOT a = f32[2,] parameter(0) }", 1, 26, "dimension size", ""),
    ("ENTRY e { ROOT a = f33[2] parameter(0) }", 1, 20, "f33", ""),
    ("ENTRY e { ROOT a = f32[2] constant({1, x}) }", 1, 40, "f32", ""),
    ("ENTRY e { ROOT a = s8[1] constant({300}) }", 1, 36, "out of range for s8", ""),
    ("ENTRY e { ROOT a = f32[2] constant({1}) }", 1, 38, "expected 2 elements", ""),
    (
        "ENTRY e { x = f32[2] parameter(0) ROOT t = transpose(x), dimension={0} }",
        1,
        58,
        "no attribute 'dimension'",
        "dimensions",
    ),
    ("ENTRY e { x = f32[2] parameter(0) ROOT t = add(x) }", 1, 44, "takes 2 operands, found 1", ""),
    ("ENTRY e { x = f32[2] parameter(0) ROOT t = f32[3] tuple(x)", 1, 59, "expected", ""),
    ("HloModule m, is_schedule=true\nENTRY e { ROOT a = f32[] parameter(0) }", 1, 14, "is_schedule", "is_scheduled"),
    ("", 1, 1, "expected a computation", ""),
]


@pytest.mark.parametrize("text, line, column, message, hint", ERRORS)
def test_errors_point(text, line, column, message, hint):
    with pytest.raises(xl.ParseError) as caught:
        xl.parse(text, "m.hlo")
    error = caught.value
    assert error.span is not None
    assert (error.span.line, error.span.column) == (line, column), str(error)
    assert message in error.message
    assert hint in error.hint
    assert str(error).startswith(f"m.hlo:{line}:{column}: ")


def test_round_trip_of_large_constants():
    values = ", ".join(str(k / 7) for k in range(50))
    module = xl.parse(f"ENTRY e {{ ROOT c = f32[50] constant({{{values}}}) }}")
    assert "constant({...})" in module.to_text()
    again = xl.parse(module.to_text(print_large_constants=True))
    assert again.entry.root.literal.identical(module.entry.root.literal)


def test_elided_constants_are_kept_elided():
    module = xl.parse("ENTRY e { ROOT c = f32[50] constant({...}) }")
    assert module.entry.root.literal.elided
    assert re.search(r"constant\(\{\.\.\.\}\)", str(module))


def test_two_branches_that_a_pred_chooses_from():
    builder = xl.Builder("m", source_lines=False)
    branches = []
    for name in ("yes", "no"):
        branch = builder.computation(name)
        branches.append(branch.finish(branch.negate(branch.parameter(xl.f32[()]))))
    x, p = builder.parameter(xl.f32[()]), builder.parameter(xl.pred[()])
    module = builder.build(builder.conditional(p, x, x, branch_computations=tuple(branches)))
    assert "true_computation=%yes, false_computation=%no" in str(module)
    assert str(xl.parse(str(module))) == str(module)
