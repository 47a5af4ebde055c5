/* SPDX-License-Identifier: Apache-2.0 */
/* Bounds from the weights: the worst accumulator of channel c is sum |w - zw| * max |x - zx| + |bias|. */
#include "inspect/headroom.h"

#include <math.h>

static const intact_value *operand_of_role(const intact_node *node, intact_role role) {
  for (int i = 0; i < node->n_operands && i < node->op->schema.n_operands; i++)
    if (node->op->schema.operands[i].role == role && node->operands[i] && node->operands[i]->qparams) return node->operands[i];
  return NULL;
}

static double bits_left(double magnitude) { return magnitude > 0 ? 31 - log2(magnitude) : 31; }

double intact__bias_headroom(const intact_node *node) {
  const intact_value *bias = operand_of_role(node, INTACT_ROLE_BIAS);
  if (!bias || !bias->constant) return NAN;
  double largest = 0;
  for (int64_t i = 0; i < bias->constant->count; i++) {
    const double code = fabs((double)intact__tensor_get_s64(bias->constant, i));
    if (code > largest) largest = code;
  }
  return bits_left(largest);
}

double intact__accumulator_headroom(const intact_node *node) {
  const intact_value *x = operand_of_role(node, INTACT_ROLE_ACTIVATION), *w = operand_of_role(node, INTACT_ROLE_WEIGHT);
  const intact_value *bias = operand_of_role(node, INTACT_ROLE_BIAS);
  if (!x || !w || !w->constant || x->qparams->n != 1) return NAN;
  const double zero = (double)x->qparams->zero_point[0];
  const double reach = fmax((double)x->qparams->quant_max - zero, zero - (double)x->qparams->quant_min);
  const intact_tensor *t = w->constant;
  int groups = 1, axis = node->op->quant.weight_axis ? node->op->quant.weight_axis(node, &groups) : -1;
  if (axis < 0 || axis >= t->rank) axis = 0;
  int64_t inner = 1, outer = 1;
  for (int i = axis + 1; i < t->rank; i++) inner *= t->dims[i];
  for (int i = 0; i < axis; i++) outer *= t->dims[i];
  const int64_t channels = t->rank ? t->dims[axis] : 1;
  double largest = 0;
  for (int64_t c = 0; c < channels; c++) {
    const double zero_w = (double)w->qparams->zero_point[w->qparams->n == channels ? c : 0];
    double sum = 0;
    for (int64_t o = 0; o < outer; o++)
      for (int64_t i = 0; i < inner; i++)
        sum += fabs((double)intact__tensor_get_s64(t, (o * channels + c) * inner + i) - zero_w);
    double worst = sum * reach;
    if (bias && bias->constant && bias->constant->count == channels)
      worst += fabs((double)intact__tensor_get_s64(bias->constant, c));
    if (worst > largest) largest = worst;
  }
  return bits_left(largest);
}
