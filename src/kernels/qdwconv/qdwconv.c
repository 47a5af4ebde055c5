/* SPDX-License-Identifier: Apache-2.0 */
/* Depthwise convolution: geometry, packing, and the loop over bands, lines and blocks of channels. */
#include "kernels/qdwconv/qdwconv.h"

#include <assert.h>
#include <string.h>

enum { COPY_BYTES_WANTED = 96 * 1024, SLACK_BYTES = 64, MACS_WANTED = 1 << 16 };

const intact_qdwconv_kernel *intact__qdwconv_pick(uint32_t isa_set) {
  static const intact_qdwconv_kernel *const rows[] = {
#define INTACT_KERNEL(family, name, isa) &name,
#include "kernels/qdwconv/qdwconv.def"
#undef INTACT_KERNEL
  };
  size_t n = sizeof rows / sizeof rows[0];
  for (size_t i = 0; i < n; i++)
    if (INTACT_HAS_ISA(isa_set, rows[i]->isa)) return rows[i];
  return rows[n - 1];
}

static int64_t ceil_div(int64_t a, int64_t b) { return (a + b - 1) / b; }

static int64_t reach(const intact_conv_axis *axis, int64_t out) {
  return (out - 1) * axis->stride + (axis->kernel - 1) * axis->dilation + 1;
}

static int block_width(const intact_qdwconv_kernel *kernel, int64_t left) {
  int width = kernel->widths[0];
  for (int i = 1; i < kernel->n_widths && width > left; i++) width = kernel->widths[i];
  return width;
}

/* Calls visit for every step of a phase in order: kernel column k of the group that starts `from` rows after the phase's own. */
typedef void (*step_fn)(void *user, int64_t from, int64_t k, int part);
static int64_t for_steps(const intact_qdwconv_plan *plan, int phase, step_fn visit, void *user) {
  const intact_conv_axis *h = &plan->shape.height;
  int rows = plan->kernel->rows;
  int64_t n = 0;
  for (int part = 0; part < plan->parts; part++)
    for (int64_t from = 0; from <= phase + (h->kernel - 1) * h->dilation; from += rows) {
      bool any = false;
      for (int64_t i = 0; i < h->kernel; i++) any = any || (phase + i * h->dilation) / rows * rows == from;
      for (int64_t k = 0; any && k < plan->shape.width.kernel; k++, n++)
        if (visit != NULL) visit(user, from, k, part);
    }
  return n;
}

static bool fits(const intact_qdwconv_shape *shape) {
  const intact_conv_axis *axes[2] = {&shape->height, &shape->width};
  int64_t bytes = 16;
  for (int i = 0; i < 2; i++) {
    const intact_conv_axis *a = axes[i];
    int64_t most = a->in > a->out ? a->in : a->out, around;
    if (__builtin_mul_overflow(a->kernel, 2 * a->dilation, &around)) return false;
    if (__builtin_mul_overflow(bytes, most + around + a->stride + 8, &bytes)) return false;
  }
  return !__builtin_mul_overflow(bytes, shape->batch, &bytes) && !__builtin_mul_overflow(bytes, shape->channels + 64, &bytes);
}

static void choose_bands(intact_qdwconv_plan *plan, int threads) {
  const intact_conv_axis *h = &plan->shape.height;
  int step = plan->kernel->group_step;
  int64_t lines = (COPY_BYTES_WANTED / plan->group_bytes * step - reach(h, 1)) / h->stride + 1;
  double line_macs = (double)(plan->shape.width.out * plan->shape.channels) * (double)(h->kernel * plan->shape.width.kernel);
  int64_t worth = (int64_t)(MACS_WANTED / (line_macs + 1)) + 1; /* lines */
  if (threads > 1 && plan->shape.batch < 4 * (int64_t)threads) {
    int64_t shared = ceil_div(h->out, ceil_div(4 * (int64_t)threads, plan->shape.batch));
    if (shared < worth) shared = worth;
    if (shared < lines) lines = shared;
  }
  if (lines > h->out) lines = h->out;
  if (lines < 1) lines = 1;
  plan->bands_per_image = ceil_div(h->out, lines);
  plan->band_lines = ceil_div(h->out, plan->bands_per_image);
  plan->bands_per_image = ceil_div(h->out, plan->band_lines);
  plan->n_bands = plan->shape.batch * plan->bands_per_image;
  plan->grain = ceil_div(worth, plan->band_lines);
  int64_t groups = ceil_div(reach(h, plan->band_lines), step);
  plan->scratch_bytes = ((size_t)(groups * plan->group_bytes) + SLACK_BYTES + 63) / 64 * 64;
}

bool intact__qdwconv_plan(const intact_qdwconv_kernel *kernel, const intact_qdwconv_shape *shape, int parts, int threads,
                          intact_qdwconv_plan *plan) {
  if (!fits(shape)) return false;
  *plan = (intact_qdwconv_plan){.kernel = kernel, .shape = *shape, .parts = parts};
  plan->copied_width = reach(&shape->width, shape->width.out);
  plan->pixel_bytes = block_width(kernel, shape->channels) * kernel->rows * kernel->element;
  plan->group_bytes = plan->copied_width * plan->pixel_bytes;
  plan->pixel_step = shape->width.stride * plan->pixel_bytes;
  for (int p = 0; p < kernel->group_step; p++) {
    plan->first_step[p] = plan->all_steps;
    plan->steps[p] = for_steps(plan, p, NULL, NULL);
    plan->all_steps += plan->steps[p];
  }
  choose_bands(plan, threads);
  plan->round = intact__round8(shape->y_signed, shape->zero_y, shape->y_min, shape->y_max);
  return true;
}

static size_t block_bytes(const intact_qdwconv_plan *plan, int width) {
  size_t bytes = (size_t)width * (sizeof(int32_t) + sizeof(float)) +
                 (size_t)plan->all_steps * intact__qdwconv_step_bytes(plan->kernel, width);
  return (bytes + 63) / 64 * 64;
}

size_t intact__qdwconv_packed_bytes(const intact_qdwconv_plan *plan) {
  size_t bytes = 0;
  for (int64_t c = 0; c < plan->shape.channels;) {
    int width = block_width(plan->kernel, plan->shape.channels - c);
    bytes += block_bytes(plan, width);
    c += width;
  }
  return bytes;
}

/* ---- packing ---- */

static int32_t weight_at(const intact_qdwconv_shape *shape, const intact_qdwconv_weights *weights, int64_t c, int64_t i, int64_t k) {
  int64_t at = (c * shape->height.kernel + i) * shape->width.kernel + k;
  int32_t w = weights->is_unsigned ? ((const uint8_t *)weights->data)[at] : ((const int8_t *)weights->data)[at];
  return weights->zero != NULL ? w - weights->zero[c] : w;
}

/* What part 0, 1, ... of w holds: as much as fits s8 of what the earlier ones left; 2-byte weights hold all. */
static int32_t part_of(const intact_qdwconv_kernel *kernel, int32_t w, int part) {
  if (kernel->weight_bytes > 1) return part == 0 ? w : 0;
  for (;; part--) {
    int32_t held = w < INT8_MIN ? INT8_MIN : w > INT8_MAX ? INT8_MAX : w;
    if (part == 0) return held;
    w -= held;
  }
}

int intact__qdwconv_parts(const intact_qdwconv_kernel *kernel, const intact_qdwconv_shape *shape,
                          const intact_qdwconv_weights *weights) {
  int parts = 1;
  for (int64_t c = 0; c < shape->channels; c++)
    for (int64_t i = 0; i < shape->height.kernel; i++)
      for (int64_t k = 0; k < shape->width.kernel; k++)
        while (part_of(kernel, weight_at(shape, weights, c, i, k), parts) != 0) parts++;
  return parts;
}

typedef struct packer {
  const intact_qdwconv_plan *plan;
  const intact_qdwconv_weights *weights;
  int64_t *offset;
  uint8_t *out;
  int64_t channel; /* first of the block */
  int width, channels, phase;
} packer;

static void pack_offset(void *user, int64_t from, int64_t k, int part) {
  packer *p = user;
  (void)part;
  *p->offset++ = from / p->plan->kernel->group_step * p->plan->group_bytes +
                 k * p->plan->shape.width.dilation * p->plan->pixel_bytes;
}

static int channel_of(int i, int width, int lanes) {
  int l = i % lanes, j = i / lanes;
  return l / 4 * 4 * (width / lanes) + 4 * j + l % 4;
}

static void pack_step(void *user, int64_t from, int64_t k, int part) {
  packer *p = user;
  const intact_qdwconv_kernel *kernel = p->plan->kernel;
  const intact_conv_axis *h = &p->plan->shape.height;
  for (int i = 0; i < p->width; i++) {
    int c = channel_of(i, p->width, kernel->lanes);
    for (int r = 0; r < kernel->rows; r++) {
      int64_t row = from + r - p->phase;
      bool tap = c < p->channels && row >= 0 && row % h->dilation == 0 && row / h->dilation < h->kernel;
      int32_t w = tap ? weight_at(&p->plan->shape, p->weights, p->channel + c, row / h->dilation, k) : 0;
      w = part_of(kernel, w, part);
      uint8_t *to = p->out + (i * kernel->rows + r) * kernel->weight_bytes;
      int16_t wide = (int16_t)w;
      int8_t narrow = (int8_t)w;
      memcpy(to, kernel->weight_bytes > 1 ? (const void *)&wide : (const void *)&narrow, (size_t)kernel->weight_bytes);
    }
  }
  p->out += intact__qdwconv_step_bytes(kernel, p->width);
}

static void pack_head(const packer *p, int32_t *bias, float *scale) {
  const intact_qdwconv_shape *shape = &p->plan->shape;
  for (int i = 0; i < p->width; i++) {
    int c = channel_of(i, p->width, p->plan->kernel->lanes);
    int64_t channel = p->channel + c;
    bool real = c < p->channels;
    uint32_t b = real && p->weights->bias != NULL ? (uint32_t)p->weights->bias[channel] : 0;
    for (int64_t t = 0; real && !p->plan->kernel->centered && t < shape->height.kernel * shape->width.kernel; t++) {
      int32_t w = weight_at(shape, p->weights, channel, t / shape->width.kernel, t % shape->width.kernel);
      b -= (uint32_t)(shape->zero_x + (shape->x_signed ? 128 : 0)) * (uint32_t)w;
    }
    memcpy(&bias[i], &b, sizeof b);
    scale[i] = real && p->weights->scale != NULL ? p->weights->scale[channel] : 0.0f;
  }
}

void intact__qdwconv_pack(intact_qdwconv_plan *plan, const intact_qdwconv_weights *weights, int64_t *offsets, uint8_t *packed) {
  const intact_qdwconv_kernel *kernel = plan->kernel;
  packer p = {.plan = plan, .weights = weights, .offset = offsets};
  for (int phase = 0; phase < kernel->group_step; phase++) for_steps(plan, phase, pack_offset, &p);
  memset(packed, 0, intact__qdwconv_packed_bytes(plan));
  uint8_t *block = packed;
  for (; p.channel < plan->shape.channels; p.channel += p.width) {
    int64_t left = plan->shape.channels - p.channel;
    p.width = block_width(kernel, left);
    p.channels = left < p.width ? (int)left : p.width;
    size_t head = (size_t)p.width * sizeof(int32_t);
    pack_head(&p, (int32_t *)(void *)block, (float *)(void *)(block + head));
    p.out = block + 2 * head;
    for (p.phase = 0; p.phase < kernel->group_step; p.phase++) for_steps(plan, p.phase, pack_step, &p);
    block += block_bytes(plan, p.width);
  }
  plan->offsets = offsets;
  plan->packed = packed;
}

/* ---- running ---- */

/* Rows first .. first + rows - 1 of the image, side by side, for one block of channels. */
static void copy_block(const intact_qdwconv_plan *plan, const uint8_t *image, int64_t first, int64_t channel, int width,
                       int channels, uint8_t *to) {
  const intact_conv_axis *h = &plan->shape.height, *w = &plan->shape.width;
  const intact_qdwconv_kernel *kernel = plan->kernel;
  const uint8_t *rows[INTACT_QDWCONV_PHASES], *none[INTACT_QDWCONV_PHASES] = {NULL};
  int64_t before = w->pad < plan->copied_width ? w->pad : plan->copied_width;
  int64_t count = plan->copied_width - before < w->in ? plan->copied_width - before : w->in;
  int64_t after = plan->copied_width - before - count, step = plan->shape.channels;
  for (int r = 0; r < kernel->rows; r++) {
    int64_t row = first + r;
    rows[r] = row >= 0 && row < h->in ? image + row * w->in * step + channel : NULL;
  }
  bool is_signed = plan->shape.x_signed;
  int32_t zero = plan->shape.zero_x;
  if (before > 0) kernel->copy(none, before, step, width, channels, is_signed, zero, to, plan->pixel_bytes);
  if (count > 0)
    kernel->copy(rows, count, step, width, channels, is_signed, zero, to + before * plan->pixel_bytes, plan->pixel_bytes);
  if (after > 0)
    kernel->copy(none, after, step, width, channels, is_signed, zero, to + (before + count) * plan->pixel_bytes, plan->pixel_bytes);
}

static void run_lines(const intact_qdwconv_plan *plan, const uint8_t *copy, int64_t lines, const uint8_t *block, int width,
                      int channels, uint8_t *y) {
  const intact_qdwconv_kernel *kernel = plan->kernel;
  int64_t y_line = plan->shape.width.out * plan->shape.channels * (plan->shape.sums ? (int64_t)sizeof(int32_t) : 1);
  for (int64_t i = 0; i < lines; i++) {
    int64_t row = i * plan->shape.height.stride;
    kernel->line(plan, (int)(row % kernel->group_step), block, width, channels,
                 copy + row / kernel->group_step * plan->group_bytes, plan->shape.width.out, y + i * y_line);
  }
}

static void run_band(const intact_qdwconv_plan *plan, const uint8_t *x, uint8_t *y, uint8_t *copy, int64_t band) {
  const intact_qdwconv_shape *shape = &plan->shape;
  const intact_qdwconv_kernel *kernel = plan->kernel;
  const intact_conv_axis *h = &shape->height;
  int64_t image = band / plan->bands_per_image, line = band % plan->bands_per_image * plan->band_lines;
  int64_t lines = h->out - line < plan->band_lines ? h->out - line : plan->band_lines;
  int64_t first = line * h->stride - h->pad, groups = ceil_div(reach(h, lines), kernel->group_step);
  const uint8_t *from = x + image * h->in * shape->width.in * shape->channels, *block = plan->packed;
  size_t y_size = shape->sums ? sizeof(int32_t) : 1;
  uint8_t *to = y + (size_t)((image * h->out + line) * shape->width.out * shape->channels) * y_size;
  for (int64_t c = 0; c < shape->channels;) {
    int64_t left = shape->channels - c;
    int width = block_width(kernel, left), channels = left < width ? (int)left : width;
    for (int64_t g = 0; g < groups; g++)
      copy_block(plan, from, first + g * kernel->group_step, c, width, channels, copy + g * plan->group_bytes);
    run_lines(plan, copy, lines, block, width, channels, to + (size_t)c * y_size);
    block += block_bytes(plan, width);
    c += width;
  }
}

void intact__qdwconv_run(const intact_qdwconv_plan *plan, const void *x, void *y, void *scratch, int64_t begin, int64_t end) {
  assert(plan->packed != NULL);
  for (int64_t band = begin; band < end; band++) run_band(plan, x, y, scratch, band);
}
