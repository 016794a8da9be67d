/* What typed handlers are called with, as version 0.3 of XLA's FFI lays it out; see calls/typed_ffi/c_api.py. */
#ifndef XLOOM_TYPED_FFI_H
#define XLOOM_TYPED_FFI_H

#include <stddef.h>
#include <stdint.h>

enum { FFI_MAJOR = 0, FFI_MINOR = 3 };
enum { FFI_INSTANTIATE, FFI_PREPARE, FFI_INITIALIZE, FFI_EXECUTE, FFI_STAGES };
enum {
  FFI_UNKNOWN = 2,
  FFI_INVALID_ARGUMENT = 3,
  FFI_NOT_FOUND = 5,
  FFI_ALREADY_EXISTS = 6,
  FFI_RESOURCE_EXHAUSTED = 8,
  FFI_UNIMPLEMENTED = 12,
};

struct ffi_sized {
  size_t struct_size;
  void *extension;
};

struct ffi_span {
  const char *text;
  size_t length;
};

struct ffi_scalar {
  int32_t dtype;
  const void *value;
};

struct ffi_array {
  int32_t dtype;
  size_t count;
  const void *values;
};

struct ffi_attributes {
  struct ffi_sized sized;
  int64_t count;
  const int32_t *kinds;
  const void *const *names;
  const void *const *values;
};

struct ffi_buffer {
  struct ffi_sized sized;
  int32_t dtype;
  void *data;
  int64_t rank;
  const int64_t *dims;
};

struct ffi_buffers {
  struct ffi_sized sized;
  int64_t count;
  const int32_t *kinds;
  struct ffi_buffer **each;
};

struct ffi_state {
  int64_t type;
  void *address;
};

/* `run` and what follows are written by native code, see calls/typed_ffi/context.py. */
struct ffi_context {
  struct program *run;
  int64_t prepared;
  struct ffi_state states[FFI_STAGES];
};

struct ffi_frame {
  struct ffi_sized sized;
  const struct ffi_api *api;
  struct ffi_context *context;
  int32_t stage;
  struct ffi_buffers arguments;
  struct ffi_buffers results;
  struct ffi_attributes attributes;
  struct ffi_future *future;
};

/* NULL is success. */
struct ffi_error *ffi_failure(int32_t code, const char *message);

#endif
