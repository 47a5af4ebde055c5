/* SPDX-License-Identifier: Apache-2.0 */
/* Float rows as parts of quantized rows: their inference and definition on the steps q - zero_point, which are exact. */
#include <assert.h>
#include <string.h>

#include "ops/quantized/quantized.h"

static const intact_attr *find(const intact_node *node, const intact_attr_spec *spec) {
  for (int i = 0; i < node->op->schema.n_attrs; i++) {
    const intact_attr_spec *own = &node->op->schema.attrs[i];
    if (own->type == spec->type && strcmp(own->name, spec->name) == 0) return &node->attrs[i];
  }
  return NULL;
}

static void take_attrs(intact_twin *twin, const intact_node *node, const intact_op *op) {
  assert(op->schema.n_attrs <= INTACT_TWIN_ATTRS);
  for (int i = 0; i < op->schema.n_attrs; i++) {
    const intact_attr_spec *spec = &op->schema.attrs[i];
    const intact_attr *own = find(node, spec);
    intact_attr *attr = &twin->attrs[i];
    *attr = (intact_attr){.i = spec->i, .f = spec->f, .s = spec->s != NULL ? spec->s : ""};
    if (own != NULL) {
      *attr = *own;
    } else if (spec->type == INTACT_ATTR_INTS && spec->n > 0 && spec->n <= 3) {
      for (int k = 0; k < spec->n; k++) twin->ints[i][k] = spec->i;
      attr->ints = twin->ints[i];
      attr->n = spec->n;
    }
  }
}

void intact__twin_make(intact_twin *twin, const intact_node *node, const intact_op *op, int n) {
  assert(n <= INTACT_TWIN_OPERANDS);
  twin->node = *node;
  twin->node.op = op;
  twin->node.attrs = twin->attrs;
  twin->node.operands = twin->operands;
  twin->node.n_operands = n;
  take_attrs(twin, node, op);
  for (int i = 0; i < n; i++) {
    const intact_value *value = i < node->n_operands ? node->operands[i] : NULL;
    twin->operands[i] = value != NULL ? &twin->values[i] : NULL;
    if (value == NULL) continue;
    twin->values[i] = *value;
    if (value->qparams != NULL) twin->values[i].dtype = INTACT_F32;
    twin->values[i].qparams = NULL;
  }
}

static intact_status check_result_grid(intact_infer *infer) {
  const intact_qparams *q = infer->node->results[0]->qparams;
  if (q == NULL || (q->axis < 0 && q->group == 0 && (q->dtype == INTACT_U8 || q->dtype == INTACT_S8))) return INTACT_OK;
  INTACT_FAIL(infer->context, UNSUPPORTED_TYPE, infer->node->name,
              "%s '%s': result %s is quantized as %s%s; it must be u8 or s8 per tensor", infer->node->op->name, infer->node->name,
              infer->node->results[0]->name, intact_dtype_text(q->dtype), q->axis < 0 ? "" : " per channel");
}

intact_status intact__twin_infer(intact_infer *infer, const intact_op *op, int n) {
  intact_twin twin;
  INTACT_TRY(check_result_grid(infer));
  intact__twin_make(&twin, infer->node, op, n);
  intact_infer inner = {.context = infer->context, .node = &twin.node, .graph = infer->graph};
  return op->infer(&inner);
}

intact_status intact__twin_eval(const intact_call *call, const intact_twin *twin, int n,
                                const intact_tensor *const *operands, intact_tensor **results) {
  const intact_call inner = {.context = call->context,
                             .node = &twin->node,
                             .n_operands = n,
                             .n_results = twin->node.n_results,
                             .operands = operands,
                             .results = results};
  const intact_status status = twin->node.op->eval_f32(&inner);
  for (int i = 0; status != INTACT_OK && i < twin->node.n_results; i++) {
    intact_tensor_destroy(results[i]);
    results[i] = NULL;
  }
  return status;
}

intact_status intact__eval_as(const intact_call *call, const intact_op *op, int n, const intact_tensor *const *operands,
                              intact_tensor **results) {
  intact_twin twin;
  intact__twin_make(&twin, call->node, op, n);
  return intact__twin_eval(call, &twin, n, operands, results);
}

/* ---- steps ---- */

intact_status intact__steps(const intact_call *call, int operand, intact_tensor **steps) {
  intact_qparams qparams = *intact__operand_qparams(call->node, operand);
  float *ones = intact__alloc(call->context, (size_t)qparams.n, sizeof *ones);
  if (ones == NULL) return intact__no_memory(call->context, (size_t)qparams.n * sizeof *ones);
  for (int64_t i = 0; i < qparams.n; i++) ones[i] = 1.0f;
  qparams.scale = ones;
  const intact_status status = intact__dequantize_tensor(call->operands[operand], &qparams, steps);
  intact__free(call->context, ones);
  return status;
}

intact_status intact__infer_quantized(intact_infer *infer, int operand, bool per_tensor) {
  const intact_node *node = infer->node;
  const intact_value *value = node->operands[operand];
  const intact_qparams *q = value->qparams;
  const char *name = intact__operand_spec(node->op, operand)->name;
  if (q == NULL || (q->dtype != INTACT_U8 && q->dtype != INTACT_S8) || q->real_zero_point != NULL)
    INTACT_FAIL(infer->context, TYPE_MISMATCH, node->name,
                "%s '%s': operand %s is %s%s; it must be a quantized tensor of u8 or s8", node->op->name, node->name, name,
                q == NULL ? "plain " : "quantized ", intact_dtype_text(value->dtype));
  if (q->group > 0 || (per_tensor && q->axis >= 0))
    INTACT_FAIL(infer->context, UNSUPPORTED_TYPE, node->name,
                "%s '%s': operand %s is quantized per %s; it must be quantized per tensor%s", node->op->name, node->name,
                name, q->group > 0 ? "group" : "channel", per_tensor ? "" : " or per channel");
  return INTACT_OK;
}

intact_status intact__result_grid(const intact_call *call, const intact_qparams **grid) {
  *grid = call->node->results[0]->qparams;
  if (*grid != NULL) return INTACT_OK;
  INTACT_FAIL(call->context, MISSING_FIELD, call->node->name,
              "%s '%s': the result has no scale and zero point; give output_scale and output_zero_point",
              call->node->op->name, call->node->name);
}

intact_status intact__give_rounded(const intact_call *call, intact_tensor *values, bool inside) {
  const intact_qparams *to = call->node->results[0]->qparams;
  const int64_t zero = to->zero_point[0];
  intact_tensor *q = NULL;
  intact_status status = INTACT_OK;
  INTACT_TRY_TO(done, intact__tensor_create_raw(call->context, to->dtype, values->rank, values->dims, &q));
  for (int64_t i = 0; i < values->count; i++) {
    const float v = intact__f32(values)[i];
    const int64_t code = inside ? intact__round_s64((double)(v + (float)zero)) : intact__round_s64((double)v) + zero;
    intact__tensor_set_s64(q, i, intact__clamp_s64(code, to->quant_min, to->quant_max));
  }
  status = intact__give_result(call, 0, to->dtype, q);
done:
  intact_tensor_destroy(values);
  return status;
}

intact_status intact__infer_qparams(intact_infer *infer, intact_dtype dtype, double scale, int64_t zero_point, int64_t low) {
  const float scale_f32 = (float)scale;
  const int32_t zero = (int32_t)zero_point;
  const intact_qparams qparams = {.scheme = INTACT_PER_TENSOR_AFFINE,
                                  .dtype = dtype,
                                  .quant_min = low,
                                  .quant_max = intact_dtype_max(dtype),
                                  .axis = -1,
                                  .n = 1,
                                  .scale = &scale_f32,
                                  .zero_point = &zero};
  intact_value *result = infer->node->results[0];
  if (infer->graph == NULL || intact__qparams_equal(result->qparams, &qparams)) return INTACT_OK;
  return intact__value_set_qparams(infer->graph, result, &qparams);
}
