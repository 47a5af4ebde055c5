/* SPDX-License-Identifier: Apache-2.0 */
/* Fake quantization of a clamped tensor in one go: y = fake_quantize(min(max(x, low), high)). */
#include <math.h>
#include <string.h>

#include "graph/fake_quantizer.h"

enum { PIECE = 1 << 14, MAX_THREADS = 64 };

typedef struct clamp_job {
  uint32_t isa_set;
  const float *x, *dy;
  float *to;
  float low, high;
  intact_affine affine;
  intact_min_max ranges[MAX_THREADS];
} clamp_job;

static void range_piece(void *user, int64_t begin, int64_t end) {
  clamp_job *job = user;
  intact__min_max_array(job->isa_set, job->x + begin, end - begin, &job->ranges[intact__thread_index()]);
}

static void forward_piece(void *user, int64_t begin, int64_t end) {
  const clamp_job *job = user;
  intact__fake_quantize_array(job->isa_set, job->x + begin, job->to + begin, NULL, end - begin, &job->affine);
}

static void backward_piece(void *user, int64_t begin, int64_t end) {
  const clamp_job *job = user;
  const intact_runs run = {1, end - begin, end - begin};
  const intact_line itself = {0, 1, 0};
  intact__line_fake_quantize_grad(job->isa_set, job->x + begin, job->dy + begin, job->to + begin, &run, &itself, &job->affine, job->low,
                                  job->high);
}

static clamp_job job_of(const intact_tensor *x, float low, float high) {
  clamp_job job = {.isa_set = intact__isa_set(x->context), .x = x->data, .low = low, .high = high};
  for (int i = 0; i < MAX_THREADS; i++) job.ranges[i] = (intact_min_max)INTACT_MIN_MAX_START;
  return job;
}

static float bound(float v, float low, float high) { return fminf(fmaxf(v, low), high) + 0.0f; }

intact_affine intact__affine_clamped(const intact_affine *affine, float low, float high) {
  intact_affine clamped = *affine;
  clamped.low = intact__quantize_one(low, affine);
  clamped.high = intact__quantize_one(high, affine);
  return clamped;
}

static void values_of(const void *user, int64_t first, int64_t n, float *x) {
  memcpy(x, (const float *)user + first, (size_t)n * sizeof *x);
}

intact_status intact__fake_quantizer_forward_clamped(intact_observation *observation, const intact_tensor *x, float low, float high,
                                                     bool observe, intact_tensor **y) {
  clamp_job job = job_of(x, low, high);
  intact_min_max range = INTACT_MIN_MAX_START;
  const intact_made_values values = {values_of, x->data, x->count};
  observe = observe && !observation->frozen;
  if (observe && intact_context_threads(x->context) <= MAX_THREADS) intact__parallel(x->context, x->count, PIECE, range_piece, &job);
  if (observe && intact_context_threads(x->context) > MAX_THREADS) range_piece(&job, 0, x->count);
  for (int i = 0; i < MAX_THREADS; i++) intact__min_max_join(&range, &job.ranges[i]);
  if (range.low <= range.high) {
    range.low = bound(range.low, low, high);
    range.high = bound(range.high, low, high);
  }
  INTACT_TRY(intact__fake_quantizer_by_range(observation, observe ? &range : NULL, &values, low, high, &job.affine));
  INTACT_TRY(intact__tensor_create_raw(x->context, INTACT_F32, x->rank, x->dims, y));
  job.affine = intact__affine_clamped(&job.affine, low, high);
  job.to = (*y)->data;
  intact__parallel(x->context, x->count, PIECE, forward_piece, &job);
  return INTACT_OK;
}

intact_status intact__fake_quantizer_backward_clamped(const intact_observation *observation, const intact_tensor *x, const intact_tensor *dy,
                                                      float low, float high, bool over, intact_tensor **dx, intact_tensor **d_scale,
                                                      intact_tensor **d_zero_point) {
  intact_tensor *made;
  if (over)
    INTACT_TRY(intact_tensor_share(dy, 0, NULL, &made));
  else
    INTACT_TRY(intact__tensor_create_raw(x->context, INTACT_F32, x->rank, x->dims, &made));
  intact_status status = INTACT_OK;
  if (intact__fake_quantizer_is_learned(observation)) {
    const intact_made_values values = {values_of, x->data, x->count};
    status = intact__fake_quantizer_backward_made(observation, &values, dy->data, low, high, made->data, d_scale, d_zero_point);
  } else {
    clamp_job job = job_of(x, low, high);
    job.affine = intact__fake_quantizer_affine(observation);
    job.dy = dy->data;
    job.to = made->data;
    intact__parallel(x->context, x->count, PIECE, backward_piece, &job);
  }
  if (status == INTACT_OK)
    *dx = made;
  else
    intact_tensor_destroy(made);
  return status;
}
