/* SPDX-License-Identifier: Apache-2.0 */
/* Rows of lanes that are scaled or marked: hardmax, normalize (by a norm), reverse_sequence. */
#include <math.h>
#include <string.h>

#include "ops/lanes.h"

static intact_status lane_axis(intact_context *context, const intact_node *node, int rank, bool *is_axis) {
  int axis = 0;
  memset(is_axis, 0, sizeof *is_axis * INTACT_MAX_RANK);
  INTACT_TRY(intact__op_axis(context, node, "dim", intact__attr_int(node, "dim"), rank, &axis));
  if (rank > 0) is_axis[axis] = true;
  return INTACT_OK;
}

static intact_status lane_infer(intact_infer *infer) {
  const intact_value *x = infer->node->operands[0];
  bool is_axis[INTACT_MAX_RANK];
  if (x->rank >= 0) INTACT_TRY(lane_axis(infer->context, infer->node, x->rank, is_axis));
  if (!intact_dtype_is_float(x->dtype)) {
    INTACT_FAIL(infer->context, TYPE_MISMATCH, infer->node->name,
                "%s '%s': the operand is %s; float elements are needed (cast it "
                "before)",
                infer->node->op->name, infer->node->name, intact_dtype_text(x->dtype));
  }
  return intact__infer_like_first(infer);
}

/* Rewrites each lane of x into y. */
static intact_status each_lane(const intact_call *call, void (*fn)(double *v, int64_t n, const double *p)) {
  const intact_tensor *x = call->operands[0];
  bool is_axis[INTACT_MAX_RANK];
  double p[INTACT_MAX_NUMBERS];
  intact_tensor *y = NULL;
  intact_lanes lanes = {0};
  INTACT_TRY(lane_axis(call->context, call->node, x->rank, is_axis));
  INTACT_TRY(intact__call_result(call, 0, x->dtype, x->rank, x->dims, &y));
  intact__attr_numbers(call->node, p);
  intact_status status = intact__lanes_open(call->context, x->rank, x->dims, is_axis, &lanes);
  double *lane = intact__alloc(call->context, (size_t)lanes.length + 1, sizeof *lane);
  if (lane == NULL && status == INTACT_OK) status = intact__no_memory(call->context, (size_t)lanes.length * sizeof *lane);
  for (int64_t i = 0; status == INTACT_OK && i < lanes.count; i++, intact__lanes_next(&lanes)) {
    intact__lane_read_f64(&lanes, x, lane);
    fn(lane, lanes.length, p);
    intact__lane_write_f64(&lanes, y, lane);
  }
  intact__free(call->context, lane);
  intact__lanes_close(&lanes);
  return status;
}

static void mark_largest(double *v, int64_t n, const double *p) {
  int64_t best = 0;
  (void)p;
  for (int64_t k = 1; k < n; k++) {
    if (v[k] > v[best]) best = k;
  }
  for (int64_t k = 0; k < n; k++) v[k] = k == best;
}

static intact_status hardmax_eval(const intact_call *call) {
  return each_lane(call, mark_largest);
}

const intact_op intact_op_hardmax = {
    .name = "hardmax",
    .doc = "y = 1 at the first largest element along dim, 0 elsewhere.",
    .schema = {INTACT_X, INTACT_ATTRS(INTACT_A_INT("dim", -1))},
    .infer = lane_infer,
    .eval_f32 = hardmax_eval,
    .grad = intact__grad_none,
    .quant = {.result = INTACT_RESULT_NONE, .no_quantize = true},
    /* softmax_flatten: below opset 13 the axes from dim on are one */
    .aliases =
        INTACT_ALIASES({.format = "onnx", .name = "Hardmax", .until = 12, .attrs = "axis=dim", .fixup = "softmax_flatten"},
                       {.format = "onnx", .name = "Hardmax", .since = 13, .attrs = "axis=dim"}),
};

static double norm_of(const double *v, int64_t n, double order) {
  double total = 0;
  for (int64_t k = 0; k < n; k++) total += order == 1 ? fabs(v[k]) : order == 2 ? v[k] * v[k] : pow(fabs(v[k]), order);
  return order == 1 ? total : order == 2 ? sqrt(total) : pow(total, 1 / order);
}

/* Numbers: dim, p, eps. */
static void scale_lane(double *v, int64_t n, const double *p) {
  double norm = norm_of(v, n, p[1]), divisor = norm > p[2] ? norm : p[2];
  for (int64_t k = 0; k < n; k++) v[k] = divisor == 0 ? 0 : v[k] / divisor;
}

static intact_status normalize_eval(const intact_call *call) {
  return each_lane(call, scale_lane);
}

/* dx = (dy - x^ |x^|^(p-2) sum(dy y)) / norm with x^ = x / norm; only the division where the norm is below eps. */
static intact_status normalize_grad(intact_grad *grad) {
  const intact_tensor *x = grad->operands[0], *dy = grad->d_results[0];
  bool is_axis[INTACT_MAX_RANK];
  double p[INTACT_MAX_NUMBERS];
  intact_tensor *dx = NULL;
  intact_lanes lanes = {0};
  if (dy == NULL || !grad->needed[0]) return INTACT_OK;
  INTACT_TRY(lane_axis(grad->context, grad->node, x->rank, is_axis));
  INTACT_TRY(intact__grad_operand(grad, 0, &dx));
  intact__attr_numbers(grad->node, p);
  intact_status status = intact__lanes_open(grad->context, x->rank, x->dims, is_axis, &lanes);
  int64_t n = lanes.length;
  double *v = intact__alloc(grad->context, 2 * (size_t)n + 1, sizeof *v);
  if (v == NULL && status == INTACT_OK) status = intact__no_memory(grad->context, 2 * (size_t)n * sizeof *v);
  for (int64_t i = 0; status == INTACT_OK && i < lanes.count; i++, intact__lanes_next(&lanes)) {
    double *d = v + n, along = 0;
    intact__lane_read_f64(&lanes, x, v);
    intact__lane_read_f64(&lanes, dy, d);
    double norm = norm_of(v, n, p[1]);
    bool cut = !(norm > p[2]);
    for (int64_t k = 0; k < n; k++) along += cut ? 0 : d[k] * v[k] / norm;
    for (int64_t k = 0; k < n; k++) {
      double unit = cut || norm == 0 ? 0 : v[k] / norm;
      double slope = unit == 0 ? 0 : unit * pow(fabs(unit), p[1] - 2);
      double divisor = cut ? p[2] : norm;
      d[k] = divisor == 0 ? 0 : (d[k] - slope * along) / divisor;
    }
    intact__lane_write_f64(&lanes, dx, d);
  }
  intact__free(grad->context, v);
  intact__lanes_close(&lanes);
  return status;
}

const intact_op intact_op_normalize = {
    .name = "normalize",
    .doc = "y = x / max((sum |x|^p)^(1/p), eps) along dim; 0 where both are 0.",
    .schema = {INTACT_X, INTACT_ATTRS(INTACT_A_INT("dim", 1), INTACT_A_FLOAT("p", 2.0), INTACT_A_FLOAT("eps", 1e-12))},
    .infer = lane_infer,
    .eval_f32 = normalize_eval,
    .grad = normalize_grad,
    /* lp_norm: axis is -1 and eps 0 unless given */
    .aliases = INTACT_ALIASES(INTACT_ATEN("normalize"), INTACT_ONNX_AS("LpNormalization", "axis=dim,p=p", "lp_norm")),
};

/* ---- reverse_sequence ---- */

static intact_status sequence_axes(intact_context *context, const intact_node *node, int rank, int *time, int *batch) {
  INTACT_TRY(intact__op_axis(context, node, "time_axis", intact__attr_int(node, "time_axis"), rank, time));
  INTACT_TRY(intact__op_axis(context, node, "batch_axis", intact__attr_int(node, "batch_axis"), rank, batch));
  if (rank >= 2 && *time != *batch) return INTACT_OK;
  INTACT_FAIL(context, SIZE_MISMATCH, node->name,
              "reverse_sequence '%s': time axis %d and batch axis %d of a tensor of %d axes; two "
              "different axes are needed",
              node->name, *time, *batch, rank);
}

static intact_status reverse_sequence_infer(intact_infer *infer) {
  const intact_value *x = infer->node->operands[0];
  int time = 0, batch = 0;
  if (x->rank >= 0) INTACT_TRY(sequence_axes(infer->context, infer->node, x->rank, &time, &batch));
  return intact__infer_like_first(infer);
}

/* Copies with the first lengths[b] steps of each sequence turned around. */
static intact_status turn_sequences(intact_context *context, const intact_node *node, const intact_tensor *x,
                                    const intact_tensor *lengths, intact_tensor *y) {
  int time = 0, batch = 0;
  INTACT_TRY(sequence_axes(context, node, x->rank, &time, &batch));
  intact_view dense = intact__view_of(x);
  if (lengths->count != x->dims[batch]) {
    INTACT_FAIL(context, SIZE_MISMATCH, node->name,
                "reverse_sequence '%s': %lld lengths for a batch of %lld; one for each is needed", node->name,
                (long long)lengths->count, (long long)x->dims[batch]);
  }
  intact__view_copy(y, &dense, x, &dense);
  for (int64_t b = 0; b < lengths->count; b++) {
    int64_t length = intact__tensor_get_s64(lengths, b);
    if (length < 0 || length > x->dims[time]) {
      INTACT_FAIL(context, OUT_OF_RANGE, node->name, "reverse_sequence '%s': length %lld for a time axis of %lld",
                  node->name, (long long)length, (long long)x->dims[time]);
    }
    if (length == 0) continue;
    intact_view to = dense, from = dense;
    to.offset = from.offset = b * dense.strides[batch];
    to.dims[batch] = from.dims[batch] = 1;
    to.dims[time] = from.dims[time] = length;
    from.offset += (length - 1) * dense.strides[time];
    from.strides[time] = -dense.strides[time];
    intact__view_copy(y, &to, x, &from);
  }
  return INTACT_OK;
}

static intact_status reverse_sequence_eval(const intact_call *call) {
  const intact_tensor *x = call->operands[0];
  intact_tensor *y = NULL;
  INTACT_TRY(intact__call_result(call, 0, x->dtype, x->rank, x->dims, &y));
  return turn_sequences(call->context, call->node, x, call->operands[1], y);
}

static intact_status reverse_sequence_grad(intact_grad *grad) {
  intact_tensor *dx = NULL;
  if (grad->d_results[0] == NULL || !grad->needed[0]) return INTACT_OK;
  INTACT_TRY(intact__grad_operand(grad, 0, &dx));
  return turn_sequences(grad->context, grad->node, grad->d_results[0], grad->operands[1], dx);
}

const intact_op intact_op_reverse_sequence = {
    .name = "reverse_sequence",
    .doc = "y = x with the first lengths[b] steps of sequence b in reverse.",
    .schema = {INTACT_OPERANDS({"x", INTACT_ROLE_ACTIVATION, 0}, {"lengths", INTACT_ROLE_INDEX, 0}), INTACT_RESULTS("y"),
               INTACT_ATTRS(INTACT_A_INT("time_axis", 0), INTACT_A_INT("batch_axis", 1))},
    .infer = reverse_sequence_infer,
    .eval_f32 = reverse_sequence_eval,
    .grad = reverse_sequence_grad,
    .quant = {.result = INTACT_RESULT_SAME_AS},
    .on_integers = true,
    .aliases = INTACT_ALIASES(INTACT_ONNX_AS("ReverseSequence", "time_axis=time_axis,batch_axis=batch_axis", NULL)),
};
