/* SPDX-License-Identifier: Apache-2.0 */
/* The output stages of PyTorch's quantized engines behind exact integer sums, and dynamic quantization of their input. */
#include <string.h>

#include "kernels/affine/choose_qparams.h"
#include "kernels/affine/statistics.h"
#include "ops/quantized/quantized.h"

/* ---- attributes ---- */

intact_status intact__engine_of(intact_context *context, const intact_node *node, intact_engine *engine) {
  static const char *const texts[] = {
#define XX(name, text) text,
      INTACT_ENGINE_MAP(XX)
#undef XX
  };
  const char *text = intact__attr_string(node, "engine");
  for (int i = 0; i < INTACT_ENGINE_COUNT; i++) {
    if (strcmp(texts[i], text) != 0) continue;
    *engine = (intact_engine)i;
    return INTACT_OK;
  }
  INTACT_FAIL(context, INVALID_VALUE, node->name, "%s '%s': engine is \"%s\"; it must be x86, fbgemm, qnnpack or onednn",
              node->op->name, node->name, text);
}

/* The row of the post-op; NULL: none. */
static intact_status post_op_of(intact_context *context, const intact_node *node, const intact_op **op) {
  static const char *const names[] = {"relu", "leaky_relu", "tanh", "hardtanh", "hardswish", "gelu", "silu"};
  const char *text = intact__attr_string(node, "post_op");
  *op = NULL;
  if (text[0] == 0 || strcmp(text, "none") == 0) return INTACT_OK;
  if (strcmp(text, "swish") == 0) text = "silu";
  for (size_t i = 0; i < sizeof names / sizeof names[0] && *op == NULL; i++)
    if (strcmp(names[i], text) == 0) *op = intact__find_op(text);
  if (*op == NULL)
    INTACT_FAIL(context, INVALID_VALUE, node->name,
                "%s '%s': post_op is \"%s\"; it must be none, relu, leaky_relu, tanh, hardtanh, hardswish, gelu or swish",
                node->op->name, node->name, text);
  return INTACT_OK;
}

static bool same_dims(const intact_value *a, const intact_value *b) {
  for (int i = 0; i < a->rank; i++)
    if (a->dims[i] >= 0 && b->dims[i] >= 0 && a->dims[i] != b->dims[i]) return false;
  return a->rank == b->rank;
}

intact_status intact__infer_output(intact_infer *infer, int other) {
  const intact_node *node = infer->node;
  const intact_qparams *w = intact__operand_qparams(node, 1);
  const intact_op *post_op;
  intact_engine engine;
  char a[160], b[160];
  INTACT_TRY(intact__engine_of(infer->context, node, &engine));
  INTACT_TRY(post_op_of(infer->context, node, &post_op));
  if (engine == INTACT_ENGINE_ONEDNN)
    for (int64_t i = 0; i < w->n; i++)
      if (w->zero_point[i] != 0)
        INTACT_FAIL(infer->context, UNSUPPORTED_TYPE, node->name,
                    "%s '%s': zero point %lld of w is %d; engine onednn takes symmetric weights only", node->op->name,
                    node->name, (long long)i, (int)w->zero_point[i]);
  if (other < 0 || other >= node->n_operands || node->operands[other] == NULL) return INTACT_OK;
  const intact_value *added = node->operands[other], *y = node->results[0];
  if (added->qparams != NULL) {
    INTACT_TRY(intact__infer_quantized(infer, other, true));
  } else {
    INTACT_TRY(intact__infer_float(infer, other));
  }
  if (added->rank < 0 || y->rank < 0 || same_dims(added, y)) return INTACT_OK;
  INTACT_FAIL(infer->context, SIZE_MISMATCH, node->name, "%s '%s': %s is %s, the product is %s; they must be equal",
              node->op->name, node->name, node->op->schema.operands[other].name,
              intact__shape_text(added->rank, added->dims, a), intact__shape_text(y->rank, y->dims, b));
}

/* ---- x ---- */

/* Dynamic quantization: u8 by the range of all of x, rne(fma(x, 1 / scale, zero point)). */
static intact_status quantize_dynamic(const intact_tensor *x, bool reduce_range, intact_codes *codes, intact_tensor **made) {
  intact_min_max range = INTACT_MIN_MAX_START;
  double scale;
  if (x->count > 0) intact__min_max_array(intact__isa_set(x->context), intact__f32(x), x->count, &range);
  if (!(range.low <= range.high)) range.low = range.high = 0;
  intact__choose_qparams(INTACT_CHOOSE_ATEN, range.low, range.high, 0, reduce_range ? 127 : 255, false, &scale,
                         &codes->zero_point);
  codes->scale = (float)scale;
  const float inverse = 1.0f / codes->scale, zero = (float)codes->zero_point;
  INTACT_TRY(intact__tensor_create_raw(x->context, INTACT_U8, x->rank, x->dims, made));
  codes->q = *made;
  for (int64_t i = 0; i < x->count; i++) {
    const float v = fmaf(intact__f32(x)[i], inverse, zero);
    ((uint8_t *)(*made)->data)[i] = (uint8_t)intact__clamp_s64(intact__round_s64((double)v), 0, 255);
  }
  return INTACT_OK;
}

/* qnnpack knows no reduced range. */
static intact_status codes_of_x(const intact_call *call, intact_engine engine, intact_codes *codes, intact_tensor **made) {
  const intact_qparams *qparams = intact__operand_qparams(call->node, 0);
  if (qparams == NULL) {
    const bool reduce_range = intact__attr_int(call->node, "reduce_range") != 0 && engine != INTACT_ENGINE_QNNPACK;
    return quantize_dynamic(call->operands[0], reduce_range, codes, made);
  }
  *codes = (intact_codes){call->operands[0], qparams->scale[0], qparams->zero_point[0]};
  return INTACT_OK;
}

intact_status intact__sums(const intact_call *call, const intact_op *row, const intact_codes *x, const intact_tensor *bias,
                           intact_tensor **sums) {
  const float one = 1;
  const intact_qparams grid = {.dtype = x->q->dtype,
                               .quant_min = intact_dtype_min(x->q->dtype),
                               .quant_max = intact_dtype_max(x->q->dtype),
                               .axis = -1,
                               .n = 1,
                               .scale = &one,
                               .zero_point = &x->zero_point};
  intact_tensor *steps[2] = {NULL, NULL};
  intact_status status = INTACT_OK;
  INTACT_TRY_TO(done, intact__dequantize_tensor(x->q, &grid, &steps[0]));
  INTACT_TRY_TO(done, intact__steps(call, 1, &steps[1]));
  const intact_tensor *operands[3] = {steps[0], steps[1], bias};
  status = intact__eval_as(call, row, 3, operands, sums);
done:
  intact_tensor_destroy(steps[0]);
  intact_tensor_destroy(steps[1]);
  return status;
}

/* ---- output stages ---- */

typedef struct stage {
  const intact_call *call;
  const intact_product *product;
  const intact_op *post_op;
  intact_engine form; /* not X86 */
  intact_codes x;
  const intact_qparams *w;
  const intact_tensor *bias, *other;
  const intact_qparams *y; /* NULL: float result */
  int64_t period, inner;   /* element i of the product is of channel i / inner % period */
} stage;

static float channel_scale(const stage *s, int64_t channel) {
  return s->x.scale * s->w->scale[s->w->n == 1 ? 0 : channel % s->w->n];
}

/* Nothing but a bias and a relu between the sum and the rounding. */
static bool is_plain(const stage *s) {
  return s->other == NULL && (s->post_op == NULL || strcmp(s->post_op->name, "relu") == 0);
}
static bool is_on_x_grid(const stage *s) {
  return s->product->requantize_x && s->y == NULL && is_plain(s);
}
static bool is_real_form(const stage *s) {
  return !is_plain(s) || (!is_on_x_grid(s) && (s->form == INTACT_ENGINE_ONEDNN || s->y == NULL));
}

/* qnnpack's integer bias; added before the sum becomes a float. */
static intact_status integer_bias(const stage *s, intact_tensor **bias) {
  *bias = NULL;
  if (s->bias == NULL) return INTACT_OK;
  INTACT_TRY(intact__tensor_create_raw(s->call->context, INTACT_F32, 1, s->bias->dims, bias));
  for (int64_t c = 0; c < s->bias->count; c++)
    intact__f32(*bias)[c] = nearbyintf(intact__f32(s->bias)[c] / channel_scale(s, c));
  return INTACT_OK;
}

/* acc -> integers of grid y, zero point after the rounding. */
static void to_integers(const stage *s, const intact_tensor *acc, intact_tensor *q) {
  const bool qnnpack = s->form == INTACT_ENGINE_QNNPACK;
  const int32_t zero = s->y->zero_point[0], quant_min = (int32_t)s->y->quant_min;
  const int32_t low = s->post_op != NULL && zero > quant_min ? zero : quant_min;
  const intact_round8 round = intact__round8(s->y->dtype == INTACT_S8, zero, low, (int32_t)s->y->quant_max);
  const float inverse = 1.0f / s->y->scale[0];
  for (int64_t row = 0; row < acc->count / s->inner; row++) {
    const int64_t channel = row % s->period;
    const float aw = channel_scale(s, channel), multiplier = qnnpack ? aw * inverse : aw / s->y->scale[0];
    const float offset = s->bias != NULL && !qnnpack ? intact__f32(s->bias)[channel] / aw : 0.0f;
    const float *from = intact__f32(acc) + row * s->inner;
    uint8_t *to = (uint8_t *)q->data + row * s->inner;
    for (int64_t i = 0; i < s->inner; i++) to[i] = intact__round8_of(&round, (from[i] + offset) * multiplier);
  }
}

static intact_status give_integers(const stage *s, const intact_tensor *acc) {
  intact_tensor *q;
  INTACT_TRY(intact__call_result(s->call, 0, s->y->dtype, acc->rank, acc->dims, &q));
  to_integers(s, acc, q);
  return INTACT_OK;
}

/* acc -> real values in place: f32(f32(acc) * aw) + bias, + other. */
static intact_status to_real(const stage *s, intact_tensor *acc) {
  for (int64_t row = 0; row < acc->count / s->inner; row++) {
    const int64_t channel = row % s->period;
    const float aw = channel_scale(s, channel), bias = s->bias != NULL ? intact__f32(s->bias)[channel] : 0.0f;
    float *t = intact__f32(acc) + row * s->inner;
    for (int64_t i = 0; i < s->inner; i++) t[i] = t[i] * aw + bias;
  }
  if (s->other == NULL) return INTACT_OK;
  intact_tensor *real;
  const intact_qparams *qparams = intact__operand_qparams(s->call->node, s->product->other);
  if (qparams != NULL) {
    INTACT_TRY(intact__dequantize_tensor(s->other, qparams, &real));
  } else {
    INTACT_TRY(intact_tensor_share(s->other, 0, NULL, &real));
  }
  for (int64_t i = 0; i < acc->count; i++) intact__f32(acc)[i] += intact__f32(real)[i];
  intact_tensor_destroy(real);
  return INTACT_OK;
}

/* post_op_args are the row's float attributes in order. */
static intact_status apply_post_op(const stage *s, intact_tensor **t) {
  if (s->post_op == NULL) return INTACT_OK;
  intact_twin twin;
  const intact_attr *args = intact__attr(s->call->node, "post_op_args");
  intact__twin_make(&twin, s->call->node, s->post_op, 1);
  for (int i = 0, next = 0; i < s->post_op->schema.n_attrs; i++) {
    if (s->post_op->schema.attrs[i].type != INTACT_ATTR_FLOAT || next >= args->n) continue;
    twin.attrs[i].f = args->floats[next++];
    twin.attrs[i].present = true;
  }
  intact_tensor *y = NULL;
  const intact_tensor *operand = *t;
  INTACT_TRY(intact__twin_eval(s->call, &twin, 1, &operand, &y));
  intact_tensor_destroy(*t);
  *t = y;
  return INTACT_OK;
}

static intact_status give_real(const stage *s, intact_tensor *t) {
  if (s->y == NULL) return intact__give_result(s->call, 0, INTACT_F32, t);
  const float inverse = 1.0f / s->y->scale[0];
  for (int64_t i = 0; i < t->count; i++) intact__f32(t)[i] *= inverse;
  return intact__give_rounded(s->call, t, true);
}

/* The dynamic convolutions: rounded to the grid of x and back. */
static intact_status give_on_x_grid(const stage *s, const intact_tensor *acc) {
  const intact_qparams grid = {.dtype = INTACT_U8,
                               .quant_min = 0,
                               .quant_max = 255,
                               .axis = -1,
                               .n = 1,
                               .scale = &s->x.scale,
                               .zero_point = &s->x.zero_point};
  intact_tensor *q, *y;
  stage on_grid = *s;
  on_grid.y = &grid;
  INTACT_TRY(intact__tensor_create_raw(s->call->context, INTACT_U8, acc->rank, acc->dims, &q));
  to_integers(&on_grid, acc, q);
  const intact_status status = intact__dequantize_tensor(q, &grid, &y);
  intact_tensor_destroy(q);
  INTACT_TRY(status);
  return intact__give_result(s->call, 0, INTACT_F32, y);
}

static intact_status output(stage *s, intact_tensor **acc) {
  const int axis = s->product->axis < 0 ? (*acc)->rank + s->product->axis : s->product->axis;
  s->period = (*acc)->dims[axis] > 0 ? (*acc)->dims[axis] : 1;
  s->inner = intact__known_product((*acc)->dims, axis + 1, (*acc)->rank);
  if (s->inner == 0) s->inner = 1;
  if (is_on_x_grid(s)) return give_on_x_grid(s, *acc);
  if (!is_real_form(s)) return give_integers(s, *acc);
  INTACT_TRY(to_real(s, *acc));
  INTACT_TRY(apply_post_op(s, acc));
  intact_tensor *t = *acc;
  *acc = NULL;
  return give_real(s, t);
}

intact_status intact__eval_product(const intact_call *call, const intact_product *product) {
  intact_tensor *made = NULL, *bias = NULL, *acc = NULL;
  intact_status status = INTACT_OK;
  stage s = {.call = call,
             .product = product,
             .form = product->engine,
             .w = intact__operand_qparams(call->node, 1),
             .bias = intact__operand(call, 2),
             .other = product->other >= 0 ? intact__operand(call, product->other) : NULL,
             .y = call->node->results[0]->qparams};
  INTACT_TRY_TO(done, post_op_of(call->context, call->node, &s.post_op));
  INTACT_TRY_TO(done, codes_of_x(call, product->engine, &s.x, &made));
  if (product->engine == INTACT_ENGINE_QNNPACK && !is_real_form(&s)) INTACT_TRY_TO(done, integer_bias(&s, &bias));
  INTACT_TRY_TO(done, product->sums(call, product->row, &s.x, bias, &acc));
  status = output(&s, &acc);
done:
  intact_tensor_destroy(made);
  intact_tensor_destroy(bias);
  intact_tensor_destroy(acc);
  return status;
}
