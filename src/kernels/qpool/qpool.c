/* SPDX-License-Identifier: Apache-2.0 */
/* Pooling: windows, and the loop over output pixels. */
#include "kernels/qpool/qpool.h"

void intact__qpool_windows(const intact_conv_axis *axis, int64_t pad_after, bool include_pad, intact_qpool_window *windows) {
  for (int64_t o = 0; o < axis->out; o++) {
    int64_t start = o * axis->stride - axis->pad, count = axis->kernel;
    int64_t size = (axis->in + pad_after - start + axis->dilation - 1) / axis->dilation;
    if (size > axis->kernel) size = axis->kernel;
    while (count > 0 && start < 0) start += axis->dilation, count--;
    while (count > 0 && start + (count - 1) * axis->dilation >= axis->in) count--;
    windows[o] = (intact_qpool_window){count > 0 ? start : 0, count, include_pad ? size : count};
  }
}

void intact__qpool_adaptive_windows(int64_t in, int64_t out, intact_qpool_window *windows) {
  for (int64_t o = 0; o < out; o++) {
    int64_t start = o * in / out, end = ((o + 1) * in + out - 1) / out;
    windows[o] = (intact_qpool_window){start, end - start, end - start};
  }
}

static int64_t fill_offsets(const intact_qpool_plan *plan, const intact_qpool_window *w0, const intact_qpool_window *w1,
                            const intact_qpool_window *w2, int64_t *offsets) {
  const intact_qpool_axis *a = plan->axis;
  int64_t n = 0;
  for (int64_t i = 0; i < w0->count; i++)
    for (int64_t j = 0; j < w1->count; j++)
      for (int64_t k = 0; k < w2->count; k++) {
        int64_t element = (i * a[0].dilation * a[1].in + j * a[1].dilation) * a[2].in + k * a[2].dilation;
        offsets[n++] = element * plan->channels;
      }
  return n;
}

/* Output pixels that see windows of one shape at one distance are one block. */
static int64_t same_windows(const intact_qpool_axis *axis, int64_t first) {
  const intact_qpool_window *w = axis->windows;
  int64_t n = 1;
  if (first + 1 >= axis->out) return n;
  int64_t step = w[first + 1].start - w[first].start;
  while (first + n < axis->out && w[first + n].count == w[first].count && w[first + n].divisor == w[first].divisor &&
         w[first + n].start - w[first + n - 1].start == step)
    n++;
  return n;
}

static void run_row(const intact_qpool_plan *plan, const uint8_t *image, int64_t o0, int64_t o1, int64_t *offsets, uint8_t *y) {
  const intact_qpool_axis *a = plan->axis;
  const intact_qpool_window *w0 = &a[0].windows[o0], *w1 = &a[1].windows[o1];
  intact_qpool_block block = {.offsets = offsets, .channels = plan->channels, .y_step = plan->channels};
  for (int64_t o2 = 0; o2 < a[2].out; o2 += block.pixels) {
    const intact_qpool_window *w2 = &a[2].windows[o2];
    block.taps = fill_offsets(plan, w0, w1, w2, offsets);
    block.pixels = same_windows(&a[2], o2);
    block.x_step = block.pixels > 1 ? (w2[1].start - w2->start) * plan->channels : 0;
    block.x = image + ((w0->start * a[1].in + w1->start) * a[2].in + w2->start) * plan->channels;
    block.y = y + o2 * plan->channels;
    int64_t divisor = plan->divisor != 0 ? plan->divisor : w0->divisor * w1->divisor * w2->divisor;
    float each = plan->scale_x / (float)divisor;
    block.scale = each / plan->scale_y;
    plan->run(&plan->params, &block);
  }
}

void intact__qpool_run(const intact_qpool_plan *plan, const void *x, void *y, void *scratch, int64_t begin, int64_t end) {
  const intact_qpool_axis *a = plan->axis;
  for (int64_t row = begin; row < end; row++) {
    int64_t o1 = row % a[1].out, o0 = row / a[1].out % a[0].out, image = row / a[1].out / a[0].out;
    run_row(plan, (const uint8_t *)x + image * a[0].in * a[1].in * a[2].in * plan->channels, o0, o1, scratch,
            (uint8_t *)y + row * a[2].out * plan->channels);
  }
}
