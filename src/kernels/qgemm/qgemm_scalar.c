/* SPDX-License-Identifier: Apache-2.0 */
/* Integer convolution and matrix product in plain C: the definition. */
#include "kernels/qgemm/qgemm.h"

enum { WIDTH = 8 };

static void copy_x(const uint8_t *x, int64_t count, bool is_signed, int32_t zero, void *copy) {
  int16_t *to = copy;
  for (int64_t i = 0; i < count; i++) to[i] = (int16_t)(x == NULL ? 0 : (is_signed ? (int8_t)x[i] : x[i]) - zero);
}

static void run_panel(const intact_qgemm_plan *plan, const uint8_t *panel, int width, int columns, const void *const *pixels,
                      int64_t n_pixels, int64_t offset, void *y) {
  const int32_t *bias = (const int32_t *)(const void *)(panel + sizeof(intact_qgemm_panel));
  const float *scale = intact__qgemm_scale_of(panel, width);
  const int8_t *first = (const int8_t *)intact__qgemm_weights_of(panel, width);
  int64_t n_extra = intact__qgemm_extra_of(panel);
  for (int64_t i = 0; i < n_pixels; i++) {
    uint32_t acc[WIDTH];
    for (int j = 0; j < WIDTH; j++) acc[j] = (uint32_t)bias[j];
    const int8_t *w = first;
    const uint8_t *pixel = (const uint8_t *)pixels[i] + offset;
    for (int64_t s = 0; s < plan->n_segments; s++) {
      const int16_t *x = (const int16_t *)(const void *)(pixel + plan->segments[s]);
      for (int64_t k = 0; k < plan->steps; k++, w += WIDTH)
        for (int j = 0; j < WIDTH; j++) acc[j] += (uint32_t)(x[k] * w[j]);
    }
    const int64_t *extra = (const int64_t *)(const void *)(w + n_extra * WIDTH);
    for (int64_t k = 0; k < n_extra; k++, w += WIDTH) {
      const int16_t *x = (const int16_t *)(const void *)(pixel + extra[k]);
      for (int j = 0; j < WIDTH; j++) acc[j] += (uint32_t)(*x * w[j]);
    }
    for (int j = 0; j < columns; j++) {
      int32_t sum = (int32_t)acc[j];
      if (plan->shape.output == INTACT_QGEMM_S32) {
        ((int32_t *)y)[i * plan->y_stride + j] = sum;
      } else {
        ((uint8_t *)y)[i * plan->y_stride + j] = intact__round8_of(&plan->round, (float)sum * scale[j]);
      }
    }
  }
}

const intact_qgemm_kernel intact_qgemm_u8s8_1x8__scalar = {
    .name = "intact_qgemm_u8s8_1x8__scalar",
    .isa = INTACT_ISA_SCALAR,
    .depth = 1,
    .lanes = 4,
    .n_widths = 1,
    .widths = {WIDTH},
    .centered = true,
    .copy = copy_x,
    .panel = run_panel,
};
