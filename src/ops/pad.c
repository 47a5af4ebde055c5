/* SPDX-License-Identifier: Apache-2.0 */
/* Rows where each axis of the result reads its own places of x: the pads, roll, and the triangles tril and triu. */
#include <math.h>
#include <string.h>

#include "ops/move.h"

/* For each axis the place of x that each place of the result reads, -1 for the fill value. */
typedef struct axis_maps {
  int rank;
  int64_t in[INTACT_MAX_RANK], out[INTACT_MAX_RANK];
  int64_t *map[INTACT_MAX_RANK];
  int64_t *room; /* holds all maps */
} axis_maps;

typedef enum pad_mode { PAD_CONSTANT, PAD_REFLECT, PAD_REPLICATE, PAD_CIRCULAR } pad_mode;

static intact_status refuse_pad(intact_context *context, const intact_node *node, int rank, const int64_t *dims,
                                const char *rule) {
  char shape[160];
  INTACT_FAIL(context, SIZE_MISMATCH, node->name, "%s '%s': on shape %s; %s", node->op->name, node->name,
              intact__shape_text(rank, dims, shape), rule);
}

/* Pads before and behind each axis from PyTorch's list (pairs, last axis first). */
static intact_status spread_pads(intact_context *context, const intact_node *node, int rank, const int64_t *dims, int n,
                                 const int64_t *list, int64_t *before, int64_t *behind) {
  if (n % 2 != 0 || n / 2 > rank) {
    return refuse_pad(context, node, rank, dims,
                      "the padding needs pairs (before, behind), last axis first, at most one an axis");
  }
  for (int k = 0; k < rank; k++) before[k] = behind[k] = 0;
  for (int i = 0; i < n / 2; i++) {
    before[rank - 1 - i] = list[2 * i];
    behind[rank - 1 - i] = list[2 * i + 1];
    int64_t limit = INT64_MAX / 4;
    if (list[2 * i] > limit || list[2 * i] < -limit || list[2 * i + 1] > limit || list[2 * i + 1] < -limit) {
      return refuse_pad(context, node, rank, dims, "a padding is beyond all memory");
    }
  }
  return INTACT_OK;
}

/* The length of a padded axis, or a refusal by the mode's rule. */
static intact_status padded_length(intact_context *context, const intact_node *node, pad_mode mode, int rank,
                                   const int64_t *dims, int axis, int64_t before, int64_t behind, int64_t *length) {
  int64_t n = dims[axis];
  int64_t most = before > behind ? before : behind;
  *length = n + before + behind;
  if (*length < 0) return refuse_pad(context, node, rank, dims, "more is cut off than there is");
  if (mode == PAD_REFLECT && most >= n && most > 0) {
    return refuse_pad(context, node, rank, dims, "a reflecting padding must be shorter than its axis");
  }
  if (mode == PAD_CIRCULAR && most > n + (before < 0 ? before : 0) + (behind < 0 ? behind : 0))
    return refuse_pad(context, node, rank, dims, "a circular padding must not exceed what is left of its axis");
  if (mode == PAD_REPLICATE && n == 0 && *length > 0)
    return refuse_pad(context, node, rank, dims, "there is nothing to replicate");
  return INTACT_OK;
}

/* Place that result place i (counted from the axis' own start) reads. */
static int64_t pad_source(pad_mode mode, int64_t i, int64_t n, int64_t before, int64_t behind) {
  const int64_t first = before < 0 ? -before : 0, end = behind < 0 ? n + behind : n; /* what is left when ends are cut off */
  if (mode == PAD_CIRCULAR && i >= end) return i - (end - first);
  if (i >= 0 && i < n) return i;
  switch (mode) {
    case PAD_REFLECT:
      return i < 0 ? -i : 2 * (n - 1) - i;
    case PAD_REPLICATE:
      return i < 0 ? 0 : n - 1;
    case PAD_CIRCULAR:
      return i + (end - first);
    case PAD_CONSTANT:
      break;
  }
  return -1;
}

/* Room for the maps of a result with in and out set. */
static intact_status make_maps(intact_context *context, axis_maps *maps) {
  int64_t total = 0;
  for (int k = 0; k < maps->rank; k++) total += maps->out[k];
  maps->room = intact__alloc(context, (size_t)total + 1, sizeof *maps->room);
  if (maps->room == NULL) return intact__no_memory(context, (size_t)total * sizeof *maps->room);
  int64_t *next = maps->room;
  for (int k = 0; k < maps->rank; k++) {
    maps->map[k] = next;
    next += maps->out[k];
  }
  return INTACT_OK;
}

/* Calls for each row of the result: `from` is the offset in x of the row's first element, -1 when all of it is fill. The
   last axis is the row and is read through its own map. */
typedef void (*map_row_fn)(void *user, int64_t row, int64_t from, const axis_maps *maps);

static void each_row(const axis_maps *maps, map_row_fn fn, void *user) {
  int64_t rows = 1, index[INTACT_MAX_RANK] = {0};
  int last = maps->rank - 1;
  for (int k = 0; k < last; k++) rows *= maps->out[k];
  for (int64_t row = 0; row < rows; row++) {
    int64_t from = 0;
    for (int k = 0; k < last && from >= 0; k++) {
      int64_t place = maps->map[k][index[k]];
      from = place < 0 ? -1 : from * maps->in[k] + place;
    }
    fn(user, row, from < 0 ? -1 : from * maps->in[last], maps);
    for (int k = last - 1; k >= 0; k--) {
      if (++index[k] < maps->out[k]) break;
      index[k] = 0;
    }
  }
}

typedef struct map_copy {
  const intact_tensor *x, *value; /* value: one element, the fill */
  intact_tensor *y;
} map_copy;

static void copy_mapped_row(void *user, int64_t row, int64_t from, const axis_maps *maps) {
  const map_copy *job = user;
  int last = maps->rank - 1;
  size_t size = (size_t)intact_dtype_bits(job->x->dtype) / 8;
  for (int64_t i = 0; i < maps->out[last]; i++) {
    int64_t to = row * maps->out[last] + i, place = maps->map[last][i];
    bool filled = from < 0 || place < 0;
    const intact_tensor *source = filled ? job->value : job->x;
    int64_t at = filled ? 0 : from + place;
    if (size == 4) {
      ((uint32_t *)job->y->data)[to] = ((const uint32_t *)source->data)[at];
    } else if (size > 0) {
      memcpy((char *)job->y->data + (size_t)to * size, (const char *)source->data + (size_t)at * size, size);
    } else {
      intact__tensor_set_f64(job->y, to, intact__tensor_get_f64(source, at));
    }
  }
}

static intact_status eval_maps(const intact_call *call, const axis_maps *maps, const intact_tensor *value) {
  map_copy job = {call->operands[0], value, NULL};
  INTACT_TRY(intact__call_result(call, 0, job.x->dtype, maps->rank, maps->out, &job.y));
  if (maps->rank == 0) {
    const intact_view scalar = {0};
    intact__view_copy(job.y, &scalar, job.x, &scalar);
  } else if (job.y->count > 0) {
    each_row(maps, copy_mapped_row, &job);
  }
  return INTACT_OK;
}

typedef struct map_sum {
  const float *dy;
  double *sum;
} map_sum;

static void sum_mapped_row(void *user, int64_t row, int64_t from, const axis_maps *maps) {
  const map_sum *job = user;
  int last = maps->rank - 1;
  for (int64_t i = 0; i < maps->out[last] && from >= 0; i++) {
    int64_t place = maps->map[last][i];
    if (place >= 0) job->sum[from + place] += (double)job->dy[row * maps->out[last] + i];
  }
}

static intact_status grad_maps(intact_grad *grad, const axis_maps *maps) {
  intact_tensor *dx = NULL;
  INTACT_TRY(intact__grad_operand(grad, 0, &dx));
  map_sum job = {intact__f32(grad->d_results[0]),
                 intact__alloc_zeroed(grad->context, (size_t)dx->count + 1, sizeof(double))};
  if (job.sum == NULL) return intact__no_memory(grad->context, (size_t)dx->count * sizeof(double));
  if (maps->rank > 0 && grad->d_results[0]->count > 0) each_row(maps, sum_mapped_row, &job);
  if (maps->rank == 0) job.sum[0] = (double)job.dy[0];
  for (int64_t i = 0; i < dx->count; i++) intact__f32(dx)[i] = (float)job.sum[i];
  intact__free(grad->context, job.sum);
  return INTACT_OK;
}

/* ---- pads ---- */

static intact_status pad_infer(intact_infer *infer, pad_mode mode, const char *name) {
  const intact_value *x = infer->node->operands[0];
  int n = 0;
  int64_t list[INTACT_MAX_ELEMENTS], before[INTACT_MAX_RANK], behind[INTACT_MAX_RANK], dims[INTACT_MAX_RANK];
  INTACT_TRY(intact__infer_list(infer, name, 1, &n, list));
  if (x->rank < 0) return intact__infer_unranked(infer, x->dtype);
  for (int k = 0; k < n; k++) {
    if (infer->graph != NULL && intact__element_is_symbol(list[k])) n = -1;
  }
  if (n >= 0) INTACT_TRY(spread_pads(infer->context, infer->node, x->rank, x->dims, n, list, before, behind));
  for (int k = 0; k < x->rank; k++) {
    bool same = n >= 0 && before[k] == 0 && behind[k] == 0;
    if (same) {
      dims[k] = x->dims[k];
    } else if (n < 0 || x->dims[k] < 0) {
      dims[k] = intact__infer_unknown_dim(infer);
    } else {
      INTACT_TRY(padded_length(infer->context, infer->node, mode, x->rank, x->dims, k, before[k], behind[k], &dims[k]));
    }
  }
  return intact__infer_result(infer, 0, x->dtype, x->rank, dims);
}

/* Maps of a pad; to be freed. */
static intact_status pad_maps(const intact_call *call, pad_mode mode, const char *name, axis_maps *maps) {
  const intact_tensor *x = call->operands[0];
  int n = 0;
  int64_t list[INTACT_MAX_ELEMENTS], before[INTACT_MAX_RANK], behind[INTACT_MAX_RANK];
  *maps = (axis_maps){.rank = x->rank};
  INTACT_TRY(intact__call_list(call, name, 1, &n, list));
  INTACT_TRY(spread_pads(call->context, call->node, x->rank, x->dims, n, list, before, behind));
  int64_t count = 0;
  size_t bytes = 0;
  for (int k = 0; k < x->rank; k++) {
    maps->in[k] = x->dims[k];
    INTACT_TRY(padded_length(call->context, call->node, mode, x->rank, x->dims, k, before[k], behind[k], &maps->out[k]));
  }
  if (!intact__shape_bytes(x->dtype, x->rank, maps->out, &count, &bytes)) {
    return refuse_pad(call->context, call->node, x->rank, x->dims, "the result would be beyond all memory");
  }
  INTACT_TRY(make_maps(call->context, maps));
  for (int k = 0; k < x->rank; k++) {
    for (int64_t i = 0; i < maps->out[k]; i++) maps->map[k][i] = pad_source(mode, i - before[k], maps->in[k], before[k], behind[k]);
  }
  return INTACT_OK;
}

/* The fill value as one element: operand 2, else the attribute; on stored integers in their own grid. */
static intact_status pad_value(const intact_call *call, pad_mode mode, intact_tensor **value) {
  const intact_tensor *x = call->operands[0], *given = intact__operand(call, 2);
  const intact_qparams *qparams = call->node->operands[0]->qparams;
  bool quantized = qparams != NULL && x->dtype == qparams->dtype;
  if (mode != PAD_CONSTANT) return intact_tensor_create(call->context, x->dtype, 0, NULL, value);
  if (given != NULL && given->count == 1 && given->dtype == x->dtype && !quantized)
    return intact_tensor_share(given, 0, NULL, value);
  double number =
      given != NULL && given->count == 1 ? intact__tensor_get_f64(given, 0) : intact__attr_float(call->node, "value");
  intact_tensor *real = NULL;
  if (quantized) {
    INTACT_TRY(intact__tensor_scalar_f32(call->context, (float)number, &real));
    intact_status status = intact__quantize_tensor(real, qparams, value);
    intact_tensor_destroy(real);
    return status;
  }
  INTACT_TRY(intact_tensor_create(call->context, x->dtype, 0, NULL, value));
  intact__tensor_set_f64(*value, 0, number);
  return INTACT_OK;
}

static intact_status pad_eval(const intact_call *call, pad_mode mode, const char *name) {
  axis_maps maps;
  intact_tensor *value = NULL;
  intact_status status = pad_maps(call, mode, name, &maps);
  if (status == INTACT_OK) status = pad_value(call, mode, &value);
  if (status == INTACT_OK) status = eval_maps(call, &maps, value);
  intact_tensor_destroy(value);
  intact__free(call->context, maps.room);
  return status;
}

static intact_status pad_grad(intact_grad *grad, pad_mode mode, const char *name) {
  axis_maps maps;
  const intact_call call = intact__call_of_grad(grad);
  if (grad->d_results[0] == NULL || !grad->needed[0]) return INTACT_OK;
  intact_status status = pad_maps(&call, mode, name, &maps);
  if (status == INTACT_OK) status = grad_maps(grad, &maps);
  intact__free(grad->context, maps.room);
  return status;
}

static bool constant_fill(const intact_node *node, double *value) {
  const intact_value *given = node->n_operands > 2 ? node->operands[2] : NULL;
  *value = intact__attr_float(node, "value");
  if (given != NULL) *value = given->constant != NULL && given->constant->count == 1 ? intact__tensor_get_f64(given->constant, 0) : (double)NAN;
  return !(*value >= 0.0 && *value <= 0.0);
}

/* Attribute value is the constant pad's alone. */
#define PAD_ROW(op, text, mode, list, fill, operands_, attributes, ...) \
  static intact_status op##_infer(intact_infer *infer) {          \
    return pad_infer(infer, mode, list);                          \
  }                                                               \
  static intact_status op##_eval(const intact_call *call) {       \
    return pad_eval(call, mode, list);                            \
  }                                                               \
  static intact_status op##_grad(intact_grad *grad) {             \
    return pad_grad(grad, mode, list);                            \
  }                                                               \
  const intact_op intact_op_##op = {                              \
      .name = #op,                                                \
      .doc = text,                                                \
      .schema = {operands_, INTACT_RESULTS("y"), attributes},     \
      .infer = op##_infer,                                        \
      .eval_f32 = op##_eval,                                      \
      .grad = op##_grad,                                          \
      .quant = {.result = INTACT_RESULT_SAME_AS,                  \
                .fill_value = fill},                              \
      .int_layout = INTACT_INT_ANY,                               \
      .check_int = intact__check_pad,                             \
      .lower_int = intact__lower_pad,                             \
      .on_integers = true,                                        \
      .aliases = INTACT_ALIASES(__VA_ARGS__),                     \
  };
#define PAD_X INTACT_OPERANDS({"x", INTACT_ROLE_ACTIVATION, 0}, {"pad_value", INTACT_ROLE_INDEX, INTACT_OPTIONAL})
#define PAD_X_VALUE                                                                                    \
  INTACT_OPERANDS({"x", INTACT_ROLE_ACTIVATION, 0}, {"pad_value", INTACT_ROLE_INDEX, INTACT_OPTIONAL}, \
                  {"value_tensor", INTACT_ROLE_NONE, INTACT_OPTIONAL})

/* pad_list: pads (all begins, then all ends; by operand 3 on some axes only) to PyTorch's order as `pad` or `padding`, from
   the attribute or constant operand 1; operand 2 or attribute value is the constant; mode names the row. Not constant:
   operands stay, in PyTorch's order. */
PAD_ROW(constant_pad_nd,
        "y = x with `value` around it: pairs (before, behind) in pad, last axis first; negative ones cut off.", PAD_CONSTANT,
        "pad", constant_fill, PAD_X_VALUE, INTACT_ATTRS(INTACT_A_INTS("pad"), INTACT_A_FLOAT("value", 0.0)), INTACT_ATEN("constant_pad_nd"),
        /* pad_mode: mode names the row, value may be None */
        INTACT_ATEN_AS("pad", "pad=pad,mode=,value=value", "pad_mode"),
        INTACT_ONNX_AS("Pad", "mode=,pads=,value=value", "pad_list"), INTACT_OPENVINO_AS("Pad", "pad_mode=", "pad_list"))
PAD_ROW(reflection_pad, "y = x mirrored at its edges, which stand once.", PAD_REFLECT, "padding", NULL, PAD_X,
        INTACT_ATTRS(INTACT_A_INTS("padding")), INTACT_ATEN("reflection_pad1d"), INTACT_ATEN("reflection_pad2d"),
        INTACT_ATEN("reflection_pad3d"))
PAD_ROW(replication_pad, "y = x with its edges repeated.", PAD_REPLICATE, "padding", NULL, PAD_X,
        INTACT_ATTRS(INTACT_A_INTS("padding")), INTACT_ATEN("replication_pad1d"), INTACT_ATEN("replication_pad2d"),
        INTACT_ATEN("replication_pad3d"))
PAD_ROW(circular_pad, "y = x continued from its other end.", PAD_CIRCULAR, "padding", NULL, PAD_X,
        INTACT_ATTRS(INTACT_A_INTS("padding")), INTACT_ATEN("circular_pad"),
        INTACT_ATEN_AS("_pad_circular", "pad=padding", NULL))

/* ---- roll ---- */

static intact_status check_roll(intact_context *context, const intact_node *node, int rank) {
  const intact_attr *shifts = intact__attr(node, "shifts"), *dims = intact__attr(node, "dims");
  int axis = 0;
  if (shifts->n != dims->n && !(dims->n == 0 && shifts->n == 1)) {
    INTACT_FAIL(context, SIZE_MISMATCH, node->name, "roll '%s': %d shifts for %d dims; one shift for each is needed",
                node->name, shifts->n, dims->n);
  }
  for (int i = 0; i < dims->n; i++) INTACT_TRY(intact__op_axis(context, node, "dims", dims->ints[i], rank, &axis));
  return INTACT_OK;
}

static intact_status roll_infer(intact_infer *infer) {
  const intact_value *x = infer->node->operands[0];
  if (x->rank >= 0) INTACT_TRY(check_roll(infer->context, infer->node, x->rank));
  return intact__infer_like_first(infer);
}

/* Maps of a roll; `flat`: of the elements in a row, when no dims are given. */
static intact_status roll_maps(const intact_call *call, axis_maps *maps) {
  const intact_tensor *x = call->operands[0];
  const intact_attr *shifts = intact__attr(call->node, "shifts"), *dims = intact__attr(call->node, "dims");
  bool flat = dims->n == 0;
  *maps = (axis_maps){.rank = flat ? 1 : x->rank};
  INTACT_TRY(check_roll(call->context, call->node, x->rank));
  for (int k = 0; k < maps->rank; k++) maps->in[k] = maps->out[k] = flat ? x->count : x->dims[k];
  INTACT_TRY(make_maps(call->context, maps));
  for (int k = 0; k < maps->rank; k++) {
    int64_t n = maps->in[k], shift = 0;
    for (int i = 0; i < shifts->n && n > 0; i++) {
      int axis = 0;
      if (!flat) INTACT_TRY(intact__op_axis(call->context, call->node, "dims", dims->ints[i], x->rank, &axis));
      if (axis == k) shift = (shift + shifts->ints[i] % n) % n;
    }
    for (int64_t i = 0; i < n; i++) maps->map[k][i] = ((i - shift) % n + n) % n;
  }
  return INTACT_OK;
}

static intact_status roll_eval(const intact_call *call) {
  const intact_tensor *x = call->operands[0];
  axis_maps maps;
  intact_tensor *y = NULL;
  intact_status status = roll_maps(call, &maps);
  if (status == INTACT_OK) status = intact__call_result(call, 0, x->dtype, x->rank, x->dims, &y);
  map_copy job = {x, x, y};
  if (status == INTACT_OK && maps.rank > 0 && x->count > 0) each_row(&maps, copy_mapped_row, &job);
  if (status == INTACT_OK && maps.rank == 0) {
    const intact_view scalar = {0};
    intact__view_copy(y, &scalar, x, &scalar);
  }
  intact__free(call->context, maps.room);
  return status;
}

static intact_status roll_grad(intact_grad *grad) {
  axis_maps maps;
  const intact_call call = intact__call_of_grad(grad);
  if (grad->d_results[0] == NULL || !grad->needed[0]) return INTACT_OK;
  intact_status status = roll_maps(&call, &maps);
  if (status == INTACT_OK) status = grad_maps(grad, &maps);
  intact__free(grad->context, maps.room);
  return status;
}

const intact_op intact_op_roll = {
    .name = "roll",
    .doc =
        "y = x moved by shifts along dims, what leaves at one end comes in at the other; of all elements in a row without "
        "dims.",
    .schema = {INTACT_X, INTACT_ATTRS(INTACT_A_INTS_NEEDED("shifts"), INTACT_A_INTS("dims"))},
    .infer = roll_infer,
    .eval_f32 = roll_eval,
    .grad = roll_grad,
    .quant = {.result = INTACT_RESULT_SAME_AS},
    .int_layout = INTACT_INT_ANY,
    .check_int = intact__check_movement,
    .lower_int = intact__lower_movement,
    .on_integers = true,
    .aliases = INTACT_ALIASES(INTACT_ATEN("roll")),
};
