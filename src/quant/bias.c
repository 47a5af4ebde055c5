/* SPDX-License-Identifier: Apache-2.0 */
/* Biases as s32 codes: scale x_scale * w_scale, and weight scales large enough that codes and accumulators fit. */
#include "quant/bias.h"

#include <math.h>

#include "kernels/affine/affine.h"

#define ACCUMULATOR_MAX 2147483647.0

/* Largest |x_q - zero point|. */
static double input_reach(const intact_qparams *x) {
  double low = (double)(x->zero_point[0] - x->quant_min), high = (double)(x->quant_max - x->zero_point[0]);
  return low > high ? low : high;
}

/* Sums |w| / scale of each channel, rounded up by half a code each: no less than the sum of the codes. */
static void channel_sums(const intact_tensor *weights, const intact_qparams *weight, double *sums) {
  int64_t inner = 1, channels = weight->n;
  if (weight->axis >= 0)
    for (int i = weight->axis + 1; i < weights->rank; i++) inner *= weights->dims[i];
  const float *w = intact__f32(weights);
  for (int64_t c = 0; c < channels; c++) sums[c] = 0.0;
  for (int64_t i = 0; i < weights->count; i++) {
    int64_t c = weight->axis >= 0 ? i / inner % channels : 0;
    double code = nearbyint(fabs((double)w[i]) / (double)weight->scale[c]);
    sums[c] += code > (double)weight->quant_max ? (double)weight->quant_max : code;
  }
}

static bool fits(double bias, float x_scale, float scale, double limit) {
  float product = x_scale * scale;
  return product > 0.0f && bias / (double)product <= limit;
}

/* The smallest float32 scale >= `scale` under which the bias fits. */
static float smallest_fitting(float scale, double bias, float x_scale, double limit) {
  if (fits(bias, x_scale, scale, limit)) return scale;
  double wanted = bias / (limit * (double)x_scale);
  float low = (float)wanted;
  if (!(low <= 3.0e38f)) low = 3.0e38f;
  if (low < scale) low = scale;
  while (!fits(bias, x_scale, low, limit) && low < 3.0e38f) low = nextafterf(low, INFINITY);
  for (float down = nextafterf(low, 0.0f); down > scale && fits(bias, x_scale, down, limit); down = nextafterf(low, 0.0f))
    low = down;
  return low;
}

intact_status intact__fit_weight_scales(intact_arena *arena, const intact_tensor *weights, const intact_qparams *weight,
                                        const intact_tensor *bias, const intact_qparams *x, const intact_qparams **fitted,
                                        int64_t *raised) {
  intact_context *context = arena->context;
  size_t n = (size_t)weight->n;
  double *sums = intact__alloc(context, n, sizeof *sums);
  intact_qparams *made = intact__qparams_copy(arena, weight);
  float *scales = intact__arena_alloc(arena, n, sizeof *scales);
  if (!sums || !made || !scales) {
    intact__free(context, sums);
    return intact__no_memory(context, n * sizeof *sums);
  }
  int64_t count = 0;
  bool changed = false;
  double reach = input_reach(x);
  channel_sums(weights, weight, sums);
  for (int64_t c = 0; c < weight->n; c++) {
    /* One scale for all channels: the largest bias, against the sum over all weights (no less than any channel's). */
    double largest = 0.0;
    for (int64_t i = weight->n == 1 ? 0 : c; i < (weight->n == 1 ? bias->count : c + 1) && i < bias->count; i++)
      if (fabs(intact__tensor_get_f64(bias, i)) > largest) largest = fabs(intact__tensor_get_f64(bias, i));
    double accumulator = sums[c] * reach;
    if (accumulator > ACCUMULATOR_MAX / 2) accumulator = ACCUMULATOR_MAX / 2;
    scales[c] = smallest_fitting(weight->scale[c], largest, x->scale[0], floor(ACCUMULATOR_MAX - accumulator));
    if (!(scales[c] > weight->scale[c])) continue;
    changed = true;
    count += sums[c] > 0.0; /* a channel without weights loses nothing */
  }
  intact__free(context, sums);
  made->scale = scales;
  *fitted = changed ? made : weight;
  *raised = count;
  return INTACT_OK;
}

intact_status intact__bias_qparams(intact_arena *arena, const intact_tensor *bias, const intact_qparams *x,
                                   const intact_qparams *weight, const intact_qparams **qparams) {
  int axis = -1;
  if (weight->n > 1) {
    if (bias->count != weight->n) {
      *qparams = NULL;
      return INTACT_OK;
    }
    for (int i = 0; i < bias->rank; i++)
      if (bias->dims[i] == weight->n) axis = i;
  }
  int64_t n = axis >= 0 ? weight->n : 1;
  float *scale = intact__arena_alloc(arena, (size_t)n, sizeof *scale);
  int32_t *zero_point = intact__arena_alloc(arena, (size_t)n, sizeof *zero_point);
  if (!scale || !zero_point) return intact__no_memory(arena->context, (size_t)n * sizeof *scale);
  for (int64_t c = 0; c < n; c++) scale[c] = x->scale[0] * weight->scale[c];
  *qparams = intact__qparams_create(arena, axis >= 0 ? INTACT_PER_CHANNEL_SYMMETRIC : INTACT_PER_TENSOR_SYMMETRIC, INTACT_S32,
                                    INT32_MIN, INT32_MAX, axis, n, scale, zero_point);
  return *qparams ? INTACT_OK : intact__no_memory(arena->context, sizeof **qparams);
}

intact_status intact__quantize_bias_tensor(const intact_tensor *bias, const intact_qparams *qparams, intact_tensor **codes) {
  intact_tensor *made = NULL;
  INTACT_TRY(intact__tensor_create_raw(bias->context, INTACT_S32, bias->rank, bias->dims, &made));
  int32_t *code = made->data;
  for (int64_t i = 0; i < bias->count; i++)
    code[i] = intact__quantize_bias((float)intact__tensor_get_f64(bias, i), qparams->scale[qparams->n > 1 ? i : 0]);
  *codes = made;
  return INTACT_OK;
}
