/* SPDX-License-Identifier: Apache-2.0 */
/* Rows of losses over classes: nll_loss and cross_entropy_loss. */
#include <math.h>

#include "ops/loss.h"

/* x is [C], [N, C] or [N, C, ...]; the target of class numbers is x without C, of probabilities it is shaped as x. */
static int class_axis(int rank) {
  return rank == 1 ? 0 : 1;
}

static bool target_shape(const intact_value *x, const intact_value *target, bool probabilities, int64_t *dims) {
  int axis = class_axis(x->rank), n = 0;
  int64_t agreed;
  if (target->rank != (probabilities ? x->rank : x->rank - 1)) return false;
  for (int d = 0; d < x->rank; d++) {
    if (d != axis || probabilities) {
      int at = !probabilities && d > axis ? d - 1 : d;
      if (!intact__dims_agree(x->dims[d], target->dims[at], &agreed)) return false;
    }
    if (d != axis) dims[n++] = x->dims[d];
  }
  return true;
}

static intact_status infer_class_loss(intact_infer *infer) {
  const intact_node *node = infer->node;
  const intact_value *x = node->operands[0], *target = node->operands[1];
  const intact_value *weight = intact__infer_operand(infer, 2);
  bool probabilities = target->dtype == INTACT_F32;
  char a[160], b[160];
  int64_t dims[INTACT_MAX_RANK], agreed;
  INTACT_TRY(intact__infer_float(infer, 0));
  INTACT_TRY(intact__infer_float(infer, 2));
  if (!intact_dtype_is_integer(target->dtype) && (!probabilities || node->op == &intact_op_nll_loss)) {
    INTACT_FAIL(infer->context, UNSUPPORTED_TYPE, node->name, "%s: target is %s; it must hold class numbers%s",
                node->op->name, intact_dtype_text(target->dtype),
                node->op == &intact_op_nll_loss ? "" : " or f32 probabilities");
  }
  if (x->rank < 0 || target->rank < 0) return intact__infer_reduced(infer, -1, NULL);
  if (x->rank < 1 || !target_shape(x, target, probabilities, dims)) {
    INTACT_FAIL(
        infer->context, SIZE_MISMATCH, node->name,
        "%s: x is %s, target is %s; x must be [N, C, ...] and the target the same without C, or with it for probabilities",
        node->op->name, intact__shape_text(x->rank, x->dims, a), intact__shape_text(target->rank, target->dims, b));
  }
  int64_t classes = x->dims[class_axis(x->rank)];
  if (weight != NULL && weight->rank >= 0 && (weight->rank != 1 || !intact__dims_agree(weight->dims[0], classes, &agreed))) {
    INTACT_FAIL(infer->context, SIZE_MISMATCH, node->name, "%s: weight is %s; it must be [%lld], one per class",
                node->op->name, intact__shape_text(weight->rank, weight->dims, a), (long long)classes);
  }
  return intact__infer_reduced(infer, x->rank - 1, dims);
}

/* ---- a sample's loss is -sum over classes of coefficient * log probability ---- */

typedef struct samples {
  const intact_node *node;
  const intact_tensor *x, *target;
  const float *weight;
  int64_t count, classes, inner; /* samples; element c of sample i lies at start(i) + c * inner */
  bool normalise;                /* log probabilities are log_softmax of x, else x itself */
  int64_t ignore_index;
  double smoothing;
  bool probabilities;
} samples;

static samples samples_of(const intact_node *node, int n, const intact_tensor *const *operands) {
  const intact_tensor *x = operands[0];
  int axis = class_axis(x->rank);
  samples s = {
      .node = node, .x = x, .target = operands[1], .weight = n > 2 && operands[2] != NULL ? intact__f32(operands[2]) : NULL};
  s.classes = x->dims[axis];
  s.inner = intact__known_product(x->dims, axis + 1, x->rank);
  s.count = intact__known_product(x->dims, 0, axis) * s.inner;
  s.normalise = node->op == &intact_op_cross_entropy_loss;
  s.probabilities = s.target->dtype == INTACT_F32;
  s.ignore_index = intact__attr_int(node, "ignore_index");
  s.smoothing = s.normalise ? intact__attr_float(node, "label_smoothing") : 0;
  return s;
}

static int64_t start_of(const samples *s, int64_t i) {
  return i / s->inner * s->classes * s->inner + i % s->inner;
}
static double weight_at(const samples *s, int64_t c) {
  return s->weight != NULL ? s->weight[c] : 1;
}

/* Class of sample i, -1 when it is ignored or the target holds probabilities. */
static int64_t class_of(const samples *s, int64_t i) {
  if (s->probabilities) return -1;
  int64_t c = intact__tensor_get_s64(s->target, i);
  return c == s->ignore_index ? -1 : c;
}
static bool is_ignored(const samples *s, int64_t i) {
  return !s->probabilities && class_of(s, i) < 0;
}

static double coefficient(const samples *s, int64_t i, int64_t c) {
  double spread = s->smoothing / (double)s->classes;
  if (s->probabilities) {
    double t = intact__f32(s->target)[start_of(s, i) + c * s->inner];
    return (t * (1 - s->smoothing) + spread) * weight_at(s, c);
  }
  return ((c == class_of(s, i) ? 1 - s->smoothing : 0) + spread) * weight_at(s, c);
}

/* log of the sum of exp of sample i's elements; 0 when x holds log probabilities. */
static double log_sum(const samples *s, int64_t i) {
  if (!s->normalise) return 0;
  const float *x = intact__f32(s->x) + start_of(s, i);
  double max = -INFINITY, sum = 0;
  for (int64_t c = 0; c < s->classes; c++) max = x[c * s->inner] > max ? x[c * s->inner] : max;
  for (int64_t c = 0; c < s->classes; c++) sum += exp(x[c * s->inner] - max);
  return max + log(sum);
}

static double sample_loss(const samples *s, int64_t i) {
  if (is_ignored(s, i)) return 0;
  const float *x = intact__f32(s->x) + start_of(s, i);
  double shift = log_sum(s, i), loss = 0;
  for (int64_t c = 0; c < s->classes; c++) {
    double k = coefficient(s, i, c);
    if (k != 0) loss -= k * (x[c * s->inner] - shift);
  }
  return loss;
}

/* What the mean divides by: the weights of the classes that count, or the number of samples for probabilities. */
static double total_weight(const samples *s) {
  if (s->probabilities) return (double)s->count;
  double sum = 0;
  for (int64_t i = 0; i < s->count; i++) sum += is_ignored(s, i) ? 0 : weight_at(s, class_of(s, i));
  return sum;
}

static intact_status check_classes(intact_context *context, const samples *s) {
  for (int64_t i = 0; i < s->count && !s->probabilities; i++) {
    int64_t c = intact__tensor_get_s64(s->target, i);
    if (c == s->ignore_index || (c >= 0 && c < s->classes)) continue;
    INTACT_FAIL(context, OUT_OF_RANGE, s->node->name, "%s: target %lld is %lld; classes are 0..%lld, ignored is %lld",
                s->node->op->name, (long long)i, (long long)c, (long long)s->classes - 1, (long long)s->ignore_index);
  }
  return INTACT_OK;
}

static intact_status eval_class_loss(const intact_call *call) {
  intact_tensor *y;
  INTACT_TRY(intact__call_begin(call, &y));
  intact_reduction reduction;
  INTACT_TRY(intact__reduction_of(call->context, call->node, &reduction));
  samples s = samples_of(call->node, call->n_operands, call->operands);
  INTACT_TRY(check_classes(call->context, &s));
  double sum = 0;
  for (int64_t i = 0; i < s.count; i++) {
    double loss = sample_loss(&s, i);
    if (reduction == INTACT_REDUCE_NONE) intact__f32(y)[i] = (float)loss;
    sum += loss;
  }
  if (reduction == INTACT_REDUCE_MEAN) sum /= total_weight(&s);
  if (reduction != INTACT_REDUCE_NONE) intact__f32(y)[0] = (float)sum;
  return INTACT_OK;
}

/* dx = g (softmax(x) * sum of coefficients - coefficient), without softmax -g coefficient. */
static void grad_sample(const samples *s, int64_t i, double g, float *dx) {
  const float *x = intact__f32(s->x) + start_of(s, i);
  double shift = log_sum(s, i), total = 0;
  for (int64_t c = 0; c < s->classes && s->normalise; c++) total += coefficient(s, i, c);
  for (int64_t c = 0; c < s->classes; c++) {
    double p = s->normalise ? exp(x[c * s->inner] - shift) * total : 0;
    dx[start_of(s, i) + c * s->inner] = (float)(g * (p - coefficient(s, i, c)));
  }
}

static void grad_probabilities(const samples *s, int64_t i, double g, float *d_target) {
  const float *x = intact__f32(s->x) + start_of(s, i);
  double shift = log_sum(s, i);
  for (int64_t c = 0; c < s->classes; c++) {
    d_target[start_of(s, i) + c * s->inner] = (float)(-g * (1 - s->smoothing) * weight_at(s, c) * (x[c * s->inner] - shift));
  }
}

static intact_status grad_class_loss(intact_grad *grad) {
  if (grad->d_results[0] == NULL) return INTACT_OK;
  intact_reduction reduction;
  INTACT_TRY(intact__reduction_of(grad->context, grad->node, &reduction));
  samples s = samples_of(grad->node, grad->n_operands, grad->operands);
  INTACT_TRY(check_classes(grad->context, &s));
  intact_tensor *dx = NULL, *d_target = NULL;
  if (intact__wants(grad, 0)) INTACT_TRY(intact__grad_operand(grad, 0, &dx));
  if (intact__wants(grad, 1) && s.probabilities) INTACT_TRY(intact__grad_operand(grad, 1, &d_target));
  const float *dy = intact__f32(grad->d_results[0]);
  double divisor = reduction == INTACT_REDUCE_MEAN ? total_weight(&s) : 1;
  for (int64_t i = 0; i < s.count; i++) {
    if (is_ignored(&s, i)) continue; /* stays 0, also when all are ignored */
    double g = reduction == INTACT_REDUCE_NONE ? dy[i] : dy[0] / divisor;
    if (dx != NULL) grad_sample(&s, i, g, intact__f32(dx));
    if (d_target != NULL) grad_probabilities(&s, i, g, intact__f32(d_target));
  }
  return INTACT_OK;
}

/* onnx fix-up class_loss: the second output (log probabilities) must not be read; ignore_index absent ignores nothing. */

#define CLASS_OPERANDS \
  INTACT_OPERANDS({"x", INTACT_ROLE_NONE, 0}, {"target", INTACT_ROLE_NONE, 0}, {"weight", INTACT_ROLE_NONE, INTACT_OPTIONAL})

const intact_op intact_op_nll_loss = {
    .name = "nll_loss",
    .doc = "-weight[target] x[target], reduced; the mean divides by the weights of the targets that are not ignored.",
    .schema = {CLASS_OPERANDS, INTACT_RESULTS("y"),
               INTACT_ATTRS(INTACT_STRING_ATTR("reduction", "mean"), INTACT_INT_ATTR("ignore_index", -100))},
    .infer = infer_class_loss,
    .eval_f32 = eval_class_loss,
    .grad = grad_class_loss,
    .quant = INTACT_LOSS_TRAITS,
    .int_layout = INTACT_INT_ROWS,
    .aliases = INTACT_ALIASES(
        INTACT_ATEN_AS("nll_loss", NULL, "reduction"), INTACT_ATEN_AS("nll_loss_nd", NULL, "reduction"),
        INTACT_ATEN_AS("nll_loss2d", NULL, "reduction"),
        INTACT_ONNX_AS("NegativeLogLikelihoodLoss", "reduction=reduction,ignore_index=ignore_index", "class_loss")),
};

const intact_op intact_op_cross_entropy_loss = {
    .name = "cross_entropy_loss",
    .doc = "nll_loss of log_softmax(x) for class numbers (with label_smoothing), or -sum of target weight log_softmax(x).",
    .schema = {CLASS_OPERANDS, INTACT_RESULTS("y"),
               INTACT_ATTRS(INTACT_STRING_ATTR("reduction", "mean"), INTACT_INT_ATTR("ignore_index", -100),
                            INTACT_FLOAT_ATTR("label_smoothing", 0))},
    .infer = infer_class_loss,
    .eval_f32 = eval_class_loss,
    .grad = grad_class_loss,
    .quant = INTACT_LOSS_TRAITS,
    .int_layout = INTACT_INT_ROWS,
    .aliases = INTACT_ALIASES(
        INTACT_ATEN_AS("cross_entropy_loss", NULL, "reduction"),
        INTACT_ONNX_AS("SoftmaxCrossEntropyLoss", "reduction=reduction,ignore_index=ignore_index", "class_loss")),
};
