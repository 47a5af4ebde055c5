/* SPDX-License-Identifier: Apache-2.0 */
/* Rows of three operands (where, masked_fill, addcmul, addcdiv, lerp) and prelu. */
#include <string.h>

#include "ops/elementwise.h"

/* ---- where: choice for every type ---- */

/* Shape and type of operands 1.. and the mask, operand 0. */
static intact_status where_infer(intact_infer *infer) {
  const intact_node *node = infer->node;
  int rank = 0;
  int64_t dims[INTACT_MAX_RANK];
  intact_dtype dtype = node->operands[1]->dtype;
  dtype = intact__promote(dtype, node->operands[1]->rank, node->operands[2]->dtype, node->operands[2]->rank);
  INTACT_TRY(intact__infer_broadcast(infer, 0, 3, &rank, dims));
  return intact__infer_result(infer, 0, dtype, rank, dims);
}

typedef struct where_job {
  const intact_tensor *mask, *a, *b;
  intact_tensor *y;
} where_job;

static void where_row(void *user, int64_t n, const int64_t *offset, const int64_t *step) {
  const where_job *job = user;
  const uint8_t *truth = job->mask->dtype == INTACT_BOOL ? job->mask->data : NULL;
  for (int64_t i = 0; i < n; i++) {
    int64_t of_mask = offset[1] + i * step[1];
    bool first = truth != NULL ? truth[of_mask] != 0 : intact__tensor_get_f64(job->mask, of_mask) != 0;
    const intact_tensor *from = first ? job->a : job->b;
    int64_t at = first ? offset[2] + i * step[2] : offset[3] + i * step[3];
    if (job->y->dtype == INTACT_F32) {
      intact__f32(job->y)[offset[0] + i] = intact__f32(from)[at];
    } else if (intact_dtype_is_float(job->y->dtype)) {
      intact__tensor_set_f64(job->y, offset[0] + i, intact__tensor_get_f64(from, at));
    } else {
      intact__tensor_set_s64(job->y, offset[0] + i, intact__tensor_get_s64(from, at));
    }
  }
}

static intact_status broadcast_three(const intact_call *call, int *rank, int64_t *dims) {
  const intact_tensor *m = call->operands[0], *a = call->operands[1], *b = call->operands[2];
  int64_t pair[INTACT_MAX_RANK];
  int pair_rank = 0;
  if (intact__broadcast_shapes(m->rank, m->dims, a->rank, a->dims, &pair_rank, pair) &&
      intact__broadcast_shapes(pair_rank, pair, b->rank, b->dims, rank, dims)) {
    return INTACT_OK;
  }
  char of_m[160], of_a[160], of_b[160];
  INTACT_FAIL(call->context, SIZE_MISMATCH, call->node->name, "%s '%s': shapes %s, %s and %s do not broadcast",
              call->node->op->name, call->node->name, intact__shape_text(m->rank, m->dims, of_m),
              intact__shape_text(a->rank, a->dims, of_a), intact__shape_text(b->rank, b->dims, of_b));
}

static intact_status where_eval(const intact_call *call) {
  intact_status status = INTACT_OK;
  intact_tensor *a = NULL, *b = NULL, *y = NULL;
  int rank = 0;
  int64_t dims[INTACT_MAX_RANK];
  intact_dtype dtype =
      intact__promote(call->operands[1]->dtype, call->operands[1]->rank, call->operands[2]->dtype, call->operands[2]->rank);
  INTACT_TRY(broadcast_three(call, &rank, dims));
  INTACT_TRY_TO(end, intact__as_dtype(call->operands[1], dtype, &a));
  INTACT_TRY_TO(end, intact__as_dtype(call->operands[2], dtype, &b));
  INTACT_TRY_TO(end, intact__call_result(call, 0, dtype, rank, dims, &y));
  where_job job = {call->operands[0], a, b, y};
  intact_view dense = intact__view_dense(rank, dims), of_m = intact__view_broadcast(job.mask, rank, dims);
  intact_view of_a = intact__view_broadcast(a, rank, dims), of_b = intact__view_broadcast(b, rank, dims);
  const intact_view *views[] = {&dense, &of_m, &of_a, &of_b};
  intact_walk walk = intact__walk_make(4, views);
  if (intact_dtype_bits(dtype) < 8) {
    intact__walk_range(&walk, 0, walk.count, where_row, &job); /* elements share bytes: one thread */
  } else {
    intact__walk_all(call->context, &walk, where_row, &job);
  }
end:
  intact_tensor_destroy(a);
  intact_tensor_destroy(b);
  return status;
}

/* dy where the mask is (first) or is not, 0 elsewhere. */
typedef struct mask_job {
  const intact_tensor *mask;
  bool first;
  const float *dy;
  float *kept;
} mask_job;

static void mask_row(void *user, int64_t n, const int64_t *offset, const int64_t *step) {
  const mask_job *job = user;
  const uint8_t *truth = job->mask->dtype == INTACT_BOOL ? job->mask->data : NULL;
  for (int64_t i = 0; i < n; i++) {
    int64_t at = offset[1] + i * step[1];
    bool taken = truth != NULL ? truth[at] != 0 : intact__tensor_get_f64(job->mask, at) != 0;
    job->kept[offset[0] + i] = taken == job->first ? job->dy[offset[0] + i] : 0;
  }
}

/* Sums dy where the mask is (first) or is not into operand i. */
static intact_status masked_sum(intact_grad *grad, int i, const intact_tensor *mask, bool first) {
  const intact_tensor *dy = grad->d_results[0];
  intact_tensor *kept = NULL;
  INTACT_TRY(intact__tensor_create_raw(grad->context, INTACT_F32, dy->rank, dy->dims, &kept));
  intact_view dense = intact__view_of(dy), of_m = intact__view_broadcast(mask, dy->rank, dy->dims);
  const intact_view *views[] = {&dense, &of_m};
  intact_walk walk = intact__walk_make(2, views);
  mask_job job = {mask, first, intact__f32(dy), intact__f32(kept)};
  intact__walk_all(grad->context, &walk, mask_row, &job);
  intact_view from = intact__view_broadcast(grad->operands[i], dy->rank, dy->dims);
  intact_status status = intact__grad_through_view(grad, i, &from, kept);
  intact_tensor_destroy(kept);
  return status;
}

static intact_status where_grad(intact_grad *grad) {
  if (grad->d_results[0] == NULL) return INTACT_OK;
  if (grad->needed[1]) INTACT_TRY(masked_sum(grad, 1, grad->operands[0], true));
  if (grad->needed[2]) INTACT_TRY(masked_sum(grad, 2, grad->operands[0], false));
  return INTACT_OK;
}

const intact_op intact_op_where = {
    .name = "where",
    .doc = "y = a where m is true, b elsewhere.",
    .schema = {INTACT_OPERANDS({"m", INTACT_ROLE_NONE, 0}, {"a", INTACT_ROLE_ACTIVATION, 0},
                               {"b", INTACT_ROLE_ACTIVATION, 0}),
               INTACT_RESULTS("y")},
    .infer = where_infer,
    .eval_f32 = where_eval,
    .grad = where_grad,
    .quant = {.result = INTACT_RESULT_SAME_AS, .same_as = 1, .share_operands = true},
    .int_layout = INTACT_INT_ANY,
    .on_integers = true,
    .aliases = INTACT_ALIASES(INTACT_ATEN("where"), INTACT_ATEN("where.self"), INTACT_ONNX("Where"),
                              INTACT_OPENVINO_AS("Select", "auto_broadcast=", NULL)),
};

/* ---- masked_fill ---- */

static intact_status masked_fill_infer(intact_infer *infer) {
  const intact_value *value = intact__infer_operand(infer, 2);
  int rank = 0;
  int64_t dims[INTACT_MAX_RANK];
  bool one = value == NULL || value->rank < 0 || value->rank == 0 ||
             (value->rank == 1 && (value->dims[0] == 1 || value->dims[0] < 0));
  if (!one) {
    INTACT_FAIL(infer->context, SIZE_MISMATCH, infer->node->name,
                "masked_fill '%s': the value is a tensor of %d axes; one element is "
                "needed",
                infer->node->name, value->rank);
  }
  INTACT_TRY(intact__infer_broadcast(infer, 0, 2, &rank, dims));
  return intact__infer_result(infer, 0, infer->node->operands[0]->dtype, rank, dims);
}

static intact_status masked_fill_eval(const intact_call *call) {
  const intact_tensor *x = call->operands[0], *mask = call->operands[1], *given = intact__operand(call, 2);
  intact_tensor *value = NULL;
  INTACT_TRY(intact_tensor_create(call->context, x->dtype, 0, NULL, &value));
  double number =
      given != NULL && given->count > 0 ? intact__tensor_get_f64(given, 0) : intact__attr_float(call->node, "value");
  intact__tensor_set_f64(value, 0, number);
  const intact_tensor *operands[] = {mask, value, x};
  intact_call as_where = *call;
  as_where.operands = operands;
  as_where.n_operands = 3;
  intact_status status = where_eval(&as_where);
  intact_tensor_destroy(value);
  return status;
}

static intact_status masked_fill_grad(intact_grad *grad) {
  if (grad->d_results[0] == NULL || !grad->needed[0]) return INTACT_OK;
  return masked_sum(grad, 0, grad->operands[1], false);
}

const intact_op intact_op_masked_fill = {
    .name = "masked_fill",
    .doc = "y = value where m is true, x elsewhere.",
    .schema = {INTACT_OPERANDS({"x", INTACT_ROLE_ACTIVATION, 0}, {"m", INTACT_ROLE_NONE, 0},
                               {"value_tensor", INTACT_ROLE_NONE, INTACT_OPTIONAL}),
               INTACT_RESULTS("y"), INTACT_ATTRS(INTACT_A_FLOAT("value", 0.0))},
    .infer = masked_fill_infer,
    .eval_f32 = masked_fill_eval,
    .grad = masked_fill_grad,
    .quant = {.result = INTACT_RESULT_OWN},
    .int_layout = INTACT_INT_ANY,
    .aliases =
        INTACT_ALIASES(INTACT_ATEN("masked_fill"), INTACT_ATEN("masked_fill.Scalar"), INTACT_ATEN("masked_fill.Tensor"),
                       INTACT_ATEN("masked_fill_"), INTACT_ATEN("masked_fill_.Scalar")),
};

/* ---- addcmul, addcdiv, lerp ---- */

#define INTACT_THREE(a_, b_, c_)                                                                                      \
  INTACT_OPERANDS({a_, INTACT_ROLE_ACTIVATION, 0}, {b_, INTACT_ROLE_ACTIVATION, 0}, {c_, INTACT_ROLE_ACTIVATION, 0}), \
      INTACT_RESULTS("y")

#define GRAD_PART_3(k, expression)                                                                \
  if (dx[k] != NULL) {                                                                            \
    for (int64_t i = 0; i < n; i++) {                                                             \
      const float v = x[0][i * step[0]], w = x[1][i * step[1]], u = x[2][i * step[2]], d = dy[i]; \
      (void)v, (void)w, (void)u;                                                                  \
      dx[k][i] = (T)(expression);                                                                 \
    }                                                                                             \
  }
#define GRAD_3(op, of_a, of_b, of_c)                                                                                \
  static void op##_d(float *const *dx, const float *const *x, const int64_t *step, const float *y, const float *dy, \
                     int64_t n, const double *p) {                                                                  \
    typedef float T;                                                                                                \
    (void)y, (void)p;                                                                                               \
    GRAD_PART_3(0, of_a)                                                                                            \
    GRAD_PART_3(1, of_b)                                                                                            \
    GRAD_PART_3(2, of_c)                                                                                            \
  }

#define THREE_ROW(op, text, operands_, ...)   \
  INTACT_ELEMENTWISE_WITH_GRAD(op, 3)         \
  const intact_op intact_op_##op = {          \
      .name = #op,                            \
      .doc = text,                            \
      .schema = operands_,                    \
      .infer = op##_infer,                    \
      .eval_f32 = op##_eval,                  \
      .grad = op##_grad,                      \
      .int_layout = INTACT_INT_ANY,           \
      .aliases = INTACT_ALIASES(__VA_ARGS__), \
  };
#define SCHEMA(...) \
  { __VA_ARGS__ }

INTACT_FLOAT_LOOPS(3, addcmul, v + P(0) * w * u)
GRAD_3(addcmul, d, d *(u *P(0)), d *(w *P(0)))
THREE_ROW(addcmul, "y = a + value * b * c.", SCHEMA(INTACT_THREE("a", "b", "c"), INTACT_ATTRS(INTACT_A_FLOAT("value", 1.0))),
          INTACT_ATEN("addcmul"))

INTACT_FLOAT_LOOPS(3, addcdiv, v + P(0) * w / u)
GRAD_3(addcdiv, d, d *(P(0) / u), -d *(P(0) * w / (u * u)))
THREE_ROW(addcdiv, "y = a + value * b / c.", SCHEMA(INTACT_THREE("a", "b", "c"), INTACT_ATTRS(INTACT_A_FLOAT("value", 1.0))),
          INTACT_ATEN("addcdiv"))

/* From the nearer end, as PyTorch computes it. */
#define LERP(a, b, t) (fabs(t) < (T)0.5 ? (a) + (t) * ((b) - (a)) : (b) - ((b) - (a)) * (1 - (t)))
INTACT_FLOAT_LOOPS(3, lerp_tensor, LERP(v, w, u))
GRAD_3(lerp_tensor, d *(1 - u), d *u, d *(w - v))
THREE_ROW(lerp_tensor, "y = a + weight * (b - a) with a weight for each element.", SCHEMA(INTACT_THREE("a", "b", "weight")),
          INTACT_ATEN("lerp.Tensor"))

INTACT_FLOAT_LOOPS(2, lerp, LERP(v, w, P(0)))
INTACT_GRAD_2(lerp, d *(1 - P(0)), d *P(0))
INTACT_ELEMENTWISE_WITH_GRAD(lerp, 2)
const intact_op intact_op_lerp = {
    .name = "lerp",
    .doc = "y = a + weight * (b - a).",
    .schema = {INTACT_OPERANDS({"a", INTACT_ROLE_ACTIVATION, 0}, {"b", INTACT_ROLE_ACTIVATION, 0}), INTACT_RESULTS("y"),
               INTACT_ATTRS(INTACT_A_FLOAT("weight", 0.0))},
    .infer = lerp_infer,
    .eval_f32 = lerp_eval,
    .grad = lerp_grad,
    .int_layout = INTACT_INT_ANY,
    .aliases = INTACT_ALIASES(INTACT_ATEN("lerp"), INTACT_ATEN("lerp.Scalar")),
};

/* ---- prelu: one slope for all, or one for each channel (axis 1) ---- */

INTACT_FLOAT_LOOPS(2, slope, v > 0 ? v : v * w)
INTACT_GRAD_2(slope, v > 0 ? d : d * w, v > 0 ? 0 : d * v)
static const intact_elementwise slope_def = {.n = 2, .f32 = slope_f32, .f64 = slope_f64, .grad = slope_d};

/* The slope's shape seen from x: a vector lies along axis 1, anything else broadcasts from the right. */
static int slope_dims(int rank, int w_rank, const int64_t *w_dims, int64_t *dims) {
  bool along = w_rank == 1 && w_dims[0] != 1 && rank >= 2;
  int n = along ? rank - 1 : rank == 0 && w_rank == 1 && w_dims[0] == 1 ? 0 : w_rank;
  for (int k = 0; k < n; k++) dims[k] = along ? (k == 0 ? w_dims[0] : 1) : w_dims[k];
  return n;
}

static intact_status prelu_infer(intact_infer *infer) {
  const intact_value *x = infer->node->operands[0], *w = infer->node->operands[1];
  int64_t dims[INTACT_MAX_RANK];
  if (!intact_dtype_is_float(x->dtype) || w->dtype != x->dtype) {
    INTACT_FAIL(infer->context, TYPE_MISMATCH, infer->node->name,
                "prelu '%s': the operand is %s, the slope %s; both must be of one "
                "float type",
                infer->node->name, intact_dtype_text(x->dtype), intact_dtype_text(w->dtype));
  }
  if (x->rank < 0 || w->rank < 0) return intact__infer_like_first(infer);
  int n = slope_dims(x->rank, w->rank, w->dims, dims);
  for (int k = 0; k < n; k++) {
    int64_t have = n - k <= x->rank ? x->dims[x->rank - n + k] : 1;
    if (n <= x->rank && (dims[k] == 1 || dims[k] < 0 || have < 0 || dims[k] == have)) continue;
    char mine[160], theirs[160];
    INTACT_FAIL(infer->context, SIZE_MISMATCH, infer->node->name,
                "prelu '%s': slopes of shape %s for %s; one, one for each channel "
                "(axis 1), or a shape that broadcasts to it is needed",
                infer->node->name, intact__shape_text(w->rank, w->dims, theirs), intact__shape_text(x->rank, x->dims, mine));
  }
  return intact__infer_like_first(infer);
}

static intact_status prelu_eval(const intact_call *call) {
  int64_t dims[INTACT_MAX_RANK];
  intact_tensor *w = NULL;
  int n = slope_dims(call->operands[0]->rank, call->operands[1]->rank, call->operands[1]->dims, dims);
  INTACT_TRY(intact_tensor_share(call->operands[1], n, dims, &w));
  const intact_tensor *operands[] = {call->operands[0], w};
  intact_call shaped = *call;
  shaped.operands = operands;
  intact_status status = intact__elementwise_eval(&shaped, &slope_def);
  intact_tensor_destroy(w);
  return status;
}

static intact_status prelu_grad(intact_grad *grad) {
  int64_t dims[INTACT_MAX_RANK];
  intact_tensor *w = NULL;
  const intact_tensor *slope = grad->operands[1];
  int n = slope_dims(grad->operands[0]->rank, slope->rank, slope->dims, dims);
  INTACT_TRY(intact_tensor_share(slope, n, dims, &w));
  const intact_tensor *operands[] = {grad->operands[0], w};
  intact_grad shaped = *grad;
  shaped.operands = operands;
  intact_status status = intact__elementwise_grad(&shaped, &slope_def);
  intact_tensor_destroy(w);
  if (status != INTACT_OK || grad->d_operands[1] == NULL) return status;
  intact_tensor *dw = NULL;
  INTACT_TRY(intact_tensor_share(grad->d_operands[1], slope->rank, slope->dims, &dw));
  intact_tensor_destroy(grad->d_operands[1]);
  grad->d_operands[1] = dw;
  return INTACT_OK;
}

const intact_op intact_op_prelu = {
    .name = "prelu",
    .doc = "y = x above 0, w * x below; w is one slope or one for each channel.",
    .schema = {INTACT_OPERANDS({"x", INTACT_ROLE_ACTIVATION, 0}, {"w", INTACT_ROLE_NONE, 0}), INTACT_RESULTS("y")},
    .infer = prelu_infer,
    .eval_f32 = prelu_eval,
    .grad = prelu_grad,
    .int_layout = INTACT_INT_ANY,
    .aliases =
        INTACT_ALIASES(INTACT_QUANTIZED("quantized::prelu", INTACT_OUTPUT), INTACT_ATEN("prelu"), INTACT_ATEN("_prelu_kernel"),
                       /* right_slope: a vector lies along the last axis there; above rank 2 it becomes a matrix [1, n] */
                       INTACT_ONNX_AS("PRelu", "", "right_slope"), INTACT_OPENVINO("PReLU")),
};
