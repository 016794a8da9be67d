"""What every row of the opcode table must have: text that jaxlib prints the same, a value, a line in the docs."""

from pathlib import Path

import pytest

import xloom as xl
from xloom.hlo.opcodes import OPCODES
from xloom.infer import RULES as SHAPE_RULES
from xloom.interpreter import RULES

_hlo = pytest.importorskip("jaxlib._hlo")
DOCS = (Path(__file__).parent.parent / "docs" / "ops.md").read_text()

# their result shape is part of the text: nothing else says it
SHAPE_IS_WRITTEN = {
    *(
        "bitcast",
        "bitcast-convert",
        "constant",
        "convert",
        "custom-call",
        "dynamic-reshape",
        "fusion",
        "infeed",
        "iota",
    ),
    *("outfeed", "parameter", "ragged-all-to-all", "recv", "recv-done", "reshape", "rng", "rng-bit-generator"),
    *("rng-get-and-update-state", "send", "send-done", "stochastic-convert", "async-start", "async-update"),
    *("copy-start", "all-gather-start", "collective-permute-start", "all-to-all"),
}

SUM = """sum { a = f32[] parameter(0) b = f32[] parameter(1) ROOT s = f32[] add(a, b) }
cmp { a = f32[] parameter(0) b = f32[] parameter(1) ROOT s = pred[] compare(a, b), direction=GE }
neg { a = f32[] parameter(0) ROOT n = f32[] negate(a) }
step { x = f32[] parameter(0) c = f32[] parameter(1) n = f32[] add(x, c) ROOT t = (f32[], f32[]) tuple(n, n) }
vec { a = f32[4] parameter(0) ROOT n = f32[4] negate(a) }
cond { a = f32[4] parameter(0) ROOT n = pred[] constant(false) }
"""
PROLOGUE = """
  x = f32[4] parameter(0)
  m = f32[4,4] parameter(1)
  i = s32[4] parameter(2)
  p = pred[4] parameter(3)
  s = f32[] parameter(4)
  n = s32[] parameter(5)
  z = c64[4] parameter(6)
  u = u64[2] parameter(7)
  b = f32[1,4,4,4] parameter(8)
  d = f32[<=4] parameter(9)
  k = token[] parameter(10)
"""
ELEMENTWISE = {
    **{n: f"f32[4] {n}(x)" for n, r in OPCODES.items() if r.elementwise and r.arity == 1},
    **{n: f"f32[4] {n}(x, x)" for n, r in OPCODES.items() if r.elementwise and r.arity == 2},
    **{n: f"s32[4] {n}(i, i)" for n in ("and", "or", "xor", "shift-left", "shift-right-arithmetic", "mulhi")},
    **{n: f"s32[4] {n}(i)" for n in ("not", "popcnt", "count-leading-zeros")},
    "shift-right-logical": "s32[4] shift-right-logical(i, i)",
    "is-finite": "pred[4] is-finite(x)",
    "real": "f32[4] real(z)",
    "imag": "f32[4] imag(z)",
    "complex": "c64[4] complex(x, x)",
    "compare": "pred[4] compare(x, x), direction=LT, type=TOTALORDER",
    "convert": "bf16[4] convert(x)",
    "reduce-precision": "f32[4] reduce-precision(x), exponent_bits=5, mantissa_bits=10",
    "stochastic-convert": "s8[4] stochastic-convert(x, convert(i))".replace("convert(i))", "r)"),
    "select": "f32[4] select(p, x, x)",
    "clamp": "f32[4] clamp(s, x, s)",
    "exponential": "f32[4] exponential(x), result_accuracy={mode=highest}",
}
OTHERS = {
    "bitcast": "f32[2,2] bitcast(x)",
    "bitcast-convert": "s32[4] bitcast-convert(x)",
    "broadcast": "f32[4,3] broadcast(x), dimensions={0}",
    "concatenate": "f32[8] concatenate(x, x), dimensions={0}",
    "dynamic-reshape": "f32[<=4] dynamic-reshape(d, n)",
    "pad": "f32[11] pad(x, s), padding=1_0_2",
    "reshape": "f32[2,2] reshape(x)",
    "reverse": "f32[4] reverse(x), dimensions={0}",
    "slice": "f32[2] slice(x), slice={[0:4:2]}",
    "transpose": "f32[4,4] transpose(m), dimensions={1,0}",
    "constant": "f32[2] constant({1, -inf})",
    "get-dimension-size": "s32[] get-dimension-size(d), dimensions={0}",
    "iota": "s32[4,2] iota(), iota_dimension=1",
    "parameter": "f32[] parameter(11)",
    "set-dimension-size": "f32[<=4] set-dimension-size(x, n), dimensions={0}",
    "dynamic-slice": "f32[2,4] dynamic-slice(m, n, n), dynamic_slice_sizes={2,4}",
    "dynamic-update-slice": "f32[4] dynamic-update-slice(x, x, n)",
    "gather": "f32[4] gather(x, i), offset_dims={}, collapsed_slice_dims={0}, start_index_map={0}, index_vector_dim=1, "
    "slice_sizes={1}",
    "scatter": "f32[4] scatter(x, i, x), update_window_dims={}, inserted_window_dims={0}, "
    "scatter_dims_to_operand_dims={0}, index_vector_dim=1, unique_indices=true, to_apply=sum",
    "reduce": "f32[4] reduce(m, s), dimensions={1}, to_apply=sum",
    "reduce-window": "f32[3] reduce-window(x, s), window={size=2}, to_apply=sum",
    "scan": "(f32[4], f32[]) scan(x, s), dimensions={0}, num_carries=1, to_apply=step",
    "select-and-scatter": "f32[4] select-and-scatter(x, w, s), window={size=2 stride=2}, select=cmp, scatter=sum",
    "sort": "f32[4] sort(x), dimensions={0}, is_stable=true, to_apply=cmp",
    "topk": "(f32[2], s32[2]) topk(x), k=2, largest=true",
    "batch-norm-grad": "(f32[4,4], f32[4], f32[4]) batch-norm-grad(m, x, x, x, m), epsilon=0.1, feature_index=1",
    "batch-norm-inference": "f32[4,4] batch-norm-inference(m, x, x, x, x), epsilon=0.1, feature_index=1",
    "batch-norm-training": "(f32[4,4], f32[4], f32[4]) batch-norm-training(m, x, x), epsilon=0.1, feature_index=1",
    "cholesky": "f32[4,4] cholesky(m), lower=true",
    "convolution": "f32[1,3,3,4] convolution(b, kernel), window={size=2x2}, dim_labels=b01f_01io->b01f",
    "dot": "f32[4,4] dot(m, m), lhs_contracting_dims={1}, rhs_contracting_dims={0}, operand_precision={high,highest}",
    "fft": "c64[4] fft(z), fft_type=FFT, fft_length={4}",
    "ragged-dot": "f32[4,4] ragged-dot(m, cube, two), lhs_contracting_dims={1}, rhs_contracting_dims={1}, "
    "lhs_ragged_dims={0}, rhs_group_dims={0}",
    "scaled-dot": "f32[4,4] scaled-dot(m, m, ones, ones), lhs_contracting_dims={1}, rhs_contracting_dims={0}",
    "triangular-solve": "f32[4,4] triangular-solve(m, m), left_side=true, lower=true, transpose_a=NO_TRANSPOSE",
    "call": "f32[4] call(x), to_apply=vec",
    "conditional": "f32[4] conditional(n, x, x), branch_computations={vec, vec}",
    "fusion": "f32[4] fusion(x), kind=kLoop, calls=vec",
    "map": "f32[4] map(x), dimensions={0}, to_apply=neg",
    "while": "f32[4] while(x), condition=cond, body=vec",
    "domain": 'f32[4] domain(x), domain={kind="sharding", entry={replicated}, exit={maximal device=0}}',
    "opt-barrier": "f32[4] opt-barrier(x)",
    "add-dependency": "f32[4] add-dependency(x, k)",
    "after-all": "token[] after-all(k, k)",
    "get-tuple-element": "f32[4] get-tuple-element(pair), index=0",
    "tuple": "(f32[4], s32[4]) tuple(x, i)",
    "rng": "f32[4] rng(s, s), distribution=rng_uniform",
    "rng-bit-generator": "(u64[2], u32[4]) rng-bit-generator(u), algorithm=rng_three_fry",
    "rng-get-and-update-state": "u64[2] rng-get-and-update-state(), delta=4",
    "all-gather": "f32[4] all-gather(x), replica_groups={{0}}, dimensions={0}",
    "all-gather-start": "(f32[4], f32[4]) all-gather-start(x), replica_groups={{0}}, dimensions={0}",
    "all-gather-done": "f32[4] all-gather-done(ags)",
    "all-reduce": "f32[4] all-reduce(x), replica_groups={}, to_apply=sum",
    "all-reduce-start": "f32[4] all-reduce-start(x), replica_groups={}, to_apply=sum",
    "all-reduce-done": "f32[4] all-reduce-done(ars)",
    "all-to-all": "f32[4] all-to-all(x), replica_groups={{0}}, dimensions={0}",
    "collective-broadcast": "f32[4] collective-broadcast(x), replica_groups={{0}}",
    "collective-permute": "f32[4] collective-permute(x), source_target_pairs={{0,0}}",
    "collective-permute-start": "(f32[4], f32[4]) collective-permute-start(x), source_target_pairs={{0,0}}",
    "collective-permute-done": "f32[4] collective-permute-done(cps)",
    "partition-id": "u32[] partition-id()",
    "ragged-all-to-all": "f32[4] ragged-all-to-all(x, x, one, one, one, one), replica_groups={{0}}",
    "reduce-scatter": "f32[4] reduce-scatter(x), replica_groups={{0}}, dimensions={0}, to_apply=sum",
    "replica-id": "u32[] replica-id()",
    "async-start": '((f32[4]), f32[4], u32[]) async-start(x), async_execution_thread="main", calls=vec',
    "async-update": "((f32[4]), f32[4], u32[]) async-update(as)",
    "async-done": "f32[4] async-done(as)",
    "copy-start": "(f32[4], f32[4], u32[]) copy-start(x)",
    "copy-done": "f32[4] copy-done(cs)",
    "custom-call": 'f32[4] custom-call(x), custom_call_target="Sharding", custom_call_has_side_effect=true',
    "infeed": "(f32[4], token[]) infeed(k)",
    "outfeed": 'token[] outfeed(x, k), outfeed_shape=f32[4]{0}, outfeed_config="c"',
    "recv": "(f32[4], u32[], token[]) recv(k), channel_id=1",
    "recv-done": "(f32[4], token[]) recv-done(rs), channel_id=1",
    "send": "(f32[4], u32[], token[]) send(x, k), channel_id=1",
    "send-done": "token[] send-done(ss), channel_id=1",
}
# what some of them need before them
BEFORE = {
    "stochastic-convert": "r = u32[4] bitcast-convert(x)",
    "select-and-scatter": "w = f32[2] slice(x), slice={[0:2]}",
    "convolution": "kernel = f32[2,2,4,4] constant({...})",
    "ragged-dot": "cube = f32[2,4,4] broadcast(m), dimensions={1,2}\n  two = s32[2] constant({1, 3})",
    "scaled-dot": "ones = f32[4,4] constant({...})",
    "get-tuple-element": "pair = (f32[4], s32[4]) tuple(x, i)",
    "all-gather-done": "ags = (f32[4], f32[4]) all-gather-start(x), replica_groups={{0}}, dimensions={0}",
    "all-reduce-done": "ars = f32[4] all-reduce-start(x), replica_groups={}, to_apply=sum",
    "collective-permute-done": "cps = (f32[4], f32[4]) collective-permute-start(x), source_target_pairs={{0,0}}",
    "ragged-all-to-all": "one = s32[1] constant({0})",
    "async-update": "as = ((f32[4]), f32[4], u32[]) async-start(x), calls=vec",
    "async-done": "as = ((f32[4]), f32[4], u32[]) async-start(x), calls=vec",
    "copy-done": "cs = (f32[4], f32[4], u32[]) copy-start(x)",
    "recv-done": "rs = (f32[4], u32[], token[]) recv(k), channel_id=1",
    "send-done": "ss = (f32[4], u32[], token[]) send(x, k), channel_id=1",
}
LINES = {**ELEMENTWISE, **OTHERS}


@pytest.mark.parametrize("opcode", OPCODES)
def test_every_opcode(opcode):
    text = f"{SUM}ENTRY e {{{PROLOGUE}  {BEFORE.get(opcode, '')}\n  ROOT result = {LINES[opcode]}\n}}\n"
    theirs = _hlo.hlo_module_from_text(text)
    module = xl.parse(text)
    assert module.to_text() == theirs.to_string()
    assert xl.parse(module.to_text()).to_text() == module.to_text()
    assert xl.from_proto(module.to_proto()).to_text() == module.to_text()
    assert opcode in RULES or opcode == "parameter"
    assert (opcode in SHAPE_RULES) != (opcode in SHAPE_IS_WRITTEN)
    assert f"| `{opcode}` |" in DOCS
