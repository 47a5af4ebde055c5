/* SPDX-License-Identifier: Apache-2.0 */
/* Fake quantization of whole tensors. */
#include "tensor/fake_quantize.h"

#include <stdatomic.h>
#include <string.h>

enum { PIECE = 4 * INTACT_SUM_BLOCK }; /* elements that are worth a thread; a multiple of the blocks of sums */

/* outer x length x inner around the axis; per tensor 1 x 1 x count. Row r is an index of the axis, `inner` elements. */
typedef struct fake_walk {
  uint32_t isa_set;
  bool per_tensor;
  int64_t outer, length, inner;
  const intact_fake_spec *spec;
  intact_affine *affine; /* per channel */
  const void *x, *dy;
  void *y;
  uint8_t *mask;
  atomic_bool *clamped; /* set when the forward meets an element outside */
} fake_walk;

static void walk_shape(fake_walk *walk, const intact_tensor *x, int axis) {
  walk->per_tensor = axis < 0;
  walk->outer = walk->length = 1;
  walk->inner = axis < 0 ? x->count : 1;
  for (int i = 0; i < axis; i++) walk->outer *= x->dims[i];
  if (axis >= 0) walk->length = x->dims[axis];
  for (int i = axis + 1; axis >= 0 && i < x->rank; i++) walk->inner *= x->dims[i];
}

static void run_rows(intact_context *context, fake_walk *walk, intact_range_fn rows) {
  if (walk->outer * walk->length * walk->inner == 0) return;
  if (walk->per_tensor)
    intact__parallel(context, walk->inner, PIECE, rows, walk);
  else
    intact__parallel(context, walk->outer * walk->length, walk->inner < PIECE ? PIECE / walk->inner : 1, rows, walk);
}

intact_status intact__fake_quantize_check(intact_context *context, const intact_fake_spec *spec, const intact_tensor *x) {
  char shape[160];
  if (spec->low > spec->high)
    INTACT_FAIL(context, OUT_OF_RANGE, spec->where, "fake_quantize '%s': quant_min %lld is above quant_max %lld", spec->where,
                (long long)spec->low, (long long)spec->high);
  if (spec->axis >= x->rank)
    INTACT_FAIL(context, OUT_OF_RANGE, spec->where, "fake_quantize '%s': axis %d of a tensor of shape %s", spec->where, spec->axis,
                intact__shape_text(x->rank, x->dims, shape));
  int64_t want = spec->axis < 0 ? 1 : x->dims[spec->axis];
  if (spec->n != want)
    INTACT_FAIL(context, SIZE_MISMATCH, spec->where, "fake_quantize '%s': %lld scales for a tensor of shape %s%s; it needs %lld",
                spec->where, (long long)spec->n, intact__shape_text(x->rank, x->dims, shape),
                spec->axis < 0 ? "" : " along its axis", (long long)want);
  if (x->dtype != INTACT_F32 && x->dtype != INTACT_F16 && x->dtype != INTACT_BF16 && x->dtype != INTACT_F64)
    INTACT_FAIL(context, TYPE_MISMATCH, spec->where, "fake_quantize '%s' takes f32, f16, bf16 or f64, not %s", spec->where,
                intact_dtype_text(x->dtype));
  return INTACT_OK;
}

static intact_status make_affine(intact_context *context, const intact_fake_spec *spec, fake_walk *walk) {
  walk->affine = intact__alloc(context, (size_t)(spec->n > 0 ? spec->n : 1), sizeof *walk->affine);
  if (!walk->affine) return intact__no_memory(context, (size_t)spec->n * sizeof *walk->affine);
  for (int64_t i = 0; i < spec->n; i++)
    walk->affine[i] = intact__affine(spec->scale[i], spec->zero_point ? spec->zero_point[i] : 0, spec->low, spec->high);
  return INTACT_OK;
}

/* ---- forward ---- */

static void forward_rows(void *user, int64_t begin, int64_t end) {
  const fake_walk *walk = user;
  const float *x = walk->x;
  float *y = walk->y;
  bool inside = true;
  if (walk->per_tensor) {
    inside = intact__fake_quantize_array(walk->isa_set, x + begin, y + begin, walk->mask ? walk->mask + begin : NULL, end - begin,
                                         walk->affine);
  }
  for (int64_t row = begin; !walk->per_tensor && row < end; row++) {
    int64_t at = row * walk->inner;
    inside &= intact__fake_quantize_array(walk->isa_set, x + at, y + at, walk->mask ? walk->mask + at : NULL, walk->inner,
                                          &walk->affine[row % walk->length]);
  }
  if (!inside) atomic_store_explicit(walk->clamped, true, memory_order_relaxed);
}

/* One element where the SIMD kernels do not go: float64, real zero points. `wide`: x is float64. */
static double fake_one(double x, bool wide, bool per_tensor, const intact_affine *p, const float *real_zero_point, bool *inside) {
  double steps = wide ? x * (double)p->inverse : (double)((float)x * p->inverse), zero = p->zero_point;
  int64_t q;
  if (real_zero_point) {
    zero = *real_zero_point;
    q = intact__round_s64((double)(float)(zero + steps)); /* narrowed also for float64 */
  } else {
    q = intact__round_s64(steps) + p->zero_point;
  }
  *inside = q >= p->low && q <= p->high;
  q = intact__clamp_s64(q, p->low, p->high);
  if (per_tensor) return (double)intact__dequantize_one(q, p->scale, p->zero_point);
  return ((double)q - zero) * (double)p->scale;
}

/* Float arithmetic throughout, NaN kept. */
static double fake_one_float(float x, const intact_affine *p, bool *inside) {
  float zero = (float)p->zero_point, q = nearbyintf(x * p->inverse) + zero;
  *inside = q >= (float)p->low && q <= (float)p->high;
  if (q < (float)p->low) q = (float)p->low;
  if (q > (float)p->high) q = (float)p->high;
  return (double)((q - zero) * p->scale);
}

static void forward_rows_rare(void *user, int64_t begin, int64_t end) {
  const fake_walk *walk = user;
  const intact_fake_spec *spec = walk->spec;
  const intact_tensor *x = walk->x;
  intact_tensor *y = walk->y;
  bool wide = x->dtype == INTACT_F64;
  int64_t first = walk->per_tensor ? begin : begin * walk->inner, last = walk->per_tensor ? end : end * walk->inner;
  for (int64_t i = first; i < last; i++) {
    int64_t channel = walk->per_tensor ? 0 : i / walk->inner % walk->length;
    const intact_affine *p = &walk->affine[channel];
    const float *real = spec->real_zero_point ? spec->real_zero_point + channel : NULL;
    double v = wide ? ((const double *)x->data)[i] : (double)intact__f32(x)[i];
    bool inside;
    double made = spec->keep_nan ? fake_one_float((float)v, p, &inside) : fake_one(v, wide, walk->per_tensor, p, real, &inside);
    if (wide)
      ((double *)y->data)[i] = made;
    else
      intact__f32(y)[i] = (float)made;
    if (walk->mask) walk->mask[i] = inside;
  }
}

static bool is_half(intact_dtype dtype) { return dtype == INTACT_F16 || dtype == INTACT_BF16; }

intact_status intact__fake_quantize_forward(const intact_tensor *x, const intact_fake_spec *spec, intact_tensor **y,
                                            intact_tensor **mask, bool *clamps) {
  intact_context *context = x->context;
  INTACT_TRY(intact__fake_quantize_check(context, spec, x));
  intact_tensor *wide = NULL, *made = NULL, *made_mask = NULL;
  atomic_bool clamped = false;
  fake_walk walk = {.isa_set = intact__isa_set(context), .spec = spec, .clamped = &clamped};
  intact_status status = INTACT_OK;
  const intact_tensor *from = x;
  if (is_half(x->dtype)) {
    INTACT_TRY_TO(done, intact_tensor_cast(x, INTACT_F32, &wide));
    from = wide;
  }
  INTACT_TRY_TO(done, make_affine(context, spec, &walk));
  INTACT_TRY_TO(done, intact__tensor_create_raw(context, from->dtype, x->rank, x->dims, &made));
  if (mask) {
    INTACT_TRY_TO(done, intact__tensor_create_raw(context, INTACT_BOOL, x->rank, x->dims, &made_mask));
    walk.mask = made_mask->data;
  }
  walk_shape(&walk, x, spec->axis);
  if (from->dtype == INTACT_F64 || spec->real_zero_point || spec->keep_nan) {
    walk.x = from;
    walk.y = made;
    run_rows(context, &walk, forward_rows_rare);
    clamped = true; /* not looked at here */
  } else {
    walk.x = from->data;
    walk.y = made->data;
    run_rows(context, &walk, forward_rows);
  }
  if (is_half(x->dtype)) {
    intact_tensor *narrow = NULL;
    INTACT_TRY_TO(done, intact_tensor_cast(made, x->dtype, &narrow));
    intact_tensor_destroy(made);
    made = narrow;
  }
  *y = made;
  made = NULL;
  if (clamps) *clamps = clamped;
  if (mask) *mask = made_mask;
  made_mask = NULL;
done:
  intact__free(context, walk.affine);
  intact_tensor_destroy(wide);
  intact_tensor_destroy(made);
  intact_tensor_destroy(made_mask);
  return status;
}

/* ---- backward ---- */

static void backward_rows(void *user, int64_t begin, int64_t end) {
  const fake_walk *walk = user;
  const float *x = walk->x, *dy = walk->dy;
  float *dx = walk->y;
  if (walk->per_tensor) {
    intact__fake_quantize_grad_array(walk->isa_set, x + begin, dy + begin, dx + begin, end - begin, walk->affine);
    return;
  }
  for (int64_t row = begin; row < end; row++) {
    int64_t at = row * walk->inner;
    intact__fake_quantize_grad_array(walk->isa_set, x + at, dy + at, dx + at, walk->inner, &walk->affine[row % walk->length]);
  }
}

static intact_status same_size(intact_context *context, const char *where, const intact_tensor *x, const intact_tensor *dy) {
  char a[160], b[160];
  if (!intact__shape_equal(x->rank, x->dims, dy->rank, dy->dims))
    INTACT_FAIL(context, SIZE_MISMATCH, where, "fake_quantize '%s': x has shape %s, its gradient %s; they must be the same", where,
                intact__shape_text(x->rank, x->dims, a), intact__shape_text(dy->rank, dy->dims, b));
  return INTACT_OK;
}

/* dx = dy * mask by way of the forward's mask. */
static intact_status backward_by_mask(const intact_tensor *x, const intact_tensor *dy, const intact_fake_spec *spec,
                                      intact_tensor **dx) {
  intact_tensor *y = NULL, *mask = NULL, *made = NULL;
  INTACT_TRY(intact__fake_quantize_forward(x, spec, &y, &mask, NULL));
  intact_status status = intact__tensor_create_raw(x->context, dy->dtype, dy->rank, dy->dims, &made);
  if (status == INTACT_OK) {
    const uint8_t *inside = mask->data;
    for (int64_t i = 0; i < dy->count; i++)
      intact__tensor_set_f64(made, i, intact__tensor_get_f64(dy, i) * (inside[i] ? 1.0 : 0.0));
    *dx = made;
  }
  intact_tensor_destroy(y);
  intact_tensor_destroy(mask);
  return status;
}

static intact_status gradient_of(const intact_tensor *x, const intact_tensor *over, intact_tensor **dx) {
  return over ? intact_tensor_share(over, 0, NULL, dx) : intact__tensor_create_raw(x->context, INTACT_F32, x->rank, x->dims, dx);
}

intact_status intact__fake_quantize_backward(const intact_tensor *x, const intact_tensor *dy, const intact_fake_spec *spec,
                                             intact_tensor **dx) {
  intact_context *context = x->context;
  INTACT_TRY(intact__fake_quantize_check(context, spec, x));
  INTACT_TRY(same_size(context, spec->where, x, dy));
  if (x->dtype != INTACT_F32 || dy->dtype != INTACT_F32 || spec->real_zero_point || spec->keep_nan)
    return backward_by_mask(x, dy, spec, dx);
  fake_walk walk = {.isa_set = intact__isa_set(context), .spec = spec, .x = x->data, .dy = dy->data};
  intact_tensor *made;
  INTACT_TRY(make_affine(context, spec, &walk));
  intact_status status = gradient_of(x, spec->over, &made);
  if (status == INTACT_OK) {
    walk.y = made->data;
    walk_shape(&walk, x, spec->axis);
    run_rows(context, &walk, backward_rows);
    *dx = made;
  }
  intact__free(context, walk.affine);
  return status;
}

/* ---- learned qparams ---- */

/* The integer that the forward uses: half to even, then clamped. NaN gives low. */
static int32_t rounded_zero_point(float z, int64_t low, int64_t high) {
  return (int32_t)intact__clamp_s64(intact__round_s64((double)z), low, high);
}

/* The integer that PyTorch's per-tensor backward uses: z + 0.5, clamped, cut toward zero. */
static int32_t backward_zero_point(float z, int64_t low, int64_t high) {
  float shifted = z + 0.5f;
  double cut = isnan(shifted) ? (double)low : trunc((double)shifted);
  return (int32_t)intact__clamp_s64(intact__round_s64(cut), low, high);
}

static intact_status learnable_check(const intact_tensor *x, const intact_learnable_spec *spec, int64_t *n) {
  intact_context *context = x->context;
  const intact_tensor *scale = spec->scale, *zero = spec->zero_point;
  if (scale->dtype != INTACT_F32 || zero->dtype != INTACT_F32 || scale->count < 1 || zero->count < 1)
    INTACT_FAIL(context, TYPE_MISMATCH, spec->where, "learned fake_quantize '%s': scale and zero point must be f32 tensors with values",
                spec->where);
  if (spec->low < INT32_MIN || spec->high > INT32_MAX)
    INTACT_FAIL(context, OUT_OF_RANGE, spec->where, "learned fake_quantize '%s': range %lld..%lld does not fit 32 bits", spec->where,
                (long long)spec->low, (long long)spec->high);
  *n = 1;
  if (spec->axis >= 0) {
    *n = scale->count;
    if (scale->rank != 1 || zero->rank != 1 || scale->count != zero->count)
      INTACT_FAIL(context, SIZE_MISMATCH, spec->where,
                  "learned fake_quantize '%s': scale has %lld values, zero point %lld; both must be lists of the same length",
                  spec->where, (long long)scale->count, (long long)zero->count);
  }
  return INTACT_OK;
}

intact_status intact__learnable_forward(const intact_tensor *x, const intact_learnable_spec *spec, intact_tensor **y) {
  intact_context *context = x->context;
  int64_t n;
  INTACT_TRY(learnable_check(x, spec, &n));
  if (spec->low > spec->high)
    INTACT_FAIL(context, OUT_OF_RANGE, spec->where, "learned fake_quantize '%s': quant_min %lld is above quant_max %lld",
                spec->where, (long long)spec->low, (long long)spec->high);
  int32_t *zero_point = intact__alloc(context, (size_t)n, sizeof *zero_point);
  if (!zero_point) return intact__no_memory(context, (size_t)n * sizeof *zero_point);
  for (int64_t i = 0; i < n; i++) zero_point[i] = rounded_zero_point(intact__f32(spec->zero_point)[i], spec->low, spec->high);
  const intact_fake_spec fixed = {.where = spec->where,
                                  .axis = spec->axis,
                                  .low = spec->low,
                                  .high = spec->high,
                                  .n = n,
                                  .scale = intact__f32(spec->scale),
                                  .zero_point = zero_point};
  intact_status status = intact__fake_quantize_forward(x, &fixed, y, NULL, NULL);
  intact__free(context, zero_point);
  return status;
}

/* Sums of each block (per tensor) or of each row (per channel). */
typedef struct learnable_walk {
  fake_walk walk;
  intact_learned_sums *sums;
} learnable_walk;

static void learnable_blocks(void *user, int64_t begin, int64_t end) {
  const learnable_walk *job = user;
  const fake_walk *walk = &job->walk;
  const float *x = walk->x, *dy = walk->dy;
  float *dx = walk->y;
  for (int64_t at = begin; at < end; at += INTACT_SUM_BLOCK) { /* pieces begin at multiples of a block */
    int64_t n = end - at < INTACT_SUM_BLOCK ? end - at : INTACT_SUM_BLOCK;
    intact__learnable_grad_block(walk->isa_set, x + at, dy + at, dx + at, n, walk->affine, -INFINITY, INFINITY,
                                 &job->sums[at / INTACT_SUM_BLOCK]);
  }
}

static void learnable_rows(void *user, int64_t begin, int64_t end) {
  const learnable_walk *job = user;
  const fake_walk *walk = &job->walk;
  const float *x = walk->x, *dy = walk->dy;
  float *dx = walk->y;
  for (int64_t row = begin; row < end; row++) {
    int64_t at = row * walk->inner;
    job->sums[row] = (intact_learned_sums){0};
    intact__learnable_grad_array(walk->isa_set, x + at, dy + at, dx + at, walk->inner, &walk->affine[row % walk->length],
                                 &job->sums[row]);
  }
}

static intact_status check_backward(const intact_tensor *x, const intact_tensor *dy, const intact_learnable_spec *spec) {
  intact_context *context = x->context;
  char shape[160];
  INTACT_TRY(same_size(context, spec->where, x, dy));
  if (x->dtype != INTACT_F32 || dy->dtype != INTACT_F32)
    INTACT_FAIL(context, TYPE_MISMATCH, spec->where, "learned fake_quantize '%s': its gradient takes f32 alone, not %s and %s",
                spec->where, intact_dtype_text(x->dtype), intact_dtype_text(dy->dtype));
  if (spec->low > 0 || spec->high < 0 || spec->low > spec->high)
    INTACT_FAIL(context, OUT_OF_RANGE, spec->where, "learned fake_quantize '%s': range %lld..%lld must be ordered and hold 0",
                spec->where, (long long)spec->low, (long long)spec->high);
  if (spec->axis >= x->rank || (spec->axis >= 0 && x->dims[spec->axis] != spec->scale->count))
    INTACT_FAIL(context, SIZE_MISMATCH, spec->where, "learned fake_quantize '%s': %lld scales for axis %d of shape %s", spec->where,
                (long long)spec->scale->count, spec->axis, intact__shape_text(x->rank, x->dims, shape));
  return INTACT_OK;
}

static void finish_sums(const intact_affine *affine, const intact_learned_sums *sums, int64_t n_sums, int64_t n, float grad_factor,
                        float *d_scale, float *d_zero_point) {
  for (int64_t c = 0; c < n; c++) {
    intact_learned_sums total = {0};
    for (int64_t i = c; i < n_sums; i += n) {
      total.scale += sums[i].scale;
      total.zero += sums[i].zero;
    }
    d_scale[c] = (float)(total.scale * (double)grad_factor);
    d_zero_point[c] = (float)(total.zero * -(double)affine[c].scale * (double)grad_factor);
  }
}

intact_status intact__learnable_backward(const intact_tensor *x, const intact_tensor *dy, const intact_learnable_spec *spec,
                                         intact_tensor **dx, intact_tensor **d_scale, intact_tensor **d_zero_point) {
  intact_context *context = x->context;
  int64_t n;
  INTACT_TRY(learnable_check(x, spec, &n));
  INTACT_TRY(check_backward(x, dy, spec));
  learnable_walk job = {.walk = {.isa_set = intact__isa_set(context), .x = x->data, .dy = dy->data}};
  fake_walk *walk = &job.walk;
  intact_tensor *made[3] = {NULL, NULL, NULL};
  intact_status status = INTACT_OK;
  walk_shape(walk, x, spec->axis);
  int64_t n_sums = walk->per_tensor ? (x->count + INTACT_SUM_BLOCK - 1) / INTACT_SUM_BLOCK : walk->outer * walk->length;
  walk->affine = intact__alloc(context, (size_t)(n > 0 ? n : 1), sizeof *walk->affine);
  job.sums = intact__alloc(context, (size_t)(n_sums > 0 ? n_sums : 1), sizeof *job.sums);
  if (!walk->affine || !job.sums) INTACT_TRY_TO(done, intact__no_memory(context, (size_t)n_sums * sizeof *job.sums));
  for (int64_t i = 0; i < n; i++) {
    float z = intact__f32(spec->zero_point)[i];
    int32_t zero = walk->per_tensor ? backward_zero_point(z, spec->low, spec->high) : rounded_zero_point(z, spec->low, spec->high);
    walk->affine[i] = intact__affine(intact__f32(spec->scale)[i], zero, spec->low, spec->high);
  }
  INTACT_TRY_TO(done, gradient_of(x, spec->over, &made[0]));
  INTACT_TRY_TO(done, intact_tensor_create(context, INTACT_F32, 1, &n, &made[1]));
  INTACT_TRY_TO(done, intact_tensor_create(context, INTACT_F32, 1, &n, &made[2]));
  walk->y = made[0]->data;
  run_rows(context, walk, walk->per_tensor ? learnable_blocks : learnable_rows);
  finish_sums(walk->affine, job.sums, x->count > 0 ? n_sums : 0, n, spec->grad_factor, made[1]->data, made[2]->data);
  *dx = made[0];
  *d_scale = made[1];
  *d_zero_point = made[2];
  made[0] = made[1] = made[2] = NULL;
done:
  for (int i = 0; i < 3; i++) intact_tensor_destroy(made[i]);
  intact__free(context, walk->affine);
  intact__free(context, job.sums);
  return status;
}

/* ---- learned qparams behind a clamp ---- */

intact_affine intact__learnable_affine(const intact_learnable_spec *spec) {
  return intact__affine(intact__f32(spec->scale)[0], rounded_zero_point(intact__f32(spec->zero_point)[0], spec->low, spec->high), spec->low,
                        spec->high);
}

typedef struct clamped_job {
  uint32_t isa_set;
  const intact_made_values *x;
  const float *dy;
  float *dx, low, high;
  intact_affine affine;
  intact_learned_sums *sums; /* per block */
} clamped_job;

static void clamped_blocks(void *user, int64_t begin, int64_t end) {
  const clamped_job *job = user;
  float x[INTACT_SUM_BLOCK];
  for (int64_t at = begin; at < end; at += INTACT_SUM_BLOCK) {
    const int64_t n = end - at < INTACT_SUM_BLOCK ? end - at : INTACT_SUM_BLOCK;
    job->x->make(job->x->user, at, n, x);
    intact__learnable_grad_block(job->isa_set, x, job->dy + at, job->dx + at, n, &job->affine, job->low, job->high,
                                 &job->sums[at / INTACT_SUM_BLOCK]);
  }
}

intact_status intact__learnable_backward_clamped(intact_context *context, const intact_made_values *x, const float *dy, float low, float high,
                                                 const intact_learnable_spec *spec, float *dx, intact_tensor **d_scale,
                                                 intact_tensor **d_zero_point) {
  const int64_t one = 1, n_sums = (x->count + INTACT_SUM_BLOCK - 1) / INTACT_SUM_BLOCK;
  const int32_t zero = backward_zero_point(intact__f32(spec->zero_point)[0], spec->low, spec->high);
  clamped_job job = {.isa_set = intact__isa_set(context), .x = x, .dy = dy, .dx = dx, .low = low, .high = high};
  intact_tensor *made[2] = {NULL, NULL};
  job.affine = intact__affine(intact__f32(spec->scale)[0], zero, spec->low, spec->high);
  job.sums = intact__alloc(context, (size_t)n_sums + 1, sizeof *job.sums);
  if (!job.sums) return intact__no_memory(context, (size_t)n_sums * sizeof *job.sums);
  intact_status status = intact_tensor_create(context, INTACT_F32, 1, &one, &made[0]);
  if (status == INTACT_OK) status = intact_tensor_create(context, INTACT_F32, 1, &one, &made[1]);
  if (status == INTACT_OK) {
    intact__parallel(context, x->count, PIECE, clamped_blocks, &job);
    finish_sums(&job.affine, job.sums, n_sums, 1, spec->grad_factor, made[0]->data, made[1]->data);
    *d_scale = made[0];
    *d_zero_point = made[1];
    made[0] = made[1] = NULL;
  }
  intact_tensor_destroy(made[0]);
  intact_tensor_destroy(made[1]);
  intact__free(context, job.sums);
  return status;
}
