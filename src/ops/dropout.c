/* SPDX-License-Identifier: Apache-2.0 */
/* Row of dropout. A row draws no random numbers: training gives the mask. */
#include "ops/layer.h"

static double probability(const intact_node *node) {
  return intact__attr_int(node, "training") != 0 ? intact__attr_float(node, "p") : 0;
}

static intact_status infer_dropout(intact_infer *infer) {
  const intact_node *node = infer->node;
  const intact_value *x = node->operands[0], *mask = intact__infer_operand(infer, 1);
  const double p = intact__attr_float(node, "p"), used = probability(node);
  char a[160], b[160];
  INTACT_TRY(intact__infer_float(infer, 0));
  if (!(p >= 0 && p <= 1))
    INTACT_FAIL(infer->context, OUT_OF_RANGE, node->name, "dropout '%s': p is %g; it must lie in 0..1", node->name, p);
  if (mask == NULL && used > 0 && used < 1)
    INTACT_FAIL(infer->context, WRONG_USE, node->name,
                "dropout '%s': training with p = %g needs operand mask, 1 where an element is kept; set training to false "
                "to run the "
                "trained network",
                node->name, used);
  if (mask != NULL && mask->rank >= 0 && x->rank >= 0) {
    bool fits = mask->rank == x->rank;
    int64_t agreed;
    for (int d = 0; fits && d < x->rank; d++) fits = intact__dims_agree(mask->dims[d], x->dims[d], &agreed);
    if (!fits)
      INTACT_FAIL(infer->context, SIZE_MISMATCH, node->name, "dropout '%s': mask is %s, x is %s; they must be equal",
                  node->name, intact__shape_text(mask->rank, mask->dims, a), intact__shape_text(x->rank, x->dims, b));
  }
  return intact__infer_like_first(infer);
}

/* y = x * f32(mask / (1 - p)), in both directions. */
static void scale(const intact_node *node, const intact_tensor *mask, const float *x, float *y, int64_t n) {
  const double p = probability(node);
  const float kept = p < 1 ? 1.0f / (float)(1 - p) : 0.0f;
  for (int64_t i = 0; i < n; i++) {
    const float factor = p == 0 ? 1.0f : p == 1 ? 0.0f : intact__tensor_get_f64(mask, i) != 0 ? kept : 0.0f;
    y[i] = x[i] * factor;
  }
}

static intact_status eval_dropout(const intact_call *call) {
  intact_tensor *y;
  INTACT_TRY(intact__call_begin(call, &y));
  scale(call->node, intact__operand(call, 1), intact__f32(call->operands[0]), intact__f32(y), y->count);
  return INTACT_OK;
}

static intact_status grad_dropout(intact_grad *grad) {
  intact_tensor *d;
  const intact_tensor *dy = grad->d_results[0];
  if (dy == NULL || !intact__wants(grad, 0)) return INTACT_OK;
  INTACT_TRY(intact__grad_operand(grad, 0, &d));
  scale(grad->node, grad->n_operands > 1 ? grad->operands[1] : NULL, intact__f32(dy), intact__f32(d), d->count);
  return INTACT_OK;
}

const intact_op intact_op_dropout = {
    .name = "dropout",
    .doc = "y = x * mask / (1 - p) when training (mask: 1 with probability 1 - p), else x.",
    .schema = {INTACT_OPERANDS({"x", INTACT_ROLE_ACTIVATION, 0}, {"mask", INTACT_ROLE_NONE, INTACT_OPTIONAL}),
               INTACT_RESULTS("y"), INTACT_ATTRS(INTACT_FLOAT_ATTR("p", 0.5), INTACT_BOOL_ATTR("training", 0))},
    .infer = infer_dropout,
    .eval_f32 = eval_dropout,
    .grad = grad_dropout,
    .quant = {.result = INTACT_RESULT_SAME_AS},
    .int_layout = INTACT_INT_ANY,
    .aliases =
        INTACT_ALIASES(INTACT_ATEN_AS("dropout", "train=training", NULL), INTACT_ATEN_AS("dropout_", "train=training", NULL),
                       INTACT_QUANTIZED("quantized::dropout", INTACT_OUTPUT)),
};
