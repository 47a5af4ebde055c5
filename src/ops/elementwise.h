/* SPDX-License-Identifier: Apache-2.0 */
/* Elementwise ops of one to three operands: an op gives its formula once, the macros make loops for float32, float64 and
   integers out of it, and the drivers add broadcasting, type promotion and gradient sums. */
#ifndef INTACT_OPS_ELEMENTWISE_H
#define INTACT_OPS_ELEMENTWISE_H

#include <math.h>
#include <string.h>
#include <tgmath.h>

#include "ops/common.h"
#include "ops/lower.h"
#include "ops/wide.h"

enum { INTACT_ELEMENTWISE_MAX = 3 };
enum {
  INTACT_BLOCK = 16
}; /* dense float32 loops go by blocks of this many, which compilers turn into vector instructions */

/* y[i] from x[k][i * step[k]], i < n. p: the attributes int, bool, float in schema order (NAN when absent). */
typedef void (*intact_elementwise_fn)(void *y, const void *const *x, const int64_t *step, int64_t n, const double *p);
/* dx[k][i] from dy, x and y; dx[k] is NULL where no gradient is needed. */
typedef void (*intact_elementwise_grad_fn)(float *const *dx, const float *const *x, const int64_t *step, const float *y,
                                           const float *dy, int64_t n, const double *p);

typedef struct intact_elementwise {
  int n; /* operands */
  intact_elementwise_fn f32, f64;
  intact_elementwise_fn s64;       /* for integers; NULL: they are taken as float32 */
  intact_elementwise_grad_fn grad; /* NULL: none */
  bool to_bool;                    /* the loops write uint8_t 0 or 1, the result is bool */
  const char *scalar;              /* attribute that stands for operand 1 when that is left out */
} intact_elementwise;

intact_status intact__elementwise_infer(intact_infer *infer, const intact_elementwise *op);
intact_status intact__elementwise_eval(const intact_call *call, const intact_elementwise *op);
intact_status intact__elementwise_grad(intact_grad *grad, const intact_elementwise *op);

/* ---- formulas: v (and w, u) are the operands in type T; P(k) the k-th number of the attributes ---- */
#define P(k) ((T)p[k])
/* The same for integer loops: cut to what fits, NAN is 0. */
static inline int64_t intact__whole(double value) {
  if (value != value) return 0;
  return value >= 9.2e18 ? INT64_MAX : value <= -9.2e18 ? INT64_MIN : (int64_t)value;
}
#define WHOLE(k) intact__whole(p[k])

#define INTACT_LOOP_1(wide, fn, type, out, expression)                                                     \
  wide static void fn(void *y_, const void *const *x_, const int64_t *step, int64_t n, const double *p) { \
    typedef type T;                                                                                  \
    out *y = y_;                                                                                     \
    const T *x = x_[0];                                                                              \
    int64_t s = step[0];                                                                             \
    (void)p;                                                                                         \
    int64_t i = 0;                                                                                   \
    for (; sizeof(T) == sizeof(float) && s == 1 && i + INTACT_BLOCK <= n; i += INTACT_BLOCK) {       \
      out block[INTACT_BLOCK];                                                                       \
      for (int k = 0; k < INTACT_BLOCK; k++) {                                                       \
        const T v = x[i + k];                                                                        \
        block[k] = (out)(expression);                                                                \
      }                                                                                              \
      memcpy(y + i, block, sizeof block);                                                            \
    }                                                                                                \
    for (; i < n; i++) {                                                                             \
      const T v = x[i * s];                                                                          \
      y[i] = (out)(expression);                                                                      \
    }                                                                                                \
  }

#define INTACT_LOOP_2(wide, fn, type, out, expression)                                                           \
  wide static void fn(void *y_, const void *const *x_, const int64_t *step, int64_t n, const double *p) {       \
    typedef type T;                                                                                        \
    out *y = y_;                                                                                           \
    const T *a = x_[0], *b = x_[1];                                                                        \
    int64_t sa = step[0], sb = step[1], i = 0;                                                             \
    (void)p;                                                                                               \
    for (; sizeof(T) == sizeof(float) && sa == 1 && sb == 1 && i + INTACT_BLOCK <= n; i += INTACT_BLOCK) { \
      out block[INTACT_BLOCK];                                                                             \
      for (int k = 0; k < INTACT_BLOCK; k++) {                                                             \
        const T v = a[i + k], w = b[i + k];                                                                \
        block[k] = (out)(expression);                                                                      \
      }                                                                                                    \
      memcpy(y + i, block, sizeof block);                                                                  \
    }                                                                                                      \
    for (; sizeof(T) == sizeof(float) && sa == 1 && sb == 0 && i + INTACT_BLOCK <= n; i += INTACT_BLOCK) { \
      out block[INTACT_BLOCK];                                                                             \
      const T w = b[0];                                                                                    \
      for (int k = 0; k < INTACT_BLOCK; k++) {                                                             \
        const T v = a[i + k];                                                                              \
        block[k] = (out)(expression);                                                                      \
      }                                                                                                    \
      memcpy(y + i, block, sizeof block);                                                                  \
    }                                                                                                      \
    for (; i < n; i++) {                                                                                   \
      const T v = a[i * sa], w = b[i * sb];                                                                \
      y[i] = (out)(expression);                                                                            \
    }                                                                                                      \
  }

#define INTACT_LOOP_3(wide, fn, type, out, expression)                                                     \
  wide static void fn(void *y_, const void *const *x_, const int64_t *step, int64_t n, const double *p) { \
    typedef type T;                                                                                  \
    out *y = y_;                                                                                     \
    const T *a = x_[0], *b = x_[1], *c = x_[2];                                                      \
    (void)p;                                                                                         \
    for (int64_t i = 0; i < n; i++) {                                                                \
      const T v = a[i * step[0]], w = b[i * step[1]], u = c[i * step[2]];                            \
      y[i] = (out)(expression);                                                                      \
    }                                                                                                \
  }

#define INTACT_FLOAT_LOOPS(arity, op, expression) \
  INTACT_LOOP_##arity(INTACT_WIDE, op##_f32, float, float, expression) INTACT_LOOP_##arity(, op##_f64, double, double, expression)
#define INTACT_BOOL_LOOPS(arity, op, expression) \
  INTACT_LOOP_##arity(INTACT_WIDE, op##_f32, float, uint8_t, expression) INTACT_LOOP_##arity(, op##_f64, double, uint8_t, expression)
/* Integer arithmetic wraps: write it in uint64_t where it could overflow. */
#define INTACT_INT_LOOP(arity, op, expression) INTACT_LOOP_##arity(, op##_s64, int64_t, int64_t, expression)
#define INTACT_INT_BOOL_LOOP(arity, op, expression) INTACT_LOOP_##arity(, op##_s64, int64_t, uint8_t, expression)

/* dx = expression of v (operand), r (result), d (gradient of the result). */
#define INTACT_GRAD_1(op, expression)                                                                               \
  INTACT_WIDE static void op##_d(float *const *dx, const float *const *x, const int64_t *step, const float *y, const float *dy, \
                     int64_t n, const double *p) {                                                                  \
    typedef float T;                                                                                                \
    int64_t i = 0;                                                                                                  \
    (void)p;                                                                                                        \
    for (; step[0] == 1 && i + INTACT_BLOCK <= n; i += INTACT_BLOCK) {                                              \
      T block[INTACT_BLOCK];                                                                                        \
      for (int k = 0; k < INTACT_BLOCK; k++) {                                                                      \
        const T v = x[0][i + k], r = y[i + k], d = dy[i + k];                                                       \
        (void)v;                                                                                                    \
        (void)r;                                                                                                    \
        (void)d;                                                                                                    \
        block[k] = (T)(expression);                                                                                 \
      }                                                                                                             \
      memcpy(dx[0] + i, block, sizeof block);                                                                       \
    }                                                                                                               \
    for (; i < n; i++) {                                                                                            \
      const T v = x[0][i * step[0]], r = y[i], d = dy[i];                                                           \
      (void)v;                                                                                                      \
      (void)r;                                                                                                      \
      (void)d;                                                                                                      \
      dx[0][i] = (T)(expression);                                                                                   \
    }                                                                                                               \
  }

#define INTACT_GRAD_PART(k, expression)                                                \
  if (dx[k] != NULL) {                                                                 \
    int64_t i = 0;                                                                     \
    for (; step[0] == 1 && step[1] == 1 && i + INTACT_BLOCK <= n; i += INTACT_BLOCK) { \
      T block[INTACT_BLOCK];                                                           \
      for (int j = 0; j < INTACT_BLOCK; j++) {                                         \
        const T v = x[0][i + j], w = x[1][i + j], r = y[i + j], d = dy[i + j];         \
        (void)v;                                                                       \
        (void)w;                                                                       \
        (void)r;                                                                       \
        (void)d;                                                                       \
        block[j] = (T)(expression);                                                    \
      }                                                                                \
      memcpy(dx[k] + i, block, sizeof block);                                          \
    }                                                                                  \
    for (; i < n; i++) {                                                               \
      const T v = x[0][i * step[0]], w = x[1][i * step[1]], r = y[i], d = dy[i];       \
      (void)v;                                                                         \
      (void)w;                                                                         \
      (void)r;                                                                         \
      (void)d;                                                                         \
      dx[k][i] = (T)(expression);                                                      \
    }                                                                                  \
  }

#define INTACT_GRAD_2(op, expression_a, expression_b)                                                               \
  INTACT_WIDE static void op##_d(float *const *dx, const float *const *x, const int64_t *step, const float *y, const float *dy, \
                     int64_t n, const double *p) {                                                                  \
    typedef float T;                                                                                                \
    (void)p;                                                                                                        \
    INTACT_GRAD_PART(0, expression_a)                                                                               \
    INTACT_GRAD_PART(1, expression_b)                                                                               \
  }

/* The description and the row's functions of `op`: the number of operands and further fields of intact_elementwise. */
#define INTACT_ELEMENTWISE(op, ...)                                                                \
  static const intact_elementwise op##_def = {.f32 = op##_f32, .f64 = op##_f64, .n = __VA_ARGS__}; \
  static intact_status op##_infer(intact_infer *infer) {                                           \
    return intact__elementwise_infer(infer, &op##_def);                                            \
  }                                                                                                \
  static intact_status op##_eval(const intact_call *call) {                                        \
    return intact__elementwise_eval(call, &op##_def);                                              \
  }
#define INTACT_ELEMENTWISE_WITH_GRAD(op, ...)         \
  INTACT_ELEMENTWISE(op, __VA_ARGS__, .grad = op##_d) \
  static intact_status op##_grad(intact_grad *grad) { \
    return intact__elementwise_grad(grad, &op##_def); \
  }

/* The row of a unary op without attributes; the rest are aliases. */
#define INTACT_UNARY_ROW(op, text, gradient, ...) \
  const intact_op intact_op_##op = {              \
      .name = #op,                                \
      .doc = text,                                \
      .schema = {INTACT_X},                       \
      .infer = op##_infer,                        \
      .eval_f32 = op##_eval,                      \
      .grad = gradient,                           \
      .quant = {.is_unary_map = true},            \
      .int_layout = INTACT_INT_ANY,               \
      .check_int = intact__check_unary,           \
      .lower_int = intact__lower_unary,           \
      .aliases = INTACT_ALIASES(__VA_ARGS__),     \
  };
#define INTACT_UNARY(op, text, ...)   \
  INTACT_ELEMENTWISE_WITH_GRAD(op, 1) \
  INTACT_UNARY_ROW(op, text, op##_grad, __VA_ARGS__)

#endif
