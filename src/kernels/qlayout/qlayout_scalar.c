/* SPDX-License-Identifier: Apache-2.0 */
/* Moving elements in plain C, and the rows. */
#include <string.h>

#include "kernels/qlayout/qlayout.h"

void intact_qlayout_x8__scalar(const uint8_t *from, int64_t rows, int64_t columns, uint8_t *to) {
  for (int64_t r = 0; r < rows; r++)
    for (int64_t c = 0; c < columns; c++) to[c * rows + r] = from[r * columns + c];
}

const intact_qlayout_kernel intact__qlayout_rows[] = {
#define INTACT_KERNEL(family, name, isa) {#name, INTACT_ISA_##isa, name},
#include "kernels/qlayout/qlayout.def"
#undef INTACT_KERNEL
};
const int intact__n_qlayout_rows = (int)(sizeof intact__qlayout_rows / sizeof intact__qlayout_rows[0]);

const intact_qlayout_kernel *intact__qlayout_pick(uint32_t isa_set) {
  int i = 0;
  while (i + 1 < intact__n_qlayout_rows && !INTACT_HAS_ISA(isa_set, intact__qlayout_rows[i].isa)) i++;
  return &intact__qlayout_rows[i];
}

void intact__qlayout_simplify(intact_qlayout_copy *copy) {
  int n = 0;
  for (int i = 0; i < copy->rank; i++) {
    if (copy->dims[i] == 1) continue;
    int64_t dim = copy->dims[i], from = copy->from_strides[i], to = copy->to_strides[i];
    if (n > 0 && copy->from_strides[n - 1] == from * dim && copy->to_strides[n - 1] == to * dim) {
      copy->dims[n - 1] *= dim;
      copy->from_strides[n - 1] = from;
      copy->to_strides[n - 1] = to;
      continue;
    }
    copy->dims[n] = dim, copy->from_strides[n] = from, copy->to_strides[n] = to;
    n++;
  }
  if (n == 0) copy->dims[0] = 1, copy->from_strides[0] = 1, copy->to_strides[0] = 1, n = 1;
  copy->rank = n;
}

static void copy_line(const uint8_t *from, int64_t from_step, uint8_t *to, int64_t to_step, int64_t n, size_t size) {
  if (from_step == 1 && to_step == 1) {
    memcpy(to, from, (size_t)n * size);
  } else if (size == 1) {
    for (int64_t i = 0; i < n; i++) to[i * to_step] = from[i * from_step];
  } else {
    int64_t bytes = (int64_t)size;
    for (int64_t i = 0; i < n; i++) memcpy(to + i * to_step * bytes, from + i * from_step * bytes, size);
  }
}

void intact__qlayout_run(const intact_qlayout_copy *copy, const void *from, void *to, int64_t begin, int64_t end) {
  int last = copy->rank - 1;
  int64_t size = (int64_t)copy->size, index[INTACT_QLAYOUT_RANK] = {begin};
  for (int i = 0; i < copy->rank; i++)
    if (copy->dims[i] == 0) return;
  if (last == 0) {
    copy_line((const uint8_t *)from + begin * copy->from_strides[0] * size, copy->from_strides[0],
              (uint8_t *)to + begin * copy->to_strides[0] * size, copy->to_strides[0], end - begin, copy->size);
    return;
  }
  while (index[0] < end) {
    int64_t f = 0, t = 0;
    for (int i = 0; i < last; i++) f += index[i] * copy->from_strides[i], t += index[i] * copy->to_strides[i];
    copy_line((const uint8_t *)from + f * size, copy->from_strides[last], (uint8_t *)to + t * size, copy->to_strides[last],
              copy->dims[last], copy->size);
    int i = last - 1;
    while (++index[i] == copy->dims[i] && i > 0) index[i--] = 0;
  }
}
