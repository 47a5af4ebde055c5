/* SPDX-License-Identifier: Apache-2.0 */
/* Rows of running sums and products along an axis. */
#include <string.h>

#include "ops/lanes.h"

/* What runs along a lane: in place, in the order of the elements. */
typedef struct scan {
  void (*real)(double *v, int64_t n, bool exclusive);
  void (*integer)(int64_t *v, int64_t n, bool exclusive);
  /* dv from the lane v and the gradients d of its results */
  void (*grad)(const double *v, int64_t n, bool exclusive, const double *d, double *dv);
} scan;

static intact_status scan_axis(intact_context *context, const intact_node *node, int rank, bool *is_axis) {
  int axis = 0;
  memset(is_axis, 0, sizeof *is_axis * INTACT_MAX_RANK);
  INTACT_TRY(intact__op_axis(context, node, "dim", intact__attr_int(node, "dim"), rank, &axis));
  if (rank > 0) is_axis[axis] = true;
  return INTACT_OK;
}

static intact_dtype scan_dtype(const intact_node *node, intact_dtype dtype) {
  const intact_attr *wanted = intact__attr(node, "dtype");
  if (wanted->present) return (intact_dtype)wanted->i;
  return intact_dtype_is_float(dtype) ? dtype : INTACT_S64;
}

static intact_status scan_infer(intact_infer *infer) {
  const intact_value *x = infer->node->operands[0];
  bool is_axis[INTACT_MAX_RANK];
  if (x->rank >= 0) INTACT_TRY(scan_axis(infer->context, infer->node, x->rank, is_axis));
  return intact__infer_result(infer, 0, scan_dtype(infer->node, x->dtype), x->rank, x->dims);
}

static void turn_around(int64_t *v, int64_t n) {
  for (int64_t a = 0, b = n - 1; a < b; a++, b--) {
    int64_t kept = v[a];
    v[a] = v[b];
    v[b] = kept;
  }
}

static void turn_around_real(double *v, int64_t n) {
  for (int64_t a = 0, b = n - 1; a < b; a++, b--) {
    double kept = v[a];
    v[a] = v[b];
    v[b] = kept;
  }
}

static intact_status scan_eval(const intact_call *call, const scan *op) {
  const intact_tensor *x = call->operands[0];
  bool is_axis[INTACT_MAX_RANK], real = intact_dtype_is_float(x->dtype);
  bool exclusive = intact__attr_int(call->node, "exclusive") != 0, reverse = intact__attr_int(call->node, "reverse") != 0;
  intact_tensor *y = NULL;
  intact_lanes lanes = {0};
  INTACT_TRY(scan_axis(call->context, call->node, x->rank, is_axis));
  INTACT_TRY(intact__call_result(call, 0, scan_dtype(call->node, x->dtype), x->rank, x->dims, &y));
  intact_status status = intact__lanes_open(call->context, x->rank, x->dims, is_axis, &lanes);
  void *lane = intact__alloc(call->context, (size_t)lanes.length + 1, sizeof(double));
  if (lane == NULL && status == INTACT_OK) status = intact__no_memory(call->context, (size_t)lanes.length * sizeof(double));
  for (int64_t i = 0; status == INTACT_OK && i < lanes.count; i++, intact__lanes_next(&lanes)) {
    if (real) {
      intact__lane_read_f64(&lanes, x, lane);
      if (reverse) turn_around_real(lane, lanes.length);
      op->real(lane, lanes.length, exclusive);
      if (reverse) turn_around_real(lane, lanes.length);
      intact__lane_write_f64(&lanes, y, lane);
    } else {
      intact__lane_read_s64(&lanes, x, lane);
      if (reverse) turn_around(lane, lanes.length);
      op->integer(lane, lanes.length, exclusive);
      if (reverse) turn_around(lane, lanes.length);
      intact__lane_write_s64(&lanes, y, lane);
    }
  }
  intact__free(call->context, lane);
  intact__lanes_close(&lanes);
  return status;
}

static intact_status scan_grad(intact_grad *grad, const scan *op) {
  const intact_tensor *x = grad->operands[0], *dy = grad->d_results[0];
  bool is_axis[INTACT_MAX_RANK];
  bool exclusive = intact__attr_int(grad->node, "exclusive") != 0, reverse = intact__attr_int(grad->node, "reverse") != 0;
  intact_tensor *dx = NULL;
  intact_lanes lanes = {0};
  if (dy == NULL || !grad->needed[0]) return INTACT_OK;
  INTACT_TRY(scan_axis(grad->context, grad->node, x->rank, is_axis));
  INTACT_TRY(intact__grad_operand(grad, 0, &dx));
  intact_status status = intact__lanes_open(grad->context, x->rank, x->dims, is_axis, &lanes);
  int64_t n = lanes.length;
  double *v = intact__alloc(grad->context, 3 * (size_t)n + 1, sizeof *v);
  if (v == NULL && status == INTACT_OK) status = intact__no_memory(grad->context, 3 * (size_t)n * sizeof *v);
  for (int64_t i = 0; status == INTACT_OK && i < lanes.count; i++, intact__lanes_next(&lanes)) {
    double *d = v + n, *dv = d + n;
    intact__lane_read_f64(&lanes, x, v);
    intact__lane_read_f64(&lanes, dy, d);
    if (reverse) turn_around_real(v, n);
    if (reverse) turn_around_real(d, n);
    op->grad(v, n, exclusive, d, dv);
    if (reverse) turn_around_real(dv, n);
    intact__lane_write_f64(&lanes, dx, dv);
  }
  intact__free(grad->context, v);
  intact__lanes_close(&lanes);
  return status;
}

static void sum_real(double *v, int64_t n, bool exclusive) {
  double total = 0;
  for (int64_t k = 0; k < n; k++) {
    double before = total;
    total += v[k];
    v[k] = exclusive ? before : total;
  }
}

static void sum_integer(int64_t *v, int64_t n, bool exclusive) {
  uint64_t total = 0;
  for (int64_t k = 0; k < n; k++) {
    uint64_t before = total;
    total += (uint64_t)v[k];
    v[k] = (int64_t)(exclusive ? before : total);
  }
}

static void sum_d(const double *v, int64_t n, bool exclusive, const double *d, double *dv) {
  double behind = 0;
  (void)v;
  for (int64_t k = n - 1; k >= 0; k--) {
    double without = behind;
    behind += d[k];
    dv[k] = exclusive ? without : behind;
  }
}

static void product_real(double *v, int64_t n, bool exclusive) {
  double product = 1;
  for (int64_t k = 0; k < n; k++) {
    double before = product;
    product *= v[k];
    v[k] = exclusive ? before : product;
  }
}

static void product_integer(int64_t *v, int64_t n, bool exclusive) {
  uint64_t product = 1;
  for (int64_t k = 0; k < n; k++) {
    uint64_t before = product;
    product *= (uint64_t)v[k];
    v[k] = (int64_t)(exclusive ? before : product);
  }
}

/* dv[j] = sum over k >= j (k > j when exclusive) of d[k] times the product of the others up to k; zeros need no division. */
static void product_d(const double *v, int64_t n, bool exclusive, const double *d, double *dv) {
  double before = 1;
  for (int64_t j = 0; j < n; j++) {
    double product = before, total = exclusive ? 0 : d[j] * before;
    for (int64_t k = j + 1; k < n; k++) {
      if (exclusive) total += d[k] * product;
      product *= v[k];
      if (!exclusive) total += d[k] * product;
    }
    dv[j] = total;
    before *= v[j];
  }
}

#define SCAN_ROW(op, text, ...)                                                                                             \
  static intact_status op##_eval(const intact_call *call) {                                                                 \
    return scan_eval(call, &op##_scan);                                                                                     \
  }                                                                                                                         \
  static intact_status op##_grad(intact_grad *grad) {                                                                       \
    return scan_grad(grad, &op##_scan);                                                                                     \
  }                                                                                                                         \
  const intact_op intact_op_##op = {                                                                                        \
      .name = #op,                                                                                                          \
      .doc = text,                                                                                                          \
      .schema = {INTACT_X, INTACT_ATTRS(INTACT_A_INT("dim", 0), INTACT_A_BOOL("exclusive", 0), INTACT_A_BOOL("reverse", 0), \
                                        INTACT_A_DTYPE_OR_NONE("dtype"))},                                                  \
      .infer = scan_infer,                                                                                                  \
      .eval_f32 = op##_eval,                                                                                                \
      .grad = op##_grad,                                                                                                    \
      .aliases = INTACT_ALIASES(__VA_ARGS__),                                                                               \
  };

static const scan cumsum_scan = {sum_real, sum_integer, sum_d};
static const scan cumprod_scan = {product_real, product_integer, product_d};
SCAN_ROW(cumsum, "y[k] = x[0] + ... + x[k] along dim; without x[k] when exclusive; from the end when reverse.",
         INTACT_ATEN("cumsum"),
         /* scan_axis: constant operand 1 becomes dim; dtype = the operand's */
         INTACT_ONNX_AS("CumSum", "exclusive=exclusive,reverse=reverse", "scan_axis"),
         INTACT_OPENVINO_AS("CumSum", "exclusive=exclusive,reverse=reverse", "scan_axis"))
SCAN_ROW(cumprod, "y[k] = x[0] * ... * x[k] along dim; without x[k] when exclusive; from the end when reverse.",
         INTACT_ATEN("cumprod"))
