/* SPDX-License-Identifier: Apache-2.0 */
/* Whole tensors quantized and dequantized by their qparams: per tensor, per channel, per group. */
#include <string.h>

#include "kernels/affine/affine.h"
#include "tensor/tensor.h"

enum { PIECE = 16384 }; /* elements that are worth a thread */

/* A tensor as outer x length x inner around the quantized axis, in rows that lie together. */
typedef struct quant_walk {
  uint32_t isa_set;
  intact_dtype dtype; /* of the codes in memory, at least 8 bits */
  bool per_tensor;
  int64_t length, inner;
  int64_t group, groups; /* 0 and 0: one scale per index of the axis; else elements per scale along it, and how many */
  intact_affine *affine; /* one per scale */
  float *x;
  uint8_t *q;
} quant_walk;

/* n elements from `offset` on, with one set of qparams or (columns) one each. */
typedef void (*span_fn)(const quant_walk *walk, int64_t offset, int64_t n, const intact_affine *affine, bool columns);

static void each_span(const quant_walk *walk, int64_t begin, int64_t end, span_fn span) {
  if (walk->per_tensor) {
    span(walk, begin, end - begin, walk->affine, false);
    return;
  }
  for (int64_t row = begin; row < end; row++) {
    if (walk->inner > 1) { /* row: an index of the axis */
      int64_t outer = row / walk->length, along = row % walk->length;
      const intact_affine *affine = walk->affine + along;
      if (walk->group) affine = walk->affine + (outer * walk->groups + along / walk->group) * walk->inner;
      span(walk, row * walk->inner, walk->inner, affine, walk->group > 0);
    } else if (!walk->group) { /* row: the whole axis */
      span(walk, row * walk->length, walk->length, walk->affine, true);
    } else {
      for (int64_t g = 0; g < walk->groups; g++) {
        int64_t first = g * walk->group, rest = walk->length - first;
        span(walk, row * walk->length + first, rest < walk->group ? rest : walk->group, walk->affine + row * walk->groups + g,
             false);
      }
    }
  }
}

static int64_t code_bytes(const quant_walk *walk) { return intact_dtype_bits(walk->dtype) / 8; }

static void quantize_span(const quant_walk *walk, int64_t offset, int64_t n, const intact_affine *affine, bool columns) {
  uint8_t *q = walk->q + offset * code_bytes(walk);
  if (columns)
    intact__quantize_columns(walk->x + offset, q, walk->dtype, n, affine);
  else
    intact__quantize_array(walk->isa_set, walk->x + offset, q, walk->dtype, n, affine);
}

static void dequantize_span(const quant_walk *walk, int64_t offset, int64_t n, const intact_affine *affine, bool columns) {
  const uint8_t *q = walk->q + offset * code_bytes(walk);
  if (columns)
    intact__dequantize_columns(q, walk->dtype, walk->x + offset, n, affine);
  else
    intact__dequantize_array(walk->isa_set, q, walk->dtype, walk->x + offset, n, affine->scale, affine->zero_point);
}

static void quantize_rows(void *user, int64_t begin, int64_t end) { each_span(user, begin, end, quantize_span); }
static void dequantize_rows(void *user, int64_t begin, int64_t end) { each_span(user, begin, end, dequantize_span); }

static intact_status check(intact_context *context, const intact_tensor *tensor, const intact_qparams *p) {
  char text[160];
  if (!intact_dtype_is_integer(p->dtype) || intact_dtype_bits(p->dtype) > 32)
    INTACT_FAIL(context, UNSUPPORTED_TYPE, "", "quantized values can't have type %s; use an integer type of up to 32 bits",
                intact_dtype_text(p->dtype));
  if (p->quant_min > p->quant_max || p->quant_min < intact_dtype_min(p->dtype) || p->quant_max > intact_dtype_max(p->dtype))
    INTACT_FAIL(context, OUT_OF_RANGE, "", "quantized range %lld..%lld is not within %s", (long long)p->quant_min,
                (long long)p->quant_max, intact_dtype_text(p->dtype));
  if (p->axis < 0) {
    if (p->n != 1) INTACT_FAIL(context, SIZE_MISMATCH, "", "per-tensor qparams have %lld scales instead of 1", (long long)p->n);
    return INTACT_OK;
  }
  if (p->axis >= tensor->rank)
    INTACT_FAIL(context, OUT_OF_RANGE, "", "axis %d of the qparams is not one of the %d axes of a tensor of shape %s", p->axis,
                tensor->rank, intact__shape_text(tensor->rank, tensor->dims, text));
  int64_t length = tensor->dims[p->axis], want = length;
  if (p->group > 0) {
    want = (length + p->group - 1) / p->group;
    for (int i = 0; i < tensor->rank; i++)
      if (i != p->axis) want *= tensor->dims[i];
  }
  if (p->n != want)
    INTACT_FAIL(context, SIZE_MISMATCH, "", "%lld scales for a tensor of shape %s along axis %d%s; it needs %lld", (long long)p->n,
                intact__shape_text(tensor->rank, tensor->dims, text), p->axis, p->group > 0 ? " in groups" : "", (long long)want);
  return INTACT_OK;
}

/* Runs `rows` over all of a tensor of the shape of `shape`; walk->x, q and dtype are set. */
static intact_status walk_tensor(intact_context *context, const intact_tensor *shape, const intact_qparams *p, bool divide,
                                 quant_walk *walk, intact_range_fn rows) {
  if (shape->count == 0) return INTACT_OK;
  walk->isa_set = intact__isa_set(context);
  walk->per_tensor = p->axis < 0;
  walk->length = walk->inner = 1;
  if (!walk->per_tensor) {
    walk->length = shape->dims[p->axis];
    for (int i = p->axis + 1; i < shape->rank; i++) walk->inner *= shape->dims[i];
    walk->group = p->group;
    walk->groups = p->group > 0 ? (walk->length + p->group - 1) / p->group : 0;
  }
  walk->affine = intact__alloc(context, (size_t)p->n, sizeof *walk->affine);
  if (!walk->affine) return intact__no_memory(context, (size_t)p->n * sizeof *walk->affine);
  for (int64_t i = 0; i < p->n; i++) {
    walk->affine[i] = intact__affine(p->scale[i], p->zero_point[i], p->quant_min, p->quant_max);
    walk->affine[i].divide = divide;
  }
  int64_t row = walk->per_tensor ? 1 : walk->inner > 1 ? walk->inner : walk->length;
  intact__parallel(context, shape->count / row, row < PIECE ? PIECE / row : 1, rows, walk);
  intact__free(context, walk->affine);
  return INTACT_OK;
}

static intact_dtype memory_dtype(intact_dtype dtype) {
  if (intact_dtype_bits(dtype) >= 8) return dtype;
  return intact_dtype_min(dtype) < 0 ? INTACT_S8 : INTACT_U8;
}

intact_status intact__quantize_tensor_by(const intact_tensor *x, const intact_qparams *qparams, bool divide,
                                         intact_tensor **q) {
  intact_context *context = x->context;
  if (!intact_dtype_is_float(x->dtype))
    INTACT_FAIL(context, TYPE_MISMATCH, "", "quantize takes floating-point values, not %s", intact_dtype_text(x->dtype));
  INTACT_TRY(check(context, x, qparams));
  intact_tensor *cast = NULL, *codes = NULL, *packed = NULL;
  intact_status status = INTACT_OK;
  if (x->dtype != INTACT_F32) {
    INTACT_TRY_TO(done, intact_tensor_cast(x, INTACT_F32, &cast));
    x = cast;
  }
  INTACT_TRY_TO(done, intact__tensor_create_raw(context, memory_dtype(qparams->dtype), x->rank, x->dims, &codes));
  quant_walk walk = {.dtype = codes->dtype, .x = x->data, .q = codes->data};
  INTACT_TRY_TO(done, walk_tensor(context, x, qparams, divide, &walk, quantize_rows));
  if (codes->dtype == qparams->dtype) {
    *q = codes;
    codes = NULL;
  } else {
    INTACT_TRY_TO(done, intact_tensor_cast(codes, qparams->dtype, &packed));
    *q = packed;
  }
done:
  intact_tensor_destroy(codes);
  intact_tensor_destroy(cast);
  return status;
}

intact_status intact__quantize_tensor(const intact_tensor *x, const intact_qparams *qparams, intact_tensor **q) {
  return intact__quantize_tensor_by(x, qparams, false, q);
}

intact_status intact__dequantize_tensor(const intact_tensor *q, const intact_qparams *qparams, intact_tensor **x) {
  intact_context *context = q->context;
  if (q->dtype != qparams->dtype)
    INTACT_FAIL(context, TYPE_MISMATCH, "", "dequantize: the codes are %s, their qparams say %s", intact_dtype_text(q->dtype),
                intact_dtype_text(qparams->dtype));
  INTACT_TRY(check(context, q, qparams));
  intact_tensor *codes = NULL, *real = NULL;
  intact_status status = INTACT_OK;
  if (memory_dtype(q->dtype) != q->dtype) {
    INTACT_TRY_TO(done, intact_tensor_cast(q, memory_dtype(q->dtype), &codes));
    q = codes;
  }
  INTACT_TRY_TO(done, intact__tensor_create_raw(context, INTACT_F32, q->rank, q->dims, &real));
  quant_walk walk = {.dtype = q->dtype, .x = real->data, .q = q->data};
  INTACT_TRY_TO(done, walk_tensor(context, q, qparams, false, &walk, dequantize_rows));
  *x = real;
  real = NULL;
done:
  intact_tensor_destroy(real);
  intact_tensor_destroy(codes);
  return status;
}

static bool same_qparams(const intact_qparams *a, const intact_qparams *b) {
  if (!a || !b) return a == b;
  return a->dtype == b->dtype && a->n == 1 && b->n == 1 && a->zero_point[0] == b->zero_point[0] &&
         memcmp(a->scale, b->scale, sizeof *a->scale) == 0;
}

intact_status intact__tensor_under(const intact_tensor *tensor, const intact_qparams *from, const intact_qparams *to,
                                   intact_tensor **other) {
  if (same_qparams(from, to)) return intact_tensor_share(tensor, 0, NULL, other);
  if (!from) return intact__quantize_tensor(tensor, to, other);
  if (!to) return intact__dequantize_tensor(tensor, from, other);
  intact_tensor *real = NULL;
  INTACT_TRY(intact__dequantize_tensor(tensor, from, &real));
  const intact_status status = intact__quantize_tensor(real, to, other);
  intact_tensor_destroy(real);
  return status;
}
