"""Programs that pages are made of in tests."""

from __future__ import annotations

LAYERS = 6

_HEAD = """HloModule layers
FileNames
1 "/home/user/model.py"
FunctionNames
1 "layer"
2 "train"
FileLocations
1 {file_name_id=1 function_name_id=1 line=12 end_line=12 column=1 end_column=5}
2 {file_name_id=1 function_name_id=2 line=40 end_line=40 column=1 end_column=5}
StackFrames
1 {file_location_id=2 parent_frame_id=1}
2 {file_location_id=1 parent_frame_id=2}

%sum { a = f32[] parameter(0)  b = f32[] parameter(1)  ROOT c = f32[] add(a, b) }
%fused { p = f32[8,16] parameter(0)  n = f32[8,16] negate(p)  ROOT e = f32[8,16] exponential(n) }
%body {
  s = (s32[], f32[8,16]) parameter(0)
  i = s32[] get-tuple-element(s), index=0
  v = f32[8,16] get-tuple-element(s), index=1
  one = s32[] constant(1)
  j = s32[] add(i, one)
  w = f32[8,16] sine(v)
  ROOT t = (s32[], f32[8,16]) tuple(j, w)
}
%condition {
  held = (s32[], f32[8,16]) parameter(0)
  count = s32[] get-tuple-element(held), index=0
  limit = s32[] constant(5)
  ROOT less = pred[] compare(count, limit), direction=LT
}
ENTRY main {
  x = f32[8,16] parameter(0)
  zero = f32[] constant(0)
  start = s32[] constant(0)
  fusion = f32[8,16] fusion(x), kind=kLoop, calls=%fused, metadata={op_name="jit(f)/first/exp"}
  state = (s32[], f32[8,16]) tuple(start, fusion)
  loop = (s32[], f32[8,16]) while(state), condition=%condition, body=%body, metadata={op_name="jit(f)/loop/while"}
  h0 = f32[8,16] get-tuple-element(loop), index=1, metadata={op_name="jit(f)/loop/while"}
"""
_LAYER = """
  r{k} = f32[8] reduce(h{k}, zero), dimensions={{1}}, to_apply=%sum, metadata={{op_name="jit(f)/layer_{k}/norm/reduce" stack_frame_id=2}}
  b{k} = f32[8,16] broadcast(r{k}), dimensions={{0}}, metadata={{op_name="jit(f)/layer_{k}/norm/broadcast"}}
  d{k} = f32[16,16] dot(h{k}, b{k}), lhs_contracting_dims={{0}}, rhs_contracting_dims={{0}}, metadata={{op_name="jit(f)/layer_{k}/mix/dot_general"}}
  m{k} = f32[8,16] dot(b{k}, d{k}), lhs_contracting_dims={{1}}, rhs_contracting_dims={{0}}, metadata={{op_name="jit(f)/layer_{k}/mix/dot_general"}}
  h{n} = f32[8,16] tanh(m{k}), metadata={{op_name="jit(f)/layer_{k}/tanh"}}
"""


def layers(count: int = LAYERS) -> str:
    """HLO text of a fusion, a loop and layers, with op_names and stacks; of five instructions a layer."""
    body = "".join(_LAYER.format(k=k, n=k + 1) for k in range(count))
    return f"{_HEAD}{body}  ROOT out = f32[8,16] negate(h{count})\n}}\n"
