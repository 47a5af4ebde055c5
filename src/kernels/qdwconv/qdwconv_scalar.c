/* SPDX-License-Identifier: Apache-2.0 */
/* Depthwise convolution in plain C: the definition. */
#include "kernels/qdwconv/qdwconv.h"

enum { WIDTH = 8 };

static void copy_x(const uint8_t *const *x, int64_t pixels, int64_t x_step, int width, int channels, bool is_signed, int32_t zero,
                   uint8_t *copy, int64_t copy_step) {
  for (int64_t p = 0; p < pixels; p++) {
    int16_t *to = (int16_t *)(void *)(copy + p * copy_step);
    for (int c = 0; c < width; c++) {
      uint8_t v = x[0] != NULL && c < channels ? x[0][p * x_step + c] : 0;
      to[c] = (int16_t)(x[0] != NULL && c < channels ? (is_signed ? (int8_t)v : v) - zero : 0);
    }
  }
}

static void run_line(const intact_qdwconv_plan *plan, int phase, const uint8_t *block, int width, int channels, const uint8_t *copy,
                     int64_t pixels, void *y) {
  const int32_t *bias = (const int32_t *)(const void *)block;
  const float *scale = (const float *)(const void *)(block + (size_t)width * sizeof(int32_t));
  const int64_t *offsets = plan->offsets + plan->first_step[phase];
  const int16_t *first = (const int16_t *)(const void *)(block + 2 * (size_t)width * sizeof(int32_t)) + plan->first_step[phase] * width;
  for (int64_t p = 0; p < pixels; p++) {
    uint32_t acc[WIDTH];
    const int16_t *w = first;
    for (int c = 0; c < WIDTH; c++) acc[c] = (uint32_t)bias[c];
    for (int64_t s = 0; s < plan->steps[phase]; s++, w += WIDTH) {
      const int16_t *x = (const int16_t *)(const void *)(copy + p * plan->pixel_step + offsets[s]);
      for (int c = 0; c < WIDTH; c++) acc[c] += (uint32_t)(x[c] * w[c]);
    }
    for (int c = 0; c < channels; c++) {
      int64_t at = p * plan->shape.channels + c;
      if (plan->shape.sums)
        ((int32_t *)y)[at] = (int32_t)acc[c];
      else
        ((uint8_t *)y)[at] = intact__round8_of(&plan->round, (float)(int32_t)acc[c] * scale[c]);
    }
  }
}

const intact_qdwconv_kernel intact_qdwconv_u8s8_1x8__scalar = {
    .name = "intact_qdwconv_u8s8_1x8__scalar",
    .isa = INTACT_ISA_SCALAR,
    .rows = 1,
    .group_step = 1,
    .lanes = 4,
    .weight_bytes = 2,
    .element = 2,
    .n_widths = 1,
    .widths = {WIDTH},
    .centered = true,
    .copy = copy_x,
    .line = run_line,
};
