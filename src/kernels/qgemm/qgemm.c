/* SPDX-License-Identifier: Apache-2.0 */
/* Integer convolution and matrix product: geometry, packing, and the loop over bands and panels. */
#include "kernels/qgemm/qgemm.h"

#include <assert.h>
#include <string.h>

enum { COPY_BYTES_WANTED = 96 * 1024, SLACK_BYTES = 64, MACS_WANTED = 1 << 18, EXTRA_STEPS_WORTH = 5 };

static int64_t taps_of(const intact_qgemm_shape *shape) {
  return shape->axis[0].kernel * shape->axis[1].kernel * shape->axis[2].kernel;
}

/* No neighbours and no gaps: all pixels of all images are lines of one image. */
static bool is_pointwise(const intact_qgemm_shape *shape) {
  for (int i = 0; i < 3; i++) {
    const intact_conv_axis *a = &shape->axis[i];
    if (a->kernel != 1 || a->stride != 1 || a->pad != 0 || a->in != a->out) return false;
  }
  return true;
}

static void collapse(intact_qgemm_shape *shape) {
  int64_t pixels = shape->batch * shape->axis[0].out * shape->axis[1].out * shape->axis[2].out;
  intact_conv_axis one = {1, 1, 1, 1, 1, 0};
  shape->batch = 1;
  shape->axis[0] = shape->axis[1] = shape->axis[2] = one;
  shape->axis[0].in = shape->axis[0].out = pixels;
}

/* Elements along an axis that `out` outputs read. */
static int64_t reach(const intact_conv_axis *axis, int64_t out) {
  return (out - 1) * axis->stride + (axis->kernel - 1) * axis->dilation + 1;
}

static int64_t ceil_div(int64_t a, int64_t b) { return (a + b - 1) / b; }

static bool mul(int64_t *a, int64_t b) { return !__builtin_mul_overflow(*a, b, a); }

/* Taps whose input elements follow each other in the copy form one segment. */
static void find_segments(intact_qgemm_plan *plan) {
  const intact_qgemm_shape *shape = &plan->shape;
  const intact_conv_axis *a = shape->axis;
  plan->run_taps = 1;
  if (shape->groups == 1) {
    bool whole = a[2].dilation == 1 || a[2].kernel == 1;
    if (whole) plan->run_taps = a[2].kernel;
    whole = whole && a[2].kernel == plan->copied[2] && (a[1].dilation == 1 || a[1].kernel == 1);
    if (whole) plan->run_taps *= a[1].kernel;
    whole = whole && a[1].kernel == plan->copied[1] && (a[0].dilation == 1 || a[0].kernel == 1);
    if (whole) plan->run_taps *= a[0].kernel;
  }
  plan->segment_length = plan->run_taps * shape->in_channels;
  plan->steps = ceil_div(plan->segment_length, plan->kernel->depth);
  plan->n_segments = taps_of(shape) / plan->run_taps;
}

/* How many output lines a band has: the copy stays within COPY_BYTES_WANTED, and there is a band for each thread. */
static void choose_bands(intact_qgemm_plan *plan, int threads) {
  const intact_conv_axis *a0 = &plan->shape.axis[0];
  int64_t line_bytes = plan->copied[1] * plan->copied[2] * plan->shape.groups * plan->shape.in_channels * (int64_t)plan->element;
  int64_t lines = 1;
  if (reach(a0, 1) * line_bytes < COPY_BYTES_WANTED)
    lines = ((COPY_BYTES_WANTED / line_bytes) - reach(a0, 1)) / a0->stride + 1;
  int64_t line_pixels = plan->shape.axis[1].out * plan->shape.axis[2].out;
  if (lines * line_pixels > 4096) lines = ceil_div(4096, line_pixels);
  double line_macs = (double)line_pixels * (double)(plan->shape.groups * plan->shape.in_channels) * (double)plan->shape.out_channels *
                     (double)taps_of(&plan->shape);
  int64_t worth = (int64_t)(MACS_WANTED / (line_macs + 1)) + 1; /* lines */
  if (threads > 1 && plan->shape.batch < 4 * (int64_t)threads) {
    int64_t shared = ceil_div(a0->out, ceil_div(4 * (int64_t)threads, plan->shape.batch));
    if (shared < worth) shared = worth;
    if (shared < lines) lines = shared;
  }
  if (lines > a0->out) lines = a0->out;
  if (lines < 1) lines = 1;
  /* equal bands rather than a short last one */
  plan->bands_per_image = ceil_div(a0->out, lines);
  plan->band_lines = ceil_div(a0->out, plan->bands_per_image);
  plan->bands_per_image = ceil_div(a0->out, plan->band_lines);
  plan->n_bands = plan->shape.batch * plan->bands_per_image;
  plan->band_pixels = plan->band_lines * line_pixels;
  plan->grain = ceil_div(worth, plan->band_lines);
  plan->copied[0] = reach(a0, plan->band_lines);
}

static int panel_width(const intact_qgemm_kernel *kernel, int64_t left) {
  int width = kernel->widths[0];
  for (int i = 1; i < kernel->n_widths && kernel->widths[i] >= left; i++) width = kernel->widths[i];
  return width;
}

static bool fits(const intact_qgemm_shape *shape) {
  int64_t bytes = 4;
  for (int i = 0; i < 3; i++) {
    const intact_conv_axis *a = &shape->axis[i];
    int64_t most = a->in > a->out ? a->in : a->out;
    if (!mul(&bytes, most + 2 * a->kernel * a->dilation + a->stride)) return false;
  }
  int64_t channels = shape->in_channels > shape->out_channels ? shape->in_channels : shape->out_channels;
  return mul(&bytes, shape->batch) && mul(&bytes, shape->groups) && mul(&bytes, channels + 64);
}

bool intact__qgemm_plan(const intact_qgemm_kernel *kernel, const intact_qgemm_shape *shape, int threads, intact_qgemm_plan *plan) {
  if (!fits(shape)) return false;
  *plan = (intact_qgemm_plan){.kernel = kernel, .shape = *shape};
  if (is_pointwise(shape)) collapse(&plan->shape);
  const intact_conv_axis *a = plan->shape.axis;
  bool padded = false;
  for (int i = 0; i < 3; i++) {
    plan->copied[i] = reach(&a[i], a[i].out);
    if (i > 0 && plan->copied[i] < a[i].in) plan->copied[i] = a[i].in;
    padded = padded || a[i].pad > 0 || reach(&a[i], a[i].out) > a[i].in;
  }
  plan->one_piece = !padded;
  plan->element = kernel->centered ? sizeof(int16_t) : 1;
  find_segments(plan);
  plan->in_place =
      !padded && !kernel->centered && !plan->shape.x_signed && plan->segment_length % kernel->depth == 0;
  choose_bands(plan, threads);
  int64_t channels = plan->shape.groups * plan->shape.in_channels;
  if (!plan->in_place) {
    plan->copy_bytes = (size_t)(plan->copied[0] * plan->copied[1] * plan->copied[2] * channels) * plan->element + SLACK_BYTES;
    plan->copy_bytes = (plan->copy_bytes + 63) / 64 * 64;
  }
  plan->scratch_bytes = plan->copy_bytes + ((size_t)plan->band_pixels * sizeof(void *) + 63) / 64 * 64;
  plan->round = intact__round8(shape->y_signed, shape->zero_y, shape->y_min, shape->y_max);
  plan->y_stride = plan->shape.groups * plan->shape.out_channels;
  return true;
}

/* ---- packing ---- */

static int32_t weight_at(const intact_qgemm_weights *weights, int64_t channel, int64_t tap, int64_t c) {
  int64_t i = channel * weights->n_stride + tap * weights->tap_stride + c * weights->c_stride;
  int32_t w = weights->is_unsigned ? ((const uint8_t *)weights->data)[i] : ((const int8_t *)weights->data)[i];
  return weights->zero != NULL ? w - weights->zero[channel] : w;
}

static int32_t clamp(int32_t v, int32_t low, int32_t high) { return v < low ? low : v > high ? high : v; }

/* Takes from rest what one step of the kernel can hold of a column; true if something is left. */
static bool take(const intact_qgemm_kernel *kernel, int32_t *rest, int8_t *held) {
  bool left = false;
  for (int k = 0; k < kernel->depth; k++) {
    int32_t low = INT8_MIN, high = INT8_MAX;
    if (kernel->pairs && k % 2 == 1) { /* what the first of the pair leaves */
      if (held[k - 1] < 0) low = -128 - held[k - 1];
      if (held[k - 1] > 0) high = 128 - held[k - 1] < INT8_MAX ? 128 - held[k - 1] : INT8_MAX;
    }
    held[k] = (int8_t)clamp(rest[k], low, high);
    rest[k] -= held[k];
    left = left || rest[k] != 0;
  }
  return left;
}

/* What packing walks over: one panel, and where its next extra step goes (NULL: only counted). */
typedef struct packer {
  const intact_qgemm_plan *plan;
  const intact_qgemm_weights *weights;
  int64_t first; /* channel of column 0 */
  int width, columns;
  int8_t *main, *extra;
  int64_t *offsets;
  int64_t n_extra;
  uint32_t *sums; /* of the weights, per column; NULL when only counted */
} packer;

static int column_of(int i, int width, int lanes) { return i % lanes / 4 * 4 * (width / lanes) + 4 * (i / lanes) + i % lanes % 4; }

/* The weights of step p of a segment, place i of the panel. */
static void weights_of(const packer *p, int64_t segment, int64_t step, int i, int32_t *w) {
  const intact_qgemm_plan *plan = p->plan;
  int depth = plan->kernel->depth, column = column_of(i, p->width, plan->kernel->lanes);
  for (int k = 0; k < depth; k++) {
    int64_t at = step * depth + k, in = plan->shape.in_channels;
    bool real = column < p->columns && at < plan->segment_length;
    w[k] = real ? weight_at(p->weights, p->first + column, segment * plan->run_taps + at / in, at % in) : 0;
  }
}

enum { MAX_WIDTH = 64, MAX_DEPTH = 4 };

static void pack_step(packer *p, int64_t segment, int64_t step) {
  const intact_qgemm_kernel *kernel = p->plan->kernel;
  int32_t rest[MAX_WIDTH][MAX_DEPTH];
  int8_t held[MAX_DEPTH];
  for (int i = 0; i < p->width; i++) weights_of(p, segment, step, i, rest[i]);
  for (bool first = true, left = true; left; first = false) {
    left = false;
    for (int i = 0; i < p->width; i++) {
      left |= take(kernel, rest[i], held);
      if (p->sums == NULL) continue;
      memcpy((first ? p->main : p->extra) + i * kernel->depth, held, (size_t)kernel->depth);
      for (int k = 0; k < kernel->depth; k++) p->sums[i] += (uint32_t)(int32_t)held[k];
    }
    if (!first && p->sums != NULL) {
      *p->offsets++ = p->plan->segments[segment] + step * kernel->depth * (int64_t)p->plan->element;
      p->extra += p->width * kernel->depth;
    }
    p->n_extra += !first;
  }
  if (p->sums != NULL) p->main += p->width * kernel->depth;
}

static int64_t count_extra(const intact_qgemm_plan *plan, const intact_qgemm_weights *weights, int64_t first, int width, int columns) {
  packer p = {.plan = plan, .weights = weights, .first = first, .width = width, .columns = columns};
  for (int64_t s = 0; s < plan->n_segments; s++)
    for (int64_t k = 0; k < plan->steps; k++) pack_step(&p, s, k);
  return p.n_extra;
}

static size_t panel_bytes(const intact_qgemm_plan *plan, int width, int64_t n_extra) {
  size_t steps = (size_t)(plan->n_segments * plan->steps + n_extra);
  size_t bytes = sizeof(intact_qgemm_panel) + (size_t)width * (sizeof(int32_t) + sizeof(float)) +
                 steps * (size_t)plan->kernel->depth * (size_t)width + (size_t)n_extra * sizeof(int64_t);
  return (bytes + 63) / 64 * 64;
}

/* Calls visit for every panel in order. */
typedef void (*panel_fn)(void *user, int64_t first, int width, int columns);
static void for_panels(const intact_qgemm_plan *plan, panel_fn visit, void *user) {
  for (int64_t g = 0; g < plan->shape.groups; g++)
    for (int64_t c = 0; c < plan->shape.out_channels;) {
      int64_t left = plan->shape.out_channels - c;
      int width = panel_width(plan->kernel, left);
      visit(user, g * plan->shape.out_channels + c, width, left < width ? (int)left : width);
      c += width;
    }
}

typedef struct counter {
  const intact_qgemm_plan *plan;
  const intact_qgemm_weights *weights;
  size_t bytes;
  int64_t steps, extra;
} counter;

static void count_panel(void *user, int64_t first, int width, int columns) {
  counter *c = user;
  int64_t n = count_extra(c->plan, c->weights, first, width, columns);
  c->bytes += panel_bytes(c->plan, width, n);
  c->steps += c->plan->n_segments * c->plan->steps;
  c->extra += n;
}

size_t intact__qgemm_packed_bytes(const intact_qgemm_plan *plan, const intact_qgemm_weights *weights) {
  counter c = {.plan = plan, .weights = weights};
  for_panels(plan, count_panel, &c);
  return c.bytes;
}

typedef struct panels {
  const intact_qgemm_plan *plan;
  const intact_qgemm_weights *weights;
  uint8_t *next;
} panels;

static void pack_panel(void *user, int64_t first, int width, int columns) {
  panels *all = user;
  const intact_qgemm_plan *plan = all->plan;
  const intact_qgemm_weights *weights = all->weights;
  uint8_t *panel = all->next;
  int64_t n_extra = count_extra(plan, weights, first, width, columns);
  size_t bytes = panel_bytes(plan, width, n_extra), step = (size_t)plan->kernel->depth * (size_t)width;
  *(intact_qgemm_panel *)(void *)panel = (intact_qgemm_panel){.n_extra = n_extra, .bytes = (int64_t)bytes};
  uint32_t sums[MAX_WIDTH] = {0};
  packer p = {.plan = plan, .weights = weights, .first = first, .width = width, .columns = columns, .sums = sums};
  int32_t *bias = (int32_t *)(void *)(panel + sizeof(intact_qgemm_panel));
  float *scale = (float *)(void *)(bias + width);
  p.main = (int8_t *)(scale + width);
  p.extra = p.main + (size_t)(plan->n_segments * plan->steps) * step;
  p.offsets = (int64_t *)(void *)(p.extra + (size_t)n_extra * step);
  for (int64_t s = 0; s < plan->n_segments; s++)
    for (int64_t k = 0; k < plan->steps; k++) pack_step(&p, s, k);
  for (int i = 0; i < width; i++) {
    int column = column_of(i, width, plan->kernel->lanes);
    bool real = column < columns;
    uint32_t b = real && weights->bias != NULL ? (uint32_t)weights->bias[first + column] : 0;
    if (!plan->kernel->centered) b -= (uint32_t)(plan->shape.zero_x + (plan->shape.x_signed ? 128 : 0)) * sums[i];
    memcpy(&bias[i], &b, sizeof b);
    scale[i] = real && weights->scale != NULL ? weights->scale[first + column] : 0.0f;
  }
  all->next += bytes;
}

void intact__qgemm_pack(intact_qgemm_plan *plan, const intact_qgemm_weights *weights, int64_t *segments, uint8_t *packed) {
  const intact_conv_axis *a = plan->shape.axis;
  int64_t channels = plan->shape.groups * plan->shape.in_channels;
  for (int64_t s = 0; s < plan->n_segments; s++) {
    int64_t tap = s * plan->run_taps;
    int64_t t2 = tap % a[2].kernel, t1 = tap / a[2].kernel % a[1].kernel, t0 = tap / a[2].kernel / a[1].kernel;
    int64_t pixel = (t0 * a[0].dilation * plan->copied[1] + t1 * a[1].dilation) * plan->copied[2] + t2 * a[2].dilation;
    segments[s] = pixel * channels * (int64_t)plan->element;
  }
  plan->segments = segments;
  plan->packed = packed;
  panels all = {plan, weights, packed};
  for_panels(plan, pack_panel, &all);
}

const intact_qgemm_kernel *intact__qgemm_pick(uint32_t isa_set, const intact_qgemm_shape *shape, const intact_qgemm_weights *weights) {
  static const intact_qgemm_kernel *const rows[] = {
#define INTACT_KERNEL(family, name, isa) &name,
#include "kernels/qgemm/qgemm.def"
#undef INTACT_KERNEL
  };
  size_t n = sizeof rows / sizeof rows[0];
  for (size_t i = 0; i + 1 < n; i++) {
    intact_qgemm_plan plan;
    if (!INTACT_HAS_ISA(isa_set, rows[i]->isa)) continue;
    if (!rows[i]->pairs || !intact__qgemm_plan(rows[i], shape, 1, &plan)) return rows[i];
    counter c = {.plan = &plan, .weights = weights};
    for_panels(&plan, count_panel, &c);
    if (c.extra * EXTRA_STEPS_WORTH <= c.steps) return rows[i];
  }
  return rows[n - 1];
}

/* ---- running ---- */

/* One row of axis 2 (NULL: padding) into the copy: padding, elements, padding. */
static uint8_t *copy_row(const intact_qgemm_plan *plan, const uint8_t *row, uint8_t *to) {
  const intact_conv_axis *a = &plan->shape.axis[2];
  const intact_qgemm_kernel *kernel = plan->kernel;
  bool is_signed = plan->shape.x_signed;
  int32_t zero = plan->shape.zero_x;
  int64_t channels = plan->shape.groups * plan->shape.in_channels, element = (int64_t)plan->element;
  int64_t all = plan->copied[2], before = a->pad < all ? a->pad : all;
  int64_t count = all - before < a->in ? all - before : a->in;
  if (row == NULL) before = all, count = 0;
  int64_t after = all - before - count;
  if (before > 0) kernel->copy(NULL, before * channels, is_signed, zero, to);
  to += before * channels * element;
  if (count > 0) kernel->copy(row, count * channels, is_signed, zero, to);
  to += count * channels * element;
  if (after > 0) kernel->copy(NULL, after * channels, is_signed, zero, to);
  return to + after * channels * element;
}

/* The input of `lines` output lines from `line` on; returns where the copy (or x itself) begins. */
static const uint8_t *copy_band(const intact_qgemm_plan *plan, const uint8_t *image, int64_t line, int64_t lines, uint8_t *copy) {
  const intact_conv_axis *a = plan->shape.axis;
  int64_t channels = plan->shape.groups * plan->shape.in_channels, row = a[2].in * channels, slice = a[1].in * row;
  int64_t first = line * a[0].stride - a[0].pad, n = reach(&a[0], lines);
  if (plan->in_place) return image + first * slice;
  if (plan->one_piece) {
    plan->kernel->copy(image + first * slice, n * slice, plan->shape.x_signed, plan->shape.zero_x, copy);
    memset(copy + n * slice * (int64_t)plan->element, 0, SLACK_BYTES / 2);
    return copy;
  }
  uint8_t *to = copy;
  for (int64_t i = first; i < first + n; i++)
    for (int64_t k = -a[1].pad; k < plan->copied[1] - a[1].pad; k++) {
      bool inside = i >= 0 && i < a[0].in && k >= 0 && k < a[1].in;
      to = copy_row(plan, inside ? image + i * slice + k * row : NULL, to);
    }
  memset(to, 0, SLACK_BYTES / 2); /* the last step of a segment may read on, with weights 0 */
  return copy;
}

static void run_band(const intact_qgemm_plan *plan, const uint8_t *x, uint8_t *y, uint8_t *scratch, int64_t band) {
  const intact_qgemm_shape *shape = &plan->shape;
  const intact_conv_axis *a = shape->axis;
  int64_t channels = shape->groups * shape->in_channels;
  int64_t image = band / plan->bands_per_image, line = band % plan->bands_per_image * plan->band_lines;
  int64_t lines = a[0].out - line < plan->band_lines ? a[0].out - line : plan->band_lines;
  const uint8_t *base =
      copy_band(plan, x + image * a[0].in * a[1].in * a[2].in * channels, line, lines, scratch);
  const void **pixels = (const void **)(void *)(scratch + plan->copy_bytes);
  int64_t n = 0, step = a[2].stride * channels * (int64_t)plan->element;
  for (int64_t i = 0; i < lines; i++)
    for (int64_t k = 0; k < a[1].out; k++) {
      const uint8_t *p =
          base + (i * a[0].stride * plan->copied[1] + k * a[1].stride) * plan->copied[2] * channels * (int64_t)plan->element;
      for (int64_t l = 0; l < a[2].out; l++, p += step) pixels[n++] = p;
    }
  size_t y_size = shape->output == INTACT_QGEMM_S32 ? sizeof(int32_t) : 1;
  uint8_t *y_band = y + (size_t)((image * a[0].out + line) * a[1].out * a[2].out * plan->y_stride) * y_size;
  const uint8_t *panel = plan->packed;
  for (int64_t g = 0; g < shape->groups; g++)
    for (int64_t c = 0; c < shape->out_channels;) {
      int64_t left = shape->out_channels - c;
      int width = panel_width(plan->kernel, left);
      plan->kernel->panel(plan, panel, width, left < width ? (int)left : width, pixels, n,
                          g * shape->in_channels * (int64_t)plan->element,
                          y_band + (size_t)(g * shape->out_channels + c) * y_size);
      panel += ((const intact_qgemm_panel *)(const void *)panel)->bytes;
      c += width;
    }
}

void intact__qgemm_run(const intact_qgemm_plan *plan, const void *x, void *y, void *scratch, int64_t begin, int64_t end) {
  assert(plan->packed != NULL);
  for (int64_t band = begin; band < end; band++) run_band(plan, x, y, scratch, band);
}
