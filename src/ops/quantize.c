/* SPDX-License-Identifier: Apache-2.0 */
/* Quantize, dequantize and requantize by the qparams that values carry; observe. */
#include <math.h>
#include <string.h>

#include "graph/fake_quantizer.h"
#include "ops/common.h"
#include "ops/lower.h"

static void like_operand(const intact_node *node, intact_dtype dtype) {
  const intact_value *x = node->operands[0];
  intact_value *y = node->results[0];
  y->dtype = dtype;
  y->rank = x->rank;
  for (int i = 0; i < x->rank; i++) y->dims[i] = x->dims[i];
}

/* Attribute `rule`: true for "divide" (x / scale, ONNX), false for "reciprocal" (x * (1 / scale), PyTorch). */
static intact_status read_rule(intact_context *context, const intact_node *node, bool *divide) {
  const char *rule = intact__attr_string(node, "rule");
  *divide = strcmp(rule, "divide") == 0;
  if (!*divide && strcmp(rule, "reciprocal") != 0)
    INTACT_FAIL(context, INVALID_VALUE, node->name, "node %s (%s): rule '%s' is neither \"reciprocal\" nor \"divide\"", node->name,
                node->op->name, rule);
  return INTACT_OK;
}

/* ---- quantize ---- */

static intact_status infer_quantize(intact_infer *infer) {
  const intact_node *node = infer->node;
  bool divide;
  if (!node->results[0]->qparams)
    INTACT_FAIL(infer->context, WRONG_USE, node->name, "node %s (quantize): its result %s carries no qparams; set them first",
                node->name, node->results[0]->name);
  if (node->operands[0]->qparams || !intact_dtype_is_float(node->operands[0]->dtype))
    INTACT_FAIL(infer->context, TYPE_MISMATCH, node->name, "node %s (quantize): operand %s is %s%s; floating-point values are needed",
                node->name, node->operands[0]->name, node->operands[0]->qparams ? "quantized " : "",
                intact_dtype_text(node->operands[0]->dtype));
  INTACT_TRY(read_rule(infer->context, node, &divide));
  like_operand(node, node->results[0]->qparams->dtype);
  return INTACT_OK;
}

static intact_status eval_quantize(const intact_call *call) {
  bool divide;
  intact_tensor *q;
  INTACT_TRY(read_rule(call->context, call->node, &divide));
  INTACT_TRY(intact__quantize_tensor_by(call->operands[0], call->node->results[0]->qparams, divide, &q));
  return intact__give_result(call, 0, q->dtype, q);
}

const intact_op intact_op_quantize = {
    .name = "quantize",
    .doc = "q = clamp(rne(x * (1/scale)) + zero_point), with the qparams that the result carries; rule \"divide\": rne(x / scale).",
    .schema = {INTACT_OPERANDS({"x", INTACT_ROLE_ACTIVATION, 0}), INTACT_RESULTS("q"),
               INTACT_ATTRS({.name = "rule", .type = INTACT_ATTR_STRING, .s = "reciprocal"})},
    .infer = infer_quantize,
    .eval_f32 = eval_quantize,
    .grad = intact__grad_straight_through,
    .quant = {.result = INTACT_RESULT_OWN, .no_quantize = true},
    .int_layout = INTACT_INT_ANY,
    .check_int = intact__check_quantize,
    .lower_int = intact__lower_quantize,
    .on_integers = true,
    .aliases = (const intact_alias[]){{"onnx", "QuantizeLinear", 10, 0, "", "quantize_linear"}, {0}},
};

/* ---- dequantize ---- */

static intact_status infer_dequantize(intact_infer *infer) {
  const intact_node *node = infer->node;
  if (!node->operands[0]->qparams)
    INTACT_FAIL(infer->context, WRONG_USE, node->name, "node %s (dequantize): operand %s carries no qparams", node->name,
                node->operands[0]->name);
  like_operand(node, INTACT_F32);
  return INTACT_OK;
}

static intact_status eval_dequantize(const intact_call *call) {
  intact_tensor *x;
  INTACT_TRY(intact__dequantize_tensor(call->operands[0], call->node->operands[0]->qparams, &x));
  return intact__give_result(call, 0, INTACT_F32, x);
}

const intact_op intact_op_dequantize = {
    .name = "dequantize",
    .doc = "x = scale * (q - zero_point), with the qparams that the operand carries.",
    .schema = {INTACT_OPERANDS({"q", INTACT_ROLE_ACTIVATION, 0}), INTACT_RESULTS("x")},
    .infer = infer_dequantize,
    .eval_f32 = eval_dequantize,
    .grad = intact__grad_straight_through,
    .quant = {.result = INTACT_RESULT_NONE, .no_quantize = true},
    .int_layout = INTACT_INT_ANY,
    .check_int = intact__check_dequantize,
    .lower_int = intact__lower_dequantize,
    .on_integers = true,
    .aliases = (const intact_alias[]){{"quantized", "aten::dequantize", 0, 0, NULL, NULL},
                                      {"onnx", "DequantizeLinear", 10, 0, "", "dequantize_linear"}, {0}},
};

/* ---- requantize ---- */

static intact_status infer_requantize(intact_infer *infer) {
  const intact_node *node = infer->node;
  bool divide;
  if (!node->operands[0]->qparams || !node->results[0]->qparams)
    INTACT_FAIL(infer->context, WRONG_USE, node->name, "node %s (requantize): operand %s and result %s must both carry qparams",
                node->name, node->operands[0]->name, node->results[0]->name);
  INTACT_TRY(read_rule(infer->context, node, &divide));
  like_operand(node, node->results[0]->qparams->dtype);
  return INTACT_OK;
}

static intact_status eval_requantize(const intact_call *call) {
  bool divide;
  intact_tensor *x, *q;
  INTACT_TRY(read_rule(call->context, call->node, &divide));
  INTACT_TRY(intact__dequantize_tensor(call->operands[0], call->node->operands[0]->qparams, &x));
  intact_status status = intact__quantize_tensor_by(x, call->node->results[0]->qparams, divide, &q);
  intact_tensor_destroy(x);
  INTACT_TRY(status);
  return intact__give_result(call, 0, q->dtype, q);
}

const intact_op intact_op_requantize = {
    .name = "requantize",
    .doc = "quantize(dequantize(q)): the same real values with other qparams, those that the result carries.",
    .schema = {INTACT_OPERANDS({"q", INTACT_ROLE_ACTIVATION, 0}), INTACT_RESULTS("y"),
               INTACT_ATTRS({.name = "rule", .type = INTACT_ATTR_STRING, .s = "reciprocal"})},
    .infer = infer_requantize,
    .eval_f32 = eval_requantize,
    .grad = intact__grad_straight_through,
    .quant = {.result = INTACT_RESULT_OWN, .no_quantize = true},
    .int_layout = INTACT_INT_ANY,
    .check_int = intact__check_unary,
    .lower_int = intact__lower_unary,
    .on_integers = true,
};

/* ---- observe ---- */

static intact_status infer_observe(intact_infer *infer) {
  like_operand(infer->node, infer->node->operands[0]->dtype);
  return INTACT_OK;
}

static intact_status eval_observe(const intact_call *call) {
  return intact__call_reshape(call, call->operands[0]->rank, call->operands[0]->dims);
}

const intact_op intact_op_observe = {
    .name = "observe",
    .doc = "y = x; the node's observation takes statistics of x while the graph is calibrated.",
    .schema = {INTACT_OPERANDS({"x", INTACT_ROLE_ACTIVATION, 0}), INTACT_RESULTS("y")},
    .infer = infer_observe,
    .eval_f32 = eval_observe,
    .grad = intact__grad_straight_through,
    .quant = {.result = INTACT_RESULT_SAME_AS, .no_quantize = true},
    .int_layout = INTACT_INT_ANY,
};

/* ---- fake_quantize ---- */

static intact_status check_fake(intact_context *context, const intact_node *node) {
  if (!node->observation || !node->observation->fake)
    INTACT_FAIL(context, WRONG_USE, node->name, "node %s (fake_quantize) has no fake quantizer; prepare the graph for training first",
                node->name);
  return INTACT_OK;
}

static bool is_clamped(const intact_node *node) {
  return intact__attr_float(node, "low") > (double)-INFINITY || intact__attr_float(node, "high") < (double)INFINITY;
}

/* Statistics were taken before, when the graph is run with observing; those of a clamped x are taken here. */
static intact_status eval_fake(const intact_call *call) {
  const intact_node *node = call->node;
  intact_tensor *y;
  INTACT_TRY(check_fake(call->context, node));
  if (is_clamped(node)) {
    INTACT_TRY(intact__fake_quantizer_forward_clamped(node->observation, call->operands[0], (float)intact__attr_float(node, "low"),
                                                      (float)intact__attr_float(node, "high"), intact__attr_int(node, "observe_clamped"), &y));
    return intact__give_result(call, 0, INTACT_F32, y);
  }
  INTACT_TRY(intact__fake_quantizer_forward(call->node->observation, call->operands[0], false, &y));
  return intact__give_result(call, 0, y->dtype, y);
}

static intact_status grad_fake(intact_grad *grad) {
  const intact_node *node = grad->node;
  if (!grad->d_results[0]) return INTACT_OK;
  intact_tensor *d[3] = {NULL, NULL, NULL};
  INTACT_TRY(check_fake(grad->context, node));
  const bool over = grad->may_overwrite && intact__tensor_is_sole(grad->d_results[0]);
  if (is_clamped(node))
    INTACT_TRY(intact__fake_quantizer_backward_clamped(node->observation, grad->operands[0], grad->d_results[0],
                                                       (float)intact__attr_float(node, "low"), (float)intact__attr_float(node, "high"), over,
                                                       &d[0], &d[1], &d[2]));
  else
    INTACT_TRY(intact__fake_quantizer_backward(node->observation, grad->operands[0], grad->d_results[0], over, &d[0], &d[1], &d[2]));
  intact_status status = INTACT_OK;
  for (int i = 0; i < 3; i++) {
    const intact_status given = intact__grad_give(grad, i, d[i]);
    if (status == INTACT_OK) status = given;
  }
  return status;
}

const intact_op intact_op_fake_quantize = {
    .name = "fake_quantize",
    .doc = "y = dequantize(quantize(min(max(x, low), high))) with qparams that the node's observation observes (here, with observe), learns or keeps; scale "
           "and zero_point: trained constants that it shares.",
    .schema = {INTACT_OPERANDS({"x", INTACT_ROLE_ACTIVATION, 0}, {"scale", INTACT_ROLE_NONE, INTACT_OPTIONAL},
                               {"zero_point", INTACT_ROLE_NONE, INTACT_OPTIONAL}),
               INTACT_RESULTS("y"),
               INTACT_ATTRS({.name = "observe", .type = INTACT_ATTR_BOOL, .i = 1},
                            {.name = "low", .type = INTACT_ATTR_FLOAT, .f = -INFINITY},
                            {.name = "high", .type = INTACT_ATTR_FLOAT, .f = INFINITY},
                            {.name = "observe_clamped", .type = INTACT_ATTR_BOOL})},
    .infer = infer_observe,
    .eval_f32 = eval_fake,
    .grad = grad_fake,
    .quant = {.result = INTACT_RESULT_SAME_AS, .no_quantize = true},
    .int_layout = INTACT_INT_ANY,
};
