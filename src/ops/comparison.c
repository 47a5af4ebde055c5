/* SPDX-License-Identifier: Apache-2.0 */
/* Rows of comparisons, logic and bits on two broadcast operands; the second may be the scalar attribute `other` instead. */
#include "ops/elementwise.h"

#define TRUTH_ROW(op, text, ...)                                                                                    \
  const intact_op intact_op_##op = {                                                                                \
      .name = #op,                                                                                                  \
      .doc = text,                                                                                                  \
      .schema = {INTACT_OPERANDS({"a", INTACT_ROLE_ACTIVATION, 0}, {"b", INTACT_ROLE_ACTIVATION, INTACT_OPTIONAL}), \
                 INTACT_RESULTS("y"), INTACT_ATTRS(INTACT_A_FLOAT_OR_NONE("other"))},                               \
      .infer = op##_infer,                                                                                          \
      .eval_f32 = op##_eval,                                                                                        \
      .grad = intact__grad_none,                                                                                    \
      .quant = {.result = INTACT_RESULT_NONE, .no_quantize = true},                                                 \
      .int_layout = INTACT_INT_ANY,                                                                                 \
      .aliases = INTACT_ALIASES(__VA_ARGS__),                                                                       \
  };

#define COMPARISON(op, text, formula, ...)                                       \
  INTACT_BOOL_LOOPS(2, op, formula)                                              \
  INTACT_INT_BOOL_LOOP(2, op, formula)                                           \
  INTACT_ELEMENTWISE(op, 2, .s64 = op##_s64, .to_bool = true, .scalar = "other") \
  TRUTH_ROW(op, text, __VA_ARGS__)

#define FOREIGN(onnx, openvino) \
  INTACT_ONNX_AS(onnx, "", "scalar_operand"), INTACT_OPENVINO_AS(openvino, "auto_broadcast=", "scalar_operand")

COMPARISON(eq, "y = whether a equals b.", v == w, INTACT_ATEN("eq"), INTACT_ATEN("eq.Tensor"), INTACT_ATEN("eq.Scalar"),
           FOREIGN("Equal", "Equal"))
COMPARISON(ne, "y = whether a differs from b.", v != w, INTACT_ATEN("ne"), INTACT_ATEN("ne.Tensor"),
           INTACT_ATEN("ne.Scalar"), INTACT_OPENVINO_AS("NotEqual", "auto_broadcast=", "scalar_operand"))
COMPARISON(lt, "y = whether a < b.", v < w, INTACT_ATEN("lt"), INTACT_ATEN("lt.Tensor"), INTACT_ATEN("lt.Scalar"),
           FOREIGN("Less", "Less"))
COMPARISON(le, "y = whether a <= b.", v <= w, INTACT_ATEN("le"), INTACT_ATEN("le.Tensor"), INTACT_ATEN("le.Scalar"),
           FOREIGN("LessOrEqual", "LessEqual"))
COMPARISON(gt, "y = whether a > b.", v > w, INTACT_ATEN("gt"), INTACT_ATEN("gt.Tensor"), INTACT_ATEN("gt.Scalar"),
           FOREIGN("Greater", "Greater"))
COMPARISON(ge, "y = whether a >= b.", v >= w, INTACT_ATEN("ge"), INTACT_ATEN("ge.Tensor"), INTACT_ATEN("ge.Scalar"),
           FOREIGN("GreaterOrEqual", "GreaterEqual"))
COMPARISON(logical_and, "y = a and b.", v != 0 && w != 0, INTACT_ATEN("logical_and"), FOREIGN("And", "LogicalAnd"))
COMPARISON(logical_or, "y = a or b.", v != 0 || w != 0, INTACT_ATEN("logical_or"), FOREIGN("Or", "LogicalOr"))
COMPARISON(logical_xor, "y = whether exactly one of a, b is true.", (v != 0) != (w != 0), INTACT_ATEN("logical_xor"),
           FOREIGN("Xor", "LogicalXor"))

/* ---- bits: integers and bool only ---- */

static intact_status check_integers(intact_infer *infer) {
  for (int i = 0; i < infer->node->n_operands; i++) {
    const intact_value *value = infer->node->operands[i];
    if (value == NULL || !intact_dtype_is_float(value->dtype)) continue;
    INTACT_FAIL(infer->context, TYPE_MISMATCH, infer->node->name,
                "%s '%s': operand %d is %s; bit operations take integers or bool", infer->node->op->name, infer->node->name,
                i, intact_dtype_text(value->dtype));
  }
  return INTACT_OK;
}

#define BITS(op, arity, formula, ...)                                                    \
  INTACT_INT_LOOP(arity, op, formula)                                                    \
  static const intact_elementwise op##_def = {.s64 = op##_s64, .n = arity, __VA_ARGS__}; \
  static intact_status op##_infer(intact_infer *infer) {                                 \
    INTACT_TRY(check_integers(infer));                                                   \
    return intact__elementwise_infer(infer, &op##_def);                                  \
  }                                                                                      \
  static intact_status op##_eval(const intact_call *call) {                              \
    return intact__elementwise_eval(call, &op##_def);                                    \
  }

/* Shifts by 64 and more, or by less than 0, give 0. */
#define SHIFT(a, direction, n) ((n) < 0 || (n) > 63 ? 0 : (T)((uint64_t)(a)direction(n)))

BITS(bitwise_and, 2, v &w, .scalar = "other")
BITS(bitwise_or, 2, v | w, .scalar = "other")
BITS(bitwise_xor, 2, v ^ w, .scalar = "other")
BITS(bitwise_left_shift, 2, SHIFT(v, <<, w), .scalar = "other")
BITS(bitwise_right_shift, 2, v < 0 ? ~SHIFT(~v, >>, w) : SHIFT(v, >>, w), .scalar = "other")
TRUTH_ROW(bitwise_and, "y = the bits that are in both a and b.", INTACT_ATEN("bitwise_and"),
          INTACT_ATEN("bitwise_and.Tensor"), INTACT_ATEN("bitwise_and.Scalar"), INTACT_ATEN("__and__"),
          INTACT_ATEN("__and__.Tensor"), INTACT_ONNX_AS("BitwiseAnd", "", "scalar_operand"))
TRUTH_ROW(bitwise_or, "y = the bits that are in a or b.", INTACT_ATEN("bitwise_or"), INTACT_ATEN("bitwise_or.Tensor"),
          INTACT_ATEN("bitwise_or.Scalar"), INTACT_ATEN("__or__"), INTACT_ATEN("__or__.Tensor"),
          INTACT_ONNX_AS("BitwiseOr", "", "scalar_operand"))
TRUTH_ROW(bitwise_xor, "y = the bits that are in one of a and b.", INTACT_ATEN("bitwise_xor"),
          INTACT_ATEN("bitwise_xor.Tensor"), INTACT_ATEN("bitwise_xor.Scalar"),
          INTACT_ONNX_AS("BitwiseXor", "", "scalar_operand"))
TRUTH_ROW(bitwise_left_shift, "y = a with its bits moved up by b.", INTACT_ATEN("bitwise_left_shift"),
          INTACT_ATEN("bitwise_left_shift.Tensor"), INTACT_ATEN("__lshift__"),
          /* shift_direction: RIGHT makes it the row bitwise_right_shift */
          INTACT_ONNX_AS("BitShift", "direction=", "shift_direction"))
TRUTH_ROW(bitwise_right_shift, "y = a with its bits moved down by b.", INTACT_ATEN("bitwise_right_shift"),
          INTACT_ATEN("bitwise_right_shift.Tensor"), INTACT_ATEN("__rshift__"))

BITS(bitwise_not, 1, ~v, .scalar = NULL)
static intact_status bitwise_not_of(const intact_call *call) {
  if (call->operands[0]->dtype != INTACT_BOOL) return bitwise_not_eval(call);
  const intact_tensor *x = call->operands[0];
  intact_tensor *y = NULL;
  INTACT_TRY(intact__call_result(call, 0, INTACT_BOOL, x->rank, x->dims, &y));
  for (int64_t i = 0; i < x->count; i++) ((uint8_t *)y->data)[i] = ((const uint8_t *)x->data)[i] == 0;
  return INTACT_OK;
}
const intact_op intact_op_bitwise_not = {
    .name = "bitwise_not",
    .doc = "y = all bits of x inverted; not x for bool.",
    .schema = {INTACT_X},
    .infer = bitwise_not_infer,
    .eval_f32 = bitwise_not_of,
    .grad = intact__grad_none,
    .quant = {.result = INTACT_RESULT_NONE, .no_quantize = true},
    .int_layout = INTACT_INT_ANY,
    .aliases = INTACT_ALIASES(INTACT_ATEN("bitwise_not"), INTACT_ONNX("BitwiseNot")),
};

/* ---- equal: one answer for two tensors ---- */

static intact_status equal_infer(intact_infer *infer) {
  return intact__infer_result(infer, 0, INTACT_BOOL, 0, NULL);
}

static bool all_equal(const intact_tensor *a, const intact_tensor *b) {
  if (!intact__shape_equal(a->rank, a->dims, b->rank, b->dims)) return false;
  const bool whole = intact_dtype_is_integer(a->dtype) && intact_dtype_is_integer(b->dtype);
  for (int64_t i = 0; i < a->count; i++) {
    if (whole ? intact__tensor_get_s64(a, i) != intact__tensor_get_s64(b, i)
              : intact__tensor_get_f64(a, i) != intact__tensor_get_f64(b, i))
      return false;
  }
  return true;
}

static intact_status equal_eval(const intact_call *call) {
  const intact_node *node = call->node;
  const bool values = node->n_operands > 1 && node->operands[0] != NULL && node->operands[1] != NULL;
  const bool alike = !values || intact__qparams_equal(node->operands[0]->qparams, node->operands[1]->qparams);
  intact_tensor *y = NULL;
  INTACT_TRY(intact__call_result(call, 0, INTACT_BOOL, 0, NULL, &y));
  *(uint8_t *)y->data = alike && all_equal(call->operands[0], call->operands[1]);
  return INTACT_OK;
}

const intact_op intact_op_equal = {
    .name = "equal",
    .doc = "Whether a and b have the same shape and elements, and the same qparams.",
    .schema = {INTACT_OPERANDS({"a", INTACT_ROLE_NONE, 0}, {"b", INTACT_ROLE_NONE, 0}), INTACT_RESULTS("y")},
    .infer = equal_infer,
    .eval_f32 = equal_eval,
    .grad = intact__grad_none,
    .quant = {.result = INTACT_RESULT_NONE, .no_quantize = true},
    .int_layout = INTACT_INT_ROWS,
    .on_integers = true,
    .aliases = INTACT_ALIASES(INTACT_ATEN("equal")),
};
