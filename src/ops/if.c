/* SPDX-License-Identifier: Apache-2.0 */
/* The row of the conditional: one of two bodies runs. */
#include "ops/control.h"

static intact_status if_infer(intact_infer *infer) {
  intact_node *node = infer->node;
  const intact_value *condition = node->operands[0];
  bool changed = false;
  INTACT_TRY(intact__check_bodies(infer->context, node, 2, node->n_operands - 1, node->n_results));
  if (condition->dtype != INTACT_BOOL) {
    INTACT_FAIL(infer->context, TYPE_MISMATCH, node->name, "if '%s': the condition is %s; bool is needed", node->name,
                intact_dtype_text(condition->dtype));
  }
  for (int b = 0; b < 2; b++) {
    for (int k = 1; k < node->n_operands; k++) {
      if (node->operands[k] != NULL) intact__body_input_like(node->bodies[b], k - 1, node->operands[k]);
    }
    INTACT_TRY(intact__graph_infer(node->bodies[b]));
  }
  for (int i = 0; i < node->n_results; i++) {
    const intact_value *value = node->bodies[0]->outputs[i];
    INTACT_TRY(intact__infer_result(infer, i, value->dtype, value->rank, value->dims));
    INTACT_TRY(intact__join_type(infer, node->results[i], node->bodies[1]->outputs[i], &changed));
  }
  return INTACT_OK;
}

static intact_status if_eval(const intact_call *call) {
  const intact_tensor *condition = call->operands[0];
  if (condition->count != 1) {
    INTACT_FAIL(call->context, SIZE_MISMATCH, call->node->name, "if '%s': the condition has %lld elements; it must have one",
                call->node->name, (long long)condition->count);
  }
  int body = intact__tensor_get_s64(condition, 0) != 0 ? 0 : 1;
  return intact__call_body(call, body, call->operands + 1, call->results);
}

const intact_op intact_op_if = {
    .name = "if",
    .doc = "Body 0 when the condition is true, body 1 when it is not; the operands behind it are the inputs of both.",
    .schema = {INTACT_OPERANDS({"condition", INTACT_ROLE_NONE, 0}, {"inputs", INTACT_ROLE_NONE, INTACT_VARIADIC}),
               .n_results = -1},
    .infer = if_infer,
    .eval_f32 = if_eval,
    .grad = intact__control_grad,
    .quant = {.result = INTACT_RESULT_NONE, .no_quantize = true},
    /* if_bodies: then_branch is body 0, else_branch body 1; outer values that either reads are further operands */
    .aliases = INTACT_ALIASES(INTACT_ONNX_AS("If", "then_branch=,else_branch=", "if_bodies"),
                              {.format = "aten", .name = "higher_order::cond", .attrs = "", .fixup = "cond_bodies"}),
};
