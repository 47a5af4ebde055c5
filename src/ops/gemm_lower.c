/* SPDX-License-Identifier: Apache-2.0 */
/* Integer convolution, fully connected layers and products with constant weights. */
#include <math.h>
#include <string.h>

#include "kernels/affine/affine.h"
#include "kernels/qdwconv/qdwconv.h"
#include "kernels/qgemm/qgemm.h"
#include "ops/layer.h"
#include "ops/lower.h"

enum { GRAIN = 64 };

/* Where the parts of a node stand, and how its weights lie. */
typedef struct gemm_node {
  int operand; /* x */
  const intact_value *x, *w, *bias, *y;
  int64_t channels; /* output channels of all groups */
  int axis;         /* of w, the output channels */
  intact_qgemm_shape shape;
  int64_t n_stride, tap_stride, c_stride;
} gemm_node;

typedef struct gemm_step {
  bool depthwise; /* which plan holds */
  intact_qgemm_plan plan;
  intact_qdwconv_plan dw_plan;
  int64_t pixels, channels;
  int operand; /* x */
  size_t thread_scratch;
  bool sums;      /* the kernel leaves s32 sums in scratch, at sums_at; another pass finishes them */
  size_t sums_at;
  const intact_requantize *requantize; /* per channel: rules that the kernels don't know; NULL */
  const float *real_scale;             /* per channel: float results; NULL */
} gemm_step;

/* ---- what can be done ---- */

static bool is_weight(const intact_value *w, int axis) {
  if (w == NULL || w->constant == NULL || w->qparams == NULL) return false;
  const intact_qparams *q = w->qparams;
  return intact_dtype_is_integer(w->dtype) && intact_dtype_bits(w->dtype) <= 8 && (q->n == 1 || (q->group == 0 && q->axis == axis));
}

/* f32(f32(sx * sw) / sy) of every channel is a number that a float32 multiplier can be. */
static bool scales_fit(const intact_value *x, const intact_value *w, const intact_value *y) {
  for (int64_t n = 0; n < w->qparams->n; n++) {
    float m = x->qparams->scale[0] * w->qparams->scale[n];
    if (y->qparams != NULL) m = intact__requantize_multiplier(x->qparams->scale[0], w->qparams->scale[n], y->qparams->scale[0]);
    if (!isfinite(m)) return false;
  }
  return true;
}

static const char *check_gemm(const intact_node *node, int x, int w, int bias, int axis) {
  const intact_value *y = node->results[0];
  if (!intact__is_int8(node->operands[x])) return "the input is not quantized to 8 bits per tensor";
  if (node->operands[x]->constant != NULL) return "the input is a constant";
  if (!is_weight(node->operands[w], axis)) return "the weights are not constant integers of 8 bits, per tensor or output channel";
  if (y->qparams != NULL ? !intact__is_int8(y) : y->dtype != INTACT_F32)
    return "the output is neither 8 bits per tensor nor float32";
  if (bias >= 0 && bias < node->n_operands && node->operands[bias] != NULL) {
    const intact_value *b = node->operands[bias];
    if (b->constant == NULL || (b->dtype != INTACT_S32 && b->dtype != INTACT_F32)) return "the bias is not a constant of s32 or float32";
  }
  return scales_fit(node->operands[x], node->operands[w], y) ? NULL : "the ratio of the scales overflows float32";
}

const char *intact__check_conv(const intact_node *node) { return check_gemm(node, 0, 1, 2, 0); }

const char *intact__check_linear(const intact_node *node) { return check_gemm(node, 0, 1, 2, 0); }

const char *intact__check_addmm(const intact_node *node) {
  if (intact__attr_float(node, "alpha") != 1 || intact__attr_float(node, "beta") != 1) return "alpha or beta is not 1";
  const intact_value *c = node->operands[0], *b = node->operands[2];
  if (c == NULL || c->rank < 1 || b->rank != 2 || c->dims[c->rank - 1] != b->dims[1]) return "c is not one number per column";
  for (int i = 0; i < c->rank - 1; i++)
    if (c->dims[i] != 1) return "c is not one number per column";
  return check_gemm(node, 1, 2, 0, 1);
}

const char *intact__check_matmul(const intact_node *node) {
  if (node->operands[1]->rank != 2) return "the second operand has more than two axes";
  if (node->operands[0]->rank < 2) return "the first operand has one axis";
  return check_gemm(node, 0, 1, -1, 1);
}

/* ---- running ---- */

typedef struct gemm_job {
  const gemm_step *step;
  const void *x;
  void *y;
  uint8_t *scratch;
  const int32_t *sums;
} gemm_job;

static void run_bands(void *user, int64_t begin, int64_t end) {
  const gemm_job *job = user;
  const gemm_step *s = job->step;
  uint8_t *scratch = job->scratch + (size_t)intact__thread_index() * s->thread_scratch;
  void *y = s->sums ? job->scratch + s->sums_at : job->y;
  if (s->depthwise)
    intact__qdwconv_run(&s->dw_plan, job->x, y, scratch, begin, end);
  else
    intact__qgemm_run(&s->plan, job->x, y, scratch, begin, end);
}

static void finish_pixels(void *user, int64_t begin, int64_t end) {
  const gemm_job *job = user;
  const gemm_step *s = job->step;
  for (int64_t p = begin; p < end; p++) {
    const int32_t *sums = job->sums + p * s->channels;
    if (s->real_scale != NULL) {
      float *y = (float *)job->y + p * s->channels;
      for (int64_t n = 0; n < s->channels; n++) y[n] = (float)sums[n] * s->real_scale[n];
    } else {
      uint8_t *y = (uint8_t *)job->y + p * s->channels;
      for (int64_t n = 0; n < s->channels; n++) y[n] = (uint8_t)intact__requantize_one(sums[n], &s->requantize[n]);
    }
  }
}

static intact_status run_gemm(const intact_step_call *call) {
  const gemm_step *s = call->step->params;
  gemm_job job = {s, call->in[s->operand], call->out[0], call->scratch, NULL};
  if (s->depthwise)
    intact__parallel(call->context, s->dw_plan.n_bands, s->dw_plan.grain, run_bands, &job);
  else
    intact__parallel(call->context, s->plan.n_bands, s->plan.grain, run_bands, &job);
  if (!s->sums) return INTACT_OK;
  job.sums = (const int32_t *)(const void *)(job.scratch + s->sums_at);
  intact__parallel(call->context, s->pixels, GRAIN, finish_pixels, &job);
  return INTACT_OK;
}

/* ---- lowering ---- */

/* The bias in steps of sx * sw, whatever it is stored in: rne(b / (sx * sw)). */
static intact_status make_bias(const intact_lower *lower, const gemm_node *g, int32_t **bias) {
  *bias = NULL;
  if (g->bias == NULL) return INTACT_OK;
  const intact_tensor *tensor = g->bias->constant;
  const intact_qparams *own = g->bias->qparams, *w = g->w->qparams;
  if (tensor->count != 1 && tensor->count != g->channels)
    INTACT_FAIL(lower->context, SIZE_MISMATCH, lower->node->name, "%s: the bias has %lld elements for %lld output channels",
                lower->node->op->name, (long long)tensor->count, (long long)g->channels);
  INTACT_TRY(INTACT_LOWER_NEW(lower, g->channels, bias));
  for (int64_t n = 0; n < g->channels; n++) {
    int64_t i = tensor->count == 1 ? 0 : n;
    float scale = g->x->qparams->scale[0] * w->scale[w->n == 1 ? 0 : n];
    if (tensor->dtype == INTACT_F32) {
      (*bias)[n] = intact__quantize_bias(intact__f32(tensor)[i], scale);
      continue;
    }
    int32_t code = ((const int32_t *)tensor->data)[i];
    int64_t k = own == NULL || own->n == 1 ? 0 : i;
    bool same = own == NULL || (own->scale[k] == scale && own->zero_point[k] == 0);
    double real = same ? 0 : ((double)code - own->zero_point[k]) * (double)own->scale[k] / (double)scale;
    (*bias)[n] = same ? code : (int32_t)intact__clamp_s64(intact__round_s64(real), INT32_MIN, INT32_MAX);
  }
  return INTACT_OK;
}

/* Per channel: the multiplier of the kernels' rule, that of another rule, or the scale of float results. */
static intact_status make_scales(const intact_lower *lower, const gemm_node *g, gemm_step *s, float **scale) {
  const intact_qparams *w = g->w->qparams, *y = g->y->qparams;
  intact_requantize_rule rule = INTACT_REQUANTIZE_F32_RNE;
  if (y != NULL && !intact__requantize_rule_from_text(lower->requantize, &rule))
    INTACT_FAIL(lower->context, INVALID_VALUE, lower->node->name, "requantize rule '%s' is not known", lower->requantize);
  intact_requantize *other = NULL;
  INTACT_TRY(INTACT_LOWER_NEW(lower, g->channels, scale));
  if (y != NULL && rule != INTACT_REQUANTIZE_F32_RNE) INTACT_TRY(INTACT_LOWER_NEW(lower, g->channels, &other));
  for (int64_t n = 0; n < g->channels; n++) {
    float sx = g->x->qparams->scale[0], sw = w->scale[w->n == 1 ? 0 : n];
    (*scale)[n] = y != NULL ? intact__requantize_multiplier(sx, sw, y->scale[0]) : sx * sw;
    if (other != NULL)
      other[n] = intact__requantize_create(rule, sx, sw, y->scale[0], y->zero_point[0], (int32_t)y->quant_min, (int32_t)y->quant_max);
  }
  s->requantize = other;
  s->real_scale = y == NULL ? *scale : NULL;
  return INTACT_OK;
}

static void fill_shape(const intact_lower *lower, gemm_node *g) {
  const intact_qparams *y = g->y->qparams;
  intact_requantize_rule rule = INTACT_REQUANTIZE_F32_RNE;
  intact_qgemm_shape *shape = &g->shape;
  shape->x_signed = intact__is_signed(g->x);
  shape->zero_x = intact__zero_of(g->x);
  if (y != NULL) {
    intact__requantize_rule_from_text(lower->requantize, &rule);
    shape->y_signed = intact__is_signed(g->y);
    shape->zero_y = y->zero_point[0], shape->y_min = (int32_t)y->quant_min, shape->y_max = (int32_t)y->quant_max;
  }
  shape->output = y == NULL || rule != INTACT_REQUANTIZE_F32_RNE ? INTACT_QGEMM_S32 : INTACT_QGEMM_8BIT;
}

/* The weights as bytes: packed 4- and 2-bit types are unpacked into memory of the heap (*unpacked). */
static intact_status weight_bytes(const intact_lower *lower, const intact_tensor *w, const void **data, void **unpacked) {
  *data = w->data, *unpacked = NULL;
  if (intact_dtype_bits(w->dtype) == 8) return INTACT_OK;
  int8_t *bytes = intact__alloc(lower->context, (size_t)w->count, 1);
  if (bytes == NULL) return intact__no_memory(lower->context, (size_t)w->count);
  for (int64_t i = 0; i < w->count; i++) bytes[i] = (int8_t)intact__tensor_get_s64(w, i);
  *data = *unpacked = bytes;
  return INTACT_OK;
}

static intact_status pack_dense(const intact_lower *lower, const gemm_node *g, gemm_step *s, const intact_qgemm_weights *weights) {
  int64_t *segments = NULL;
  uint8_t *packed = NULL;
  int threads = intact_context_threads(lower->context);
  const intact_qgemm_kernel *kernel = intact__qgemm_pick(lower->isa_set, &g->shape, weights);
  if (!intact__qgemm_plan(kernel, &g->shape, threads, &s->plan))
    INTACT_FAIL(lower->context, OVERFLOW, lower->node->name, "%s: its sizes overflow", lower->node->op->name);
  INTACT_TRY(INTACT_LOWER_NEW(lower, s->plan.n_segments, &segments));
  INTACT_TRY(INTACT_LOWER_NEW(lower, intact__qgemm_packed_bytes(&s->plan, weights), &packed));
  intact__qgemm_pack(&s->plan, weights, segments, packed);
  s->thread_scratch = s->plan.scratch_bytes;
  lower->step->kernel = kernel->name;
  return INTACT_OK;
}

/* One channel in and out per group, over one or two axes. */
static bool is_depthwise(const intact_qgemm_shape *shape) {
  return shape->groups > 1 && shape->in_channels == 1 && shape->out_channels == 1 && shape->axis[1].kernel == 1 &&
         shape->axis[1].in == 1 && shape->axis[1].out == 1 && shape->axis[1].pad == 0;
}

static intact_status pack_depthwise(const intact_lower *lower, const gemm_node *g, gemm_step *s,
                                    const intact_qgemm_weights *weights) {
  const intact_qgemm_shape *from = &g->shape;
  bool flat = from->axis[2].in == 1 && from->axis[2].kernel == 1 && from->axis[2].pad == 0; /* conv1d: along the width */
  intact_qdwconv_shape shape = {from->batch,    from->groups,   from->axis[flat ? 2 : 0], from->axis[flat ? 0 : 2], from->x_signed,
                                from->y_signed, from->zero_x,   from->zero_y,             from->y_min,              from->y_max,
                                s->sums};
  intact_qdwconv_weights dw = {weights->data, weights->is_unsigned, weights->zero, weights->bias, weights->scale};
  int64_t *offsets = NULL;
  uint8_t *packed = NULL;
  const intact_qdwconv_kernel *kernel = intact__qdwconv_pick(lower->isa_set);
  int parts = intact__qdwconv_parts(kernel, &shape, &dw);
  if (!intact__qdwconv_plan(kernel, &shape, parts, intact_context_threads(lower->context), &s->dw_plan))
    INTACT_FAIL(lower->context, OVERFLOW, lower->node->name, "%s: its sizes overflow", lower->node->op->name);
  INTACT_TRY(INTACT_LOWER_NEW(lower, s->dw_plan.all_steps, &offsets));
  INTACT_TRY(INTACT_LOWER_NEW(lower, intact__qdwconv_packed_bytes(&s->dw_plan), &packed));
  intact__qdwconv_pack(&s->dw_plan, &dw, offsets, packed);
  s->depthwise = true;
  s->thread_scratch = s->dw_plan.scratch_bytes;
  lower->step->kernel = kernel->name;
  return INTACT_OK;
}

static intact_status pack(const intact_lower *lower, const gemm_node *g, gemm_step *s, const int32_t *bias, const float *scale) {
  const intact_qparams *q = g->w->qparams;
  const void *data;
  void *unpacked;
  int32_t *zero = NULL;
  bool any = false;
  for (int64_t n = 0; n < q->n; n++) any = any || q->zero_point[n] != 0;
  if (any) {
    INTACT_TRY(INTACT_LOWER_NEW(lower, g->channels, &zero));
    for (int64_t n = 0; n < g->channels; n++) zero[n] = q->zero_point[q->n == 1 ? 0 : n];
  }
  INTACT_TRY(weight_bytes(lower, g->w->constant, &data, &unpacked));
  intact_qgemm_weights weights = {data,          intact_dtype_min(g->w->dtype) == 0, g->n_stride, g->tap_stride, g->c_stride, zero, bias,
                                  scale};
  intact_status status = is_depthwise(&g->shape) ? pack_depthwise(lower, g, s, &weights) : pack_dense(lower, g, s, &weights);
  intact__free(lower->context, unpacked);
  return status;
}

static intact_status lower_gemm(intact_lower *lower, gemm_node *g) {
  gemm_step *s;
  int32_t *bias;
  float *scale;
  INTACT_TRY(INTACT_LOWER_NEW(lower, 1, &s));
  fill_shape(lower, g);
  INTACT_TRY(make_bias(lower, g, &bias));
  INTACT_TRY(make_scales(lower, g, s, &scale));
  s->sums = g->shape.output == INTACT_QGEMM_S32;
  INTACT_TRY(pack(lower, g, s, bias, scale));
  s->operand = g->operand;
  s->channels = g->channels;
  s->pixels = g->channels > 0 ? intact__value_count(g->y) / g->channels : 0;
  lower->step->scratch_bytes = s->thread_scratch * (size_t)intact_context_threads(lower->context);
  if (s->sums) {
    s->sums_at = lower->step->scratch_bytes;
    lower->step->scratch_bytes += (size_t)(s->pixels * s->channels) * sizeof(int32_t);
  }
  lower->step->run = run_gemm;
  lower->step->params = s;
  intact__lower_packed(lower);
  return INTACT_OK;
}

static const intact_value *operand_or_null(const intact_node *node, int i) {
  return i < node->n_operands ? node->operands[i] : NULL;
}

intact_status intact__lower_conv(intact_lower *lower) {
  const intact_node *node = lower->node;
  gemm_node g = {.x = node->operands[0], .w = node->operands[1], .bias = operand_or_null(node, 2), .y = node->results[0]};
  int n = g.x->rank - 2;
  intact_window window;
  intact__window_known(node, n, g.x->dims + 2, g.w->dims + 2, g.y->dims + 2, false, &window);
  int64_t taps = intact__window_taps(&window);
  bool in_order = lower->channels_last || (g.w->dims[1] == 1 && g.w->dims[0] == 1) || g.x->dims[1] == 0;
  if (!in_order) INTACT_FAIL(lower->context, INTERNAL, node->name, "%s: channels must come last", node->op->name);
  g.shape.batch = g.x->dims[0];
  g.shape.groups = intact__attr_int(node, "groups");
  g.shape.in_channels = g.w->dims[1];
  g.channels = g.w->dims[0];
  g.shape.out_channels = g.channels / g.shape.groups;
  g.n_stride = g.shape.in_channels * taps, g.tap_stride = 1, g.c_stride = taps;
  static const int order[4][3] = {{0, 1, 2}, {2, 0, 1}, {1, 0, 2}, {0, 1, 2}}; /* bands are cut along the first */
  for (int i = 0; i < 3; i++) {
    int a = order[n][i];
    g.shape.axis[i] = (intact_conv_axis){window.in[a],     window.out[a],      window.kernel[a],
                                         window.stride[a], window.dilation[a], window.before[a]};
  }
  return lower_gemm(lower, &g);
}

/* x [.., k] times k x channels weights. */
static intact_status lower_product(intact_lower *lower, gemm_node *g, int64_t k, bool transposed) {
  const intact_conv_axis one = {1, 1, 1, 1, 1, 0};
  g->shape.batch = k > 0 ? intact__value_count(g->x) / k : 0;
  g->shape.axis[0] = g->shape.axis[1] = g->shape.axis[2] = one;
  g->shape.groups = 1, g->shape.in_channels = k, g->shape.out_channels = g->channels;
  g->tap_stride = 0;
  g->n_stride = transposed ? k : 1;
  g->c_stride = transposed ? 1 : g->channels;
  return lower_gemm(lower, g);
}

intact_status intact__lower_linear(intact_lower *lower) {
  const intact_node *node = lower->node;
  gemm_node g = {.x = node->operands[0], .w = node->operands[1], .bias = operand_or_null(node, 2), .y = node->results[0]};
  g.channels = g.w->dims[0];
  return lower_product(lower, &g, g.w->dims[1], true);
}

intact_status intact__lower_addmm(intact_lower *lower) {
  const intact_node *node = lower->node;
  gemm_node g = {.operand = 1, .x = node->operands[1], .w = node->operands[2], .bias = node->operands[0], .y = node->results[0]};
  g.channels = g.w->dims[1];
  return lower_product(lower, &g, g.w->dims[0], false);
}

intact_status intact__lower_matmul(intact_lower *lower) {
  const intact_node *node = lower->node;
  gemm_node g = {.x = node->operands[0], .w = node->operands[1], .y = node->results[0]};
  g.channels = g.w->dims[1];
  return lower_product(lower, &g, g.w->dims[0], false);
}
