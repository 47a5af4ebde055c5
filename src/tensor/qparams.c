/* SPDX-License-Identifier: Apache-2.0 */
/* Quantization parameters in an arena. */
#include <string.h>

#include "tensor/tensor.h"

intact_qparams *intact__qparams_create(intact_arena *arena, intact_qscheme scheme, intact_dtype dtype, int64_t quant_min,
                                       int64_t quant_max, int axis, int64_t n, const float *scale, const int32_t *zero_point) {
  intact_qparams *q = intact__arena_alloc(arena, 1, sizeof *q);
  float *s = intact__arena_alloc(arena, (size_t)n, sizeof *s);
  int32_t *z = intact__arena_alloc(arena, (size_t)n, sizeof *z);
  if (!q || !s || !z) return NULL;
  memcpy(s, scale, (size_t)n * sizeof *s);
  if (zero_point) memcpy(z, zero_point, (size_t)n * sizeof *z);
  *q = (intact_qparams){.scheme = scheme,
                        .dtype = dtype,
                        .quant_min = quant_min,
                        .quant_max = quant_max,
                        .axis = axis,
                        .n = n,
                        .scale = s,
                        .zero_point = z};
  return q;
}

intact_qparams *intact__qparams_copy(intact_arena *arena, const intact_qparams *qparams) {
  intact_qparams *q = intact__qparams_create(arena, qparams->scheme, qparams->dtype, qparams->quant_min, qparams->quant_max,
                                             qparams->axis, qparams->n, qparams->scale, qparams->zero_point);
  if (!q) return NULL;
  q->group = qparams->group;
  if (qparams->real_zero_point) {
    float *z = intact__arena_alloc(arena, (size_t)q->n, sizeof *z);
    if (!z) return NULL;
    memcpy(z, qparams->real_zero_point, (size_t)q->n * sizeof *z);
    q->real_zero_point = z;
  }
  return q;
}

bool intact__qparams_equal(const intact_qparams *a, const intact_qparams *b) {
  if (a == b) return true;
  if (!a || !b) return false;
  if (!a->real_zero_point != !b->real_zero_point) return false;
  if (a->real_zero_point && a->n == b->n &&
      memcmp(a->real_zero_point, b->real_zero_point, (size_t)a->n * sizeof *a->real_zero_point) != 0)
    return false;
  return a->dtype == b->dtype && a->quant_min == b->quant_min && a->quant_max == b->quant_max && a->axis == b->axis &&
         a->group == b->group && a->n == b->n && memcmp(a->scale, b->scale, (size_t)a->n * sizeof *a->scale) == 0 &&
         memcmp(a->zero_point, b->zero_point, (size_t)a->n * sizeof *a->zero_point) == 0;
}
