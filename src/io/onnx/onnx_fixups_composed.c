/* SPDX-License-Identifier: Apache-2.0 */
/* Fix-ups of operators that are several of our rows, or none. */
#include "io/onnx/onnx_fixups.h"

/* Dropout of a trained network: y is x. */
static intact_status dropout_off(intact_onnx_node *node) {
  intact_value *x = intact__onnx_input(node, 0), *training = intact__onnx_input(node, 2);
  double on = 0;
  intact__onnx_ignore(node, "ratio,seed");
  if (training != NULL && (!intact__onnx_known_float(training, &on) || on < 0 || on > 0)) {
    INTACT_FAIL(node->context, UNSUPPORTED_OP, node->name,
                "cannot read node '%s' (%s): training_mode is not false; export the model in inference mode", node->name, node->op);
  }
  if (intact__onnx_has_output(node, 1)) {
    INTACT_FAIL(node->context, UNSUPPORTED_OP, node->name,
                "cannot read node '%s' (%s): its mask is read; export the model in inference mode", node->name, node->op);
  }
  if (x == NULL) {
    INTACT_FAIL(node->context, MISSING_ENTRY, node->name, "cannot read node '%s' (%s): it has no input", node->name, node->op);
  }
  return intact__onnx_bind(node, 0, x);
}

/* The sum of all operands over their number. */
static intact_status mean_of_operands(intact_onnx_node *node) {
  intact_value *pair[2] = {intact__onnx_input(node, 0), NULL};
  if (node->n_inputs <= 1 || pair[0] == NULL) return intact__onnx_make_as(node, "identity", node->n_inputs, node->inputs);
  for (int i = 1; i < node->n_inputs; i++)
    INTACT_TRY(intact__onnx_one(node, "add", "sum", pair[0], node->inputs[i], &pair[0]));
  INTACT_TRY(intact__onnx_number(node, "count", pair[0]->dtype, node->n_inputs, &pair[1]));
  return intact__onnx_make_as(node, "div", 2, pair);
}

static intact_status scaled(intact_onnx_node *node, const char *op, const char *suffix, intact_value *x, double number,
                            intact_value **result) {
  intact_value *constant;
  INTACT_TRY(intact__onnx_number(node, suffix, x->dtype, number, &constant));
  return intact__onnx_one(node, op, suffix, x, constant, result);
}

/* Mean of `size` neighbours along axis 1: pooling over [n, 1, c, ...]. */
static intact_status mean_of_neighbours(intact_onnx_node *node, intact_value *x, int64_t size, intact_value **mean) {
  static const char *const pools[] = {"avg_pool1d", "avg_pool2d", "avg_pool3d"};
  const int64_t one = 1;
  const int n = x->rank - 1; /* axes that the window has */
  int64_t kernel[3] = {size, 1, 1}, pads[6] = {0};
  pads[0] = (size - 1) / 2;
  pads[n] = size / 2;
  intact_value *channels;
  intact_node *pool;
  INTACT_TRY(intact__onnx_with_ints(node, "unsqueeze", "dim", "channels", x, 1, &one, &channels));
  INTACT_TRY(intact__onnx_add(node, pools[n - 1], "window", 1, &channels, &pool));
  INTACT_TRY(intact__attr_set_ints(pool, "kernel_size", n, kernel));
  INTACT_TRY(intact__attr_set_ints(pool, "stride", n, (const int64_t[]){1, 1, 1}));
  INTACT_TRY(intact__attr_set_ints(pool, "padding", 2 * n, pads));
  INTACT_TRY(intact__node_infer(pool));
  return intact__onnx_with_ints(node, "squeeze", "dim", "mean", pool->results[0], 1, &one, mean);
}

/* y = x / (bias + alpha * mean of squares of `size` channels around) ^ beta */
static intact_status local_response_norm(intact_onnx_node *node) {
  int64_t size;
  double alpha, beta, bias;
  INTACT_TRY(intact__onnx_attr_int(node, "size", 0, &size));
  INTACT_TRY(intact__onnx_attr_float(node, "alpha", (double)0.0001f, &alpha));
  INTACT_TRY(intact__onnx_attr_float(node, "beta", 0.75, &beta));
  INTACT_TRY(intact__onnx_attr_float(node, "bias", 1, &bias));
  intact_value *x = intact__onnx_input(node, 0), *pair[2] = {x, NULL};
  if (x == NULL || x->rank < 2 || x->rank > 4 || size < 1) {
    INTACT_FAIL(node->context, UNSUPPORTED_OP, node->name,
                "cannot read node '%s' (%s): size is %lld and its input has %d axes; size must be at least 1, the axes 2 to 4",
                node->name, node->op, (long long)size, x == NULL ? 0 : x->rank);
  }
  INTACT_TRY(intact__onnx_one(node, "mul", "squares", x, x, &pair[1]));
  INTACT_TRY(mean_of_neighbours(node, pair[1], size, &pair[1]));
  INTACT_TRY(scaled(node, "mul", "alpha", pair[1], alpha, &pair[1]));
  INTACT_TRY(scaled(node, "add", "bias", pair[1], bias, &pair[1]));
  INTACT_TRY(scaled(node, "pow", "beta", pair[1], beta, &pair[1]));
  return intact__onnx_make_as(node, "div", 2, pair);
}

static intact_status mean_over(intact_onnx_node *node, const char *suffix, intact_value *x, int n, const int64_t *axes,
                               intact_value **mean) {
  intact_node *made;
  INTACT_TRY(intact__onnx_add(node, "mean", suffix, 1, &x, &made));
  INTACT_TRY(intact__attr_set_ints(made, "dim", n, axes));
  intact__attr_set_int(made, "keepdim", 1);
  INTACT_TRY(intact__node_infer(made));
  *mean = made->results[0];
  return INTACT_OK;
}

/* y = (x - mean) / (standard deviation + 1e-9) over the axes */
static intact_status mean_variance_norm(intact_onnx_node *node) {
  static const int64_t usual[] = {0, 2, 3};
  int n;
  const int64_t *axes;
  INTACT_TRY(intact__onnx_attr_ints(node, "axes", &n, &axes));
  if (n < 0) {
    n = 3;
    axes = usual;
  }
  intact_value *x = intact__onnx_input(node, 0), *mean, *pair[2];
  if (x == NULL || !intact_dtype_is_float(x->dtype)) {
    INTACT_FAIL(node->context, TYPE_MISMATCH, node->name, "cannot read node '%s' (%s): it needs an input of a float type",
                node->name, node->op);
  }
  INTACT_TRY(mean_over(node, "mean", x, n, axes, &mean));
  INTACT_TRY(intact__onnx_one(node, "sub", "centred", x, mean, &pair[0]));
  INTACT_TRY(intact__onnx_one(node, "mul", "squares", pair[0], pair[0], &pair[1]));
  INTACT_TRY(mean_over(node, "variance", pair[1], n, axes, &pair[1]));
  INTACT_TRY(intact__onnx_one(node, "sqrt", "deviation", pair[1], NULL, &pair[1]));
  INTACT_TRY(scaled(node, "add", "epsilon", pair[1], 1e-9, &pair[1]));
  return intact__onnx_make_as(node, "div", 2, pair);
}

const intact_onnx_fixup intact__onnx_fixups_composed[] = {
    INTACT_ONNX_FIXUP_OF_CODES(dropout_off),
    INTACT_ONNX_FIXUP(local_response_norm),
    INTACT_ONNX_FIXUP(mean_of_operands),
    INTACT_ONNX_FIXUP(mean_variance_norm),
    INTACT_ONNX_FIXUPS_END,
};
