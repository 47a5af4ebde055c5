/* SPDX-License-Identifier: Apache-2.0 */
/* Rows of means over quantized tensors: average pools, mean, bilinear upsampling. Results keep the qparams of x. */
#include <string.h>

#include "ops/pool.h"
#include "ops/quantized/quantized.h"

/* quantized_avg_pool2d -> avg_pool2d */
static const intact_op *float_row(const intact_node *node) {
  return intact__find_op(node->op->name + strlen("quantized_"));
}

/* QNNPACK takes 4-d u8 data only: average pools without ceil_mode, means over all positions; other engines and cases are
 * alike. */
static bool is_qnnpack(const intact_node *node) {
  const intact_value *x = node->operands[0];
  return strcmp(intact__attr_string(node, "engine"), "qnnpack") == 0 && x->qparams->dtype == INTACT_U8 && x->rank == 4;
}

static intact_status infer_like_x(intact_infer *infer) {
  const intact_op *row = float_row(infer->node);
  intact_engine engine;
  INTACT_TRY(intact__infer_quantized(infer, 0, true));
  if (strcmp(infer->node->op->schema.attrs[0].name, "engine") == 0)
    INTACT_TRY(intact__engine_of(infer->context, infer->node, &engine));
  INTACT_TRY(intact__twin_infer(infer, row, 1));
  const intact_qparams *x = infer->node->operands[0]->qparams;
  return intact__infer_qparams(infer, x->dtype, (double)x->scale[0], x->zero_point[0], intact_dtype_min(x->dtype));
}

/* ---- average pools ---- */

static double sum_of(const intact_window *w, const intact_pool_cell *c, const float *steps) {
  double sum = 0;
  for (int64_t d = c->first[0]; d < c->end[0]; d += c->step[0])
    for (int64_t h = c->first[1]; h < c->end[1]; h += c->step[1])
      for (int64_t v = c->first[2]; v < c->end[2]; v += c->step[2]) sum += (double)steps[(d * w->in[1] + h) * w->in[2] + v];
  return sum;
}

static int64_t length_of(const intact_pool_cell *c, int axis) {
  return c->end[axis] > c->first[axis] ? (c->end[axis] - c->first[axis] + c->step[axis] - 1) / c->step[axis] : 0;
}

static bool outside_rounding(const intact_node *node, const intact_pool *pool) {
  if (!is_qnnpack(node)) return false;
  if (!pool->adaptive) return intact__attr_int(node, "ceil_mode") == 0;
  return pool->window.out[0] * pool->window.out[1] * pool->window.out[2] == 1;
}

/* Sum of the steps and number of the elements of one cell -> code. */
static int64_t mean_code(int64_t zero, bool outside, bool adaptive, double sum, int64_t count, double divisor) {
  const float inverse = 1.0f / (float)divisor, steps = (float)sum * inverse;
  if (outside) return intact__round_s64((double)steps) + zero;
  if (adaptive) return intact__round_s64((double)((float)(sum + (double)(count * zero)) * inverse));
  return intact__round_s64((double)(steps + (float)zero));
}

static intact_status pool_steps(const intact_call *call, const intact_tensor *x) {
  const intact_dtype dtype = call->operands[0]->dtype;
  intact_twin twin;
  intact_value shape;
  intact_tensor *y;
  intact_pool pool;
  intact__twin_make(&twin, call->node, float_row(call->node), 1);
  intact_call inner = *call;
  inner.node = &twin.node;
  inner.operands = &x;
  INTACT_TRY(intact__call_shapes(&inner, 1, &shape));
  INTACT_TRY(intact__call_result(call, 0, dtype, shape.rank, shape.dims, &y));
  intact__pool_geometry(&twin.node, x, y, &pool);
  const int64_t zero = intact__operand_qparams(call->node, 0)->zero_point[0];
  const bool outside = outside_rounding(call->node, &pool);
  const int64_t in = pool.window.in[0] * pool.window.in[1] * pool.window.in[2];
  const int64_t out = pool.window.out[0] * pool.window.out[1] * pool.window.out[2];
  for (int64_t p = 0; p < pool.planes; p++) {
    for (int64_t o = 0; o < out; o++) {
      const intact_pool_cell c = intact__pool_cell(&pool, o);
      const int64_t count = length_of(&c, 0) * length_of(&c, 1) * length_of(&c, 2);
      const double sum = sum_of(&pool.window, &c, intact__f32(x) + p * in);
      const int64_t code = mean_code(zero, outside, pool.adaptive, sum, count, c.divisor);
      intact__tensor_set_s64(y, p * out + o, intact__clamp_s64(code, intact_dtype_min(dtype), intact_dtype_max(dtype)));
    }
  }
  return INTACT_OK;
}

static intact_status eval_pool(const intact_call *call) {
  intact_tensor *steps;
  INTACT_TRY(intact__steps(call, 0, &steps));
  const intact_status status = pool_steps(call, steps);
  intact_tensor_destroy(steps);
  return status;
}

#define X INTACT_OPERANDS({"x", INTACT_ROLE_ACTIVATION, 0}), INTACT_RESULTS("y")

#define AVG_POOL_ROW(R)                                                                                                     \
  const intact_op intact_op_quantized_avg_pool##R##d = {                                                                    \
      .name = "quantized_avg_pool" #R "d",                                                                                  \
      .doc =                                                                                                                \
          "Mean of each window of quantized x: rne(f32(S) * f32(1 / divisor) + zero point), S the sum of the steps; "       \
          "qnnpack "                                                                                                        \
          "adds the zero point after rounding.",                                                                            \
      .schema = {X, INTACT_ATTRS(INTACT_ENGINE_ATTR, INTACT_INTS_REQUIRED("kernel_size"), INTACT_INTS_ATTR("stride", 0, 0), \
                                 INTACT_INTS_ATTR("padding", R, 0), INTACT_BOOL_ATTR("ceil_mode", 0),                       \
                                 INTACT_BOOL_ATTR("count_include_pad", 1),                                                  \
                                 {.name = "divisor_override", .type = INTACT_ATTR_INT, .nullable = true})},                 \
      .infer = infer_like_x,                                                                                                \
      .eval_f32 = eval_pool,                                                                                                \
      INTACT_QUANTIZED_TRAITS,                                                                                              \
      .aliases = INTACT_ALIASES(INTACT_QUANTIZED("aten::avg_pool" #R "d", NULL)),                                           \
  };
AVG_POOL_ROW(2)
AVG_POOL_ROW(3)

#define ADAPTIVE_AVG_POOL_ROW(R)                                                                                           \
  const intact_op intact_op_quantized_adaptive_avg_pool##R##d = {                                                          \
      .name = "quantized_adaptive_avg_pool" #R "d",                                                                        \
      .doc =                                                                                                               \
          "Mean over output_size even parts of quantized x: rne(f32(sum of q) * f32(1 / n)); qnnpack sums steps and adds " \
          "the "                                                                                                           \
          "zero point after rounding.",                                                                                    \
      .schema = {X, INTACT_ATTRS(INTACT_ENGINE_ATTR, INTACT_INTS_REQUIRED("output_size"))},                                \
      .infer = infer_like_x,                                                                                               \
      .eval_f32 = eval_pool,                                                                                               \
      INTACT_QUANTIZED_TRAITS,                                                                                             \
      .aliases = INTACT_ALIASES(INTACT_QUANTIZED("aten::adaptive_avg_pool" #R "d", NULL),                                  \
                                INTACT_QUANTIZED("aten::_adaptive_avg_pool" #R "d", NULL)),                                \
  };
ADAPTIVE_AVG_POOL_ROW(2)
ADAPTIVE_AVG_POOL_ROW(3)

/* ---- rows that work on the stored integers as numbers ---- */

static intact_status stored_as_f32(const intact_call *call, const intact_op *row, intact_tensor **y) {
  intact_tensor *x;
  INTACT_TRY(intact__as_dtype(call->operands[0], INTACT_F32, &x));
  const intact_tensor *operand = x;
  const intact_status status = intact__eval_as(call, row, 1, &operand, y);
  intact_tensor_destroy(x);
  return status;
}

/* Takes values; code = rne(value) + offset, clamped. */
static intact_status give_stored(const intact_call *call, intact_tensor *values, int64_t offset) {
  const intact_dtype dtype = call->operands[0]->dtype;
  intact_tensor *q = NULL;
  intact_status status = INTACT_OK;
  INTACT_TRY_TO(done, intact__tensor_create_raw(call->context, dtype, values->rank, values->dims, &q));
  for (int64_t i = 0; i < values->count; i++) {
    const int64_t code = intact__round_s64((double)intact__f32(values)[i]) + offset;
    intact__tensor_set_s64(q, i, intact__clamp_s64(code, intact_dtype_min(dtype), intact_dtype_max(dtype)));
  }
  status = intact__give_result(call, 0, dtype, q);
done:
  intact_tensor_destroy(values);
  return status;
}

/* Over the last two axes of four. */
static bool is_global(const intact_node *node) {
  const intact_attr *dim = intact__attr(node, "dim");
  if (dim->n != 2) return false;
  const int64_t a = dim->ints[0] < 0 ? dim->ints[0] + 4 : dim->ints[0],
                b = dim->ints[1] < 0 ? dim->ints[1] + 4 : dim->ints[1];
  return a + b == 5 && a * b == 6;
}

/* qnnpack: over steps, the zero point added after rounding. */
static intact_status eval_mean(const intact_call *call) {
  intact_tensor *sum = NULL;
  const bool qnnpack = is_qnnpack(call->node) && is_global(call->node);
  const int64_t zero = qnnpack ? intact__operand_qparams(call->node, 0)->zero_point[0] : 0;
  INTACT_TRY(stored_as_f32(call, &intact_op_sum, &sum));
  const int64_t n = sum->count > 0 ? call->operands[0]->count / sum->count : 1;
  for (int64_t i = 0; i < sum->count; i++) {
    const float v = intact__f32(sum)[i];
    intact__f32(sum)[i] = qnnpack ? (v - (float)(n * zero)) * (1.0f / (float)n) : v / (float)n;
  }
  return give_stored(call, sum, zero);
}

const intact_op intact_op_quantized_mean = {
    .name = "quantized_mean",
    .doc = "Mean of the stored integers, rounded: rne(f32(sum of q) / n).",
    .schema = {X, INTACT_ATTRS(INTACT_ENGINE_ATTR, {.name = "dim", .type = INTACT_ATTR_INTS, .nullable = true},
                               INTACT_BOOL_ATTR("keepdim", 0))},
    .infer = infer_like_x,
    .eval_f32 = eval_mean,
    INTACT_QUANTIZED_TRAITS,
    .aliases = INTACT_ALIASES(INTACT_QUANTIZED("aten::mean", "dtype="), INTACT_QUANTIZED("aten::mean.dim", "dtype=")),
};

/* ---- bilinear upsampling, in float32 and in this order: results that lie on a half depend on it ---- */

/* Position of element o of an axis between two source elements. */
typedef struct between {
  int64_t first, second;
  float of_first, of_second;
} between;

static between place(const intact_node *node, int axis, int64_t in, int64_t out, int64_t o) {
  const intact_attr *factors = intact__attr(node, "scale_factor");
  const bool corners = intact__attr_int(node, "align_corners") != 0, by_factor = factors->n > 0;
  float ratio = (float)in / (float)out, at;
  if (corners) {
    ratio = out > 1 ? (float)(in - 1) / (float)(out - 1) : 0.0f;
  } else if (by_factor && intact__attr_int(node, "recompute_scale_factor") == 0) {
    ratio = (float)(1.0 / factors->floats[factors->n == 1 ? 0 : axis]);
  }
  at = corners ? ratio * (float)o : ratio * ((float)o + 0.5f) - 0.5f;
  if (!(at > 0.0f)) at = 0.0f;
  between b = {.first = (int64_t)at < in - 1 ? (int64_t)at : in - 1};
  b.second = b.first < in - 1 ? b.first + 1 : b.first;
  b.of_second = at - (float)b.first;
  b.of_first = 1.0f - b.of_second;
  return b;
}

static void interpolate(const intact_node *node, const intact_tensor *x, intact_tensor *y, int64_t zero) {
  const int64_t in_h = x->dims[2], in_w = x->dims[3], out_h = y->dims[2], out_w = y->dims[3];
  for (int64_t i = 0; i < y->count; i++) {
    const between h = place(node, 0, in_h, out_h, i / out_w % out_h), w = place(node, 1, in_w, out_w, i % out_w);
    const int64_t plane = i / (out_h * out_w) * in_h;
    float q[4];
    for (int k = 0; k < 4; k++) {
      const int64_t row = plane + (k < 2 ? h.first : h.second), column = k % 2 == 0 ? w.first : w.second;
      q[k] = (float)intact__tensor_get_s64(x, row * in_w + column);
    }
    const float upper = w.of_first * q[0] + w.of_second * q[1], lower = w.of_first * q[2] + w.of_second * q[3];
    const float v = h.of_first * upper + h.of_second * lower - (float)zero;
    const int64_t code = intact__round_s64((double)(v + (float)zero));
    intact__tensor_set_s64(y, i, intact__clamp_s64(code, intact_dtype_min(x->dtype), intact_dtype_max(x->dtype)));
  }
}

static intact_status eval_bilinear(const intact_call *call) {
  const intact_tensor *x = call->operands[0];
  intact_tensor *steps, *y;
  intact_twin twin;
  intact_value shape;
  intact__twin_make(&twin, call->node, &intact_op_upsample_bilinear2d, 1);
  INTACT_TRY(intact__steps(call, 0, &steps));
  const intact_tensor *operand = steps;
  intact_call inner = *call;
  inner.node = &twin.node;
  inner.operands = &operand;
  const intact_status status = intact__call_shapes(&inner, 1, &shape);
  intact_tensor_destroy(steps);
  INTACT_TRY(status);
  INTACT_TRY(intact__call_result(call, 0, x->dtype, shape.rank, shape.dims, &y));
  interpolate(call->node, x, y, intact__operand_qparams(call->node, 0)->zero_point[0]);
  return INTACT_OK;
}

const intact_op intact_op_quantized_upsample_bilinear2d = {
    .name = "quantized_upsample_bilinear2d",
    .doc = "Linear interpolation of the stored integers on both axes: rne(f32(v - zero point) + zero point).",
    .schema = {X, INTACT_ATTRS(INTACT_INTS_ATTR("size", 0, 0),
                               {.name = "scale_factor", .type = INTACT_ATTR_FLOATS, .nullable = true},
                               INTACT_BOOL_ATTR("recompute_scale_factor", 0), INTACT_BOOL_ATTR("align_corners", 0))},
    .infer = infer_like_x,
    .eval_f32 = eval_bilinear,
    INTACT_QUANTIZED_TRAITS,
    .aliases = INTACT_ALIASES(INTACT_QUANTIZED("aten::upsample_bilinear2d", NULL)),
};
