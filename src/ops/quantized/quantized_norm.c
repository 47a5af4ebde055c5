/* SPDX-License-Identifier: Apache-2.0 */
/* Rows of normalisation on quantized tensors: batch_norm by its running statistics; layer, group and instance norm by
   integer sums. */
#include <string.h>

#include "ops/quantized/quantized.h"

/* quantized_batch_norm -> batch_norm */
static const intact_op *float_row(const intact_node *node) {
  return intact__find_op(node->op->name + strlen("quantized_"));
}

static intact_status infer_norm(intact_infer *infer) {
  const intact_node *node = infer->node;
  INTACT_TRY(intact__infer_quantized(infer, 0, true));
  return intact__twin_infer(infer, float_row(node), node->op->schema.n_operands);
}

#define X_WEIGHT_BIAS                                                                \
  {"x", INTACT_ROLE_ACTIVATION, 0}, {"weight", INTACT_ROLE_NONE, INTACT_OPTIONAL}, { \
    "bias", INTACT_ROLE_NONE, INTACT_OPTIONAL                                        \
  }

/* ---- batch norm ---- */

static intact_status eval_batch_norm(const intact_call *call) {
  const intact_qparams *to, *from = intact__operand_qparams(call->node, 0);
  INTACT_TRY(intact__result_grid(call, &to));
  const float *weight = intact__operand_f32(call, 1), *bias = intact__operand_f32(call, 2);
  const float *mean = intact__operand_f32(call, 3), *var = intact__operand_f32(call, 4);
  const float eps = (float)intact__attr_float(call->node, "eps"), ratio = from->scale[0] / to->scale[0];
  intact_tensor *y;
  INTACT_TRY(intact__steps(call, 0, &y));
  const int64_t channels = y->dims[1], inner = intact__known_product(y->dims, 2, y->rank);
  for (int64_t i = 0; i < y->count; i++) {
    const int64_t c = i / inner % channels;
    const float inverse = 1.0f / sqrtf(var[c] + eps), gamma = weight != NULL ? weight[c] : 1.0f;
    const float alpha = inverse * gamma * ratio;
    const float beta = ((bias != NULL ? bias[c] : 0.0f) - mean[c] * inverse * gamma) / to->scale[0];
    intact__f32(y)[i] = alpha * intact__f32(y)[i] + beta;
  }
  return intact__give_rounded(call, y, false);
}

#define NORM_NAMES(op, map)                                  \
  INTACT_QUANTIZED("quantized::" op, INTACT_OUTPUT "," map), \
      INTACT_QUANTIZED("quantized::" op "_relu", INTACT_OUTPUT "," map ",=@relu:1")

const intact_op intact_op_quantized_batch_norm = {
    .name = "quantized_batch_norm",
    .doc =
        "rne(alpha (q - z) + beta) + zy with alpha = weight / sqrt(var + eps) * sx / sy and beta = (bias - mean weight / "
        "sqrt(var + eps)) / sy.",
    .schema = {INTACT_OPERANDS(X_WEIGHT_BIAS, {"mean", INTACT_ROLE_NONE, 0}, {"var", INTACT_ROLE_NONE, 0}),
               INTACT_RESULTS("y"), INTACT_ATTRS(INTACT_FLOAT_ATTR("eps", 1e-5))},
    .infer = infer_norm,
    .eval_f32 = eval_batch_norm,
    INTACT_QUANTIZED_TRAITS,
    .aliases = INTACT_ALIASES(NORM_NAMES("batch_norm", "eps=eps"), NORM_NAMES("batch_norm1d", "eps=eps"),
                              NORM_NAMES("batch_norm2d", "eps=eps"), NORM_NAMES("batch_norm3d", "eps=eps")),
};

/* ---- norms of one set of elements that lie together ---- */

typedef struct sets {
  int64_t length; /* elements of a set */
  int64_t span;   /* elements that share a weight; 1: weight j belongs to element j of the set */
  int64_t period; /* sets until the weights start again */
} sets;

static sets sets_of(const intact_node *node, const intact_tensor *x) {
  if (strcmp(node->op->name, "quantized_layer_norm") == 0) {
    const intact_attr *shape = intact__attr(node, "normalized_shape");
    return (sets){.length = intact__known_product(x->dims, x->rank - shape->n, x->rank), .span = 1, .period = 1};
  }
  const int64_t inner = intact__known_product(x->dims, 2, x->rank);
  const bool grouped = strcmp(node->op->name, "quantized_group_norm") == 0;
  const int64_t groups = grouped ? intact__attr_int(node, "num_groups") : x->dims[1];
  return (sets){.length = x->dims[1] / groups * inner, .span = inner, .period = groups};
}

/* One set of steps: the sums of the stored integers are exact, the statistics float32; then ((q - z) - m) k with
   k = sx / sqrt(v sx^2 + eps). Where weights lie by channel, k weight is one factor. */
static void normalise(const sets *s, int64_t set, const intact_qparams *from, float eps, const float *weight,
                      const float *bias, float *x) {
  const float scale = from->scale[0], n = (float)s->length, zero = (float)from->zero_point[0];
  double sum = 0, squares = 0;
  for (int64_t j = 0; j < s->length; j++) {
    const double q = (double)x[j] + (double)zero;
    sum += q;
    squares += q * q;
  }
  const float stored_mean = (float)sum / n, mean = stored_mean - zero;
  const float spread = fmaf(-stored_mean, stored_mean, (float)squares / n), variance = spread > 0 ? spread : 0;
  const float k = scale / sqrtf(variance * scale * scale + eps);
  for (int64_t j = 0; j < s->length; j++) {
    const int64_t c = set % s->period * (s->length / s->span) + j / s->span;
    const float gamma = weight != NULL ? weight[c] : 1.0f, beta = bias != NULL ? bias[c] : 0.0f;
    x[j] = s->span > 1 ? (x[j] - mean) * (k * gamma) + beta : (x[j] - mean) * k * gamma + beta;
  }
}

static intact_status eval_norm(const intact_call *call) {
  const intact_qparams *to, *from = intact__operand_qparams(call->node, 0);
  const float *weight = intact__operand_f32(call, 1), *bias = intact__operand_f32(call, 2);
  intact_tensor *x, *q = NULL;
  INTACT_TRY(intact__result_grid(call, &to));
  INTACT_TRY(intact__steps(call, 0, &x));
  const sets s = sets_of(call->node, x);
  const int64_t n = s.length > 0 ? x->count / s.length : 0;
  for (int64_t set = 0; set < n; set++)
    normalise(&s, set, from, (float)intact__attr_float(call->node, "eps"), weight, bias, intact__f32(x) + set * s.length);
  const intact_status status = intact__quantize_tensor(x, to, &q);
  intact_tensor_destroy(x);
  INTACT_TRY(status);
  return intact__give_result(call, 0, to->dtype, q);
}

#define NORM_ROW(op, text, ...)                                                                                      \
  const intact_op intact_op_quantized_##op = {                                                                       \
      .name = "quantized_" #op,                                                                                      \
      .doc = text                                                                                                    \
      " of quantized x: ((q - z) - m) weight k + bias with k = sx / sqrt(v sx^2 + eps), m and v from integer sums.", \
      .schema = {INTACT_OPERANDS(X_WEIGHT_BIAS), INTACT_RESULTS("y"),                                                \
                 INTACT_ATTRS(INTACT_FLOAT_ATTR("eps", 1e-5), __VA_ARGS__)},                                         \
      .infer = infer_norm,                                                                                           \
      .eval_f32 = eval_norm,                                                                                         \
      INTACT_QUANTIZED_TRAITS,                                                                                       \
      .aliases = INTACT_ALIASES(INTACT_QUANTIZED("quantized::" #op, INTACT_OUTPUT)),                                 \
  };
NORM_ROW(layer_norm, "Layer norm", INTACT_INTS_REQUIRED("normalized_shape"))
NORM_ROW(group_norm, "Group norm", {.name = "num_groups", .type = INTACT_ATTR_INT, .required = true})
const intact_op intact_op_quantized_instance_norm = {
    .name = "quantized_instance_norm",
    .doc = "Instance norm of quantized x: group norm with one channel in each group.",
    .schema = {INTACT_OPERANDS(X_WEIGHT_BIAS), INTACT_RESULTS("y"), INTACT_ATTRS(INTACT_FLOAT_ATTR("eps", 1e-5))},
    .infer = infer_norm,
    .eval_f32 = eval_norm,
    INTACT_QUANTIZED_TRAITS,
    .aliases = INTACT_ALIASES(INTACT_QUANTIZED("quantized::instance_norm", INTACT_OUTPUT)),
};
