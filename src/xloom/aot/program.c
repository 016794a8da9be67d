/* What an exported program has around its kernels: the memory of a run, its weights, its threads, its messages.
   The names begin with the program's; EXPORT_TABLES is what this one is like. */
#include EXPORT_TABLES

#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

enum { OK, OUT_OF_MEMORY, WRONG_PROCESSOR, NO_WEIGHTS, BAD_ARGUMENT, BUSY, CALL_FAILED };

typedef void (*task_function)(void *buffers, int64_t begin, int64_t end);
typedef void (*parallel_for_function)(void *pool, void (*body)(void *, int64_t), void *context, int64_t count);

struct program {
  void *arena;
  void *mapped; /* the file of the weights */
  size_t mapped_bytes;
  const void *constants[EXPORT_CONSTANTS + 1];
  int busy;
  int64_t id; /* of the last run, in all of the process */
  char failure[400]; /* what a custom call has said */
  char message[640];
};

/* Native code. */
int32_t xloom_main(const void *const *arguments, void *const *results, const void *const *constants, void *arena,
                   struct program *run);
void xloom_pool_parallel_for(task_function task, void *buffers, int64_t count, int64_t grain);
void xloom_reset_pool(void);
void xloom_limit_threads(int64_t most);
#if EXPORT_TASKS
void xloom_reset_tasks(void);
#else
static void xloom_reset_tasks(void) {}
#endif
extern const char xloom_weights[];

/* -- threads */
static parallel_for_function callers;
static void *callers_pool;
static int64_t callers_threads;
static pthread_once_t once = PTHREAD_ONCE_INIT;

static int64_t at_most(int64_t value, int64_t most) { return value < most ? value : most; }

static void limit_to(int64_t threads) { xloom_limit_threads(threads < 1 ? 1 : at_most(threads, EXPORT_THREADS)); }

static void reset_threads(void) {
  xloom_reset_pool();
  xloom_reset_tasks();
}

static void begin(void) {
  reset_threads();
  limit_to(sysconf(_SC_NPROCESSORS_ONLN));
  pthread_atfork(NULL, NULL, reset_threads);
}

struct loop {
  task_function task;
  void *buffers;
  int64_t count, chunks;
};

/* As the pool of its own cuts loops: at multiples of 64 items, where there are many. */
static int64_t chunk_begin(const struct loop *loop, int64_t k) {
  int64_t items = loop->count / loop->chunks, longer = loop->count % loop->chunks;
  int64_t start = k * items + at_most(k, longer);
  return items >= 1024 && start != loop->count ? start & -64 : start;
}

static void run_chunk(void *context, int64_t k) {
  const struct loop *loop = context;
  loop->task(loop->buffers, chunk_begin(loop, k), chunk_begin(loop, k + 1));
}

void xloom_parallel_for(task_function task, void *buffers, int64_t count, int64_t grain) {
  if (callers == NULL) {
    xloom_pool_parallel_for(task, buffers, count, grain);
    return;
  }
  struct loop loop = {task, buffers, count, at_most(count / (grain < 1 ? 1 : grain), callers_threads)};
  if (loop.chunks <= 1) {
    if (count > 0) task(buffers, 0, count);
    return;
  }
  callers(callers_pool, run_chunk, &loop, loop.chunks);
}

/* Nothing ends a run from outside. */
int32_t xloom_poll(int64_t *next) {
  (void)next;
  return 0;
}

void EXPORT_NAME(_limit_threads)(int threads) {
  pthread_once(&once, begin);
  limit_to(threads);
}

void EXPORT_NAME(_use_threads)(parallel_for_function parallel_for, void *pool, int threads) {
  callers_pool = pool;
  callers_threads = threads < 1 ? 1 : threads;
  callers = parallel_for;
}

/* -- weights */
static int map_weights(struct program *p, const char *path) {
  static const char magic[] = EXPORT_WEIGHTS_MAGIC;
  const size_t head = EXPORT_WEIGHTS_HEADER_BYTES, named = sizeof magic - 1;
  struct stat about;
  int file = path == NULL ? -1 : open(path, O_RDONLY | O_CLOEXEC);
  if (file < 0) return NO_WEIGHTS;
  if (fstat(file, &about) == 0 && (size_t)about.st_size == head + EXPORT_WEIGHTS_BYTES) {
    p->mapped_bytes = (size_t)about.st_size;
    p->mapped = mmap(NULL, p->mapped_bytes, PROT_READ, MAP_SHARED, file, 0);
    if (p->mapped == MAP_FAILED) p->mapped = NULL;
  }
  close(file);
  const char *start = p->mapped;
  if (start == NULL || memcmp(start, magic, named) != 0 || memcmp(start + named, weights_digest, sizeof weights_digest) != 0)
    return NO_WEIGHTS;
  for (int k = 0; k < EXPORT_CONSTANTS; ++k) p->constants[k] = start + head + constant_offsets[k];
  return OK;
}

/* -- what custom calls report by: xloom_custom_call.h's status, and behind it the run */
struct status {
  void (*set_success)(struct status *);
  void (*set_failure)(struct status *, const char *, size_t);
  struct program *run;
  int32_t failed;
};

void xloom_keep_failure(struct program *p, const char *message, size_t length) {
  size_t room = sizeof p->failure - 1, most = length < room ? length : room;
  size_t size = message == NULL ? 0 : strnlen(message, most);
  memcpy(p->failure, message == NULL ? "" : message, size);
  p->failure[size] = 0;
}

void xloom_set_failure(struct status *status, const char *message, size_t length) {
  xloom_keep_failure(status->run, message, length);
  status->failed = 1;
}

int64_t xloom_run_id(const struct program *p) { return p->id; }

/* -- the functions of the header */
void EXPORT_NAME(_destroy)(struct program *p) {
  if (p == NULL) return;
  if (p->mapped != NULL) munmap(p->mapped, p->mapped_bytes);
  free(p->arena);
  free(p);
}

static int created(struct program *p, const char *weights) {
  if (EXPORT_ARENA_BYTES > 0 && posix_memalign(&p->arena, EXPORT_ALIGNMENT, EXPORT_ARENA_BYTES + EXPORT_ALIGNMENT) != 0) {
    p->arena = NULL;
    return OUT_OF_MEMORY;
  }
  if (EXPORT_WEIGHTS_APART) return map_weights(p, weights);
#if !EXPORT_WEIGHTS_APART
  for (int k = 0; k < EXPORT_CONSTANTS; ++k) p->constants[k] = xloom_weights + constant_offsets[k];
#endif
  return OK;
}

static int create(struct program **out, const char *weights) {
  pthread_once(&once, begin);
  *out = NULL;
  if (lacking() != NULL) return WRONG_PROCESSOR;
  struct program *p = calloc(1, sizeof *p);
  if (p == NULL) return OUT_OF_MEMORY;
  int status = created(p, weights);
  if (status == OK)
    *out = p;
  else
    EXPORT_NAME(_destroy)(p);
  return status;
}

#if EXPORT_WEIGHTS_APART
int EXPORT_NAME(_create)(struct program **out, const char *weights) { return create(out, weights); }
#else
int EXPORT_NAME(_create)(struct program **out) { return create(out, NULL); }
#endif

static int bad(struct program *p, const char *kind, const char *name, const char *what) {
  snprintf(p->message, sizeof p->message, "%s %s %s", kind, name, what);
  return BAD_ARGUMENT;
}

static int checked(struct program *p, const void *const *arguments, void *const *results) {
  for (int k = 0; k < EXPORT_ARGUMENTS; ++k)
    if (arguments[k] == NULL && argument_bytes[k] > 0) return bad(p, "argument", argument_names[k], "is NULL");
  for (int k = 0; k < EXPORT_RESULTS; ++k) {
    if (results[k] == NULL && result_bytes[k] > 0) return bad(p, "result", result_names[k], "is NULL");
    if (result_is_aligned[k] && (uintptr_t)results[k] % EXPORT_ALIGNMENT != 0)
      return bad(p, "result", result_names[k], "is for a custom call, and must lie at a multiple of 64 bytes");
  }
  return OK;
}

static int run(struct program *p, const void *const *arguments, void *const *results) {
  int status = checked(p, arguments, results);
  if (status != OK) return status;
  static int64_t runs = 0;
  p->id = __atomic_add_fetch(&runs, 1, __ATOMIC_RELAXED);
  p->failure[0] = p->message[0] = 0;
  int32_t number = xloom_main(arguments, results, p->constants, p->arena, p);
  if (number == 0) return OK;
  snprintf(p->message, sizeof p->message, "%s: %s", number > 0 ? call_places[number - 1] : "", p->failure);
  return CALL_FAILED;
}

int EXPORT_NAME(_run)(struct program *p, const void *const *arguments, void *const *results) {
  if (__atomic_exchange_n(&p->busy, 1, __ATOMIC_ACQUIRE) != 0) return BUSY;
  int status = run(p, arguments, results);
  __atomic_store_n(&p->busy, 0, __ATOMIC_RELEASE);
  return status;
}

const char *EXPORT_NAME(_message)(const struct program *p) { return p->message; }

const char *EXPORT_NAME(_status_text)(int status) {
  switch (status) {
    case OK:
      return "ok";
    case OUT_OF_MEMORY:
      return "there is not enough memory";
    case WRONG_PROCESSOR:
      return "the processor has not all that the code needs";
    case NO_WEIGHTS:
      return "the file of the weights cannot be read, or has those of another program";
    case BAD_ARGUMENT:
      return "a pointer is NULL, or not aligned";
    case BUSY:
      return "another thread runs this program";
    case CALL_FAILED:
      return "a custom call has failed";
  }
  return "not a status";
}

/* What load_exported finds; any of several in one process will do for each of them. */
__attribute__((weak)) const char *xloom_exported_interface(void) { return interface_text; }
const char *EXPORT_NAME(_interface)(void) { return interface_text; }
