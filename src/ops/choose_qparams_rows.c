/* SPDX-License-Identifier: Apache-2.0 */
/* Rows that choose scale and zero point from the data: what dynamic quantization computes at run time. */
#include <string.h>

#include "kernels/affine/choose_qparams.h"
#include "kernels/affine/statistics.h"
#include "ops/common.h"
#include "ops/decomposed.h"

static const int64_t one = 1;

static intact_status fail_type(const intact_call *call, const char *what, intact_dtype dtype, const char *wanted) {
  INTACT_FAIL(call->context, TYPE_MISMATCH, call->node->name, "%s '%s': %s is %s; it must be %s", call->node->op->name,
              call->node->name, what, intact_dtype_text(dtype), wanted);
}

static intact_status fail_empty(const intact_call *call) {
  INTACT_FAIL(call->context, SIZE_MISMATCH, call->node->name, "%s '%s': x has no elements; a range can't be taken of it",
              call->node->op->name, call->node->name);
}

/* Range of the finite elements begin..end; 0..0 when there are none. */
static intact_min_max range_of(const intact_tensor *x, int64_t begin, int64_t end) {
  intact_min_max m = INTACT_MIN_MAX_START;
  for (int64_t i = begin; i < end; i++) {
    float v = (float)intact__tensor_get_f64(x, i);
    intact__min_max_array(0, &v, 1, &m);
  }
  if (!(m.low <= m.high)) m.low = m.high = 0.0f;
  return m;
}

static intact_status give_scalar_qparams(const intact_call *call, double scale, int64_t zero_point) {
  intact_tensor *s, *z;
  INTACT_TRY(intact__call_result(call, 0, INTACT_F64, 1, &one, &s));
  INTACT_TRY(intact__call_result(call, 1, INTACT_S64, 1, &one, &z));
  *(double *)s->data = scale;
  *(int64_t *)z->data = zero_point;
  return INTACT_OK;
}

static intact_status infer_scalar_qparams(intact_infer *infer) {
  INTACT_TRY(intact__infer_result(infer, 0, INTACT_F64, 1, &one));
  return intact__infer_result(infer, 1, INTACT_S64, 1, &one);
}

/* ---- observer form: quantized_decomposed.choose_qparams(_symmetric) ---- */

static intact_status eval_choose(const intact_call *call, bool symmetric) {
  const intact_tensor *x = call->operands[0];
  const intact_node *node = call->node;
  intact_dtype dtype = (intact_dtype)intact__attr_int(node, "dtype");
  int64_t low = intact__attr_int(node, "quant_min"), high = intact__attr_int(node, "quant_max");
  float eps = (float)intact__attr_float(node, "eps");
  if (x->dtype != INTACT_F32 && x->dtype != INTACT_F16 && x->dtype != INTACT_BF16)
    return fail_type(call, "x", x->dtype, "f32, f16 or bf16");
  if (x->count == 0) return fail_empty(call);
  if (low > 0 || high < 0 || low >= high || low < INT32_MIN || high > UINT32_MAX)
    INTACT_FAIL(call->context, OUT_OF_RANGE, node->name,
                "%s '%s': range %lld..%lld must be ordered, not empty, hold 0 and lie within -2^31..2^32-1", node->op->name, node->name,
                (long long)low, (long long)high);
  intact_min_max m = range_of(x, 0, x->count);
  double lo = m.low < 0 ? (double)m.low : 0.0, hi = m.high > 0 ? (double)m.high : 0.0;
  intact_dtype type = x->dtype; /* of the difference and the quotient */
  double scale, zero = 0;
  if (symmetric) {
    scale = intact__round_to(type, (-lo > hi ? -lo : hi) / ((double)(high - low) / 2));
    if (dtype == INTACT_U8) zero = 128;
  } else {
    scale = intact__round_to(type, intact__round_to(type, hi - lo) / (double)(float)(high - low));
  }
  if (!(scale > (double)eps)) scale = (double)eps;
  if (!symmetric) {
    const int64_t far = (int64_t)1 << 40; /* beyond every range */
    int64_t z = low - intact__clamp_s64(intact__round_s64((double)((float)lo / (float)scale)), -far, far);
    zero = (double)intact__clamp_s64(z, low, high);
  }
  return give_scalar_qparams(call, scale, (int64_t)zero);
}

static intact_status eval_choose_affine(const intact_call *call) { return eval_choose(call, false); }
static intact_status eval_choose_symmetric(const intact_call *call) { return eval_choose(call, true); }

#define CHOOSE_ATTRS                                                                                                        \
  INTACT_ATTRS({.name = "quant_min", .type = INTACT_ATTR_INT, .required = true},                                           \
               {.name = "quant_max", .type = INTACT_ATTR_INT, .required = true},                                           \
               {.name = "eps", .type = INTACT_ATTR_FLOAT, .f = INTACT_DEFAULT_EPS},                                         \
               {.name = "dtype", .type = INTACT_ATTR_DTYPE, .required = true})
#define CHOOSE_TRAITS {.result = INTACT_RESULT_NONE, .no_quantize = true}
#define CHOOSE_MAP "quant_min=quant_min,quant_max=quant_max,eps=eps,dtype=dtype"

const intact_op intact_op_decomposed_choose_qparams = {
    .name = "decomposed_choose_qparams",
    .doc = "Scale and zero point of x's range by the observers' affine rule.",
    .schema = {INTACT_OPERANDS({"input", INTACT_ROLE_NONE, 0}), INTACT_RESULTS("scale", "zero_point"), CHOOSE_ATTRS},
    .infer = infer_scalar_qparams,
    .eval_f32 = eval_choose_affine,
    .grad = intact__grad_none,
    .quant = CHOOSE_TRAITS,
    .aliases = (const intact_alias[]){{"aten", "quantized_decomposed::choose_qparams", 0, 0, CHOOSE_MAP, NULL}, {0}},
};

const intact_op intact_op_decomposed_choose_qparams_symmetric = {
    .name = "decomposed_choose_qparams_symmetric",
    .doc = "Scale and zero point of x's range by the observers' symmetric rule; u8 has zero point 128.",
    .schema = {INTACT_OPERANDS({"input", INTACT_ROLE_NONE, 0}), INTACT_RESULTS("scale", "zero_point"), CHOOSE_ATTRS},
    .infer = infer_scalar_qparams,
    .eval_f32 = eval_choose_symmetric,
    .grad = intact__grad_none,
    .quant = CHOOSE_TRAITS,
    .aliases = (const intact_alias[]){{"aten", "quantized_decomposed::choose_qparams_symmetric", 0, 0, CHOOSE_MAP, NULL}, {0}},
};

/* ---- per token ---- */

static intact_dtype token_scale_dtype(intact_dtype x) { return x == INTACT_F16 ? INTACT_F32 : x; }

static intact_status infer_token(intact_infer *infer, intact_dtype scale, intact_dtype zero) {
  const intact_value *x = infer->node->operands[0];
  int64_t dims[INTACT_MAX_RANK];
  for (int i = 0; i < x->rank; i++) dims[i] = i + 1 < x->rank ? x->dims[i] : 1;
  INTACT_TRY(intact__infer_result(infer, 0, scale, x->rank, dims));
  return intact__infer_result(infer, 1, zero, x->rank, dims);
}
static intact_status infer_per_token(intact_infer *infer) {
  return infer_token(infer, token_scale_dtype(infer->node->operands[0]->dtype), INTACT_F32);
}
static intact_status infer_per_token_asymmetric(intact_infer *infer) { return infer_token(infer, INTACT_F64, INTACT_S64); }

static intact_status token_results(const intact_call *call, intact_dtype scale, intact_dtype zero, intact_tensor **s,
                                   intact_tensor **z, int64_t *length) {
  const intact_tensor *x = call->operands[0];
  int64_t dims[INTACT_MAX_RANK];
  if (!intact_dtype_is_float(x->dtype)) return fail_type(call, "x", x->dtype, "a floating-point type");
  if (x->rank < 1 || x->dims[x->rank - 1] == 0) return fail_empty(call);
  for (int i = 0; i < x->rank; i++) dims[i] = i + 1 < x->rank ? x->dims[i] : 1;
  *length = x->dims[x->rank - 1];
  INTACT_TRY(intact__call_result(call, 0, scale, x->rank, dims, s));
  return intact__call_result(call, 1, zero, x->rank, dims, z);
}

/* scale = max(max |x|, 1e-5) / 127, zero point 0 (a float tensor). */
static intact_status eval_per_token(const intact_call *call) {
  const intact_tensor *x = call->operands[0];
  intact_dtype dtype = (intact_dtype)intact__attr_int(call->node, "dtype"), type = token_scale_dtype(x->dtype);
  intact_tensor *s, *z;
  int64_t length;
  if (dtype != INTACT_S8) return fail_type(call, "dtype", dtype, "s8");
  INTACT_TRY(token_results(call, type, INTACT_F32, &s, &z, &length));
  for (int64_t i = 0; i < s->count; i++) {
    intact_min_max m = range_of(x, i * length, (i + 1) * length);
    double most = (double)(-m.low > m.high ? -m.low : m.high), least = intact__round_to(type, 1e-5);
    intact__tensor_set_f64(s, i, intact__round_to(type, (most > least ? most : least) / 127.0));
    intact__tensor_set_f64(z, i, 0.0);
  }
  return INTACT_OK;
}

/* s8; every step in x's type. */
static void asymmetric_token(intact_dtype type, intact_min_max m, double *scale, double *zero_point) {
  double low = -128, high = 127, lo = m.low < 0 ? (double)m.low : 0.0, hi = m.high > 0 ? (double)m.high : 0.0;
  double s = intact__round_to(type, intact__round_to(type, hi - lo) / (high - low)), eps = intact__round_to(type, INTACT_DEFAULT_EPS);
  if (!(s > eps)) s = eps;
  double steps_low = intact__round_to(type, lo / s), steps_high = intact__round_to(type, hi / s);
  double error_low = intact__round_to(type, low + steps_low), error_high = intact__round_to(type, high + steps_high);
  double z = intact__round_to(type, error_low + error_high) > 0 ? intact__round_to(type, low - steps_low)
                                                                 : intact__round_to(type, high - steps_high);
  *scale = s;
  *zero_point = nearbyint(fmin(fmax(z, low), high));
}

static intact_status eval_per_token_asymmetric(const intact_call *call) {
  const intact_tensor *x = call->operands[0];
  intact_tensor *s, *z;
  int64_t length;
  INTACT_TRY(token_results(call, INTACT_F64, INTACT_S64, &s, &z, &length));
  for (int64_t i = 0; i < s->count; i++) {
    double scale, zero;
    asymmetric_token(x->dtype, range_of(x, i * length, (i + 1) * length), &scale, &zero);
    intact__tensor_set_f64(s, i, scale);
    intact__tensor_set_f64(z, i, zero);
  }
  return INTACT_OK;
}

#define TOKEN_ATTRS INTACT_ATTRS({.name = "dtype", .type = INTACT_ATTR_DTYPE, .required = true})

const intact_op intact_op_decomposed_choose_qparams_per_token = {
    .name = "decomposed_choose_qparams_per_token",
    .doc = "For every row of the last axis: scale = max(max |x|, 1e-5) / 127, zero point 0.",
    .schema = {INTACT_OPERANDS({"input", INTACT_ROLE_NONE, 0}), INTACT_RESULTS("scales", "zero_points"), TOKEN_ATTRS},
    .infer = infer_per_token,
    .eval_f32 = eval_per_token,
    .grad = intact__grad_none,
    .quant = CHOOSE_TRAITS,
    .aliases = (const intact_alias[]){{"aten", "quantized_decomposed::choose_qparams_per_token", 0, 0, "dtype=dtype", NULL}, {0}},
};

const intact_op intact_op_decomposed_choose_qparams_per_token_asymmetric = {
    .name = "decomposed_choose_qparams_per_token_asymmetric",
    .doc = "For every row of the last axis: affine qparams for -128..127, the zero point from the end with the smaller error.",
    .schema = {INTACT_OPERANDS({"input", INTACT_ROLE_NONE, 0}), INTACT_RESULTS("scales", "zero_points"), TOKEN_ATTRS},
    .infer = infer_per_token_asymmetric,
    .eval_f32 = eval_per_token_asymmetric,
    .grad = intact__grad_none,
    .quant = CHOOSE_TRAITS,
    .aliases =
        (const intact_alias[]){{"aten", "quantized_decomposed::choose_qparams_per_token_asymmetric", 0, 0, "dtype=dtype", NULL}, {0}},
};

/* ---- integer-library form: torch._choose_qparams_per_tensor ---- */

static intact_status eval_choose_per_tensor(const intact_call *call) {
  const intact_tensor *x = call->operands[0];
  double scale;
  int32_t zero;
  if (!intact_dtype_is_float(x->dtype)) return fail_type(call, "x", x->dtype, "a floating-point type");
  if (x->count == 0) return fail_empty(call);
  intact_min_max m = range_of(x, 0, x->count);
  intact__choose_qparams(INTACT_CHOOSE_ATEN, m.low, m.high, 0, intact__attr_int(call->node, "reduce_range") ? 127 : 255, false,
                         &scale, &zero);
  return give_scalar_qparams(call, scale, zero);
}

const intact_op intact_op_choose_qparams_per_tensor = {
    .name = "choose_qparams_per_tensor",
    .doc = "Scale and zero point of x's range for 0..255 (0..127 with reduce_range) by the integer libraries' rule.",
    .schema = {INTACT_OPERANDS({"self", INTACT_ROLE_NONE, 0}), INTACT_RESULTS("scale", "zero_point"),
               INTACT_ATTRS({.name = "reduce_range", .type = INTACT_ATTR_BOOL})},
    .infer = infer_scalar_qparams,
    .eval_f32 = eval_choose_per_tensor,
    .grad = intact__grad_none,
    .quant = CHOOSE_TRAITS,
    .aliases = (const intact_alias[]){{"aten", "aten::_choose_qparams_per_tensor", 0, 0, "reduce_range=reduce_range", NULL}, {0}},
};

/* ---- 2- and 4-bit rows of embeddings: torch.choose_qparams_optimized ---- */

static float to_half(float v) { return intact__f16_to_f32(intact__f32_to_f16(v)); }

/* L2 error of x quantized with low and scale in half precision; float32 sums in order. */
static float optimized_loss(const float *x, int64_t n, float low, float high, int bits) {
  low = to_half(low);
  float range = high - low, top = (float)((1 << bits) - 1), scale = range == 0.0f ? 1.0f : to_half(range / top);
  float inverse = scale == 0.0f ? 1.0f : 1.0f / scale, sum = 0.0f;
  for (int64_t i = 0; i < n; i++) {
    float q = nearbyintf((x[i] - low) * inverse);
    if (q > top) q = top;
    if (!(q > 0.0f)) q = 0.0f;
    float error = x[i] - (q * scale + low);
    sum += error * error;
  }
  return sqrtf(sum);
}

/* Narrows the range step by step from the side that loses less and keeps the best local optimum. */
static void optimized_range(const float *x, int64_t n, int n_bins, float ratio, int bits, float *low, float *high) {
  intact_min_max m = INTACT_MIN_MAX_START;
  intact__min_max_array(0, x, n, &m);
  *low = m.low;
  *high = m.high;
  float step = (m.high - m.low) / (float)n_bins, best = optimized_loss(x, n, m.low, m.high, bits), now = best;
  float least = (float)(int)((double)n_bins * (1.0 - (double)ratio)) * step, from = m.low, to = m.high;
  for (int moves = 0; from + least < to && moves <= n_bins; moves++) { /* rounding may keep from and to in place */
    float up = optimized_loss(x, n, from + step, to, bits), down = optimized_loss(x, n, from, to - step, bits);
    if (now < up && now < down && now < best) {
      best = now;
      *low = from;
      *high = to;
    }
    if (up < down) {
      from += step;
      now = up;
    } else {
      to -= step;
      now = down;
    }
  }
}

static intact_status eval_optimized(const intact_call *call) {
  const intact_tensor *x = call->operands[0];
  const intact_node *node = call->node;
  int64_t n = intact__attr_int(node, "numel"), n_bins = intact__attr_int(node, "n_bins"), bits = intact__attr_int(node, "bit_width");
  double ratio = intact__attr_float(node, "ratio");
  if (x->dtype != INTACT_F32) return fail_type(call, "x", x->dtype, "f32");
  if (n < 1 || n > x->count)
    INTACT_FAIL(call->context, OUT_OF_RANGE, node->name, "%s '%s': numel %lld is not within 1..%lld, the elements of x", node->op->name,
                node->name, (long long)n, (long long)x->count);
  if (n_bins < 1 || n_bins > 1 << 16 || bits < 1 || bits > 8 || !(ratio >= 0.0 && ratio <= 1.0))
    INTACT_FAIL(call->context, OUT_OF_RANGE, node->name, "%s '%s': n_bins %lld must be 1..65536, bit_width %lld 1..8, ratio %g 0..1",
                node->op->name, node->name, (long long)n_bins, (long long)bits, ratio);
  intact_tensor *high, *low;
  INTACT_TRY(intact__call_result(call, 0, INTACT_F32, 1, &one, &high));
  INTACT_TRY(intact__call_result(call, 1, INTACT_F32, 1, &one, &low));
  optimized_range(x->data, n, (int)n_bins, (float)ratio, (int)bits, low->data, high->data);
  return INTACT_OK;
}

static intact_status infer_optimized(intact_infer *infer) {
  INTACT_TRY(intact__infer_result(infer, 0, INTACT_F32, 1, &one));
  return intact__infer_result(infer, 1, INTACT_F32, 1, &one);
}

const intact_op intact_op_choose_qparams_optimized = {
    .name = "choose_qparams_optimized",
    .doc = "Range of x with a small L2 error for bit_width-bit rows of embeddings: a greedy search from both ends.",
    .schema = {INTACT_OPERANDS({"input", INTACT_ROLE_NONE, 0}), INTACT_RESULTS("xmax", "xmin"),
               INTACT_ATTRS({.name = "numel", .type = INTACT_ATTR_INT, .required = true},
                            {.name = "n_bins", .type = INTACT_ATTR_INT, .i = 200},
                            {.name = "ratio", .type = INTACT_ATTR_FLOAT, .f = 0.16},
                            {.name = "bit_width", .type = INTACT_ATTR_INT, .i = 4})},
    .infer = infer_optimized,
    .eval_f32 = eval_optimized,
    .grad = intact__grad_none,
    .quant = CHOOSE_TRAITS,
    .aliases = (const intact_alias[]){{"aten", "aten::choose_qparams_optimized", 0, 0,
                                       "numel=numel,n_bins=n_bins,ratio=ratio,bit_width=bit_width", NULL},
                                      {0}},
};
