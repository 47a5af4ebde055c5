/* SPDX-License-Identifier: Apache-2.0 */
/* Operators called on quantized tensors: which row runs, and which qparams its results carry. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "ops/quantized/quantized.h"

const intact_op *intact__find_quantized(const char *name, const intact_alias **alias) {
  const intact_op *op = intact__find_alias("quantized", name, 0, alias);
  return op != NULL ? op : intact__find_alias("aten", name, 0, alias);
}

static const intact_attr_spec *find_attr(const intact_op *op, const char *name, size_t length) {
  for (int i = 0; i < op->schema.n_attrs; i++) {
    const intact_attr_spec *spec = &op->schema.attrs[i];
    if (strlen(spec->name) == length && strncmp(spec->name, name, length) == 0) return spec;
  }
  return NULL;
}

intact_status intact__set_alias_constants(intact_node *node, const intact_alias *alias) {
  for (const char *at = alias->attrs != NULL ? alias->attrs : ""; *at != 0;) {
    const size_t length = strcspn(at, ",");
    const char *colon = memchr(at, ':', length), *next = at + length + (at[length] == ',');
    const intact_attr_spec *spec =
        at[0] == '=' && colon != NULL ? find_attr(node->op, at + 1, (size_t)(colon - at - 1)) : NULL;
    char value[40];
    if (spec != NULL) {
      snprintf(value, sizeof value, "%.*s", (int)(at + length - colon - 1), colon + 1);
      if (spec->type == INTACT_ATTR_STRING)
        INTACT_TRY(intact__attr_set_string(node, spec->name, value));
      else
        intact__attr_set_int(node, spec->name, strtoll(value, NULL, 10));
    }
    at = next;
  }
  return INTACT_OK;
}

/* The first operand that is quantized: rows such as where have a plain one before it. */
static const intact_qparams *first_qparams(const intact_node *node) {
  for (int i = 0; i < node->n_operands; i++)
    if (intact__operand_qparams(node, i) != NULL) return node->operands[i]->qparams;
  return NULL;
}

static bool is_real(const intact_value *result, const intact_qparams *of) {
  return result->dtype == INTACT_F32 || result->dtype == of->dtype;
}

static intact_status set(intact_node *node, intact_value *value, intact_dtype dtype, double scale, int64_t zero, bool relu) {
  const float scale_f32 = (float)scale;
  const int32_t zero_s32 = (int32_t)zero;
  const int64_t low = intact_dtype_min(dtype), high = intact_dtype_max(dtype);
  if (!(scale_f32 > 0) || !isfinite(scale_f32) || zero < low || zero > high)
    INTACT_FAIL(
        node->graph->context, OUT_OF_RANGE, node->name,
        "%s '%s': output scale %g, zero point %lld; the scale must be a positive number, the zero point within %lld..%lld",
        node->op->name, node->name, scale, (long long)zero, (long long)low, (long long)high);
  const intact_qparams qparams = {.scheme = INTACT_PER_TENSOR_AFFINE,
                                  .dtype = dtype,
                                  .quant_min = relu ? zero : low,
                                  .quant_max = high,
                                  .axis = -1,
                                  .n = 1,
                                  .scale = &scale_f32,
                                  .zero_point = &zero_s32};
  return intact__value_set_qparams(node->graph, value, &qparams);
}

intact_status intact__set_result_qparams(intact_node *node, const intact_result_qparams *result) {
  const intact_quant_traits *traits = &node->op->quant;
  for (int i = 0; i < node->n_results; i++) node->results[i]->qparams = NULL;
  INTACT_TRY(intact__node_infer(node));
  const intact_qparams *of = first_qparams(node);
  if (of == NULL || node->results[0]->qparams != NULL) return INTACT_OK;
  for (int i = 0; i < node->n_results; i++) {
    intact_value *value = node->results[i];
    if (!is_real(value, of)) continue;
    if (result->given) {
      INTACT_TRY(set(node, value, result->dtype < 0 ? of->dtype : (intact_dtype)result->dtype, result->scale,
                     result->zero_point, result->relu));
    } else if (traits->result == INTACT_RESULT_FIXED) {
      const int64_t zero = traits->fixed_zero_point - (of->dtype == INTACT_S8 ? 128 : 0);
      INTACT_TRY(set(node, value, of->dtype, (double)traits->fixed_scale, zero, false));
    } else if (traits->result != INTACT_RESULT_NONE) {
      if (result->relu)
        INTACT_TRY(set(node, value, of->dtype, (double)of->scale[0], of->zero_point[0], true));
      else
        INTACT_TRY(intact__value_set_qparams(node->graph, value, of));
    }
  }
  return intact__node_infer(node);
}
