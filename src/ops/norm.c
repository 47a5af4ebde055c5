/* SPDX-License-Identifier: Apache-2.0 */
/* Rows of normalisation: batch_norm, layer_norm, group_norm, instance_norm, rms_norm. */
#include <math.h>
#include <string.h>

#include "ops/fast.h"
#include "ops/folded.h"
#include "ops/layer.h"
#include "ops/ops.h"

/* ---- inference ---- */

/* Operand i is left out or a vector of `length` (negative: unknown). */
static intact_status check_vector(intact_infer *infer, int i, int64_t length) {
  const intact_node *node = infer->node;
  if (i >= node->n_operands || node->operands[i] == NULL || node->operands[i]->rank < 0) return INTACT_OK;
  const intact_value *v = node->operands[i];
  int64_t agreed;
  char text[160];
  if (v->rank == 1 && intact__dims_agree(v->dims[0], length, &agreed)) return INTACT_OK;
  INTACT_FAIL(infer->context, SIZE_MISMATCH, node->name, "%s: %s is %s; it must be [%lld], one per channel", node->op->name,
              node->op->schema.operands[i].name, intact__shape_text(v->rank, v->dims, text), (long long)length);
}

static intact_status check_eps(intact_infer *infer) {
  const intact_attr *eps = intact__attr(infer->node, "eps");
  if (!eps->present || (eps->f >= 0 && isfinite(eps->f))) return INTACT_OK;
  INTACT_FAIL(infer->context, INVALID_VALUE, infer->node->name, "%s: eps is %g; it must be at least 0",
              infer->node->op->name, eps->f);
}

static bool is_given(const intact_node *node, int i) {
  return i < node->n_operands && node->operands[i] != NULL;
}

static intact_status infer_batch_norm(intact_infer *infer) {
  const intact_node *node = infer->node;
  const intact_value *x = node->operands[0];
  char text[160];
  INTACT_TRY(intact__infer_floats(infer));
  INTACT_TRY(check_eps(infer));
  bool tracks = is_given(node, 3) && is_given(node, 4);
  if (!tracks && (intact__attr_int(node, "training") == 0 || node->n_results > 1)) {
    INTACT_FAIL(
        infer->context, WRONG_USE, node->name,
        "batch_norm: running_mean or running_var is left out; they are needed unless training without new statistics");
  }
  if (x->rank >= 0 && x->rank < 2) {
    INTACT_FAIL(infer->context, SIZE_MISMATCH, node->name, "batch_norm: x is %s; it must have rank 2 or more",
                intact__shape_text(x->rank, x->dims, text));
  }
  intact__layer_like(infer, 0, 0);
  int64_t channels = x->rank < 0 ? -1 : x->dims[1];
  for (int i = 1; i < 5; i++) INTACT_TRY(check_vector(infer, i, channels));
  if (tracks) {
    intact__layer_like(infer, 1, 3);
    intact__layer_like(infer, 2, 4);
  }
  for (int i = 3; i < 5; i++) intact__layer_result(infer, i, INTACT_F64, 1, &channels);
  return INTACT_OK;
}

/* layer_norm, rms_norm: the last dimensions are normalized_shape, and so are weight and bias. */
static intact_status infer_layer_norm(intact_infer *infer) {
  const intact_node *node = infer->node;
  const intact_value *x = node->operands[0];
  const intact_attr *shape = intact__attr(node, "normalized_shape");
  char a[160], b[160];
  INTACT_TRY(intact__infer_floats(infer));
  INTACT_TRY(check_eps(infer));
  for (int i = 0; i < node->n_operands; i++) {
    const intact_value *v = node->operands[i];
    if (v == NULL || v->rank < 0) continue;
    bool fits = shape->n >= 1 && v->rank >= shape->n && (i == 0 || v->rank == shape->n);
    for (int d = 0; fits && d < shape->n; d++) {
      int64_t agreed;
      fits = shape->ints[d] >= 0 && intact__dims_agree(v->dims[v->rank - shape->n + d], shape->ints[d], &agreed);
    }
    if (!fits) {
      INTACT_FAIL(
          infer->context, SIZE_MISMATCH, node->name, "%s: %s is %s, normalized_shape is %s; %s", node->op->name,
          node->op->schema.operands[i].name, intact__shape_text(v->rank, v->dims, a),
          shape->n >= 1 && shape->n <= INTACT_MAX_RANK ? intact__shape_text(shape->n, shape->ints, b) : "empty or too long",
          i == 0 ? "it must be the last dimensions of x" : "they must be equal");
    }
  }
  intact__layer_result(infer, 0, INTACT_F32, x->rank, x->dims);
  return INTACT_OK;
}

static intact_status infer_group_norm(intact_infer *infer) {
  const intact_node *node = infer->node;
  const intact_value *x = node->operands[0];
  char text[160];
  bool grouped = node->op == &intact_op_group_norm;
  int64_t groups = grouped ? intact__attr_int(node, "num_groups") : 1;
  INTACT_TRY(intact__infer_floats(infer));
  INTACT_TRY(check_eps(infer));
  intact__layer_like(infer, 0, 0);
  if (x->rank < 0) return INTACT_OK;
  if (x->rank < (grouped ? 2 : 3) || groups < 1 || (x->dims[1] >= 0 && x->dims[1] % groups != 0)) {
    INTACT_FAIL(infer->context, SIZE_MISMATCH, node->name,
                "%s: x is %s, groups %lld; x must have rank %d or more and its channels must be divisible by groups",
                node->op->name, intact__shape_text(x->rank, x->dims, text), (long long)groups, grouped ? 2 : 3);
  }
  INTACT_TRY(check_vector(infer, 1, x->dims[1]));
  return check_vector(infer, 2, x->dims[1]);
}

/* ---- what is normalised together ---- */

/* A set: `blocks` runs of `length` elements. Set s starts at s * set_step, its runs lie block_step apart. Element j of a set
   takes weight and bias number (s % period) * stride + j / span. */
typedef struct sets {
  int64_t count, blocks, length, set_step, block_step;
  int64_t period, stride, span, affine;
  bool centered; /* false: rms, no mean */
  double eps;
} sets;

static sets sets_of(const intact_node *node, const intact_tensor *x) {
  const intact_attr *eps = intact__attr(node, "eps");
  sets s = {.blocks = 1, .centered = true, .eps = node->op == &intact_op_rms_norm && !eps->present ? 0x1p-23 : eps->f};
  if (node->op == &intact_op_layer_norm || node->op == &intact_op_rms_norm) {
    int n = intact__attr(node, "normalized_shape")->n;
    s.length = s.set_step = s.affine = intact__known_product(x->dims, x->rank - n, x->rank);
    s.count = intact__known_product(x->dims, 0, x->rank - n);
    s.period = 1;
    s.stride = 0;
    s.span = 1;
    s.centered = node->op == &intact_op_layer_norm;
    return s;
  }
  int64_t batch = x->dims[0], channels = x->dims[1], plane = intact__known_product(x->dims, 2, x->rank);
  s.affine = channels;
  s.span = plane > 0 ? plane : 1;
  if (node->op == &intact_op_batch_norm) {
    s.count = s.period = channels;
    s.blocks = batch;
    s.length = s.set_step = plane;
    s.block_step = channels * plane;
    s.stride = 1;
    s.span = batch * plane + 1;
    return s;
  }
  int64_t groups = node->op == &intact_op_group_norm ? intact__attr_int(node, "num_groups") : channels;
  s.count = channels > 0 ? batch * groups : 0; /* no channels divide into any number of groups */
  s.period = groups > 0 ? groups : 1;
  s.stride = groups > 0 ? channels / groups : 0;
  s.length = s.set_step = s.stride * plane;
  return s;
}

static int64_t position(const sets *s, int64_t set, int64_t j) {
  return set * s->set_step + (s->length > 0 ? j / s->length * s->block_step + j % s->length : 0);
}
static int64_t affine_index(const sets *s, int64_t set, int64_t j) {
  return set % s->period * s->stride + j / s->span;
}

/* Mean (0 when not centered) and mean square distance from it. */
static void statistics(const sets *s, int64_t set, const float *x, double *mean, double *var) {
  int64_t n = s->blocks * s->length;
  double sum = 0;
  for (int64_t j = 0; s->centered && j < n; j++) sum += x[position(s, set, j)];
  *mean = s->centered ? sum / (double)n : 0;
  sum = 0;
  for (int64_t j = 0; j < n; j++) {
    double d = x[position(s, set, j)] - *mean;
    sum += d * d;
  }
  *var = sum / (double)n;
}

/* Batch statistics, or the running ones of an evaluating batch norm. */
static void chosen_statistics(const intact_node *node, const sets *s, const intact_tensor *const *operands, int64_t set,
                              double *mean, double *var) {
  if (node->op == &intact_op_batch_norm && intact__attr_int(node, "training") == 0) {
    *mean = intact__f32(operands[3])[set];
    *var = intact__f32(operands[4])[set];
    return;
  }
  statistics(s, set, intact__f32(operands[0]), mean, var);
}

/* running = (1 - momentum) running + momentum * statistic; the variance is the unbiased one. No elements: they stay. */
static void update_running(const intact_call *call, const sets *s, intact_tensor **results) {
  bool training = intact__attr_int(call->node, "training") != 0 && s->blocks * s->length > 0;
  double momentum = intact__attr_float(call->node, "momentum"), n = (double)(s->blocks * s->length);
  for (int64_t set = 0; set < s->count; set++) {
    double mean, var;
    statistics(s, set, intact__operand_f32(call, 0), &mean, &var);
    double new_values[2] = {mean, var * n / (n - 1)};
    for (int i = 0; i < 2 && i + 1 < call->n_results; i++) {
      float old = intact__operand_f32(call, 3 + i)[set];
      if (i + 3 < call->n_results) intact__tensor_set_f64(results[3 + i], set, i ? var : mean);
      intact__f32(results[1 + i])[set] = training ? intact__running(old, new_values[i], momentum) : old;
    }
  }
}

static intact_status eval_norm(const intact_call *call) {
  intact_tensor *y[5] = {NULL};
  INTACT_TRY(intact__call_begin(call, y));
  const float *x = intact__operand_f32(call, 0), *weight = intact__operand_f32(call, 1),
              *bias = intact__operand_f32(call, 2);
  sets s = sets_of(call->node, call->operands[0]);
  for (int64_t set = 0; set < s.count; set++) {
    double mean, var;
    chosen_statistics(call->node, &s, call->operands, set, &mean, &var);
    double factor = 1 / sqrt(var + s.eps);
    for (int64_t j = 0; j < s.blocks * s.length; j++) {
      int64_t i = position(&s, set, j), c = affine_index(&s, set, j);
      double value = (x[i] - mean) * factor * (weight != NULL ? weight[c] : 1);
      intact__f32(y[0])[i] = (float)(value + (bias != NULL ? bias[c] : 0));
    }
  }
  if (call->n_results > 1) update_running(call, &s, y);
  return INTACT_OK;
}

/* ---- gradient ---- */

typedef struct norm_grad {
  sets s;
  const float *x, *weight, *dy;
  float *dx;       /* NULL: not wanted */
  double *dweight; /* affine sums, then those of bias */
  double *dbias;
  bool fixed; /* statistics do not depend on x */
} norm_grad;

/* With z = (x - mean) f and g = dy weight: dx = f (g - mean(g) - z mean(g z)); without the means when statistics are fixed.
 */
static void grad_set(const norm_grad *g, int64_t set, double mean, double factor) {
  const sets *s = &g->s;
  int64_t n = s->blocks * s->length;
  double sum_g = 0, sum_gz = 0;
  for (int64_t j = 0; j < n; j++) {
    int64_t i = position(s, set, j), c = affine_index(s, set, j);
    double z = (g->x[i] - mean) * factor, d = (double)g->dy[i] * (g->weight != NULL ? g->weight[c] : 1);
    sum_g += d;
    sum_gz += d * z;
    g->dweight[c] += g->dy[i] * z;
    g->dbias[c] += g->dy[i];
  }
  if (g->dx == NULL) return;
  double mean_g = g->fixed || !s->centered ? 0 : sum_g / (double)n, mean_gz = g->fixed ? 0 : sum_gz / (double)n;
  for (int64_t j = 0; j < n; j++) {
    int64_t i = position(s, set, j), c = affine_index(s, set, j);
    double z = (g->x[i] - mean) * factor, d = (double)g->dy[i] * (g->weight != NULL ? g->weight[c] : 1);
    g->dx[i] = (float)(factor * (d - mean_g - z * mean_gz));
  }
}

static intact_status store_sums(intact_grad *grad, int operand, const double *sums, int64_t n) {
  intact_tensor *d;
  INTACT_TRY(intact__grad_operand(grad, operand, &d));
  for (int64_t c = 0; c < n; c++) intact__f32(d)[c] = (float)sums[c];
  return INTACT_OK;
}

static intact_status grad_norm(intact_grad *grad) {
  if (grad->d_results[0] == NULL) return INTACT_OK;
  const intact_tensor *x = grad->operands[0];
  bool has_weight = grad->n_operands > 1 && grad->operands[1] != NULL;
  norm_grad g = {.s = sets_of(grad->node, x), .x = intact__f32(x), .dy = intact__f32(grad->d_results[0])};
  g.weight = has_weight ? intact__f32(grad->operands[1]) : NULL;
  g.fixed = grad->node->op == &intact_op_batch_norm && intact__attr_int(grad->node, "training") == 0;
  intact_tensor *dx;
  if (intact__wants(grad, 0)) {
    INTACT_TRY(intact__grad_operand(grad, 0, &dx));
    g.dx = intact__f32(dx);
  }
  size_t affine = (size_t)g.s.affine + 1;
  g.dweight = intact__alloc_zeroed(grad->context, affine, 2 * sizeof(double));
  if (g.dweight == NULL) return intact__no_memory(grad->context, affine * 2 * sizeof(double));
  g.dbias = g.dweight + affine;
  for (int64_t set = 0; set < g.s.count; set++) {
    double mean, var;
    chosen_statistics(grad->node, &g.s, grad->operands, set, &mean, &var);
    grad_set(&g, set, mean, 1 / sqrt(var + g.s.eps));
  }
  intact_status status = INTACT_OK;
  if (intact__wants(grad, 1)) status = store_sums(grad, 1, g.dweight, g.s.affine);
  if (status == INTACT_OK && intact__wants(grad, 2)) status = store_sums(grad, 2, g.dbias, g.s.affine);
  intact__free(grad->context, g.dweight);
  return status;
}

/* ---- rows ---- */

#define AFFINE_OPERANDS                                                              \
  {"x", INTACT_ROLE_ACTIVATION, 0}, {"weight", INTACT_ROLE_NONE, INTACT_OPTIONAL}, { \
    "bias", INTACT_ROLE_NONE, INTACT_OPTIONAL                                        \
  }
#define NORM_FUNCTIONS(infer_function)                               \
  .infer = infer_function, .eval_f32 = eval_norm, .grad = grad_norm, \
  .quant = {.result = INTACT_RESULT_OWN, .may_fuse_clamp = true}

/* One result; with the new running statistics three; with mean and variance of the batch in float64, which the gradient then need not
   compute again, five. */
const intact_op intact_op_batch_norm = {
    .name = "batch_norm",
    .doc =
        "(x - mean) / sqrt(var + eps) * weight + bias per channel; mean and var are of the batch (training) or running "
        "ones.",
    .schema = {.n_results = -1,
               .results = (const char *const[]){"y", "running_mean_out", "running_var_out", "save_mean", "save_var"},
               INTACT_OPERANDS(AFFINE_OPERANDS, {"running_mean", INTACT_ROLE_NONE, INTACT_OPTIONAL},
                               {"running_var", INTACT_ROLE_NONE, INTACT_OPTIONAL}),
               INTACT_ATTRS(INTACT_BOOL_ATTR("training", 0), INTACT_FLOAT_ATTR("momentum", 0.1),
                            INTACT_FLOAT_ATTR("eps", 1e-5))},
    NORM_FUNCTIONS(infer_batch_norm),
    .eval_fast = INTACT_FAST(intact__batch_norm_fast),
    .grad_fast = INTACT_FAST(intact__batch_norm_grad_fast),
    .int_layout = INTACT_INT_CHANNELS_LAST,
    /* onnx fix-up batch_norm: momentum becomes 1 - momentum; training_mode 1 (or outputs 1 and 2) is training; the old
       spatial=0 and is_test are refused when they change anything. */
    .aliases = (const intact_alias[]){{"aten", "aten::batch_norm", 0, 0, "cudnn_enabled=", NULL},
                                      {"onnx", "BatchNormalization", 0, 0, "epsilon=eps", "batch_norm"},
                                      {0}},
};

const intact_op intact_op_layer_norm = {
    .name = "layer_norm",
    .doc = "(x - mean) / sqrt(var + eps) * weight + bias over the last dimensions, which are normalized_shape.",
    .schema = {INTACT_OPERANDS(AFFINE_OPERANDS), INTACT_RESULTS("y"),
               INTACT_ATTRS(INTACT_INTS_REQUIRED("normalized_shape"), INTACT_FLOAT_ATTR("eps", 1e-5))},
    NORM_FUNCTIONS(infer_layer_norm),
    .eval_fast = INTACT_FAST(intact__layer_norm_fast),
    .int_layout = INTACT_INT_ROWS,
    /* onnx fix-up layer_norm: normalized_shape = dimensions of X from axis (-1) on (or those of Scale); stash_type is 1;
       outputs Mean and InvStdDev must not be read. */
    .aliases = (const intact_alias[]){{"aten", "aten::layer_norm", 0, 0, "cudnn_enable=", NULL},
                                      {"onnx", "LayerNormalization", 0, 0, "epsilon=eps", "layer_norm"},
                                      {0}},
};

const intact_op intact_op_rms_norm = {
    .name = "rms_norm",
    .doc = "x / sqrt(mean(x^2) + eps) * weight over the last dimensions; eps left out is the float32 epsilon 2^-23.",
    .schema = {INTACT_OPERANDS({"x", INTACT_ROLE_ACTIVATION, 0}, {"weight", INTACT_ROLE_NONE, INTACT_OPTIONAL}),
               INTACT_RESULTS("y"),
               INTACT_ATTRS(INTACT_INTS_REQUIRED("normalized_shape"),
                            {.name = "eps", .type = INTACT_ATTR_FLOAT, .nullable = true})},
    NORM_FUNCTIONS(infer_layer_norm),
    .int_layout = INTACT_INT_ROWS,
    .aliases =
        (const intact_alias[]){{"aten", "aten::rms_norm", 0, 0, NULL, NULL},
                               {"onnx", "RMSNormalization", 0, 0, "epsilon=eps", "layer_norm"},
                               {"onnx", "com.microsoft::SimplifiedLayerNormalization", 0, 0, "epsilon=eps", "layer_norm"},
                               {"onnx", "SimplifiedLayerNormalization", 0, 0, "epsilon=eps", "layer_norm"},
                               {0}},
};

const intact_op intact_op_group_norm = {
    .name = "group_norm",
    .doc = "(x - mean) / sqrt(var + eps) within each sample's groups of channels, * weight + bias per channel.",
    .schema = {INTACT_OPERANDS(AFFINE_OPERANDS), INTACT_RESULTS("y"),
               INTACT_ATTRS({.name = "num_groups", .type = INTACT_ATTR_INT, .required = true},
                            INTACT_FLOAT_ATTR("eps", 1e-5))},
    NORM_FUNCTIONS(infer_group_norm),
    .int_layout = INTACT_INT_ROWS,
    /* onnx fix-up group_norm (before opset 21 scale and bias count groups): they are repeated to one per channel; stash_type
       is 1. */
    .aliases =
        (const intact_alias[]){{"aten", "aten::group_norm", 0, 0, "cudnn_enabled=", NULL},
                               {"onnx", "GroupNormalization", 0, 0, "epsilon=eps,num_groups=num_groups", "group_norm"},
                               {0}},
};

const intact_op intact_op_instance_norm = {
    .name = "instance_norm",
    .doc = "(x - mean) / sqrt(var + eps) * weight + bias within each channel of each sample.",
    .schema = {INTACT_OPERANDS(AFFINE_OPERANDS), INTACT_RESULTS("y"), INTACT_ATTRS(INTACT_FLOAT_ATTR("eps", 1e-5))},
    NORM_FUNCTIONS(infer_group_norm),
    .int_layout = INTACT_INT_ROWS,
    .aliases =
        (const intact_alias[]){{"aten", "aten::instance_norm", 0, 0, "cudnn_enabled=,use_input_stats=,momentum=", NULL},
                               {"onnx", "InstanceNormalization", 0, 0, "epsilon=eps", NULL},
                               {0}},
};
