/* SPDX-License-Identifier: Apache-2.0 */
/* A batch norm that is folded into the layer before it while both are trained: fold_weight scales the layer's weights by what the norm
   will multiply with, and folded_batch_norm takes that back, adds the layer's bias and normalises. Between the two lie a fake
   quantization of the scaled weights and the layer, which then sees the weights that the converted network has. */
#include "ops/folded.h"

#include <string.h>

#include "graph/fake_quantizer.h"
#include "ops/fast.h"
#include "ops/layer.h"

/* ---- fold_weight ---- */

enum { W, GAMMA, VAR };

/* Element i of the weight belongs to channel i / per_group * along + i / inner % along. */
typedef struct channels {
  int64_t inner, along, per_group;
} channels;

static channels channels_of(const intact_node *node, const intact_tensor *weight) {
  const int axis = (int)intact__attr_int(node, "axis");
  const int64_t groups = intact__attr_int(node, "groups");
  return (channels){.inner = intact__known_product(weight->dims, axis + 1, weight->rank),
                    .along = weight->dims[axis],
                    .per_group = weight->count / groups};
}

static int64_t channel_at(const channels *c, int64_t i) { return i / c->per_group * c->along + i / c->inner % c->along; }

static intact_status infer_fold_weight(intact_infer *infer) {
  const intact_node *node = infer->node;
  const intact_value *w = node->operands[W];
  const int64_t axis = intact__attr_int(node, "axis"), groups = intact__attr_int(node, "groups");
  INTACT_TRY(intact__infer_floats(infer));
  intact__layer_like(infer, 0, W);
  if (w->rank < 0) return INTACT_OK;
  if (axis < 0 || axis >= w->rank || groups < 1 || w->dims[0] % groups != 0)
    INTACT_FAIL(infer->context, OUT_OF_RANGE, node->name, "%s '%s': axis %lld, groups %lld of a weight of rank %d; axis is one of its axes, groups "
                "divide the first", node->op->name, node->name, (long long)axis, (long long)groups, w->rank);
  for (int i = GAMMA; i <= VAR; i++) {
    const intact_value *v = node->operands[i];
    if (v->rank == 1 && (v->dims[0] < 0 || w->dims[axis] < 0 || v->dims[0] == w->dims[axis] * groups)) continue;
    if (v->rank < 0) continue;
    INTACT_FAIL(infer->context, SIZE_MISMATCH, node->name, "%s '%s': %s has rank %d; it must be [%lld], one per output channel", node->op->name,
                node->name, node->op->schema.operands[i].name, v->rank, (long long)(w->dims[axis] * groups));
  }
  return INTACT_OK;
}

static float factor_of(const intact_node *node, const intact_tensor *const *operands, int64_t c) {
  return intact__fold_factor(intact__f32(operands[GAMMA])[c], intact__f32(operands[VAR])[c], intact__attr_float(node, "eps"),
                             intact__attr_int(node, "divide"));
}

static intact_status eval_fold_weight(const intact_call *call) {
  intact_tensor *y;
  INTACT_TRY(intact__call_begin(call, &y));
  const float *w = intact__operand_f32(call, W);
  if (y->count == 0) return INTACT_OK;
  const channels c = channels_of(call->node, call->operands[W]);
  for (int64_t i = 0; i < y->count; i += c.inner) {
    const float factor = factor_of(call->node, call->operands, channel_at(&c, i));
    for (int64_t k = i; k < i + c.inner; k++) intact__f32(y)[k] = w[k] * factor;
  }
  return INTACT_OK;
}

/* dw = dy f; dgamma = sum of dy w over the channel / sqrt(var + eps), where f depends on gamma. */
static intact_status grad_fold_weight(intact_grad *grad) {
  const intact_tensor *dy = grad->d_results[0], *w = grad->operands[W];
  if (!dy || w->count == 0) return INTACT_OK;
  const channels c = channels_of(grad->node, w);
  const double eps = intact__attr_float(grad->node, "eps");
  const bool divide = intact__attr_int(grad->node, "divide");
  intact_tensor *dw = NULL, *d_gamma = NULL;
  if (intact__wants(grad, W)) INTACT_TRY(intact__grad_operand(grad, W, &dw));
  if (intact__wants(grad, GAMMA)) INTACT_TRY(intact__grad_operand(grad, GAMMA, &d_gamma));
  for (int64_t i = 0; i < w->count; i += c.inner) {
    const int64_t channel = channel_at(&c, i);
    const float factor = factor_of(grad->node, grad->operands, channel);
    double sum = 0;
    for (int64_t k = i; k < i + c.inner; k++) {
      if (dw) intact__f32(dw)[k] = intact__f32(dy)[k] * factor;
      sum += (double)intact__f32(dy)[k] * (double)intact__f32(w)[k];
    }
    const bool depends = divide || intact__f32(grad->operands[GAMMA])[channel] != 0;
    if (d_gamma && depends)
      intact__f32(d_gamma)[channel] += (float)(sum / sqrt((double)intact__f32(grad->operands[VAR])[channel] + eps));
  }
  return INTACT_OK;
}

const intact_op intact_op_fold_weight = {
    .name = "fold_weight",
    .doc = "weight * gamma / sqrt(running_var + eps) per output channel, without gamma where it is 0; the variance has no gradient.",
    .schema = {INTACT_OPERANDS({"weight", INTACT_ROLE_NONE, 0}, {"gamma", INTACT_ROLE_NONE, 0},
                               {"running_var", INTACT_ROLE_NONE, 0}),
               INTACT_RESULTS("y"),
               INTACT_ATTRS(INTACT_FLOAT_ATTR("eps", 1e-5), INTACT_INT_ATTR("axis", 0), INTACT_INT_ATTR("groups", 1),
                            INTACT_BOOL_ATTR("divide", 0))},
    .infer = infer_fold_weight,
    .eval_f32 = eval_fold_weight,
    .grad = grad_fold_weight,
    .quant = {.result = INTACT_RESULT_NONE, .no_quantize = true},
};

/* ---- folded_batch_norm ---- */

static intact_status infer_folded(intact_infer *infer) {
  const intact_node *node = infer->node;
  const intact_value *x = node->operands[0];
  INTACT_TRY(intact__infer_floats(infer));
  intact__layer_like(infer, 0, 0);
  intact__layer_like(infer, 1, 3);
  intact__layer_like(infer, 2, 4);
  for (int i = 3; i < 5; i++) intact__layer_result(infer, i, INTACT_F64, node->operands[i]->rank, node->operands[i]->dims);
  if (x->rank < 0) return INTACT_OK;
  for (int i = 1; i < node->n_operands && i < 6; i++) {
    const intact_value *v = node->operands[i];
    if (!v || v->rank < 0 || (x->rank >= 2 && v->rank == 1 && (v->dims[0] < 0 || x->dims[1] < 0 || v->dims[0] == x->dims[1]))) continue;
    INTACT_FAIL(infer->context, SIZE_MISMATCH, node->name, "%s '%s': %s has rank %d; it must be [%lld], one per channel of x (rank %d, 2 or more)",
                node->op->name, node->name, node->op->schema.operands[i].name, v->rank, (long long)(x->rank >= 2 ? x->dims[1] : -1),
                x->rank);
  }
  return INTACT_OK;
}

/* One channel of the definition: z = x / f + bias of the layer, and its statistics. */
typedef struct folded_channel {
  double factor, layer_bias, mean, var;
} folded_channel;

static folded_channel channel_of(const intact_node *node, int n_operands, const intact_tensor *const *operands, int64_t c) {
  const intact_tensor *x = operands[0];
  const int64_t plane = intact__known_product(x->dims, 2, x->rank), channels_of_x = x->dims[1];
  folded_channel f = {.factor = (double)intact__fold_factor(intact__f32(operands[1])[c], intact__f32(operands[4])[c],
                                                            intact__attr_float(node, "eps"), intact__attr_int(node, "divide"))};
  if (n_operands > 5 && operands[5]) f.layer_bias = (double)intact__f32(operands[5])[c];
  if (!intact__attr_int(node, "training")) {
    f.mean = (double)intact__f32(operands[3])[c];
    f.var = (double)intact__f32(operands[4])[c];
    return f;
  }
  const double n = (double)(x->dims[0] * plane);
  for (int pass = 0; pass < 2; pass++) {
    double sum = 0;
    for (int64_t b = 0; b < x->dims[0]; b++)
      for (int64_t i = 0; i < plane; i++) {
        const double z = (double)intact__f32(x)[(b * channels_of_x + c) * plane + i] / f.factor + f.layer_bias;
        sum += pass ? (z - f.mean) * (z - f.mean) : z;
      }
    *(pass ? &f.var : &f.mean) = sum / n;
  }
  return f;
}

static intact_status eval_folded(const intact_call *call) {
  intact_tensor *y[5] = {NULL};
  INTACT_TRY(intact__call_begin(call, y));
  const intact_tensor *x = call->operands[0];
  const int64_t plane = intact__known_product(x->dims, 2, x->rank), n = x->dims[0] * plane;
  const double eps = intact__attr_float(call->node, "eps"), momentum = intact__attr_float(call->node, "momentum");
  const bool training = intact__attr_int(call->node, "training");
  for (int64_t c = 0; c < x->dims[1]; c++) {
    const folded_channel f = channel_of(call->node, call->n_operands, call->operands, c);
    const double gamma = (double)intact__operand_f32(call, 1)[c], beta = (double)intact__operand_f32(call, 2)[c];
    for (int64_t b = 0; b < x->dims[0]; b++)
      for (int64_t i = 0; i < plane; i++) {
        const int64_t at = (b * x->dims[1] + c) * plane + i;
        const double z = (double)intact__f32(x)[at] / f.factor + f.layer_bias;
        intact__f32(y[0])[at] = (float)((z - f.mean) / sqrt(f.var + eps) * gamma + beta);
      }
    for (int k = 0; k < 2 && k + 1 < call->n_results; k++) {
      const float old = intact__operand_f32(call, 3 + k)[c];
      const double seen = k ? f.var * (double)n / (double)(n - 1) : f.mean;
      intact__f32(y[1 + k])[c] = training ? intact__running(old, seen, momentum) : old;
    }
    if (call->n_results > 3) intact__tensor_set_f64(y[3], c, (f.mean - f.layer_bias) * f.factor);
    if (call->n_results > 4) intact__tensor_set_f64(y[4], c, f.var * f.factor * f.factor);
  }
  return INTACT_OK;
}

/* With g = gamma / sqrt(var + eps), h = (z - mean) / sqrt(var + eps): dz = g (dy - mean(dy) - h mean(dy h)), without the means when the
   statistics are fixed; dx = dz / f, and gamma gets sum(dy h) of the norm and -sum(dz x) / f^2 of f. */
typedef struct folded_sums {
  double dy, dy_h, dz, dz_x;
} folded_sums;

static void folded_channel_grad(const intact_grad *grad, int64_t c, float *dx, folded_sums *sums) {
  const intact_tensor *x = grad->operands[0];
  const int64_t plane = intact__known_product(x->dims, 2, x->rank);
  const double n = (double)(x->dims[0] * plane);
  const folded_channel f = channel_of(grad->node, grad->n_operands, grad->operands, c);
  const double scale = 1 / sqrt(f.var + intact__attr_float(grad->node, "eps")), g = (double)intact__f32(grad->operands[1])[c] * scale;
  const bool training = intact__attr_int(grad->node, "training");
  *sums = (folded_sums){0};
  for (int pass = 0; pass < 2; pass++)
    for (int64_t b = 0; b < x->dims[0]; b++)
      for (int64_t i = 0; i < plane; i++) {
        const int64_t at = (b * x->dims[1] + c) * plane + i;
        const double xi = (double)intact__f32(x)[at], dy = (double)intact__f32(grad->d_results[0])[at];
        const double h = (xi / f.factor + f.layer_bias - f.mean) * scale;
        if (pass == 0) {
          sums->dy += dy;
          sums->dy_h += dy * h;
          continue;
        }
        const double dz = g * (training ? dy - sums->dy / n - h * sums->dy_h / n : dy);
        sums->dz += dz;
        sums->dz_x += dz * xi;
        if (dx) dx[at] = (float)(dz / f.factor);
      }
}

static intact_status grad_folded(intact_grad *grad) {
  if (!grad->d_results[0]) return INTACT_OK;
  const double eps = intact__attr_float(grad->node, "eps");
  const bool divide = intact__attr_int(grad->node, "divide");
  intact_tensor *d[6] = {NULL};
  for (int i = 0; i < 6; i++)
    if (i != 3 && i != 4 && intact__wants(grad, i)) INTACT_TRY(intact__grad_operand(grad, i, &d[i]));
  for (int64_t c = 0; c < grad->operands[0]->dims[1]; c++) {
    folded_sums sums;
    folded_channel_grad(grad, c, d[0] ? intact__f32(d[0]) : NULL, &sums);
    const float gamma = intact__f32(grad->operands[1])[c], var = intact__f32(grad->operands[4])[c];
    const double factor = (double)intact__fold_factor(gamma, var, eps, divide);
    const double through = gamma != 0 || divide ? -sums.dz_x / (factor * factor) / sqrt((double)var + eps) : 0;
    if (d[1]) intact__f32(d[1])[c] = (float)(sums.dy_h + through);
    if (d[2]) intact__f32(d[2])[c] = (float)sums.dy;
    if (d[5]) intact__f32(d[5])[c] = (float)sums.dz;
  }
  return INTACT_OK;
}

/* What both rows take and give. */
#define FOLDED_OPERANDS                                                                                                \
  {"x", INTACT_ROLE_ACTIVATION, 0}, {"weight", INTACT_ROLE_NONE, 0}, {"bias", INTACT_ROLE_NONE, 0},                    \
      {"running_mean", INTACT_ROLE_NONE, 0}, {"running_var", INTACT_ROLE_NONE, 0}, {"layer_bias", INTACT_ROLE_NONE, INTACT_OPTIONAL}
#define FOLDED_SIGNATURE                                                                                                     \
  .n_results = -1, .results = (const char *const[]){"y", "running_mean_out", "running_var_out", "save_mean", "save_var"}
#define FOLDED_ATTRS                                                                                              \
  INTACT_BOOL_ATTR("training", 0), INTACT_FLOAT_ATTR("momentum", 0.1), INTACT_FLOAT_ATTR("eps", 1e-5), INTACT_BOOL_ATTR("divide", 0)

const intact_op intact_op_folded_batch_norm = {
    .name = "folded_batch_norm",
    .doc = "batch_norm of x / f + layer_bias, f = weight / sqrt(running_var + eps) per channel: of a layer whose weights fold_weight made.",
    .schema = {FOLDED_SIGNATURE, INTACT_OPERANDS(FOLDED_OPERANDS), INTACT_ATTRS(FOLDED_ATTRS)},
    .infer = infer_folded,
    .eval_f32 = eval_folded,
    .grad = grad_folded,
    .eval_fast = INTACT_FAST(intact__batch_norm_fast),
    .grad_fast = INTACT_FAST(intact__batch_norm_grad_fast),
    .quant = {.result = INTACT_RESULT_NONE, .no_quantize = true},
};

/* ---- folded_batch_norm_fake_quantize: the norm, a clamp and the fake quantization of its node's observation in one ---- */

static intact_status check_fake(intact_context *context, const intact_node *node) {
  if (node->observation == NULL || node->observation->fake == NULL)
    INTACT_FAIL(context, WRONG_USE, node->name, "%s '%s' has no fake quantizer; only a graph in training makes such nodes", node->op->name,
                node->name);
  return INTACT_OK;
}

static void clamp_all(const intact_node *node, intact_tensor *z) {
  const float low = (float)intact__attr_float(node, "low"), high = (float)intact__attr_float(node, "high");
  for (int64_t i = 0; i < z->count; i++) intact__f32(z)[i] = fminf(fmaxf(intact__f32(z)[i], low), high);
}

static intact_status eval_folded_fake(const intact_call *call) {
  intact_tensor *q = NULL;
  INTACT_TRY(check_fake(call->context, call->node));
  INTACT_TRY(eval_folded(call));
  intact_tensor *z = call->results[0];
  clamp_all(call->node, z);
  if (intact__attr_int(call->node, "observe")) INTACT_TRY(intact__observation_update(call->node->observation, z));
  INTACT_TRY(intact__fake_quantizer_forward(call->node->observation, z, false, &q));
  memcpy(z->data, q->data, intact_tensor_bytes(z));
  intact_tensor_destroy(q);
  return INTACT_OK;
}

/* The norm's result before the clamp. */
static void recompute(const intact_grad *grad, float *z) {
  const intact_tensor *x = grad->operands[0];
  const int64_t plane = intact__known_product(x->dims, 2, x->rank);
  const double eps = intact__attr_float(grad->node, "eps");
  for (int64_t c = 0; c < x->dims[1]; c++) {
    const folded_channel f = channel_of(grad->node, grad->n_operands, grad->operands, c);
    for (int64_t b = 0; b < x->dims[0]; b++)
      for (int64_t i = (b * x->dims[1] + c) * plane; i < (b * x->dims[1] + c + 1) * plane; i++) {
        const double v = (double)intact__f32(x)[i] / f.factor + f.layer_bias;
        z[i] = (float)((v - f.mean) / sqrt(f.var + eps) * (double)intact__f32(grad->operands[1])[c] + (double)intact__f32(grad->operands[2])[c]);
      }
  }
}

static intact_status grad_folded_fake(intact_grad *grad) {
  const intact_tensor *x = grad->operands[0], *none[5] = {NULL};
  const float low = (float)intact__attr_float(grad->node, "low"), high = (float)intact__attr_float(grad->node, "high");
  intact_tensor *z, *dz = NULL, *learned[2] = {NULL, NULL};
  if (!grad->d_results[0]) return INTACT_OK;
  INTACT_TRY(check_fake(grad->context, grad->node));
  INTACT_TRY(intact__tensor_create_raw(grad->context, INTACT_F32, x->rank, x->dims, &z));
  recompute(grad, intact__f32(z));
  clamp_all(grad->node, z); /* on the bounds is outside, too */
  intact_status status = intact__fake_quantizer_backward(grad->node->observation, z, grad->d_results[0], false, &dz, &learned[0], &learned[1]);
  for (int64_t i = 0; status == INTACT_OK && i < z->count; i++)
    if (!(intact__f32(z)[i] > low && intact__f32(z)[i] < high)) intact__f32(dz)[i] = 0;
  intact_tensor_destroy(z);
  for (int i = 0; i < 2; i++) {
    const intact_status given = intact__grad_give(grad, 6 + i, learned[i]);
    if (status == INTACT_OK) status = given;
  }
  intact_grad inner = *grad;
  none[0] = dz;
  inner.d_results = none;
  if (status == INTACT_OK) status = grad_folded(&inner);
  intact_tensor_destroy(dz);
  return status;
}

const intact_op intact_op_folded_batch_norm_fake_quantize = {
    .name = "folded_batch_norm_fake_quantize",
    .doc = "fake_quantize of folded_batch_norm clamped to low..high: how a graph in training runs the three nodes; scale and zero_point as there.",
    .schema = {FOLDED_SIGNATURE,
               INTACT_OPERANDS(FOLDED_OPERANDS, {"scale", INTACT_ROLE_NONE, INTACT_OPTIONAL}, {"zero_point", INTACT_ROLE_NONE, INTACT_OPTIONAL}),
               INTACT_ATTRS(FOLDED_ATTRS, INTACT_BOOL_ATTR("observe", 0), INTACT_FLOAT_ATTR("low", -INFINITY),
                            INTACT_FLOAT_ATTR("high", INFINITY))},
    .infer = infer_folded,
    .eval_f32 = eval_folded_fake,
    .grad = grad_folded_fake,
    .eval_fast = INTACT_FAST(intact__batch_norm_fast),
    .grad_fast = INTACT_FAST(intact__batch_norm_grad_fast),
    .quant = {.result = INTACT_RESULT_NONE, .no_quantize = true},
};
