/* What JAX calls for linear algebra, as typed handlers over LAPACK's routines. A function here serves the four types of
   elements, and gets the routine of one of them. Matrices lie column by column, in the last two dimensions of an array:
   if it has more, there are several, one after another. */
#include "typed_ffi.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

struct elements {
  size_t real; /* bytes of a real number */
  size_t parts; /* 2 for complex elements */
};

static const struct elements elements_s = {4, 1}, elements_d = {8, 1}, elements_c = {4, 2}, elements_z = {8, 2};

typedef void (*routine)(void);

/* Fortran gets addresses; the lengths of its texts come last. */
#define ONE ((size_t)1)

static size_t bytes(const struct elements *t) { return t->real * t->parts; }
static int larger(int a, int b) { return a > b ? a : b; }
static int smaller(int a, int b) { return a < b ? a : b; }

/* -- arrays */
static const struct ffi_buffer *argument(const struct ffi_frame *f, int k) { return f->arguments.each[k]; }
static const struct ffi_buffer *result(const struct ffi_frame *f, int k) { return f->results.each[k]; }

/* The dimension that has `back` behind it. */
static int dim(const struct ffi_buffer *array, int back) { return (int)array->dims[array->rank - 1 - back]; }

static size_t product(const struct ffi_buffer *array, int64_t dims) {
  size_t size = 1;
  for (int64_t k = 0; k < dims; ++k) size *= (size_t)array->dims[k];
  return size;
}

/* How many matrices (rank 2) or vectors (rank 1) an array has. */
static size_t batch(const struct ffi_buffer *array, int rank) { return product(array, array->rank - rank); }

/* The k-th matrix or vector, of elements of so many bytes. */
static char *part(const struct ffi_buffer *array, int rank, size_t element, size_t k) {
  size_t size = 1;
  for (int back = 0; back < rank; ++back) size *= (size_t)dim(array, back);
  return (char *)array->data + k * size * element;
}

/* Routines work where their results are to be. */
static void copy(const struct ffi_buffer *to, const struct ffi_buffer *from, size_t element) {
  size_t size = product(from, from->rank) * element;
  if (to->data != from->data && size > 0) memcpy(to->data, from->data, size);
}

/* -- attributes */
static const void *attribute(const struct ffi_frame *f, const char *name) {
  for (int64_t k = 0; k < f->attributes.count; ++k) {
    const struct ffi_span *found = f->attributes.names[k];
    if (found->length == strlen(name) && memcmp(found->text, name, found->length) == 0)
      return ((const struct ffi_scalar *)f->attributes.values[k])->value;
  }
  return NULL;
}

static char letter(const struct ffi_frame *f, const char *name) {
  const char *found = attribute(f, name);
  return found == NULL ? 'N' : *found;
}

static int number(const struct ffi_frame *f, const char *name, int otherwise) {
  const int32_t *found = attribute(f, name);
  return found == NULL ? otherwise : *found;
}

/* -- memory to work in */
static struct ffi_error *no_room(void) { return ffi_failure(FFI_RESOURCE_EXHAUSTED, "no memory for LAPACK to work in"); }

static void *room(size_t count, size_t element) { return malloc((count < 1 ? 1 : count) * element); }

/* What a routine that is asked for the size of its workspace writes into its first element. */
static int told(const struct elements *t, const void *first) {
  double size;
  if (t->real == 4) {
    float single;
    memcpy(&single, first, 4);
    size = ceil((double)nextafterf(single, INFINITY)); /* large sizes are rounded */
  } else {
    memcpy(&size, first, 8);
  }
  return larger(1, (int)size);
}

/* -- factorisations */
static struct ffi_error *lapack_potrf(struct ffi_frame *f, const struct elements *t, routine given) {
  void (*potrf)(const char *, const int *, void *, const int *, int *, size_t) = (void *)given;
  const struct ffi_buffer *x = result(f, 0), *info = result(f, 1);
  const char uplo = letter(f, "uplo");
  const int n = dim(x, 0), ld = larger(1, n);
  copy(x, argument(f, 0), bytes(t));
  for (size_t k = 0; k < batch(x, 2); ++k) potrf(&uplo, &n, part(x, 2, bytes(t), k), &ld, (int *)info->data + k, ONE);
  return NULL;
}

static struct ffi_error *lapack_getrf(struct ffi_frame *f, const struct elements *t, routine given) {
  void (*getrf)(const int *, const int *, void *, const int *, int *, int *) = (void *)given;
  const struct ffi_buffer *x = result(f, 0), *pivots = result(f, 1), *info = result(f, 2);
  const int m = dim(x, 1), n = dim(x, 0), ld = larger(1, m);
  copy(x, argument(f, 0), bytes(t));
  for (size_t k = 0; k < batch(x, 2); ++k)
    getrf(&m, &n, part(x, 2, bytes(t), k), &ld, (int *)part(pivots, 1, sizeof(int), k), (int *)info->data + k);
  return NULL;
}

static struct ffi_error *lapack_geqrf(struct ffi_frame *f, const struct elements *t, routine given) {
  void (*geqrf)(const int *, const int *, void *, const int *, void *, void *, const int *, int *) = (void *)given;
  const struct ffi_buffer *x = result(f, 0), *tau = result(f, 1);
  const int m = dim(x, 1), n = dim(x, 0), ld = larger(1, m), ask = -1;
  char first[16];
  int info;
  copy(x, argument(f, 0), bytes(t));
  geqrf(&m, &n, x->data, &ld, tau->data, first, &ask, &info);
  const int size = told(t, first);
  void *work = room((size_t)size, bytes(t));
  if (work == NULL) return no_room();
  for (size_t k = 0; k < batch(x, 2); ++k)
    geqrf(&m, &n, part(x, 2, bytes(t), k), &ld, part(tau, 1, bytes(t), k), work, &size, &info);
  free(work);
  return NULL;
}

static struct ffi_error *lapack_geqp3(struct ffi_frame *f, const struct elements *t, routine given) {
  void (*of_real)(const int *, const int *, void *, const int *, int *, void *, void *, const int *, int *);
  void (*of_complex)(const int *, const int *, void *, const int *, int *, void *, void *, const int *, void *, int *);
  of_real = (void *)given, of_complex = (void *)given;
  const struct ffi_buffer *x = result(f, 0), *pivots = result(f, 1), *tau = result(f, 2);
  const int m = dim(x, 1), n = dim(x, 0), ld = larger(1, m), ask = -1;
  char first[16];
  int info;
  copy(x, argument(f, 0), bytes(t));
  copy(pivots, argument(f, 1), sizeof(int));
  void *reals = room(2 * (size_t)n, t->real);
  if (reals == NULL) return no_room();
  if (t->parts == 1)
    of_real(&m, &n, x->data, &ld, pivots->data, tau->data, first, &ask, &info);
  else
    of_complex(&m, &n, x->data, &ld, pivots->data, tau->data, first, &ask, reals, &info);
  const int size = told(t, first);
  void *work = room((size_t)size, bytes(t));
  for (size_t k = 0; work != NULL && k < batch(x, 2); ++k) {
    void *a = part(x, 2, bytes(t), k), *scales = part(tau, 1, bytes(t), k);
    int *order = (int *)part(pivots, 1, sizeof(int), k);
    if (t->parts == 1)
      of_real(&m, &n, a, &ld, order, scales, work, &size, &info);
    else
      of_complex(&m, &n, a, &ld, order, scales, work, &size, reals, &info);
  }
  const int failed = work == NULL;
  free(work);
  free(reals);
  return failed ? no_room() : NULL;
}

/* The matrix whose reflections a factorisation has left. */
static struct ffi_error *lapack_orgqr(struct ffi_frame *f, const struct elements *t, routine given) {
  void (*orgqr)(const int *, const int *, const int *, void *, const int *, const void *, void *, const int *, int *);
  orgqr = (void *)given;
  const struct ffi_buffer *x = result(f, 0), *tau = argument(f, 1);
  const int m = dim(x, 1), n = dim(x, 0), count = dim(tau, 0), ld = larger(1, m), ask = -1;
  char first[16];
  int info;
  copy(x, argument(f, 0), bytes(t));
  orgqr(&m, &n, &count, x->data, &ld, tau->data, first, &ask, &info);
  const int size = told(t, first);
  void *work = room((size_t)size, bytes(t));
  if (work == NULL) return no_room();
  for (size_t k = 0; k < batch(x, 2); ++k)
    orgqr(&m, &n, &count, part(x, 2, bytes(t), k), &ld, part(tau, 1, bytes(t), k), work, &size, &info);
  free(work);
  return NULL;
}

/* A product with that matrix. */
static struct ffi_error *lapack_ormqr(struct ffi_frame *f, const struct elements *t, routine given) {
  void (*ormqr)(const char *, const char *, const int *, const int *, const int *, const void *, const int *,
                const void *, void *, const int *, void *, const int *, int *, size_t, size_t);
  ormqr = (void *)given;
  const struct ffi_buffer *a = argument(f, 0), *tau = argument(f, 1), *c = result(f, 0);
  const char *left = attribute(f, "left"), *transposed = attribute(f, "transpose");
  const char side = left != NULL && *left ? 'L' : 'R';
  const char trans = transposed == NULL || !*transposed ? 'N' : t->parts == 1 ? 'T' : 'C';
  const int m = dim(c, 1), n = dim(c, 0), count = dim(tau, 0), ask = -1;
  const int lda = larger(1, dim(a, 1)), ldc = larger(1, m);
  char first[16];
  int info;
  copy(c, argument(f, 2), bytes(t));
  ormqr(&side, &trans, &m, &n, &count, a->data, &lda, tau->data, c->data, &ldc, first, &ask, &info, ONE, ONE);
  const int size = told(t, first);
  void *work = room((size_t)size, bytes(t));
  if (work == NULL) return no_room();
  for (size_t k = 0; k < batch(c, 2); ++k)
    ormqr(&side, &trans, &m, &n, &count, part(a, 2, bytes(t), k), &lda, part(tau, 1, bytes(t), k),
          part(c, 2, bytes(t), k), &ldc, work, &size, &info, ONE, ONE);
  free(work);
  return NULL;
}

/* -- singular values */
struct svd {
  char mode;
  int m, n, ldu, ldvt;
  void *reals;
  int *integers; /* NULL for gesvd */
};

static void svd(const struct elements *t, routine given, const struct svd *s, void *x, void *values, void *u, void *vt,
                void *work, const int *size, int *info) {
  const int ld = larger(1, s->m);
  const char *mode = &s->mode;
  if (s->integers != NULL && t->parts == 1) {
    void (*gesdd)(const char *, const int *, const int *, void *, const int *, void *, void *, const int *, void *,
                  const int *, void *, const int *, int *, int *, size_t) = (void *)given;
    gesdd(mode, &s->m, &s->n, x, &ld, values, u, &s->ldu, vt, &s->ldvt, work, size, s->integers, info, ONE);
  } else if (s->integers != NULL) {
    void (*gesdd)(const char *, const int *, const int *, void *, const int *, void *, void *, const int *, void *,
                  const int *, void *, const int *, void *, int *, int *, size_t) = (void *)given;
    gesdd(mode, &s->m, &s->n, x, &ld, values, u, &s->ldu, vt, &s->ldvt, work, size, s->reals, s->integers, info, ONE);
  } else if (t->parts == 1) {
    void (*gesvd)(const char *, const char *, const int *, const int *, void *, const int *, void *, void *,
                  const int *, void *, const int *, void *, const int *, int *, size_t, size_t) = (void *)given;
    gesvd(mode, mode, &s->m, &s->n, x, &ld, values, u, &s->ldu, vt, &s->ldvt, work, size, info, ONE, ONE);
  } else {
    void (*gesvd)(const char *, const char *, const int *, const int *, void *, const int *, void *, void *,
                  const int *, void *, const int *, void *, const int *, void *, int *, size_t, size_t) = (void *)given;
    gesvd(mode, mode, &s->m, &s->n, x, &ld, values, u, &s->ldu, vt, &s->ldvt, work, size, s->reals, info, ONE, ONE);
  }
}

static struct ffi_error *svd_of(struct ffi_frame *f, const struct elements *t, routine given, size_t integers,
                                size_t reals) {
  const struct ffi_buffer *x = result(f, 0), *values = result(f, 1), *u = result(f, 2), *vt = result(f, 3);
  int *info = result(f, 4)->data;
  struct svd s = {letter(f, "mode"), dim(x, 1), dim(x, 0), larger(1, dim(u, 1)), larger(1, dim(vt, 1)), NULL, NULL};
  char first[16];
  const int ask = -1;
  int asked;
  copy(x, argument(f, 0), bytes(t));
  s.reals = room(t->parts == 1 ? 0 : reals, t->real);
  s.integers = integers > 0 ? room(integers, sizeof(int)) : NULL;
  void *work = NULL;
  if (s.reals != NULL && (integers == 0 || s.integers != NULL)) {
    svd(t, given, &s, x->data, values->data, u->data, vt->data, first, &ask, &asked);
    const int size = told(t, first);
    work = room((size_t)size, bytes(t));
    for (size_t k = 0; work != NULL && k < batch(x, 2); ++k)
      svd(t, given, &s, part(x, 2, bytes(t), k), part(values, 1, t->real, k), part(u, 2, bytes(t), k),
          part(vt, 2, bytes(t), k), work, &size, info + k);
  }
  const int failed = work == NULL;
  free(work);
  free(s.integers);
  free(s.reals);
  return failed ? no_room() : NULL;
}

static struct ffi_error *lapack_gesdd(struct ffi_frame *f, const struct elements *t, routine given) {
  const size_t m = (size_t)dim(result(f, 0), 1), n = (size_t)dim(result(f, 0), 0);
  const size_t less = m < n ? m : n, more = m < n ? n : m;
  const size_t long_way = 2 * more * less + 2 * less * less + less, short_way = 5 * less * less + 7 * less;
  return svd_of(f, t, given, 8 * less + 1, long_way > short_way ? long_way : short_way);
}

static struct ffi_error *lapack_gesvd(struct ffi_frame *f, const struct elements *t, routine given) {
  return svd_of(f, t, given, 0, 5 * (size_t)smaller(dim(result(f, 0), 1), dim(result(f, 0), 0)));
}

/* -- eigenvalues of Hermitian matrices */
struct workspace {
  int size, reals, integers;
};

static void syevd(const struct elements *t, routine given, const char *mode, const char *uplo, const int *n, void *x,
                  void *values, void *work, void *reals, int *integers, const struct workspace *w, int *info) {
  const int ld = larger(1, *n);
  if (t->parts == 1) {
    void (*of_real)(const char *, const char *, const int *, void *, const int *, void *, void *, const int *, int *,
                    const int *, int *, size_t, size_t) = (void *)given;
    of_real(mode, uplo, n, x, &ld, values, work, &w->size, integers, &w->integers, info, ONE, ONE);
  } else {
    void (*of_complex)(const char *, const char *, const int *, void *, const int *, void *, void *, const int *,
                       void *, const int *, int *, const int *, int *, size_t, size_t) = (void *)given;
    of_complex(mode, uplo, n, x, &ld, values, work, &w->size, reals, &w->reals, integers, &w->integers, info, ONE, ONE);
  }
}

static struct ffi_error *lapack_syevd(struct ffi_frame *f, const struct elements *t, routine given) {
  const struct ffi_buffer *x = result(f, 0), *values = result(f, 1);
  int *info = result(f, 2)->data;
  const char mode = letter(f, "mode"), uplo = letter(f, "uplo");
  const int n = dim(x, 0);
  struct workspace w = {-1, -1, -1};
  char first[16], first_real[16];
  int first_integer, asked;
  copy(x, argument(f, 0), bytes(t));
  syevd(t, given, &mode, &uplo, &n, x->data, values->data, first, first_real, &first_integer, &w, &asked);
  const struct elements real = {t->real, 1};
  w.size = told(t, first), w.integers = larger(1, first_integer);
  w.reals = t->parts == 1 ? 1 : told(&real, first_real);
  void *work = room((size_t)w.size, bytes(t)), *reals = room((size_t)w.reals, t->real);
  int *integers = room((size_t)w.integers, sizeof(int));
  const int failed = work == NULL || reals == NULL || integers == NULL;
  for (size_t k = 0; !failed && k < batch(x, 2); ++k)
    syevd(t, given, &mode, &uplo, &n, part(x, 2, bytes(t), k), part(values, 1, t->real, k), work, reals, integers, &w,
          info + k);
  free(work);
  free(reals);
  free(integers);
  return failed ? no_room() : NULL;
}

/* To a tridiagonal matrix. */
static struct ffi_error *lapack_sytrd(struct ffi_frame *f, const struct elements *t, routine given) {
  void (*sytrd)(const char *, const int *, void *, const int *, void *, void *, void *, void *, const int *, int *,
                size_t) = (void *)given;
  const struct ffi_buffer *x = result(f, 0), *d = result(f, 1), *e = result(f, 2), *tau = result(f, 3);
  int *info = result(f, 4)->data;
  const char uplo = letter(f, "uplo");
  const int n = dim(x, 0), ld = larger(1, n), ask = -1;
  char first[16];
  int asked;
  copy(x, argument(f, 0), bytes(t));
  sytrd(&uplo, &n, x->data, &ld, d->data, e->data, tau->data, first, &ask, &asked, ONE);
  const int size = told(t, first);
  void *work = room((size_t)size, bytes(t));
  if (work == NULL) return no_room();
  for (size_t k = 0; k < batch(x, 2); ++k)
    sytrd(&uplo, &n, part(x, 2, bytes(t), k), &ld, part(d, 1, t->real, k), part(e, 1, t->real, k),
          part(tau, 1, bytes(t), k), work, &size, info + k, ONE);
  free(work);
  return NULL;
}

/* -- eigenvalues of any matrix */
static double real_at(const struct elements *t, const void *base, size_t k) {
  return t->real == 4 ? (double)((const float *)base)[k] : ((const double *)base)[k];
}

static int is_finite(const struct elements *t, const void *matrix, size_t count) {
  for (size_t k = 0; k < count * t->parts; ++k)
    if (!isfinite(real_at(t, matrix, k))) return 0;
  return 1;
}

/* Complex eigenvectors of a real matrix: of conjugate eigenvalues, the first has the column of the real parts, the
   second that of the imaginary ones. */
static void unpack(const struct elements *t, int n, const void *imaginary, const char *packed, char *to) {
  const size_t column = (size_t)n * t->real;
  for (int k = 0; k < n;) {
    const int is_pair = real_at(t, imaginary, (size_t)k) != 0 && k + 1 < n;
    const char *re = packed + (size_t)k * column, *im = re + column;
    for (size_t i = 0; i < (size_t)n; ++i) {
      char *own = to + 2 * ((size_t)k * column + i * t->real), *other = own + 2 * column;
      memcpy(own, re + i * t->real, t->real);
      memset(own + t->real, 0, t->real);
      if (!is_pair) continue;
      memcpy(own + t->real, im + i * t->real, t->real);
      memcpy(other, re + i * t->real, t->real);
      if (t->real == 4)
        ((float *)other)[1] = -((const float *)im)[i];
      else
        ((double *)other)[1] = -((const double *)im)[i];
    }
    k += is_pair ? 2 : 1;
  }
}

struct eig {
  char left, right;
  int n;
  void *reals; /* of complex matrices */
};

static void geev(const struct elements *t, routine given, const struct eig *e, void *x, void *values, void *imaginary,
                 void *vl, void *vr, void *work, const int *size, int *info) {
  const int ld = larger(1, e->n);
  if (t->parts == 1) {
    void (*of_real)(const char *, const char *, const int *, void *, const int *, void *, void *, void *, const int *,
                    void *, const int *, void *, const int *, int *, size_t, size_t) = (void *)given;
    of_real(&e->left, &e->right, &e->n, x, &ld, values, imaginary, vl, &ld, vr, &ld, work, size, info, ONE, ONE);
  } else {
    void (*of_complex)(const char *, const char *, const int *, void *, const int *, void *, void *, const int *,
                       void *, const int *, void *, const int *, void *, int *, size_t, size_t) = (void *)given;
    of_complex(&e->left, &e->right, &e->n, x, &ld, values, vl, &ld, vr, &ld, work, size, e->reals, info, ONE, ONE);
  }
}

static struct ffi_error *lapack_geev(struct ffi_frame *f, const struct elements *t, routine given) {
  const int is_real = t->parts == 1;
  const struct ffi_buffer *x = argument(f, 0), *values = result(f, 0), *imaginary = result(f, is_real);
  const struct ffi_buffer *vl = result(f, 1 + is_real), *vr = result(f, 2 + is_real);
  int *info = result(f, 3 + is_real)->data;
  struct eig e = {letter(f, "compute_left"), letter(f, "compute_right"), dim(x, 0), NULL};
  const size_t count = (size_t)e.n * (size_t)e.n, complex_bytes = 2 * t->real;
  const int ask = -1;
  char first[16];
  int asked;
  /* the matrix to be overwritten; of real ones both sides' packed vectors as well */
  char *own = room(count * (is_real ? 3 : 1), bytes(t)), *packed_left = own, *packed_right = own;
  e.reals = room(2 * (size_t)e.n, t->real);
  void *work = NULL;
  if (own != NULL && e.reals != NULL) {
    packed_left += count * bytes(t), packed_right += 2 * count * bytes(t);
    geev(t, given, &e, own, values->data, imaginary->data, vl->data, vr->data, first, &ask, &asked);
    const int size = told(t, first);
    work = room((size_t)size, bytes(t));
    for (size_t k = 0; work != NULL && k < batch(x, 2); ++k) {
      char *left = part(vl, 2, complex_bytes, k), *right = part(vr, 2, complex_bytes, k);
      char *w = part(values, 1, bytes(t), k), *wi = part(imaginary, 1, bytes(t), k);
      if (count > 0) memcpy(own, part(x, 2, bytes(t), k), count * bytes(t));
      info[k] = -4;
      if (!is_finite(t, own, count)) continue; /* the routine might not end */
      geev(t, given, &e, own, w, wi, is_real ? packed_left : left, is_real ? packed_right : right, work, &size, info + k);
      if (is_real && info[k] == 0 && e.left == 'V') unpack(t, e.n, wi, packed_left, left);
      if (is_real && info[k] == 0 && e.right == 'V') unpack(t, e.n, wi, packed_right, right);
    }
  }
  const int failed = work == NULL;
  free(work);
  free(e.reals);
  free(own);
  return failed ? no_room() : NULL;
}

struct schur {
  char mode, sort;
  int n;
  void *reals;
  int *chosen;
};

static void gees(const struct elements *t, routine given, const struct schur *s, void *x, int *count, void *values,
                 void *imaginary, void *vectors, void *work, const int *size, int *info) {
  const int ld = larger(1, s->n);
  if (t->parts == 1) {
    void (*of_real)(const char *, const char *, void *, const int *, void *, const int *, int *, void *, void *, void *,
                    const int *, void *, const int *, int *, int *, size_t, size_t) = (void *)given;
    of_real(&s->mode, &s->sort, NULL, &s->n, x, &ld, count, values, imaginary, vectors, &ld, work, size, s->chosen, info,
            ONE, ONE);
  } else {
    void (*of_complex)(const char *, const char *, void *, const int *, void *, const int *, int *, void *, void *,
                       const int *, void *, const int *, void *, int *, int *, size_t, size_t) = (void *)given;
    of_complex(&s->mode, &s->sort, NULL, &s->n, x, &ld, count, values, vectors, &ld, work, size, s->reals, s->chosen,
               info, ONE, ONE);
  }
}

static struct ffi_error *lapack_gees(struct ffi_frame *f, const struct elements *t, routine given) {
  const int is_real = t->parts == 1;
  const struct ffi_buffer *x = result(f, 0), *vectors = result(f, 1), *values = result(f, 2);
  const struct ffi_buffer *imaginary = result(f, 2 + is_real);
  int *counts = result(f, 3 + is_real)->data, *info = result(f, 4 + is_real)->data;
  struct schur s = {letter(f, "mode"), letter(f, "sort"), dim(x, 0), NULL, NULL};
  if (s.sort != 'N') return ffi_failure(FFI_UNIMPLEMENTED, "eigenvalues of a Schur form cannot be sorted");
  const int ask = -1;
  char first[16];
  int asked;
  copy(x, argument(f, 0), bytes(t));
  s.reals = room((size_t)s.n, t->real);
  s.chosen = room((size_t)s.n, sizeof(int));
  void *work = NULL;
  if (s.reals != NULL && s.chosen != NULL) {
    gees(t, given, &s, x->data, counts, values->data, imaginary->data, vectors->data, first, &ask, &asked);
    const int size = told(t, first);
    work = room((size_t)size, bytes(t));
    for (size_t k = 0; work != NULL && k < batch(x, 2); ++k)
      gees(t, given, &s, part(x, 2, bytes(t), k), counts + k, part(values, 1, bytes(t), k),
           part(imaginary, 1, bytes(t), k), part(vectors, 2, bytes(t), k), work, &size, info + k);
  }
  const int failed = work == NULL;
  free(work);
  free(s.reals);
  free(s.chosen);
  return failed ? no_room() : NULL;
}

/* To a Hessenberg matrix. */
static struct ffi_error *lapack_gehrd(struct ffi_frame *f, const struct elements *t, routine given) {
  void (*gehrd)(const int *, const int *, const int *, void *, const int *, void *, void *, const int *, int *);
  gehrd = (void *)given;
  const struct ffi_buffer *x = result(f, 0), *tau = result(f, 1);
  int *info = result(f, 2)->data;
  const int n = dim(x, 0), ld = larger(1, n), low = number(f, "low", 1), high = number(f, "high", n), ask = -1;
  char first[16];
  int asked;
  copy(x, argument(f, 0), bytes(t));
  gehrd(&n, &low, &high, x->data, &ld, tau->data, first, &ask, &asked);
  const int size = told(t, first);
  void *work = room((size_t)size, bytes(t));
  if (work == NULL) return no_room();
  for (size_t k = 0; k < batch(x, 2); ++k)
    gehrd(&n, &low, &high, part(x, 2, bytes(t), k), &ld, part(tau, 1, bytes(t), k), work, &size, info + k);
  free(work);
  return NULL;
}

/* -- systems of equations */
static struct ffi_error *lapack_trsm(struct ffi_frame *f, const struct elements *t, routine given) {
  void (*trsm)(const char *, const char *, const char *, const char *, const int *, const int *, const void *,
               const void *, const int *, void *, const int *, size_t, size_t, size_t, size_t) = (void *)given;
  const struct ffi_buffer *a = argument(f, 0), *x = result(f, 0);
  const char side = letter(f, "side"), uplo = letter(f, "uplo"), trans = letter(f, "trans_x"), diag = letter(f, "diag");
  const int m = dim(x, 1), n = dim(x, 0), lda = larger(1, dim(a, 0)), ldx = larger(1, m);
  const float single[2] = {1, 0};
  const double twice[2] = {1, 0};
  const void *scale = t->real == 4 ? (const void *)single : (const void *)twice;
  copy(x, argument(f, 1), bytes(t));
  for (size_t k = 0; k < batch(x, 2); ++k)
    trsm(&side, &uplo, &trans, &diag, &m, &n, scale, part(a, 2, bytes(t), k), &lda, part(x, 2, bytes(t), k), &ldx, ONE,
         ONE, ONE, ONE);
  return NULL;
}

/* Tridiagonal ones; the diagonal below the main one begins with an element that is not read. */
static struct ffi_error *lapack_gtsv(struct ffi_frame *f, const struct elements *t, routine given) {
  void (*gtsv)(const int *, const int *, void *, void *, void *, void *, const int *, int *) = (void *)given;
  const struct ffi_buffer *below = result(f, 0), *d = result(f, 1), *above = result(f, 2), *x = result(f, 3);
  int *info = result(f, 4)->data;
  const int n = dim(x, 1), count = dim(x, 0), ld = larger(1, n);
  for (int k = 0; k < 4; ++k) copy(result(f, k), argument(f, k), bytes(t));
  for (size_t k = 0; k < batch(x, 2); ++k)
    gtsv(&n, &count, part(below, 1, bytes(t), k) + bytes(t), part(d, 1, bytes(t), k), part(above, 1, bytes(t), k),
         part(x, 2, bytes(t), k), &ld, info + k);
  return NULL;
}
