/* SPDX-License-Identifier: Apache-2.0 */
/* PyTorch's quantized_decomposed operators and its eager quantize_per_*: integers to and from real values with qparams as
   operands, each step rounded to the type that PyTorch computes in. */
#include "ops/decomposed.h"

#include "kernels/affine/affine.h"
#include "ops/common.h"

double intact__round_to(intact_dtype type, double v) {
  switch (type) {
    case INTACT_F32: return (double)(float)v;
    case INTACT_F16: return (double)intact__f16_to_f32(intact__f32_to_f16((float)v));
    case INTACT_BF16: return (double)intact__bf16_to_f32(intact__f32_to_bf16((float)v));
    default: return v;
  }
}

static intact_dtype wider(intact_dtype a, intact_dtype b) {
  if (!intact_dtype_is_float(a)) return b;
  if (!intact_dtype_is_float(b) || a == b) return a;
  if (a == INTACT_F64 || b == INTACT_F64) return INTACT_F64;
  return INTACT_F32; /* two different types of at most 32 bits */
}

/* Element i uses qparams (i / inner) % length. */
typedef struct qparams_map {
  int64_t inner, length;
} qparams_map;

typedef struct element_job {
  const intact_tensor *in, *scale, *zero_point; /* zero_point may be NULL */
  intact_tensor *out;
  qparams_map map;
  intact_dtype type;    /* of the arithmetic */
  bool zero_inside;     /* the zero point is added before the rounding */
  bool scalar_qparams;  /* scale is a number (double) and not a tensor */
  int64_t low, high;
} element_job;

static void quantize_elements(void *user, int64_t begin, int64_t end) {
  const element_job *job = user;
  intact_dtype scale_type = job->scalar_qparams ? INTACT_F64 : job->scale->dtype;
  for (int64_t i = begin; i < end; i++) {
    int64_t at = i / job->map.inner % job->map.length;
    double s = intact__tensor_get_f64(job->scale, at), z = job->zero_point ? intact__tensor_get_f64(job->zero_point, at) : 0.0;
    double inverse = intact__round_to(job->type, intact__round_to(scale_type, 1.0 / s));
    double v = intact__round_to(job->type, intact__tensor_get_f64(job->in, i) * inverse);
    int64_t q;
    if (job->zero_inside)
      q = intact__round_s64(intact__round_to(job->type, v + intact__round_to(job->type, z)));
    else
      q = intact__round_s64(v) + intact__round_s64(z);
    intact__tensor_set_s64(job->out, i, intact__clamp_s64(q, job->low, job->high));
  }
}

/* (q - z) * s, the difference exact for integers, else rounded. */
static void dequantize_elements(void *user, int64_t begin, int64_t end) {
  const element_job *job = user;
  for (int64_t i = begin; i < end; i++) {
    int64_t at = i / job->map.inner % job->map.length;
    double s = intact__tensor_get_f64(job->scale, at), q = (double)intact__tensor_get_s64(job->in, i);
    if (job->scalar_qparams) { /* q and the difference are rounded to the type of the result */
      q = intact__round_to(job->type, q);
      s = intact__round_to(job->type == INTACT_F64 ? INTACT_F64 : INTACT_F32, s);
    }
    if (job->zero_point) {
      q -= intact__tensor_get_f64(job->zero_point, at);
      intact_dtype zero_type = job->zero_point->dtype;
      if (job->scalar_qparams || intact_dtype_is_float(zero_type)) q = intact__round_to(job->scalar_qparams ? job->type : zero_type, q);
    }
    intact__tensor_set_f64(job->out, i, intact__round_to(job->type, intact__round_to(job->type, q) * s));
  }
}

/* Elements of 2- and 4-bit types share bytes: those run on one thread. */
static void run_elements(intact_context *context, element_job *job, intact_range_fn fn) {
  if (job->out->count == 0) return;
  if (intact_dtype_bits(job->out->dtype) < 8)
    fn(job, 0, job->out->count);
  else
    intact__parallel(context, job->out->count, 1 << 14, fn, job);
}

/* ---- checks ---- */

static const intact_tensor *operand(const intact_call *call, int i) { return i < call->n_operands ? call->operands[i] : NULL; }

static bool is_small_float(intact_dtype dtype) { return dtype == INTACT_F32 || dtype == INTACT_F16 || dtype == INTACT_BF16; }

static intact_status fail_type(const intact_call *call, const char *what, intact_dtype dtype, const char *wanted) {
  INTACT_FAIL(call->context, TYPE_MISMATCH, call->node->name, "%s '%s': %s is %s; it must be %s", call->node->op->name,
              call->node->name, what, intact_dtype_text(dtype), wanted);
}

static intact_dtype dtype_attr(const intact_call *call, const char *name, intact_dtype otherwise) {
  const intact_attr *attr = intact__attr(call->node, name);
  return attr->present ? (intact_dtype)attr->i : otherwise;
}

/* Attributes dtype, quant_min, quant_max: the type is one that PyTorch takes and the range lies within it. */
static intact_status integer_range(const intact_call *call, intact_dtype *dtype, int64_t *low, int64_t *high) {
  const intact_node *node = call->node;
  *dtype = dtype_attr(call, "dtype", INTACT_U8);
  *low = intact__attr_int(node, "quant_min");
  *high = intact__attr_int(node, "quant_max");
  if (!intact_dtype_is_integer(*dtype) || intact_dtype_bits(*dtype) > 32)
    return fail_type(call, "dtype", *dtype, "an integer type of up to 32 bits");
  if (*low < intact_dtype_min(*dtype) || *high > intact_dtype_max(*dtype))
    INTACT_FAIL(call->context, OUT_OF_RANGE, node->name, "%s '%s': range %lld..%lld is not within that of %s, %lld..%lld",
                node->op->name, node->name, (long long)*low, (long long)*high, intact_dtype_text(*dtype),
                (long long)intact_dtype_min(*dtype), (long long)intact_dtype_max(*dtype));
  return INTACT_OK;
}

static intact_status fail_size(const intact_call *call, const char *rule, int64_t got, int64_t want) {
  INTACT_FAIL(call->context, SIZE_MISMATCH, call->node->name, "%s '%s': %s: found %lld, needed %lld", call->node->op->name,
              call->node->name, rule, (long long)got, (long long)want);
}

/* How the rows differ: where their qparams belong to. */
typedef enum granularity { PER_TENSOR, PER_CHANNEL, PER_TOKEN, PER_GROUP } granularity;

static intact_status map_qparams(const intact_call *call, granularity kind, qparams_map *map) {
  const intact_tensor *x = call->operands[0], *scale = call->operands[1], *zero = operand(call, 2);
  int64_t n = 1;
  *map = (qparams_map){x->count > 0 ? x->count : 1, 1};
  if (kind == PER_CHANNEL) {
    int64_t axis = intact__attr_int(call->node, "axis");
    if (axis < 0 || axis >= x->rank) return fail_size(call, "axis must be one of x's axes", axis, x->rank - 1);
    map->inner = 1;
    for (int i = (int)axis + 1; i < x->rank; i++) map->inner *= x->dims[i];
    n = x->dims[axis];
  } else if (kind == PER_TOKEN) {
    if (x->rank < 1) return fail_size(call, "per token needs an axis", x->rank, 1);
    map->inner = x->dims[x->rank - 1];
    for (int i = 0; i + 1 < x->rank; i++) n *= x->dims[i];
  } else if (kind == PER_GROUP) {
    int64_t group = intact__attr_int(call->node, "group_size");
    if (x->rank != 2) return fail_size(call, "x must have 2 axes", x->rank, 2);
    if (group < 2) return fail_size(call, "group_size must be above 1", group, 2);
    if (x->dims[1] % group != 0) return fail_size(call, "group_size must divide the last axis", group, x->dims[1]);
    map->inner = group;
    n = x->count / group;
  }
  if (scale->count != n) return fail_size(call, "number of scales", scale->count, n);
  if (zero && zero->count != n) return fail_size(call, "number of zero points", zero->count, n);
  map->length = n > 0 ? n : 1;
  if (map->inner < 1) map->inner = 1;
  return INTACT_OK;
}

/* ---- the decomposed rows ---- */

static intact_status quantize_decomposed(const intact_call *call, granularity kind) {
  const intact_tensor *x = call->operands[0], *scale = call->operands[1];
  intact_dtype dtype;
  element_job job = {.in = x, .scale = scale, .zero_point = operand(call, 2), .zero_inside = kind >= PER_TOKEN};
  INTACT_TRY(integer_range(call, &dtype, &job.low, &job.high));
  if (!is_small_float(x->dtype)) return fail_type(call, "x", x->dtype, "f32, f16 or bf16");
  if (!intact_dtype_is_float(scale->dtype)) return fail_type(call, "scale", scale->dtype, "a floating-point type");
  INTACT_TRY(map_qparams(call, kind, &job.map));
  job.scalar_qparams = kind == PER_TENSOR;
  job.type = kind == PER_TENSOR ? INTACT_F32 : kind == PER_CHANNEL ? wider(INTACT_F32, scale->dtype) : wider(x->dtype, scale->dtype);
  if (kind == PER_GROUP)
    for (int64_t i = 0; i < x->count; i++)
      if (isnan(intact__tensor_get_f64(x, i)))
        INTACT_FAIL(call->context, INVALID_VALUE, call->node->name, "%s '%s': element %lld of x is NaN; groups can't be quantized with it",
                    call->node->op->name, call->node->name, (long long)i);
  INTACT_TRY(intact__call_result(call, 0, dtype, x->rank, x->dims, &job.out));
  run_elements(call->context, &job, quantize_elements);
  return INTACT_OK;
}

static intact_status dequantize_decomposed(const intact_call *call, granularity kind, const char *out_attr) {
  const intact_tensor *q = call->operands[0], *scale = call->operands[1];
  element_job job = {.in = q, .scale = scale, .zero_point = operand(call, 2), .scalar_qparams = kind == PER_TENSOR};
  intact_dtype dtype, out = dtype_attr(call, out_attr, INTACT_F32);
  INTACT_TRY(integer_range(call, &dtype, &job.low, &job.high));
  if (q->dtype != dtype) return fail_type(call, "the tensor of codes", q->dtype, intact_dtype_text(dtype));
  if (!intact_dtype_is_float(out)) return fail_type(call, out_attr, out, "a floating-point type");
  INTACT_TRY(map_qparams(call, kind, &job.map));
  job.type = out;
  if (kind != PER_TENSOR) {
    job.type = scale->dtype;
    if (job.zero_point && intact_dtype_is_float(job.zero_point->dtype)) job.type = wider(scale->dtype, job.zero_point->dtype);
  }
  INTACT_TRY(intact__call_result(call, 0, out, q->rank, q->dims, &job.out));
  run_elements(call->context, &job, dequantize_elements);
  return INTACT_OK;
}

static intact_status infer_codes(intact_infer *infer) {
  const intact_value *x = infer->node->operands[0];
  return intact__infer_result(infer, 0, (intact_dtype)intact__attr_int(infer->node, "dtype"), x->rank, x->dims);
}

static intact_status infer_reals(intact_infer *infer, const char *out_attr) {
  const intact_value *q = infer->node->operands[0];
  const intact_attr *out = intact__attr(infer->node, out_attr);
  return intact__infer_result(infer, 0, out->present ? (intact_dtype)out->i : INTACT_F32, q->rank, q->dims);
}
static intact_status infer_out_dtype(intact_infer *infer) { return infer_reals(infer, "out_dtype"); }
static intact_status infer_output_dtype(intact_infer *infer) { return infer_reals(infer, "output_dtype"); }

static intact_status eval_quantize_per_tensor(const intact_call *call) { return quantize_decomposed(call, PER_TENSOR); }
static intact_status eval_quantize_per_channel(const intact_call *call) { return quantize_decomposed(call, PER_CHANNEL); }
static intact_status eval_quantize_per_token(const intact_call *call) { return quantize_decomposed(call, PER_TOKEN); }
static intact_status eval_quantize_per_group(const intact_call *call) { return quantize_decomposed(call, PER_GROUP); }
static intact_status eval_dequantize_per_tensor(const intact_call *call) {
  return dequantize_decomposed(call, PER_TENSOR, "out_dtype");
}
static intact_status eval_dequantize_per_channel(const intact_call *call) {
  return dequantize_decomposed(call, PER_CHANNEL, "out_dtype");
}
static intact_status eval_dequantize_per_token(const intact_call *call) {
  return dequantize_decomposed(call, PER_TOKEN, "output_dtype");
}
static intact_status eval_dequantize_per_group(const intact_call *call) {
  return dequantize_decomposed(call, PER_GROUP, "output_dtype");
}

#define Q_OPERANDS(first, scales, zeros, flags) \
  INTACT_OPERANDS({first, INTACT_ROLE_ACTIVATION, 0}, {scales, INTACT_ROLE_NONE, 0}, {zeros, INTACT_ROLE_NONE, flags})
#define Q_RANGE                                                       \
  {.name = "quant_min", .type = INTACT_ATTR_INT, .required = true},   \
  {.name = "quant_max", .type = INTACT_ATTR_INT, .required = true},   \
  {.name = "dtype", .type = INTACT_ATTR_DTYPE, .required = true}
#define Q_OUT(text) {.name = text, .type = INTACT_ATTR_DTYPE, .nullable = true}
#define Q_AXIS {.name = "axis", .type = INTACT_ATTR_INT, .required = true}
#define Q_GROUP {.name = "group_size", .type = INTACT_ATTR_INT, .i = 128}
#define Q_TRAITS {.result = INTACT_RESULT_NONE, .no_quantize = true}
#define Q_RANGE_MAP "quant_min=quant_min,quant_max=quant_max,dtype=dtype"

/* Rows of one operator each; behind the alias's further attributes, the schema's. */
#define Q_ROW(row, text, operands_, infer_, eval_, map, ...)                                                       \
  const intact_op intact_op_decomposed_##row = {                                                                   \
      .name = "decomposed_" #row,                                                                                  \
      .doc = text,                                                                                                 \
      .schema = {operands_, INTACT_RESULTS("y"), INTACT_ATTRS(__VA_ARGS__)},                              \
      .infer = infer_,                                                                                             \
      .eval_f32 = eval_,                                                                                           \
      .grad = intact__grad_straight_through,                                                                       \
      .quant = Q_TRAITS,                                                                                           \
      .aliases = (const intact_alias[]){{"aten", "quantized_decomposed::" #row, 0, 0, Q_RANGE_MAP map, NULL}, {0}}, \
  }

Q_ROW(quantize_per_tensor, "clamp(rne(x * (1/scale)) + zero_point, quant_min, quant_max).",
      Q_OPERANDS("input", "scale", "zero_point", 0), infer_codes, eval_quantize_per_tensor, "", Q_RANGE);
Q_ROW(dequantize_per_tensor, "(q - zero_point) * scale, every step rounded to out_dtype.",
      Q_OPERANDS("input", "scale", "zero_point", 0), infer_out_dtype, eval_dequantize_per_tensor, ",out_dtype=out_dtype",
      Q_RANGE, Q_OUT("out_dtype"));
Q_ROW(quantize_per_channel, "quantize_per_tensor with a scale and zero point for every index of axis, in the type of scales.",
      Q_OPERANDS("input", "scales", "zero_points", 0), infer_codes, eval_quantize_per_channel, ",axis=axis", Q_RANGE, Q_AXIS);
Q_ROW(dequantize_per_channel, "(q - zero_points) * scales along axis.",
      Q_OPERANDS("input", "scales", "zero_points", INTACT_OPTIONAL), infer_out_dtype, eval_dequantize_per_channel,
      ",axis=axis,out_dtype=out_dtype", Q_RANGE, Q_AXIS, Q_OUT("out_dtype"));
Q_ROW(quantize_per_token, "clamp(rne(x * (1/scale) + zero_point)) with qparams for every row of the last axis.",
      Q_OPERANDS("input", "scales", "zero_points", 0), infer_codes, eval_quantize_per_token, "", Q_RANGE);
Q_ROW(dequantize_per_token, "(q - zero_point) * scale with qparams for every row of the last axis.",
      Q_OPERANDS("input", "scales", "zero_points", 0), infer_output_dtype, eval_dequantize_per_token,
      ",output_dtype=output_dtype", Q_RANGE, Q_OUT("output_dtype"));
Q_ROW(quantize_per_channel_group, "clamp(rne(x * (1/scale) + zero_point)) with qparams for every group_size elements of a row.",
      Q_OPERANDS("input", "scales", "zero_points", 0), infer_codes, eval_quantize_per_group, ",group_size=group_size", Q_RANGE, Q_GROUP);
Q_ROW(dequantize_per_channel_group, "(q - zero_point) * scale with qparams for every group_size elements of a row.",
      Q_OPERANDS("w_int8", "scales", "zero_points", INTACT_OPTIONAL), infer_output_dtype, eval_dequantize_per_group,
      ",group_size=group_size,output_dtype=output_dtype", Q_RANGE, Q_GROUP, Q_OUT("output_dtype"));
