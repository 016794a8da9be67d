"""The kernels of the table: six bodies over flat arrays, wrapped for each ABI by the preprocessor."""

from __future__ import annotations

KINDS = ("array", "nested tuple", "scratch", "alias", "failure", "opaque")
MESSAGE = "on purpose"
OPAQUE = b"any bytes"

BODIES = """
#include <stddef.h>
#include <stdint.h>
#include <string.h>
#include <xloom/custom_call.h>
#ifdef __cplusplus
#define KERNEL extern "C"
#else
#define KERNEL
#endif
#define GIVEN float* o, float* p, const float* x, const float* y
#define BODY(name) static const char* name(GIVEN, const char* q, size_t n, void* stream)
#define SUM float sum = 0; for (size_t k = 0; k < n; ++k) sum += q[k]
#ifdef __CUDACC__
#define EACH(name, statement)                                                                                     \
  __global__ static void name##_each(GIVEN, float sum) { int i = threadIdx.x; statement; }                        \
  BODY(name) {                                                                                                    \
    SUM;                                                                                                          \
    name##_each<<<1, 4, 0, (cudaStream_t)stream>>>(o, p, x, y, sum);                                              \
    cudaError_t error = cudaGetLastError();                                                                       \
    return error == cudaSuccess ? NULL : cudaGetErrorString(error);                                               \
  }
#else
#define EACH(name, statement) BODY(name) { SUM; for (int i = 0; i < 4; ++i) { statement; } return NULL; }
#endif
EACH(array, o[i] = 2 * x[i])
EACH(tuple, o[i] = x[i] + y[i]; p[i] = x[i] - y[i])
EACH(scratch, p[i] = x[i]; o[i] = 2 * p[i])
EACH(alias, o[i] += 1)
BODY(failure) { return "on purpose"; }
EACH(opaque, o[i] = x[i] + sum)
"""

HOST = """
#define AT(pointer, k) (((void**)(pointer))[k])
#define O_array out
#define P_array NULL
#define X_array in[0]
#define Y_array NULL
#define O_tuple AT(out, 0)
#define P_tuple AT(AT(out, 1), 0)
#define X_tuple AT(in[0], 0)
#define Y_tuple AT(AT(in[0], 1), 0)
#define O_scratch AT(out, 0)
#define P_scratch AT(out, 1)
#define X_scratch in[0]
#define Y_scratch NULL
#define CALL(name, like, q, n) \\
  name((float*)O_##like, (float*)P_##like, (const float*)X_##like, (const float*)Y_##like, q, n, NULL)
#define REPORT(status, call) \\
  do { const char* m = call; if (m) XlaCustomCallStatusSetFailure(status, m, strlen(m)); } while (0)
#define EACH_ABI(name, like)                                                                              \\
  KERNEL void name##_original(void* out, const void** in) { CALL(name, like, NULL, 0); }                  \\
  KERNEL void name##_status(void* out, const void** in, XlaCustomCallStatus* s) {                         \\
    REPORT(s, CALL(name, like, NULL, 0));                                                                 \\
  }                                                                                                       \\
  KERNEL void name##_unified(void* out, const void** in, const char* q, size_t n, XlaCustomCallStatus* s) { \\
    REPORT(s, CALL(name, like, q, n));                                                                    \\
  }
EACH_ABI(array, array)
EACH_ABI(tuple, tuple)
EACH_ABI(scratch, scratch)
EACH_ABI(alias, array)
EACH_ABI(failure, array)
EACH_ABI(opaque, array)
"""

DEVICE = """
#define REPORT(status, call) \\
  do { const char* m = call; if (m) XlaCustomCallStatusSetFailure(status, m, strlen(m)); } while (0)
#define F(k) ((float*)b[k])
#define EACH_ABI(name, o, p, x, y)                                                              \\
  KERNEL void name##_device(void* stream, void** b, const char* q, size_t n) {                  \\
    name(F(o), F(p), F(x), F(y), q, n, stream);                                                 \\
  }                                                                                             \\
  KERNEL void name##_device_status(void* stream, void** b, const char* q, size_t n, XlaCustomCallStatus* s) { \\
    REPORT(s, name(F(o), F(p), F(x), F(y), q, n, stream));                                      \\
  }
EACH_ABI(array, 1, 0, 0, 0)
EACH_ABI(tuple, 2, 3, 0, 1)
EACH_ABI(scratch, 1, 2, 0, 0)
EACH_ABI(alias, 1, 0, 0, 0)
EACH_ABI(failure, 1, 0, 0, 0)
EACH_ABI(opaque, 1, 0, 0, 0)
"""

TYPED = """
#include "xla/ffi/api/c_api.h"
KERNEL int metadata(XLA_FFI_CallFrame* f) {
  XLA_FFI_Extension_Base* e = f->extension_start;
  if (!e || e->type != XLA_FFI_Extension_Metadata) return 0;
  XLA_FFI_Metadata* m = ((XLA_FFI_Metadata_Extension*)e)->metadata;
  m->api_version.major_version = XLA_FFI_API_MAJOR;
  m->api_version.minor_version = XLA_FFI_API_MINOR;
  return 1;
}
KERNEL void* argument(XLA_FFI_CallFrame* f, int k) {
  return k < f->args.size ? ((XLA_FFI_Buffer*)f->args.args[k])->data : NULL;
}
KERNEL void* result(XLA_FFI_CallFrame* f, int k) {
  return k < f->rets.size ? ((XLA_FFI_Buffer*)f->rets.rets[k])->data : NULL;
}
static XLA_FFI_Error* NewError(XLA_FFI_CallFrame* f, const char* message) {
  XLA_FFI_Error_Create_Args a;
  memset(&a, 0, sizeof(a));
  a.struct_size = XLA_FFI_Error_Create_Args_STRUCT_SIZE;
  a.message = message;
  a.errc = XLA_FFI_Error_Code_ABORTED;
  return f->api->XLA_FFI_Error_Create(&a);
}
KERNEL XLA_FFI_Error* fail(XLA_FFI_CallFrame* f) { return NewError(f, "on purpose"); }
KERNEL int64_t sum_of_text(XLA_FFI_CallFrame* f) {
  int64_t sum = 0;
  if (f->attrs.size) {
    XLA_FFI_ByteSpan* s = (XLA_FFI_ByteSpan*)f->attrs.attrs[0];
    for (size_t k = 0; k < s->len; ++k) sum += s->ptr[k];
  }
  return sum;
}
#define EACH_ABI(name)                                                                                             \\
  KERNEL XLA_FFI_Error* name##_typed(XLA_FFI_CallFrame* f) {                                                       \\
    if (metadata(f)) return NULL;                                                                                  \\
    XLA_FFI_ByteSpan none = {NULL, 0}, *s = f->attrs.size ? (XLA_FFI_ByteSpan*)f->attrs.attrs[0] : &none;          \\
    const char* m = name((float*)result(f, 0), (float*)result(f, 1), (const float*)argument(f, 0),                 \\
                         (const float*)argument(f, 1), s->ptr, s->len, NULL);                                      \\
    return m ? NewError(f, m) : NULL;                                                                                 \\
  }
EACH_ABI(array)
EACH_ABI(tuple)
EACH_ABI(scratch)
EACH_ABI(alias)
EACH_ABI(failure)
EACH_ABI(opaque)
KERNEL void report(XlaCustomCallStatus* s) { XlaCustomCallStatusSetFailure(s, "on purpose", 10); }
"""


def symbol(kind: str, abi: str) -> str:
    """The function that is `kind` by `abi`."""
    name = "tuple" if kind == "nested tuple" else kind
    ending = {
        "original": "original",
        "status-returning": "status",
        "status-returning-unified": "unified",
        "typed-ffi": "typed",
        "device": "device",
        "device, status": "device_status",
        "device, typed-ffi": "typed",
    }
    return f"{name}_{ending[abi]}"
