/* Kernels that move elements in the order in which they lie, by each ABI of the host.

   Operand 0 holds sizes: bytes of an element, elements of the first array, elements of the second. Every kernel reads
   all that it is given before it writes, so that it may be given the same memory twice. */
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <xloom/custom_call.h>

#include "xla/ffi/api/c_api.h"

typedef struct {
  char *o0, *o1;
  const char *x, *y;
  int64_t size, n, m;
} Given;

static char* copied(const char* x, int64_t bytes) { return memcpy(malloc(bytes + 1), x, bytes); }

static void rotate(char* o, const char* x, int64_t size, int64_t n) {
  if (!n) return;
  memcpy(o + size, x, (n - 1) * size);
  memcpy(o, x + (n - 1) * size, size);
}

static void reverse(char* o, const char* x, int64_t size, int64_t n) {
  for (int64_t k = 0; k < n; ++k) memcpy(o + k * size, x + (n - 1 - k) * size, size);
}

static void turn(Given g) {
  char* x = copied(g.x, g.n * g.size);
  rotate(g.o0, x, g.size, g.n);
  free(x);
}

static void both(Given g) {
  char *x = copied(g.x, g.n * g.size), *y = copied(g.y, g.m * g.size);
  rotate(g.o0, x, g.size, g.n);
  reverse(g.o1, y, g.size, g.m);
  free(x);
  free(y);
}

static void fork(Given g) {
  char* x = copied(g.x, g.n * g.size);
  reverse(g.o0, x, g.size, g.n);
  rotate(g.o1, x, g.size, g.n);
  free(x);
}

static void spare(Given g) {
  turn(g);
  memset(g.o1, 7, g.m);
}

/* of an output that is its operand, only the ends change */
static void ends(Given g) {
  if (g.n < 2) return;
  char* last = copied(g.o0 + (g.n - 1) * g.size, g.size);
  memcpy(g.o0 + (g.n - 1) * g.size, g.o0, g.size);
  memcpy(g.o0, last, g.size);
  free(last);
}

#define AT(pointer, k) (((void**)(pointer))[k])

static Given host(void* out, const void** in, int results, int paired) {
  const int64_t* sizes = in[0];
  Given g = {results == 1 ? out : AT(out, 0), results == 1 ? NULL : AT(out, 1), NULL, NULL, sizes[0], sizes[1], sizes[2]};
  g.x = paired ? AT(in[1], 0) : in[1];
  if (paired) g.y = AT(in[1], 1);
  if (!paired && results == 2) g.y = in[sizes[3] ? 2 : 1];
  return g;
}

static int is_metadata(XLA_FFI_CallFrame* f) {
  XLA_FFI_Extension_Base* e = f->extension_start;
  if (!e || e->type != XLA_FFI_Extension_Metadata) return 0;
  XLA_FFI_Metadata* m = ((XLA_FFI_Metadata_Extension*)e)->metadata;
  m->api_version.major_version = XLA_FFI_API_MAJOR;
  m->api_version.minor_version = XLA_FFI_API_MINOR;
  return 1;
}

static Given typed(XLA_FFI_CallFrame* f) {
  XLA_FFI_Buffer **x = (XLA_FFI_Buffer**)f->args.args, **o = (XLA_FFI_Buffer**)f->rets.rets;
  const int64_t* sizes = x[0]->data;
  Given g = {o[0]->data, f->rets.size > 1 ? o[1]->data : NULL, x[1]->data, f->args.size > 2 ? x[2]->data : NULL};
  g.size = sizes[0], g.n = sizes[1], g.m = sizes[2];
  return g;
}

#define KERNEL(name, body, results, paired)                                                                          \
  void name##_original(void* out, const void** in) { body(host(out, in, results, paired)); }                         \
  void name##_status(void* out, const void** in, XlaCustomCallStatus* s) { body(host(out, in, results, paired)); }   \
  void name##_unified(void* out, const void** in, const char* q, size_t n, XlaCustomCallStatus* s) {                 \
    body(host(out, in, results, paired));                                                                            \
  }                                                                                                                  \
  XLA_FFI_Error* name##_typed(XLA_FFI_CallFrame* f) {                                                                \
    if (!is_metadata(f)) body(typed(f));                                                                             \
    return NULL;                                                                                                     \
  }
KERNEL(turn, turn, 1, 0)
KERNEL(both, both, 2, 0)
KERNEL(fork, fork, 2, 0)
KERNEL(spare, spare, 2, 0)
KERNEL(ends, ends, 1, 0)
KERNEL(pair, both, 2, 1)
