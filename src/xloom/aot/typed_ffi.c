/* The functions that typed handlers call, in an exported program. Each takes a struct that begins with its size. */
#include "typed_ffi.h"

#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#ifndef EXPORT_THREADS
#define EXPORT_THREADS 1
#endif

/* Of program.c. */
void xloom_keep_failure(struct program *run, const char *message, size_t length);
int64_t xloom_run_id(const struct program *run);

/* Native code. */
void xloom_add_task(void (*task)(void *), void *data);

/* -- errors */
struct ffi_error {
  int32_t code;
  char message[];
};

static const char *const code_names[] = {
    "OK", "CANCELLED", "UNKNOWN", "INVALID_ARGUMENT", "DEADLINE_EXCEEDED", "NOT_FOUND", "ALREADY_EXISTS",
    "PERMISSION_DENIED", "RESOURCE_EXHAUSTED", "FAILED_PRECONDITION", "ABORTED", "OUT_OF_RANGE", "UNIMPLEMENTED",
    "INTERNAL", "UNAVAILABLE", "DATA_LOSS", "UNAUTHENTICATED",
};

/* What stands for an error when there is no memory for one. */
static struct {
  struct ffi_error error;
  char message[32];
} no_memory = {{FFI_RESOURCE_EXHAUSTED}, "no memory for an error"};

struct ffi_error *ffi_failure(int32_t code, const char *message) {
  size_t size = strlen(message) + 1;
  struct ffi_error *error = malloc(sizeof *error + size);
  if (error == NULL) return &no_memory.error;
  error->code = code;
  memcpy(error->message, message, size);
  return error;
}

static void destroy_error(struct ffi_error *error) {
  if (error != &no_memory.error) free(error);
}

struct error_create { struct ffi_sized sized; const char *message; int32_t code; };
struct error_message { struct ffi_sized sized; struct ffi_error *error; const char *message; };
struct error_destroy { struct ffi_sized sized; struct ffi_error *error; };

static struct ffi_error *error_create(struct error_create *a) {
  return ffi_failure(a->code, a->message == NULL ? "" : a->message);
}

static void error_get_message(struct error_message *a) { a->message = a->error->message; }

static void error_destroy(struct error_destroy *a) { destroy_error(a->error); }

/* -- what needs a process that knows of handlers and their types */
static struct ffi_error *handler_register(struct ffi_sized *a) {
  (void)a;
  return ffi_failure(FFI_UNIMPLEMENTED, "the handlers of an exported program are the linker's symbols");
}

static struct ffi_error *stream_get(struct ffi_sized *a) {
  (void)a;
  return ffi_failure(FFI_UNIMPLEMENTED, "There is no stream on Host");
}

static struct ffi_error *context_get(struct ffi_sized *a) {
  (void)a;
  return ffi_failure(FFI_NOT_FOUND, "an exported program has no user data");
}

struct type_register { struct ffi_sized sized; struct ffi_span name; int64_t *type; const void *info; };

static struct ffi_error *type_register(struct type_register *a) {
  static int64_t last = 0;
  if (*a->type == 0) *a->type = __atomic_add_fetch(&last, 1, __ATOMIC_RELAXED);
  return NULL;
}

/* -- states: only the execution is a stage here, and no states are left for it */
struct state_access { struct ffi_sized sized; struct ffi_context *context; int32_t stage; int64_t *type; void *state; };

static struct ffi_error *state_set(struct state_access *a) {
  (void)a;
  return ffi_failure(FFI_UNIMPLEMENTED, "an exported program keeps no states of handlers");
}

static struct ffi_error *state_get(struct state_access *a) {
  (void)a;
  return ffi_failure(FFI_NOT_FOUND, "State is not set: an exported program calls handlers for the execution alone");
}

/* -- the run */
struct run_id { struct ffi_sized sized; struct ffi_context *context; int64_t id; };
struct ordinal { struct ffi_sized sized; struct ffi_context *context; int32_t ordinal; };

static struct ffi_error *run_id_get(struct run_id *a) {
  a->id = xloom_run_id(a->context->run);
  return NULL;
}

static struct ffi_error *device_ordinal_get(struct ordinal *a) {
  a->ordinal = 0;
  return NULL;
}

/* -- memory */
struct allocate { struct ffi_sized sized; struct ffi_context *context; size_t size, alignment; void *data; };
struct release { struct ffi_sized sized; struct ffi_context *context; size_t size; void *data; };

static struct ffi_error *memory_allocate(struct allocate *a) {
  size_t alignment = a->alignment < sizeof(void *) ? sizeof(void *) : a->alignment;
  if (posix_memalign(&a->data, alignment, a->size == 0 ? 1 : a->size) == 0) return NULL;
  return ffi_failure(FFI_RESOURCE_EXHAUSTED, "there is not enough memory");
}

static struct ffi_error *memory_free(struct release *a) {
  free(a->data);
  return NULL;
}

/* -- threads */
struct schedule { struct ffi_sized sized; struct ffi_context *context; void (*task)(void *); void *data; };
struct threads { struct ffi_sized sized; struct ffi_context *context; int64_t *count; };

static struct ffi_error *thread_pool_schedule(struct schedule *a) {
  xloom_add_task(a->task, a->data);
  return NULL;
}

static struct ffi_error *thread_pool_num_threads(struct threads *a) {
  *a->count = EXPORT_THREADS;
  return NULL;
}

/* -- futures: of handlers that return before they are done */
struct ffi_future {
  pthread_mutex_t lock;
  pthread_cond_t changed;
  int is_done;
  struct ffi_error *error;
};
struct future_access { struct ffi_sized sized; struct ffi_future *future; struct ffi_error *error; };

static struct ffi_error *future_create(struct future_access *a) {
  struct ffi_future *future = calloc(1, sizeof *future);
  if (future == NULL) return &no_memory.error;
  pthread_mutex_init(&future->lock, NULL);
  pthread_cond_init(&future->changed, NULL);
  a->future = future;
  return NULL;
}

static void complete(struct ffi_future *future, struct ffi_error *error) {
  pthread_mutex_lock(&future->lock);
  future->error = error;
  future->is_done = 1;
  pthread_cond_signal(&future->changed);
  pthread_mutex_unlock(&future->lock);
}

static struct ffi_error *future_set_available(struct future_access *a) {
  complete(a->future, NULL);
  return NULL;
}

static struct ffi_error *future_set_error(struct future_access *a) {
  complete(a->future, a->error);
  return NULL;
}

static struct ffi_error *wait_for(struct ffi_future *future) {
  pthread_mutex_lock(&future->lock);
  while (!future->is_done) pthread_cond_wait(&future->changed, &future->lock);
  pthread_mutex_unlock(&future->lock);
  struct ffi_error *error = future->error;
  pthread_cond_destroy(&future->changed);
  pthread_mutex_destroy(&future->lock);
  free(future);
  return error;
}

/* -- the table */
struct ffi_version { struct ffi_sized sized; int32_t major, minor; };
struct ffi_api {
  struct ffi_sized sized;
  struct ffi_version version;
  const void *internal;
  const void *functions[18]; /* in the order of FUNCTIONS in c_api.py */
};

const struct ffi_api xloom_ffi_api = {
    {sizeof(struct ffi_api), NULL},
    {{sizeof(struct ffi_version), NULL}, FFI_MAJOR, FFI_MINOR},
    NULL,
    {error_create, error_get_message, error_destroy, handler_register, stream_get, type_register, context_get, state_set,
     state_get, memory_allocate, memory_free, thread_pool_schedule, thread_pool_num_threads, future_create,
     future_set_available, future_set_error, run_id_get, device_ordinal_get},
};

/* What becomes of a call that returned an error or a future: 1 when it failed, and its message is the run's. */
int32_t xloom_settle(struct program *run, struct ffi_frame *frame, struct ffi_error *error) {
  if (error == NULL && frame->future != NULL) {
    error = wait_for(frame->future);
    frame->future = NULL;
  }
  if (error == NULL) return 0;
  char text[400];
  const int32_t known = sizeof code_names / sizeof *code_names;
  const char *name = error->code >= 0 && error->code < known ? code_names[error->code] : "UNKNOWN";
  int length = snprintf(text, sizeof text, "%s: %s", name, error->message);
  xloom_keep_failure(run, text, length < (int)sizeof text ? (size_t)length : sizeof text - 1);
  destroy_error(error);
  return 1;
}
