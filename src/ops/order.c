/* SPDX-License-Identifier: Apache-2.0 */
/* Rows that look for extremes or put lanes in order: max_dim, min_dim, argmax, argmin, aminmax, sort, argsort, topk. */
#include <math.h>
#include <string.h>

#include "ops/lanes.h"
#include "ops/move.h"

/* A lane of numbers of any type, compared in its own kind. NaN counts as the largest. */
typedef struct lane_values {
  bool real;
  double *f;
  int64_t *s;
} lane_values;

static bool is_less(const lane_values *lane, int64_t a, int64_t b) {
  if (!lane->real) return lane->s[a] < lane->s[b];
  if (isnan(lane->f[a])) return false;
  return isnan(lane->f[b]) || lane->f[a] < lane->f[b];
}

/* Opens the lanes and room for one lane's values. */
static intact_status open_lane(intact_context *context, const intact_tensor *x, const bool *is_axis, intact_lanes *lanes,
                               lane_values *lane) {
  *lane = (lane_values){.real = intact_dtype_is_float(x->dtype)};
  INTACT_TRY(intact__lanes_open(context, x->rank, x->dims, is_axis, lanes));
  void *room = intact__alloc(context, (size_t)lanes->length + 1, sizeof(double));
  if (room == NULL) return intact__no_memory(context, (size_t)lanes->length * sizeof(double));
  if (lane->real) lane->f = room;
  if (!lane->real) lane->s = room;
  return INTACT_OK;
}

static void read_lane(const intact_lanes *lanes, const intact_tensor *x, const lane_values *lane) {
  if (lane->real) intact__lane_read_f64(lanes, x, lane->f);
  if (!lane->real) intact__lane_read_s64(lanes, x, lane->s);
}

static void close_lane(intact_context *context, intact_lanes *lanes, lane_values *lane) {
  intact__free(context, lane->real ? (void *)lane->f : (void *)lane->s);
  intact__lanes_close(lanes);
}

/* The element of y at `at` becomes value k of the lane. */
static void put_value(intact_tensor *y, int64_t at, const lane_values *lane, int64_t k) {
  if (lane->real) intact__tensor_set_f64(y, at, lane->f[k]);
  if (!lane->real) intact__tensor_set_s64(y, at, lane->s[k]);
}

/* Place of the extreme: the first one, or the last with `last`. NaN wins both ways. */
static int64_t extreme_place(const lane_values *lane, int64_t n, bool largest, bool last) {
  int64_t best = 0;
  for (int64_t k = 1; k < n; k++) {
    bool nan_best = lane->real && isnan(lane->f[best]), nan_k = lane->real && isnan(lane->f[k]);
    bool better = largest ? is_less(lane, best, k) : is_less(lane, k, best);
    bool equal = !is_less(lane, best, k) && !is_less(lane, k, best);
    if (nan_best || nan_k) better = nan_k && !nan_best;
    if (better || (last && equal)) best = k;
  }
  return best;
}

/* ---- along one axis, or all axes when dim is absent ---- */

static intact_status one_axis(intact_context *context, const intact_node *node, int rank, bool *is_axis) {
  const intact_attr *dim = intact__attr(node, "dim");
  int axis = 0;
  for (int k = 0; k < rank; k++) is_axis[k] = !dim->present;
  if (!dim->present) return INTACT_OK;
  INTACT_TRY(intact__op_axis(context, node, "dim", dim->i, rank, &axis));
  if (rank > 0) is_axis[axis] = true;
  return INTACT_OK;
}

static intact_status refuse_empty(intact_context *context, const intact_node *node, int rank, const int64_t *dims) {
  char shape[160];
  INTACT_FAIL(context, SIZE_MISMATCH, node->name, "%s '%s': no elements along the axis in shape %s; it has no value then",
              node->op->name, node->name, intact__shape_text(rank, dims, shape));
}

static intact_status extreme_infer(intact_infer *infer, bool values) {
  const intact_node *node = infer->node;
  const intact_value *x = node->operands[0];
  bool is_axis[INTACT_MAX_RANK], empty = false;
  int64_t dims[INTACT_MAX_RANK];
  int rank = -1;
  if (x->rank >= 0) {
    INTACT_TRY(one_axis(infer->context, node, x->rank, is_axis));
    for (int k = 0; k < x->rank; k++) empty = empty || (is_axis[k] && x->dims[k] == 0);
    if (empty) return refuse_empty(infer->context, node, x->rank, x->dims);
    rank = intact__reduced_dims(x->rank, x->dims, is_axis, intact__attr_int(node, "keepdim") != 0, dims);
  }
  INTACT_TRY(intact__infer_result(infer, 0, values ? x->dtype : INTACT_S64, rank, dims));
  return values && node->n_results > 1 ? intact__infer_result(infer, 1, INTACT_S64, rank, dims) : INTACT_OK;
}

/* values: result 0 is the extreme, result 1 its place; else result 0 is the place. */
static intact_status extreme_eval(const intact_call *call, bool largest, bool values) {
  const intact_tensor *x = call->operands[0];
  intact_tensor *y = NULL, *place = NULL;
  bool is_axis[INTACT_MAX_RANK];
  int64_t dims[INTACT_MAX_RANK];
  intact_lanes lanes = {0};
  lane_values lane = {0};
  INTACT_TRY(one_axis(call->context, call->node, x->rank, is_axis));
  int rank = intact__reduced_dims(x->rank, x->dims, is_axis, intact__attr_int(call->node, "keepdim") != 0, dims);
  if (values) INTACT_TRY(intact__call_result(call, 0, x->dtype, rank, dims, &y));
  if (!values || call->n_results > 1) INTACT_TRY(intact__call_result(call, values ? 1 : 0, INTACT_S64, rank, dims, &place));
  bool last = !values && intact__attr_int(call->node, "select_last_index") != 0;
  intact_status status = open_lane(call->context, x, is_axis, &lanes, &lane);
  if (status == INTACT_OK && lanes.length == 0) status = refuse_empty(call->context, call->node, x->rank, x->dims);
  for (int64_t i = 0; status == INTACT_OK && i < lanes.count; i++, intact__lanes_next(&lanes)) {
    read_lane(&lanes, x, &lane);
    int64_t best = extreme_place(&lane, lanes.length, largest, last);
    if (y != NULL) put_value(y, i, &lane, best);
    if (place != NULL) intact__tensor_set_s64(place, i, best);
  }
  close_lane(call->context, &lanes, &lane);
  return status;
}

/* The gradient goes to the place in result 1 (recomputed when the node has one result only). */
static intact_status extreme_grad(intact_grad *grad, bool largest) {
  const intact_tensor *x = grad->operands[0], *dy = grad->d_results[0];
  bool is_axis[INTACT_MAX_RANK];
  intact_tensor *dx = NULL;
  intact_lanes lanes = {0};
  lane_values lane = {0};
  if (dy == NULL || !grad->needed[0]) return INTACT_OK;
  INTACT_TRY(one_axis(grad->context, grad->node, x->rank, is_axis));
  INTACT_TRY(intact__grad_operand(grad, 0, &dx));
  intact_status status = open_lane(grad->context, x, is_axis, &lanes, &lane);
  for (int64_t i = 0; status == INTACT_OK && i < lanes.count; i++, intact__lanes_next(&lanes)) {
    read_lane(&lanes, x, &lane);
    int64_t best = extreme_place(&lane, lanes.length, largest, false);
    intact__f32(dx)[intact__lane_at(&lanes, best)] = intact__f32(dy)[i];
  }
  close_lane(grad->context, &lanes, &lane);
  return status;
}

#define DIM_KEEPDIM INTACT_A_INT_OR_NONE("dim"), INTACT_A_BOOL("keepdim", 0)
#define EXTREME_ROW(op, text, largest, ...)                                                         \
  static intact_status op##_infer(intact_infer *infer) {                                            \
    return extreme_infer(infer, true);                                                              \
  }                                                                                                 \
  static intact_status op##_eval(const intact_call *call) {                                         \
    return extreme_eval(call, largest, true);                                                       \
  }                                                                                                 \
  static intact_status op##_grad(intact_grad *grad) {                                               \
    return extreme_grad(grad, largest);                                                             \
  }                                                                                                 \
  const intact_op intact_op_##op = {                                                                \
      .name = #op,                                                                                  \
      .doc = text,                                                                                  \
      .schema = {INTACT_OPERANDS({"x", INTACT_ROLE_ACTIVATION, 0}), INTACT_RESULTS("y", "indices"), \
                 INTACT_ATTRS(DIM_KEEPDIM)},                                                        \
      .infer = op##_infer,                                                                          \
      .eval_f32 = op##_eval,                                                                        \
      .grad = op##_grad,                                                                            \
      .quant = {.result = INTACT_RESULT_SAME_AS},                                                   \
      .int_layout = INTACT_INT_ROWS,                                                                \
      .aliases = INTACT_ALIASES(__VA_ARGS__),                                                       \
  };
EXTREME_ROW(max_dim, "y = largest element along dim, indices = the first place of it; NaN wins.", true,
            INTACT_ATEN("max.dim"))
EXTREME_ROW(min_dim, "y = smallest element along dim, indices = the first place of it; NaN wins.", false,
            INTACT_ATEN("min.dim"))

#define PLACE_ROW(op, text, largest, onnx)                                                                    \
  static intact_status op##_infer(intact_infer *infer) {                                                      \
    return extreme_infer(infer, false);                                                                       \
  }                                                                                                           \
  static intact_status op##_eval(const intact_call *call) {                                                   \
    return extreme_eval(call, largest, false);                                                                \
  }                                                                                                           \
  const intact_op intact_op_##op = {                                                                          \
      .name = #op,                                                                                            \
      .doc = text,                                                                                            \
      .schema = {INTACT_X, INTACT_ATTRS(DIM_KEEPDIM, INTACT_A_BOOL("select_last_index", 0))},                 \
      .infer = op##_infer,                                                                                    \
      .eval_f32 = op##_eval,                                                                                  \
      .grad = intact__grad_none,                                                                              \
      .quant = {.result = INTACT_RESULT_NONE, .no_quantize = true},                                           \
      .aliases = INTACT_ALIASES(                                                                              \
          INTACT_ATEN(#op),                                                                                   \
          INTACT_ONNX_AS(onnx, "axis=dim,keepdims=keepdim,select_last_index=select_last_index", "arg_axis")), \
  };
/* arg_axis: axis is 0 and keepdims 1 unless given */
PLACE_ROW(argmax, "y = place of the largest element along dim (of all, flattened, when absent).", true, "ArgMax")
PLACE_ROW(argmin, "y = place of the smallest element along dim (of all, flattened, when absent).", false, "ArgMin")

static intact_status aminmax_infer(intact_infer *infer) {
  INTACT_TRY(extreme_infer(infer, true));
  const intact_value *min = infer->node->results[0];
  return infer->node->n_results > 1 ? intact__infer_result(infer, 1, min->dtype, min->rank, min->dims) : INTACT_OK;
}

static intact_status aminmax_eval(const intact_call *call) {
  for (int r = 0; r < call->n_results && r < 2; r++) {
    intact_call one = *call;
    one.results = &call->results[r];
    one.n_results = 1;
    INTACT_TRY(extreme_eval(&one, r == 1, true));
  }
  return INTACT_OK;
}

static intact_status aminmax_grad(intact_grad *grad) {
  const intact_tensor *x = grad->operands[0];
  bool is_axis[INTACT_MAX_RANK];
  intact_tensor *dx = NULL;
  intact_lanes lanes = {0};
  lane_values lane = {0};
  if (!grad->needed[0]) return INTACT_OK;
  INTACT_TRY(one_axis(grad->context, grad->node, x->rank, is_axis));
  INTACT_TRY(intact__grad_operand(grad, 0, &dx));
  intact_status status = open_lane(grad->context, x, is_axis, &lanes, &lane);
  for (int64_t i = 0; status == INTACT_OK && i < lanes.count; i++, intact__lanes_next(&lanes)) {
    read_lane(&lanes, x, &lane);
    for (int r = 0; r < grad->n_results && r < 2; r++) {
      int64_t best = extreme_place(&lane, lanes.length, r == 1, false), ties = 0;
      if (grad->d_results[r] == NULL) continue;
      for (int64_t k = 0; k < lanes.length; k++) ties += !is_less(&lane, k, best) && !is_less(&lane, best, k);
      for (int64_t k = 0; k < lanes.length; k++) {
        if (is_less(&lane, k, best) || is_less(&lane, best, k)) continue;
        intact__f32(dx)[intact__lane_at(&lanes, k)] += intact__f32(grad->d_results[r])[i] / (float)ties;
      }
    }
  }
  close_lane(grad->context, &lanes, &lane);
  return status;
}

const intact_op intact_op_aminmax = {
    .name = "aminmax",
    .doc = "min, max = smallest and largest element along dim (of all when absent); NaN wins both.",
    .schema = {INTACT_OPERANDS({"x", INTACT_ROLE_ACTIVATION, 0}), INTACT_RESULTS("min", "max"), INTACT_ATTRS(DIM_KEEPDIM)},
    .infer = aminmax_infer,
    .eval_f32 = aminmax_eval,
    .grad = aminmax_grad,
    .quant = {.result = INTACT_RESULT_SAME_AS},
    .aliases = INTACT_ALIASES(INTACT_ATEN("aminmax")),
};

/* ---- order ---- */

/* Merges the sorted halves order[0..half) and order[half..n); equal values keep their order. */
static void merge_halves(const lane_values *lane, int64_t *order, int64_t half, int64_t n, int64_t *room, bool descending) {
  int64_t a = 0, b = half;
  memcpy(room, order, sizeof *order * (size_t)n);
  for (int64_t k = 0; k < n; k++) {
    bool second_first =
        b < n && (a >= half || (descending ? is_less(lane, room[a], room[b]) : is_less(lane, room[b], room[a])));
    order[k] = second_first ? room[b++] : room[a++];
  }
}

/* Stable merge sort of the places 0..n-1 by value, from runs of one up. */
static void sort_places(const lane_values *lane, int64_t *order, int64_t n, int64_t *room, bool descending) {
  for (int64_t k = 0; k < n; k++) order[k] = k;
  for (int64_t run = 1; run < n; run *= 2) {
    for (int64_t begin = 0; begin + run < n; begin += 2 * run) {
      int64_t length = n - begin < 2 * run ? n - begin : 2 * run;
      merge_halves(lane, order + begin, run, length, room, descending);
    }
  }
}

/* How a row sorts: along which axis, which way, how many are kept (-1: all). */
typedef struct order_plan {
  bool is_axis[INTACT_MAX_RANK];
  int axis;
  bool descending;
  int64_t kept;
} order_plan;

static intact_status plan_order(intact_context *context, const intact_node *node, int rank, bool top, order_plan *plan) {
  *plan = (order_plan){.kept = -1};
  INTACT_TRY(intact__op_axis(context, node, "dim", intact__attr_int(node, "dim"), rank, &plan->axis));
  if (rank > 0) plan->is_axis[plan->axis] = true;
  plan->descending = intact__attr_int(node, top ? "largest" : "descending") != 0;
  return INTACT_OK;
}

static intact_status check_k(intact_context *context, const intact_node *node, int64_t k, int64_t length) {
  if (k >= 0 && (length < 0 || k <= length)) return INTACT_OK;
  INTACT_FAIL(context, OUT_OF_RANGE, node->name, "%s '%s': k is %lld for an axis of length %lld; it must lie within it",
              node->op->name, node->name, (long long)k, (long long)length);
}

static intact_status order_infer(intact_infer *infer, bool top, bool values) {
  const intact_node *node = infer->node;
  const intact_value *x = node->operands[0], *k = intact__infer_operand(infer, 1);
  order_plan plan;
  int64_t dims[INTACT_MAX_RANK] = {0};
  if (x->rank >= 0) {
    INTACT_TRY(plan_order(infer->context, node, x->rank, top, &plan));
    memcpy(dims, x->dims, sizeof dims);
  }
  if (x->rank > 0 && top) {
    const intact_attr *attr = intact__attr(node, "k");
    bool known = attr->present || (k != NULL && k->elements != NULL && k->n_elements == 1 &&
                                   !(infer->graph != NULL && intact__element_is_symbol(k->elements[0])));
    int64_t kept = !known ? intact__infer_unknown_dim(infer) : attr->present ? attr->i : k->elements[0];
    if (known) INTACT_TRY(check_k(infer->context, node, kept, dims[plan.axis]));
    dims[plan.axis] = kept;
  }
  INTACT_TRY(intact__infer_result(infer, 0, values ? x->dtype : INTACT_S64, x->rank, dims));
  return values && node->n_results > 1 ? intact__infer_result(infer, 1, INTACT_S64, x->rank, dims) : INTACT_OK;
}

/* Result 0 the values in order and result 1 their places, or (values false) result 0 the places. */
static intact_status order_eval(const intact_call *call, bool top, bool values) {
  const intact_tensor *x = call->operands[0], *k_operand = top ? intact__operand(call, 1) : NULL;
  order_plan plan;
  intact_lanes from = {0}, to = {0};
  lane_values lane = {0};
  intact_tensor *y = NULL, *places = NULL;
  int64_t dims[INTACT_MAX_RANK] = {0}, *order = NULL;
  INTACT_TRY(plan_order(call->context, call->node, x->rank, top, &plan));
  int64_t length = x->rank > 0 ? x->dims[plan.axis] : 1, kept = length;
  if (top) {
    const intact_attr *k = intact__attr(call->node, "k");
    kept = k->present ? k->i : k_operand != NULL && k_operand->count == 1 ? intact__tensor_get_s64(k_operand, 0) : -1;
    INTACT_TRY(check_k(call->context, call->node, kept, length));
  }
  memcpy(dims, x->dims, sizeof dims);
  if (x->rank > 0) dims[plan.axis] = kept;
  if (values) INTACT_TRY(intact__call_result(call, 0, x->dtype, x->rank, dims, &y));
  if (!values || call->n_results > 1)
    INTACT_TRY(intact__call_result(call, values ? 1 : 0, INTACT_S64, x->rank, dims, &places));
  intact_status status = open_lane(call->context, x, plan.is_axis, &from, &lane);
  if (status == INTACT_OK) status = intact__lanes_open(call->context, x->rank, dims, plan.is_axis, &to);
  order = intact__alloc(call->context, 2 * (size_t)length + 1, sizeof *order);
  if (order == NULL && status == INTACT_OK) status = intact__no_memory(call->context, 2 * (size_t)length * sizeof *order);
  for (int64_t i = 0; status == INTACT_OK && i < from.count; i++, intact__lanes_next(&from), intact__lanes_next(&to)) {
    read_lane(&from, x, &lane);
    sort_places(&lane, order, length, order + length, plan.descending);
    for (int64_t k = 0; k < kept; k++) {
      if (y != NULL) put_value(y, intact__lane_at(&to, k), &lane, order[k]);
      if (places != NULL) intact__tensor_set_s64(places, intact__lane_at(&to, k), order[k]);
    }
  }
  intact__free(call->context, order);
  intact__lanes_close(&to);
  close_lane(call->context, &from, &lane);
  return status;
}

/* dx at the places of result 1. */
static intact_status order_grad(intact_grad *grad) {
  const intact_tensor *x = grad->operands[0], *dy = grad->d_results[0],
                      *places = grad->n_results > 1 ? grad->results[1] : NULL;
  bool is_axis[INTACT_MAX_RANK] = {false};
  int axis = 0;
  intact_lanes from = {0}, to = {0};
  intact_tensor *dx = NULL;
  if (dy == NULL || !grad->needed[0]) return INTACT_OK;
  if (places == NULL) {
    INTACT_FAIL(grad->context, WRONG_USE, grad->node->name,
                "%s '%s': its gradient needs the result indices; keep both results", grad->node->op->name, grad->node->name);
  }
  INTACT_TRY(intact__op_axis(grad->context, grad->node, "dim", intact__attr_int(grad->node, "dim"), x->rank, &axis));
  if (x->rank > 0) is_axis[axis] = true;
  INTACT_TRY(intact__grad_operand(grad, 0, &dx));
  intact_status status = intact__lanes_open(grad->context, dy->rank, dy->dims, is_axis, &from);
  if (status == INTACT_OK) status = intact__lanes_open(grad->context, x->rank, x->dims, is_axis, &to);
  for (int64_t i = 0; status == INTACT_OK && i < from.count; i++, intact__lanes_next(&from), intact__lanes_next(&to)) {
    for (int64_t k = 0; k < from.length; k++) {
      int64_t at = intact__lane_at(&from, k);
      intact__f32(dx)[intact__lane_at(&to, intact__tensor_get_s64(places, at))] += intact__f32(dy)[at];
    }
  }
  intact__lanes_close(&from);
  intact__lanes_close(&to);
  return status;
}

static intact_status sort_infer(intact_infer *infer) {
  return order_infer(infer, false, true);
}
static intact_status sort_eval(const intact_call *call) {
  return order_eval(call, false, true);
}
const intact_op intact_op_sort = {
    .name = "sort",
    .doc = "y = x in order along dim, indices = where each came from; equal elements keep their order, NaN is the largest.",
    .schema = {INTACT_OPERANDS({"x", INTACT_ROLE_ACTIVATION, 0}), INTACT_RESULTS("y", "indices"),
               INTACT_ATTRS(INTACT_A_INT("dim", -1), INTACT_A_BOOL("descending", 0), INTACT_A_BOOL("stable", 1))},
    .infer = sort_infer,
    .eval_f32 = sort_eval,
    .grad = order_grad,
    .quant = {.result = INTACT_RESULT_SAME_AS},
    .aliases = INTACT_ALIASES(INTACT_ATEN("sort"), INTACT_ATEN("sort.stable")),
};

static intact_status argsort_infer(intact_infer *infer) {
  return order_infer(infer, false, false);
}
static intact_status argsort_eval(const intact_call *call) {
  return order_eval(call, false, false);
}
const intact_op intact_op_argsort = {
    .name = "argsort",
    .doc = "y = the places of x's elements in order along dim.",
    .schema = {INTACT_X, INTACT_ATTRS(INTACT_A_INT("dim", -1), INTACT_A_BOOL("descending", 0), INTACT_A_BOOL("stable", 1))},
    .infer = argsort_infer,
    .eval_f32 = argsort_eval,
    .grad = intact__grad_none,
    .quant = {.result = INTACT_RESULT_NONE, .no_quantize = true},
    .aliases = INTACT_ALIASES(INTACT_ATEN("argsort"), INTACT_ATEN("argsort.stable")),
};

static intact_status topk_infer(intact_infer *infer) {
  return order_infer(infer, true, true);
}
static intact_status topk_eval(const intact_call *call) {
  return order_eval(call, true, true);
}
const intact_op intact_op_topk = {
    .name = "topk",
    .doc = "y = the k largest (or smallest) elements along dim in order, indices = where they came from.",
    .schema = {INTACT_OPERANDS({"x", INTACT_ROLE_ACTIVATION, 0}, {"k_value", INTACT_ROLE_INDEX, INTACT_OPTIONAL}),
               INTACT_RESULTS("y", "indices"),
               INTACT_ATTRS(INTACT_A_INT_OR_NONE("k"), INTACT_A_INT("dim", -1), INTACT_A_BOOL("largest", 1),
                            INTACT_A_BOOL("sorted", 1))},
    .infer = topk_infer,
    .eval_f32 = topk_eval,
    .grad = order_grad,
    .quant = {.result = INTACT_RESULT_SAME_AS},
    .aliases = INTACT_ALIASES(INTACT_ATEN("topk"),
                              /* k_number: constant operand 1 becomes k */
                              INTACT_ONNX_AS("TopK", "axis=dim,largest=largest,sorted=sorted,k=k", "k_number"),
                              /* top_mode: mode max or min, sort, and as k_number */
                              INTACT_OPENVINO_AS("TopK", "axis=dim,mode=,sort=,index_element_type=,stable=", "top_mode")),
};
