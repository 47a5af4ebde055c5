/* SPDX-License-Identifier: Apache-2.0 */
/* Rows softmax and log_softmax. */
#include <math.h>

#include "ops/fast.h"
#include "ops/layer.h"
#include "ops/ops.h"

static intact_status infer_softmax(intact_infer *infer) {
  const intact_value *x = infer->node->operands[0];
  INTACT_TRY(intact__infer_floats(infer));
  int axis;
  if (x->rank >= 0)
    INTACT_TRY(intact__op_axis(infer->context, infer->node, "dim", intact__attr_int(infer->node, "dim"), x->rank, &axis));
  intact__layer_like(infer, 0, 0);
  return INTACT_OK;
}

typedef struct lines {
  int64_t outer, length, inner;
} lines;

static lines lines_of(const intact_node *node, const intact_tensor *x) {
  if (x->rank == 0) return (lines){1, 1, 1};
  int axis = (int)intact__attr_int(node, "dim");
  if (axis < 0) axis += x->rank;
  return (lines){intact__known_product(x->dims, 0, axis), x->dims[axis], intact__known_product(x->dims, axis + 1, x->rank)};
}

/* max and sum of exp(x - max) of one line */
static void reduce_line(const float *x, int64_t length, int64_t step, double *max, double *sum) {
  *max = -INFINITY;
  *sum = 0;
  for (int64_t i = 0; i < length; i++) *max = x[i * step] > *max ? x[i * step] : *max;
  for (int64_t i = 0; i < length; i++) *sum += exp(x[i * step] - *max);
}

static intact_status eval_softmax(const intact_call *call) {
  intact_tensor *y;
  INTACT_TRY(intact__call_begin(call, &y));
  lines l = lines_of(call->node, call->operands[0]);
  bool is_log = call->node->op == &intact_op_log_softmax;
  for (int64_t line = 0; line < l.outer * l.inner && l.length > 0; line++) {
    int64_t start = line / l.inner * l.length * l.inner + line % l.inner;
    const float *from = intact__operand_f32(call, 0) + start;
    float *to = intact__f32(y) + start;
    double max, sum;
    reduce_line(from, l.length, l.inner, &max, &sum);
    double log_sum = log(sum);
    for (int64_t i = 0; i < l.length * l.inner; i += l.inner) {
      to[i] = (float)(is_log ? from[i] - max - log_sum : exp(from[i] - max) / sum);
    }
  }
  return INTACT_OK;
}

/* softmax: dx = y (dy - sum(dy y)); log_softmax: dx = dy - exp(y) sum(dy). */
static intact_status grad_softmax(intact_grad *grad) {
  if (grad->d_results[0] == NULL || !intact__wants(grad, 0)) return INTACT_OK;
  intact_tensor *d;
  INTACT_TRY(intact__grad_operand(grad, 0, &d));
  lines l = lines_of(grad->node, grad->operands[0]);
  bool is_log = grad->node->op == &intact_op_log_softmax;
  for (int64_t line = 0; line < l.outer * l.inner; line++) {
    int64_t start = line / l.inner * l.length * l.inner + line % l.inner, end = l.length * l.inner;
    const float *y = intact__f32(grad->results[0]) + start, *dy = intact__f32(grad->d_results[0]) + start;
    float *dx = intact__f32(d) + start;
    double sum = 0;
    for (int64_t i = 0; i < end; i += l.inner) sum += is_log ? dy[i] : (double)dy[i] * y[i];
    for (int64_t i = 0; i < end; i += l.inner) {
      dx[i] = (float)(is_log ? dy[i] - exp(y[i]) * sum : y[i] * (dy[i] - sum));
    }
  }
  return INTACT_OK;
}

/* onnx fix-up softmax_flatten (before opset 13, axis 1 when absent): the dimensions from axis on count as one; a reshape
   around the node when axis is not the last. */

const intact_op intact_op_softmax = {
    .name = "softmax",
    .doc = "exp(x - max) / sum of the same, along dim.",
    .schema = {INTACT_OPERANDS({"x", INTACT_ROLE_ACTIVATION, 0}), INTACT_RESULTS("y"),
               INTACT_ATTRS(INTACT_INT_ATTR("dim", -1))},
    .infer = infer_softmax,
    .eval_f32 = eval_softmax,
    .eval_fast = INTACT_FAST(intact__softmax_fast),
    .grad = grad_softmax,
    .quant = {.result = INTACT_RESULT_FIXED, .fixed_scale = 1.0f / 256, .fixed_zero_point = 0},
    .int_layout = INTACT_INT_ROWS,
    .aliases = (const intact_alias[]){INTACT_QUANTIZED("quantized::softmax", INTACT_OUTPUT),
                                      {"aten", "aten::softmax", 0, 0, NULL, NULL},
                                      {"aten", "aten::softmax.int", 0, 0, "dtype=", NULL},
                                      {"aten", "aten::_softmax", 0, 0, "half_to_float=", NULL},
                                      {"onnx", "Softmax", 13, 0, "axis=dim", NULL},
                                      {"onnx", "Softmax", 0, 12, "axis=dim", "softmax_flatten"},
                                      {0}},
};

const intact_op intact_op_log_softmax = {
    .name = "log_softmax",
    .doc = "x - max - log(sum of exp(x - max)), along dim.",
    .schema = {INTACT_OPERANDS({"x", INTACT_ROLE_ACTIVATION, 0}), INTACT_RESULTS("y"),
               INTACT_ATTRS(INTACT_INT_ATTR("dim", -1))},
    .infer = infer_softmax,
    .eval_f32 = eval_softmax,
    .grad = grad_softmax,
    .quant = {.result = INTACT_RESULT_OWN},
    .int_layout = INTACT_INT_ROWS,
    .aliases = (const intact_alias[]){{"aten", "aten::log_softmax", 0, 0, NULL, NULL},
                                      {"aten", "aten::log_softmax.int", 0, 0, "dtype=", NULL},
                                      {"aten", "aten::_log_softmax", 0, 0, "half_to_float=", NULL},
                                      {"onnx", "LogSoftmax", 13, 0, "axis=dim", NULL},
                                      {"onnx", "LogSoftmax", 0, 12, "axis=dim", "softmax_flatten"},
                                      {0}},
};
