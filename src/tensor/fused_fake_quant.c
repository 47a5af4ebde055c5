/* SPDX-License-Identifier: Apache-2.0 */
/* The fused moving-average observer and fake quantization. */
#include "tensor/fused_fake_quant.h"

#include <string.h>

#include "kernels/affine/choose_qparams.h"
#include "kernels/affine/statistics.h"

/* ---- observe ---- */

enum { PIECE = 1 << 16, MAX_THREADS = 64 };

typedef struct range_job {
  uint32_t isa_set;
  const float *x;
  int64_t length;
  bool per_row;
  intact_min_max *ranges; /* per row, or per thread */
} range_job;

static void range_pieces(void *user, int64_t begin, int64_t end) {
  const range_job *job = user;
  if (!job->per_row) {
    intact__min_max_array(job->isa_set, job->x + begin, end - begin, &job->ranges[intact__thread_index()]);
    return;
  }
  for (int64_t row = begin; row < end; row++)
    intact__min_max_array(job->isa_set, job->x + row * job->length, job->length, &job->ranges[row]);
}

/* Takes the range of a batch into range i of the state. */
static void average(intact_fused_state *state, int64_t i, const intact_min_max *batch, float constant) {
  if (!(batch->low <= batch->high)) return;
  float *low = &state->running_min[i], *high = &state->running_max[i];
  *low = isinf(*low) ? batch->low : *low + constant * (batch->low - *low);
  *high = isinf(*high) ? batch->high : *high + constant * (batch->high - *high);
}

static intact_status observe(const intact_tensor *x, const intact_fused_spec *spec, intact_fused_state *state,
                             int64_t *non_finite) {
  intact_context *context = x->context;
  int64_t n = spec->per_row ? state->n : MAX_THREADS;
  intact_min_max *ranges = intact__alloc(context, (size_t)(n > 0 ? n : 1), sizeof *ranges);
  if (!ranges) return intact__no_memory(context, (size_t)n * sizeof *ranges);
  for (int64_t i = 0; i < n; i++) ranges[i] = (intact_min_max)INTACT_MIN_MAX_START;
  range_job job = {intact__isa_set(context), x->data, n > 0 && spec->per_row ? x->count / n : 0, spec->per_row, ranges};
  if (spec->per_row) {
    if (x->count > 0) intact__parallel(context, n, job.length < PIECE ? PIECE / job.length : 1, range_pieces, &job);
  } else if (intact_context_threads(context) <= MAX_THREADS) {
    intact__parallel(context, x->count, PIECE, range_pieces, &job);
    for (int64_t i = 1; i < n; i++) intact__min_max_join(&ranges[0], &ranges[i]);
  } else {
    intact__min_max_array(job.isa_set, x->data, x->count, &ranges[0]);
  }
  for (int64_t i = 0; i < state->n; i++) {
    average(state, i, &ranges[i], spec->averaging_constant);
    if (non_finite) *non_finite += ranges[i].non_finite;
  }
  intact__free(context, ranges);
  return INTACT_OK;
}

/* ---- qparams and fake quantization ---- */

static void choose(const intact_fused_spec *spec, intact_fused_state *state) {
  for (int64_t i = 0; i < state->n; i++) {
    float low = state->running_min[i], high = state->running_max[i];
    double scale;
    if (isinf(low) || isinf(high)) low = high = 0.0f; /* nothing observed yet acts as an empty range */
    intact__choose_qparams(INTACT_CHOOSE_FBGEMM, low, high, (int32_t)spec->low, (int32_t)spec->high, spec->symmetric, &scale,
                           &state->zero_point[i]);
    state->scale[i] = (float)scale;
  }
}

static intact_status pass(const intact_tensor *x, intact_tensor **y, intact_tensor **mask) {
  intact_tensor *made = NULL;
  if (mask) {
    INTACT_TRY(intact__tensor_create_raw(x->context, INTACT_BOOL, x->rank, x->dims, &made));
    memset(made->data, 1, (size_t)made->count);
  }
  intact_status status = intact_tensor_copy(x, y);
  if (status != INTACT_OK) {
    intact_tensor_destroy(made);
  } else if (mask) {
    *mask = made;
  }
  return status;
}

static intact_status check(const intact_tensor *x, const intact_fused_spec *spec, const intact_fused_state *state) {
  intact_context *context = x->context;
  if (x->dtype != INTACT_F32)
    INTACT_FAIL(context, TYPE_MISMATCH, spec->where, "fused fake quantization '%s' takes f32, not %s", spec->where,
                intact_dtype_text(x->dtype));
  if (spec->low > spec->high || spec->low < INT32_MIN || spec->high > INT32_MAX)
    INTACT_FAIL(context, OUT_OF_RANGE, spec->where, "fused fake quantization '%s': range %lld..%lld must be ordered and within int32",
                spec->where, (long long)spec->low, (long long)spec->high);
  if (spec->per_row && (x->rank < 1 || x->dims[0] != state->n))
    INTACT_FAIL(context, SIZE_MISMATCH, spec->where, "fused fake quantization '%s': %lld ranges for the %lld rows of x", spec->where,
                (long long)state->n, x->rank < 1 ? 0LL : (long long)x->dims[0]);
  return INTACT_OK;
}

intact_status intact__fused_fake_quantize(const intact_tensor *x, const intact_fused_spec *spec, intact_fused_state *state,
                                          int64_t *non_finite, intact_tensor **y, intact_tensor **mask) {
  INTACT_TRY(check(x, spec, state));
  if (spec->observe) INTACT_TRY(observe(x, spec, state, non_finite));
  if (!spec->fake_quantize) return pass(x, y, mask);
  choose(spec, state);
  const intact_fake_spec fixed = {.where = spec->where,
                                  .axis = spec->per_row ? 0 : -1,
                                  .low = spec->low,
                                  .high = spec->high,
                                  .n = state->n,
                                  .scale = state->scale,
                                  .zero_point = state->zero_point};
  return intact__fake_quantize_forward(x, &fixed, y, mask, NULL);
}
