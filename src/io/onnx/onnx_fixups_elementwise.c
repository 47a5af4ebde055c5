/* SPDX-License-Identifier: Apache-2.0 */
/* Fix-ups of elementwise operators. */
#include <math.h>
#include <string.h>

#include "io/onnx/onnx_fixups.h"

/* Two operands; the scalar form of our rows is not needed when reading. */
static intact_status scalar_operand(intact_onnx_node *node) {
  return intact__onnx_make(node, node->n_inputs, node->inputs);
}

static intact_status is_inf(intact_onnx_node *node) {
  int64_t negative, positive;
  INTACT_TRY(intact__onnx_attr_int(node, "detect_negative", 1, &negative));
  INTACT_TRY(intact__onnx_attr_int(node, "detect_positive", 1, &positive));
  intact_value *x = intact__onnx_input(node, 0);
  if ((negative && positive) || x == NULL) return intact__onnx_make(node, node->n_inputs, node->inputs);
  intact_value *operands[2] = {x, x};
  if (!negative && !positive) return intact__onnx_make_as(node, "lt", 2, operands); /* x < x is nowhere true */
  INTACT_TRY(intact__onnx_number(node, "infinity", x->dtype, negative ? -(double)INFINITY : (double)INFINITY, &operands[1]));
  return intact__onnx_make_as(node, "eq", 2, operands);
}

static intact_status with_default(intact_onnx_node *node, const char *foreign, const char *ours, double absent) {
  INTACT_TRY(intact__onnx_make(node, node->n_inputs, node->inputs));
  double value;
  INTACT_TRY(intact__onnx_attr_float(node, foreign, absent, &value));
  intact__attr_set_float(node->made, ours, value);
  return INTACT_OK;
}

static intact_status threshold_default(intact_onnx_node *node) {
  return with_default(node, "alpha", "threshold", 1.0);
}
static intact_status shrink_default(intact_onnx_node *node) {
  return with_default(node, "bias", "bias", 0.0);
}
static intact_status hardsigmoid_default(intact_onnx_node *node) {
  return with_default(node, "alpha", "alpha", (double)0.2f);
}

/* Division of integers cuts towards zero. */
static intact_status integer_division(intact_onnx_node *node) {
  INTACT_TRY(intact__onnx_make(node, node->n_inputs, node->inputs));
  if (!intact_dtype_is_integer(node->inputs[0]->dtype) || node->inputs[0]->qparams != NULL) return INTACT_OK;
  return intact__attr_set_string(node->made, "rounding_mode", "trunc");
}

/* fmod = 1 gives the sign of the dividend, 0 that of the divisor. */
static intact_status mod_kind(intact_onnx_node *node) {
  int64_t fmod_kind;
  INTACT_TRY(intact__onnx_attr_int(node, "fmod", 0, &fmod_kind));
  return intact__onnx_make_as(node, fmod_kind ? "fmod" : "remainder", node->n_inputs, node->inputs);
}

/* Any number of operands as a chain of nodes with two. */
static intact_status fold_operands(intact_onnx_node *node) {
  if (node->n_inputs == 1) return intact__onnx_make_as(node, "identity", 1, node->inputs);
  intact_value *pair[2] = {intact__onnx_input(node, 0), NULL};
  for (int i = 1; i < node->n_inputs - 1; i++) {
    intact_node *link = NULL;
    pair[1] = node->inputs[i];
    INTACT_TRY(intact__onnx_add(node, node->row->name, "part", 2, pair, &link));
    INTACT_TRY(intact__node_infer(link));
    pair[0] = link->results[0];
  }
  pair[1] = intact__onnx_input(node, node->n_inputs - 1);
  return intact__onnx_make(node, 2, pair);
}

/* The result has the type of the base, whatever the exponent's is. */
static intact_status typed_exponent(intact_onnx_node *node) {
  const intact_value *base = intact__onnx_input(node, 0), *exponent = intact__onnx_input(node, 1);
  bool same = base == NULL || exponent == NULL || base->dtype == exponent->dtype || base->qparams != NULL ||
              exponent->qparams != NULL || base->dtype == INTACT_F64;
  bool wide = same || (intact_dtype_is_float(base->dtype) && !intact_dtype_is_float(exponent->dtype));
  if (wide) return intact__onnx_make(node, node->n_inputs, node->inputs);
  intact_node *power = NULL;
  INTACT_TRY(intact__onnx_add(node, "pow", "power", node->n_inputs, node->inputs, &power));
  INTACT_TRY(intact__node_infer(power));
  INTACT_TRY(intact__onnx_make_as(node, "cast", 1, power->results));
  intact__attr_set_int(node->made, "dtype", base->dtype);
  return INTACT_OK;
}

/* ---- Clip ---- */
/* A bound: absent, a number, or a value to compare with. */
static intact_status read_bound(intact_onnx_node *node, int input, const char *attribute, bool *is_number, double *number,
                                intact_value **value) {
  *value = intact__onnx_input(node, input);
  *is_number = intact__onnx_known_float(*value, number);
  if (*value == NULL && intact__onnx_attribute(node, attribute) != NULL) {
    INTACT_TRY(intact__onnx_attr_float(node, attribute, 0, number));
    *is_number = true;
  }
  if (*is_number) *value = NULL;
  return INTACT_OK;
}

static intact_status clip_bounds(intact_onnx_node *node) {
  double low = 0, high = 0;
  bool has_low, has_high;
  intact_value *low_value, *high_value, *x = intact__onnx_input(node, 0);
  INTACT_TRY(read_bound(node, 1, "min", &has_low, &low, &low_value));
  INTACT_TRY(read_bound(node, 2, "max", &has_high, &high, &high_value));
  if (low_value == NULL && high_value == NULL) {
    INTACT_TRY(intact__onnx_make(node, 1, &x));
    if (has_low) intact__attr_set_float(node->made, "min", low);
    if (has_high) intact__attr_set_float(node->made, "max", high);
    return INTACT_OK;
  }
  if (x == NULL) return intact__onnx_make(node, 0, NULL); /* refused there */
  if (has_low) INTACT_TRY(intact__onnx_number(node, "min", x->dtype, low, &low_value));
  if (has_high) INTACT_TRY(intact__onnx_number(node, "max", x->dtype, high, &high_value));
  intact_value *pair[2] = {x, low_value};
  if (low_value == NULL || high_value == NULL) {
    pair[1] = low_value != NULL ? low_value : high_value;
    return intact__onnx_make_as(node, low_value != NULL ? "maximum" : "minimum", 2, pair);
  }
  intact_node *raised = NULL;
  INTACT_TRY(intact__onnx_add(node, "maximum", "raised", 2, pair, &raised));
  INTACT_TRY(intact__node_infer(raised));
  intact_value *second[2] = {raised->results[0], high_value};
  return intact__onnx_make_as(node, "minimum", 2, second);
}

static intact_status shift_direction(intact_onnx_node *node) {
  const char *direction = NULL;
  INTACT_TRY(intact__onnx_attr_string(node, "direction", "", &direction));
  bool right = strcmp(direction, "RIGHT") == 0;
  if (!right && strcmp(direction, "LEFT") != 0) {
    INTACT_FAIL(node->context, INVALID_VALUE, node->name,
                "cannot read node '%s' (%s): direction is '%s'; it must be LEFT or RIGHT", node->name, node->op, direction);
  }
  return intact__onnx_make_as(node, right ? "bitwise_right_shift" : "bitwise_left_shift", node->n_inputs, node->inputs);
}

const intact_onnx_fixup intact__onnx_fixups_elementwise[] = {
    INTACT_ONNX_FIXUP(clip_bounds),
    INTACT_ONNX_FIXUP(fold_operands),
    INTACT_ONNX_FIXUP(hardsigmoid_default),
    INTACT_ONNX_FIXUP(integer_division),
    INTACT_ONNX_FIXUP(is_inf),
    INTACT_ONNX_FIXUP(mod_kind),
    INTACT_ONNX_FIXUP(scalar_operand),
    INTACT_ONNX_FIXUP(shift_direction),
    INTACT_ONNX_FIXUP(shrink_default),
    INTACT_ONNX_FIXUP(threshold_default),
    INTACT_ONNX_FIXUP(typed_exponent),
    INTACT_ONNX_FIXUPS_END,
};
