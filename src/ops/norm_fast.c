/* SPDX-License-Identifier: Apache-2.0 */
/* The fast forms of layer_norm and softmax. */
#include <float.h>
#include <string.h>

#include "kernels/float/float_kernels.h"
#include "ops/fast.h"
#include "ops/layer.h"
#include "ops/wide.h"

intact_status intact__layer_norm_fast(const intact_call *call) {
  intact_tensor *y;
  bool done = false;
  INTACT_TRY(intact__call_begin(call, &y));
  const intact_tensor *x = call->operands[0];
  const float *weight = intact__operand_f32(call, 1), *bias = intact__operand_f32(call, 2);
  int n = intact__attr(call->node, "normalized_shape")->n;
  int64_t length = intact__known_product(x->dims, x->rank - n, x->rank);
  if (x->count > 0 && (weight == NULL) == (bias == NULL)) {
    INTACT_TRY(intact__float_layer_norm(call->context, x->count / length, length,
                                        (float)intact__attr_float(call->node, "eps"), intact__f32(x), weight, bias,
                                        intact__f32(y), &done));
  }
  return done ? INTACT_OK : call->node->op->eval_f32(call);
}

/* oneDNN makes zeros of what stands beside an infinity or NaN. */
INTACT_WIDE static bool ordinary(const float *x, int64_t n) {
  int odd = 0;
  for (int64_t i = 0; i < n; i++) odd |= !(x[i] <= FLT_MAX);
  return odd == 0;
}

intact_status intact__softmax_fast(const intact_call *call) {
  intact_tensor *y;
  bool done = false;
  INTACT_TRY(intact__call_begin(call, &y));
  const intact_tensor *x = call->operands[0];
  int64_t axis = intact__attr_int(call->node, "dim");
  if (x->count > 0 && x->rank > 0 && ordinary(intact__f32(x), x->count) && (axis == -1 || axis == x->rank - 1)) {
    int64_t length = x->dims[x->rank - 1];
    INTACT_TRY(intact__float_softmax(call->context, x->count / length, length, intact__f32(x), intact__f32(y), &done));
  }
  return done ? INTACT_OK : call->node->op->eval_f32(call);
}
