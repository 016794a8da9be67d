"""Programs with custom calls, compiled and interpreted, and C functions that they call."""

import numpy as np
import pytest

import xloom as xl

X = np.arange(4, dtype=np.float32)
C_SOURCE = """
#include <stdint.h>
#include <xloom/custom_call.h>
void c_add_one(void* out, const void** in) {
  for (int i = 0; i < 4; ++i) ((float*)out)[i] = ((const float*)in[0])[i] + 1;
}
void c_limit(void* out, const void** in, XlaCustomCallStatus* s) {
  float x = *(const float*)in[0];
  *(float*)out = x + 1;
  if (x < 3) XlaCustomCallStatusSetSuccess(s);
  else XlaCustomCallStatusSetFailure(s, "limit reached", 13);
}
void c_opaque(void* out, const void** in, const char* opaque, size_t size, XlaCustomCallStatus* s) {
  XlaCustomCallStatusSetFailure(s, opaque, size);
}
void c_alignment(void* out, const void** in) {
  *(uint32_t*)out = (uint32_t)(((uintptr_t)out | (uintptr_t)in[0]) % 64 + (((const float*)in[0])[0] != 7));
}
void c_increment(void* out, const void** in) { *(float*)out += out == in[0] ? 1 : 100; }
void c_nothing(void* out, const void** in) {}
void c_as_it_lies(void* out, const void** in) {
  const float* x = in[0];
  float *scratch = ((float**)out)[0], *seen = ((float**)out)[1];
  for (int i = 0; i < 12; ++i) seen[i] = x[i];
  if (scratch != x) seen[0] = -1;
}
void c_nested(void* out, const void** in) {
  void** outs = (void**)out;
  const void** tuple = (const void**)in[0];
  if (in[1] == NULL) *(float*)outs[0] = *(const float*)tuple[1];
  *(float*)((void**)outs[1])[0] = *(const float*)((const void**)tuple[0])[0];
}
"""


def loop(body, *, count=9, dims="4", call='custom-call(x), custom_call_target="t"'):
    """`count` times x = call(x), as a while loop."""
    state = f"(s32[], f32[{dims}])"
    return f"""c {{ s = {state} parameter(0) i = s32[] get-tuple-element(s), index=0 n = s32[] constant({count})
      ROOT l = pred[] compare(i, n), direction=LT }}
    b {{ s = {state} parameter(0) i = s32[] get-tuple-element(s), index=0 o = s32[] constant(1)
      j = s32[] add(i, o) x = f32[{dims}] get-tuple-element(s), index=1
      {body} ROOT t = {state} tuple(j, y) }}"""


def compare(text, *arguments):
    """Runs compiled and interpreted; returns the compiled result, or raises its error, the same as the other."""
    module = xl.parse(text) if isinstance(text, str) else text
    try:
        expected = xl.evaluate(module, *arguments)
    except xl.XloomError as error:
        with pytest.raises(type(error)) as caught:
            xl.compile(module)(*arguments)
        assert str(caught.value) == str(error)
        raise caught.value from caught.value.__cause__
    found = xl.compile(module)(*arguments)
    for a, b in zip(flat(found), flat(expected), strict=True):
        np.testing.assert_array_equal(a, b)
    return found


def flat(value):
    return [leaf for part in value for leaf in flat(part)] if isinstance(value, tuple) else [value]
