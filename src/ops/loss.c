/* SPDX-License-Identifier: Apache-2.0 */
/* Rows of losses per element: mse, l1, smooth_l1, huber, binary cross entropy, kl_div. */
#include "ops/loss.h"

#include <math.h>
#include <string.h>

intact_status intact__reduction_of(intact_context *context, const intact_node *node, intact_reduction *reduction) {
  static const char *const names[] = {"none", "mean", "sum", "batchmean"};
  const char *text = intact__attr_string(node, "reduction");
  int n = node->op == &intact_op_kl_div ? 4 : 3;
  for (int i = 0; i < n; i++) {
    if (text != NULL && strcmp(text, names[i]) == 0) {
      *reduction = (intact_reduction)i;
      return INTACT_OK;
    }
  }
  INTACT_FAIL(context, INVALID_VALUE, node->name, "%s: reduction is \"%s\"; it must be none, mean or sum%s", node->op->name,
              text != NULL ? text : "", n == 4 ? ", or batchmean" : "");
}

intact_status intact__infer_reduced(intact_infer *infer, int rank, const int64_t *dims) {
  intact_reduction reduction;
  INTACT_TRY(intact__reduction_of(infer->context, infer->node, &reduction));
  return intact__infer_result(infer, 0, INTACT_F32, reduction == INTACT_REDUCE_NONE ? rank : 0, dims);
}

static intact_status infer_loss(intact_infer *infer) {
  const intact_node *node = infer->node;
  INTACT_TRY(intact__infer_floats(infer));
  const intact_value *x = node->operands[0], *target = node->operands[1];
  char a[160], b[160];
  if (x->rank < 0 || target->rank < 0) return intact__infer_reduced(infer, -1, NULL);
  bool fits = x->rank == target->rank;
  int64_t dims[INTACT_MAX_RANK];
  for (int d = 0; fits && d < x->rank; d++) fits = intact__dims_agree(x->dims[d], target->dims[d], &dims[d]);
  if (!fits) {
    INTACT_FAIL(infer->context, SIZE_MISMATCH, node->name, "%s: x is %s, target is %s; they must have one shape",
                node->op->name, intact__shape_text(x->rank, x->dims, a), intact__shape_text(target->rank, target->dims, b));
  }
  for (int i = 2; i < node->n_operands; i++) { /* weight, pos_weight */
    const intact_value *w = node->operands[i];
    if (w == NULL || w->rank < 0) continue;
    fits = w->rank <= x->rank;
    for (int d = 0; fits && d < w->rank; d++) {
      int64_t agreed;
      fits = w->dims[d] == 1 || intact__dims_agree(w->dims[d], dims[x->rank - w->rank + d], &agreed);
    }
    if (!fits) {
      INTACT_FAIL(infer->context, SIZE_MISMATCH, node->name, "%s: %s is %s; it must broadcast to the shape of x, %s",
                  node->op->name, node->op->schema.operands[i].name, intact__shape_text(w->rank, w->dims, a),
                  intact__shape_text(x->rank, x->dims, b));
    }
  }
  return intact__infer_reduced(infer, x->rank, dims);
}

/* ---- one element: loss and its derivatives ---- */

/* parameter is beta, delta or log_target; pos_weight 1 unless given */
typedef struct element {
  double x, target, parameter, pos_weight;
} element;

typedef struct element_loss {
  double loss, d_x, d_target;
} element_loss;

static double sign(double v) {
  return v > 0 ? 1 : v < 0 ? -1 : v;
}

static element_loss mse(const element *e) {
  double d = e->x - e->target;
  return (element_loss){d * d, 2 * d, -2 * d};
}

static element_loss l1(const element *e) {
  double d = e->x - e->target;
  return (element_loss){fabs(d), sign(d), -sign(d)};
}

static element_loss smooth_l1(const element *e) {
  double d = e->x - e->target, beta = e->parameter;
  if (!(fabs(d) < beta)) return (element_loss){fabs(d) - 0.5 * beta, sign(d), -sign(d)};
  return (element_loss){0.5 * d * d / beta, d / beta, -d / beta};
}

static element_loss huber(const element *e) {
  double d = e->x - e->target, delta = e->parameter;
  if (!(fabs(d) < delta)) return (element_loss){delta * (fabs(d) - 0.5 * delta), delta * sign(d), -delta * sign(d)};
  return (element_loss){0.5 * d * d, d, -d};
}

/* Logarithms are cut at -100, the divisor at 1e-12, as PyTorch does. */
static element_loss bce(const element *e) {
  double log_x = fmax(log(e->x), -100), log_rest = fmax(log1p(-e->x), -100);
  return (element_loss){-(e->target * log_x + (1 - e->target) * log_rest),
                        (e->x - e->target) / fmax((1 - e->x) * e->x, 1e-12), log_rest - log_x};
}

/* (1 - t) x + (1 + (pos_weight - 1) t) log(1 + exp(-x)) */
static element_loss bce_with_logits(const element *e) {
  double t = e->target, factor = 1 + (e->pos_weight - 1) * t, softplus = fmax(-e->x, 0) + log1p(exp(-fabs(e->x)));
  double sigmoid_minus = 1 / (1 + exp(e->x));
  return (element_loss){(1 - t) * e->x + factor * softplus, (1 - t) - factor * sigmoid_minus,
                        -e->x + (e->pos_weight - 1) * softplus};
}

/* t (log t - x), 0 at t = 0; with log_target exp(t) (t - x). */
static element_loss kl_div(const element *e) {
  double t = e->target, x = e->x;
  if (e->parameter != 0) return (element_loss){exp(t) * (t - x), -exp(t), exp(t) * (t - x + 1)};
  return (element_loss){t == 0 ? -t * x : t * (log(t) - x), -t, t > 0 ? log(t) + 1 - x : 0};
}

typedef element_loss (*element_fn)(const element *e);

static element_fn function_of(const intact_node *node, double *parameter) {
  const intact_op *op = node->op;
  *parameter = 0;
  if (op == &intact_op_mse_loss) return mse;
  if (op == &intact_op_l1_loss) return l1;
  if (op == &intact_op_binary_cross_entropy) return bce;
  if (op == &intact_op_binary_cross_entropy_with_logits) return bce_with_logits;
  if (op == &intact_op_kl_div) {
    *parameter = (double)intact__attr_int(node, "log_target");
    return kl_div;
  }
  *parameter = intact__attr_float(node, op == &intact_op_huber_loss ? "delta" : "beta");
  return op == &intact_op_huber_loss ? huber : smooth_l1;
}

/* ---- evaluation ---- */

/* Element number i of a tensor broadcast to dims; 1 when there is none. */
static double broadcast_at(const intact_tensor *w, int rank, const int64_t *dims, int64_t i) {
  if (w == NULL) return 1;
  int64_t offset = 0, step = 1;
  for (int d = rank - 1; d >= 0; d--) {
    int k = d - (rank - w->rank);
    if (k >= 0 && w->dims[k] != 1) {
      offset += i % dims[d] * step;
      step *= w->dims[k];
    }
    i /= dims[d];
  }
  return intact__f32(w)[offset];
}

typedef struct terms {
  const intact_tensor *x, *target, *weight, *pos_weight;
  element_fn function;
  double parameter;
} terms;

static terms terms_of(const intact_node *node, int n, const intact_tensor *const *operands) {
  terms t = {.x = operands[0], .target = operands[1]};
  t.weight = n > 2 ? operands[2] : NULL;
  t.pos_weight = n > 3 ? operands[3] : NULL;
  t.function = function_of(node, &t.parameter);
  return t;
}

static element_loss term(const terms *t, int64_t i) {
  const element e = {intact__f32(t->x)[i], intact__f32(t->target)[i], t->parameter,
                     broadcast_at(t->pos_weight, t->x->rank, t->x->dims, i)};
  double weight = broadcast_at(t->weight, t->x->rank, t->x->dims, i);
  element_loss loss = t->function(&e);
  return (element_loss){loss.loss * weight, loss.d_x * weight, loss.d_target * weight};
}

static double divisor_of(intact_reduction reduction, const intact_tensor *x) {
  if (reduction == INTACT_REDUCE_MEAN) return (double)x->count;
  if (reduction == INTACT_REDUCE_BATCHMEAN) return x->rank > 0 ? (double)x->dims[0] : 1;
  return 1;
}

static intact_status eval_loss(const intact_call *call) {
  intact_tensor *y;
  INTACT_TRY(intact__call_begin(call, &y));
  intact_reduction reduction;
  INTACT_TRY(intact__reduction_of(call->context, call->node, &reduction));
  terms t = terms_of(call->node, call->n_operands, call->operands);
  double sum = 0;
  for (int64_t i = 0; i < t.x->count; i++) {
    float x = intact__f32(t.x)[i];
    if (t.function == bce && !(x >= 0 && x <= 1) && !isnan(x)) {
      INTACT_FAIL(call->context, OUT_OF_RANGE, call->node->name,
                  "binary_cross_entropy: x holds %g; it must lie in 0..1: apply sigmoid, or take the form with logits", x);
    }
    double loss = term(&t, i).loss;
    if (reduction == INTACT_REDUCE_NONE) intact__f32(y)[i] = (float)loss;
    sum += loss;
  }
  if (reduction != INTACT_REDUCE_NONE) intact__f32(y)[0] = (float)(sum / divisor_of(reduction, t.x));
  return INTACT_OK;
}

static intact_status grad_loss(intact_grad *grad) {
  if (grad->d_results[0] == NULL) return INTACT_OK;
  intact_reduction reduction;
  INTACT_TRY(intact__reduction_of(grad->context, grad->node, &reduction));
  terms t = terms_of(grad->node, grad->n_operands, grad->operands);
  intact_tensor *dx = NULL, *d_target = NULL;
  if (intact__wants(grad, 0)) INTACT_TRY(intact__grad_operand(grad, 0, &dx));
  if (intact__wants(grad, 1)) INTACT_TRY(intact__grad_operand(grad, 1, &d_target));
  const float *dy = intact__f32(grad->d_results[0]);
  double divisor = divisor_of(reduction, t.x);
  for (int64_t i = 0; i < t.x->count; i++) {
    element_loss e = term(&t, i);
    double upstream = reduction == INTACT_REDUCE_NONE ? dy[i] : dy[0] / divisor;
    if (dx != NULL) intact__f32(dx)[i] = (float)(e.d_x * upstream);
    if (d_target != NULL) intact__f32(d_target)[i] = (float)(e.d_target * upstream);
  }
  return INTACT_OK;
}

/* ---- rows; the aten fix-up reduction makes names of the numbers 0 none, 1 mean, 2 sum ---- */

#define X_TARGET                  \
  {"x", INTACT_ROLE_NONE, 0}, {   \
    "target", INTACT_ROLE_NONE, 0 \
  }
#define WEIGHT \
  { "weight", INTACT_ROLE_NONE, INTACT_OPTIONAL }
#define REDUCTION INTACT_STRING_ATTR("reduction", "mean")
#define LOSS_ROW(row, text, operands_list, attrs_list)                    \
  const intact_op intact_op_##row = {                                     \
      .name = #row,                                                       \
      .doc = text,                                                        \
      .schema = {operands_list, INTACT_RESULTS("y"), attrs_list},         \
      .infer = infer_loss,                                                \
      .eval_f32 = eval_loss,                                              \
      .grad = grad_loss,                                                  \
      .quant = INTACT_LOSS_TRAITS,                                        \
      .int_layout = INTACT_INT_ROWS,                                      \
      .aliases = INTACT_ALIASES(INTACT_ATEN_AS(#row, NULL, "reduction")), \
  };

LOSS_ROW(mse_loss, "(x - target)^2, reduced.", INTACT_OPERANDS(X_TARGET), INTACT_ATTRS(REDUCTION))
LOSS_ROW(l1_loss, "|x - target|, reduced; its gradient at 0 is 0.", INTACT_OPERANDS(X_TARGET), INTACT_ATTRS(REDUCTION))
LOSS_ROW(smooth_l1_loss, "d^2 / (2 beta) where |d| < beta, else |d| - beta / 2, d = x - target, reduced.",
         INTACT_OPERANDS(X_TARGET), INTACT_ATTRS(REDUCTION, INTACT_FLOAT_ATTR("beta", 1)))
LOSS_ROW(huber_loss, "d^2 / 2 where |d| < delta, else delta (|d| - delta / 2), d = x - target, reduced.",
         INTACT_OPERANDS(X_TARGET), INTACT_ATTRS(REDUCTION, INTACT_FLOAT_ATTR("delta", 1)))
LOSS_ROW(binary_cross_entropy, "-(target log x + (1 - target) log(1 - x)), logarithms at least -100, reduced.",
         INTACT_OPERANDS(X_TARGET, WEIGHT), INTACT_ATTRS(REDUCTION))
LOSS_ROW(binary_cross_entropy_with_logits, "binary_cross_entropy of sigmoid(x); pos_weight multiplies the part of target 1.",
         INTACT_OPERANDS(X_TARGET, WEIGHT, {"pos_weight", INTACT_ROLE_NONE, INTACT_OPTIONAL}), INTACT_ATTRS(REDUCTION))
LOSS_ROW(kl_div, "target (log target - x), or exp(target) (target - x) with log_target, reduced.", INTACT_OPERANDS(X_TARGET),
         INTACT_ATTRS(REDUCTION, INTACT_BOOL_ATTR("log_target", 0)))
