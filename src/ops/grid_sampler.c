/* SPDX-License-Identifier: Apache-2.0 */
/* The row grid_sampler_2d: a picture read at places that a grid gives. */
#include <math.h>
#include <string.h>

#include "ops/layer.h"

typedef enum sample_mode { SAMPLE_BILINEAR, SAMPLE_NEAREST, SAMPLE_BICUBIC } sample_mode;
typedef enum sample_padding { PADDING_ZEROS, PADDING_BORDER, PADDING_REFLECTION } sample_padding;

static int find_word(const char *text, const char *const *words, int n) {
  for (int i = 0; i < n; i++) {
    if (text != NULL && strcmp(text, words[i]) == 0) return i;
  }
  return -1;
}

static int mode_of(const intact_node *node) {
  static const char *const names[] = {"bilinear", "nearest", "bicubic"};
  return find_word(intact__attr_string(node, "mode"), names, 3);
}

static int padding_of(const intact_node *node) {
  static const char *const names[] = {"zeros", "border", "reflection"};
  return find_word(intact__attr_string(node, "padding_mode"), names, 3);
}

static intact_status infer_grid_sampler(intact_infer *infer) {
  const intact_node *node = infer->node;
  const intact_value *x = node->operands[0], *grid = node->operands[1];
  char a[160], b[160];
  int64_t n;
  INTACT_TRY(intact__infer_floats(infer));
  if (mode_of(node) < 0 || padding_of(node) < 0) {
    INTACT_FAIL(infer->context, INVALID_VALUE, node->name,
                "%s: mode is \"%s\", padding_mode \"%s\"; they must be bilinear, nearest or bicubic, and zeros, border or "
                "reflection",
                node->op->name, intact__attr_string(node, "mode"), intact__attr_string(node, "padding_mode"));
  }
  if (x->rank < 0 || grid->rank < 0) return intact__infer_unranked(infer, INTACT_F32);
  if (x->rank != 4 || grid->rank != 4 || !intact__dims_agree(x->dims[0], grid->dims[0], &n) ||
      (grid->dims[3] >= 0 && grid->dims[3] != 2) || x->dims[2] == 0 || x->dims[3] == 0) {
    INTACT_FAIL(infer->context, SIZE_MISMATCH, node->name,
                "%s: x is %s, grid is %s; they must be [N, C, H, W], not empty, and [N, H out, W out, 2]", node->op->name,
                intact__shape_text(x->rank, x->dims, a), intact__shape_text(grid->rank, grid->dims, b));
  }
  return intact__infer_result(infer, 0, INTACT_F32, 4, (const int64_t[]){n, x->dims[1], grid->dims[1], grid->dims[2]});
}

/* ---- one coordinate ---- */

typedef struct sampler {
  sample_mode mode;
  sample_padding padding;
  bool corners;
  int64_t n, c, h, w, oh, ow;
} sampler;

static sampler sampler_of(const intact_node *node, const intact_tensor *x, const intact_tensor *grid) {
  return (sampler){.mode = (sample_mode)mode_of(node),
                   .padding = (sample_padding)padding_of(node),
                   .corners = intact__attr_int(node, "align_corners") != 0,
                   .n = x->dims[0],
                   .c = x->dims[1],
                   .h = x->dims[2],
                   .w = x->dims[3],
                   .oh = grid->dims[1],
                   .ow = grid->dims[2]};
}

/* -1..1 to elements of an axis; *slope is the derivative. */
static double unnormalise(const sampler *s, double v, int64_t size, double *slope) {
  *slope = s->corners ? (double)(size - 1) / 2 : (double)size / 2;
  return s->corners ? (v + 1) * *slope : ((v + 1) * (double)size - 1) / 2;
}

/* Reflected at the borders low and low + span, then back to 0..size-1. */
static double reflect(double v, double low, double span, double *slope) {
  if (span <= 0) {
    *slope = 0;
    return 0;
  }
  double distance = v - low, sign = distance < 0 ? -1 : 1;
  distance = fabs(distance);
  double rest = fmod(distance, span), flips = floor(distance / span);
  bool odd = fmod(flips, 2) != 0;
  *slope *= odd ? -sign : sign;
  return odd ? span - rest + low : rest + low;
}

/* The coordinate after the padding rule; a coordinate that is not finite reads as far outside. */
static double pad_place(const sampler *s, double v, int64_t size, double *slope) {
  if (!isfinite(v)) v = -100;
  if (s->padding == PADDING_REFLECTION) {
    v = s->corners ? reflect(v, 0, (double)(size - 1), slope) : reflect(v, -0.5, (double)size, slope);
  }
  if (s->padding != PADDING_ZEROS) {
    if (v <= 0 || v >= (double)(size - 1)) *slope = 0;
    v = v < 0 ? 0 : v > (double)(size - 1) ? (double)(size - 1) : v;
  }
  return v;
}

/* Weights along one axis: up to four elements from `first` on, and their derivatives by the grid's number. */
typedef struct reach {
  int taps;
  int64_t at[4]; /* -1: outside, reads 0 */
  double weight[4], slope[4];
} reach;

static int64_t inside(const sampler *s, double at, int64_t size) {
  if (s->mode == SAMPLE_BICUBIC && s->padding != PADDING_ZEROS) {
    double ignored = 1;
    at = pad_place(s, at, size, &ignored);
  }
  return at >= 0 && at <= (double)(size - 1) ? (int64_t)at : -1;
}

/* Keys' kernel with a = -0.75 and its derivative. */
static void cubic(double d, double *value, double *slope) {
  const double a = -0.75;
  double sign = d < 0 ? -1 : 1;
  d = fabs(d);
  *value = d <= 1 ? ((a + 2) * d - (a + 3)) * d * d + 1 : ((a * d - 5 * a) * d + 8 * a) * d - 4 * a;
  *slope = sign * (d <= 1 ? (3 * (a + 2) * d - 2 * (a + 3)) * d : (3 * a * d - 10 * a) * d + 8 * a);
}

static reach reach_of(const sampler *s, double v, int64_t size) {
  double slope, place = unnormalise(s, v, size, &slope);
  reach r = {.taps = 1};
  if (s->mode != SAMPLE_BICUBIC) {
    place = pad_place(s, place, size, &slope);
  } else if (!isfinite(place)) {
    place = -100;
  }
  double below = floor(place), fraction = place - below;
  switch (s->mode) {
    case SAMPLE_NEAREST:
      r.at[0] = inside(s, nearbyint(place), size);
      r.weight[0] = 1;
      break;
    case SAMPLE_BILINEAR:
      r.taps = 2;
      r.weight[0] = 1 - fraction;
      r.weight[1] = fraction;
      r.slope[0] = -slope;
      r.slope[1] = slope;
      for (int t = 0; t < 2; t++) r.at[t] = inside(s, below + t, size);
      break;
    case SAMPLE_BICUBIC:
      r.taps = 4;
      for (int t = 0; t < 4; t++) {
        cubic(fraction + 1 - t, &r.weight[t], &r.slope[t]);
        r.slope[t] *= slope;
        r.at[t] = inside(s, below - 1 + t, size);
      }
      break;
  }
  return r;
}

/* ---- evaluation and gradient ---- */

static void places_of(const sampler *s, const float *grid, int64_t o, reach *x, reach *y) {
  *x = reach_of(s, grid[2 * o], s->w);
  *y = reach_of(s, grid[2 * o + 1], s->h);
}

static intact_status eval_grid_sampler(const intact_call *call) {
  intact_tensor *y;
  INTACT_TRY(intact__call_begin(call, &y));
  sampler s = sampler_of(call->node, call->operands[0], call->operands[1]);
  int64_t in = s.h * s.w, out = s.oh * s.ow;
  for (int64_t i = 0; i < s.n * out; i++) {
    reach rx, ry;
    places_of(&s, intact__operand_f32(call, 1), i, &rx, &ry);
    for (int64_t c = 0; c < s.c; c++) {
      const float *plane = intact__operand_f32(call, 0) + (i / out * s.c + c) * in;
      double sum = 0;
      for (int t = 0; t < rx.taps * ry.taps; t++) {
        int v = t / rx.taps, h = t % rx.taps;
        if (ry.at[v] >= 0 && rx.at[h] >= 0) sum += ry.weight[v] * rx.weight[h] * plane[ry.at[v] * s.w + rx.at[h]];
      }
      intact__f32(y)[(i / out * s.c + c) * out + i % out] = (float)sum;
    }
  }
  return INTACT_OK;
}

static intact_status grad_grid_sampler(intact_grad *grad) {
  if (grad->d_results[0] == NULL) return INTACT_OK;
  const intact_tensor *x = grad->operands[0];
  sampler s = sampler_of(grad->node, x, grad->operands[1]);
  intact_tensor *dx = NULL, *d_grid = NULL;
  if (intact__wants(grad, 0)) INTACT_TRY(intact__grad_operand(grad, 0, &dx));
  if (intact__wants(grad, 1)) INTACT_TRY(intact__grad_operand(grad, 1, &d_grid));
  double *sums = intact__alloc_zeroed(grad->context, (size_t)x->count + 1, sizeof(double));
  if (sums == NULL) return intact__no_memory(grad->context, (size_t)x->count * sizeof(double));
  int64_t in = s.h * s.w, out = s.oh * s.ow;
  for (int64_t i = 0; i < s.n * out; i++) {
    reach rx, ry;
    double by_x = 0, by_y = 0;
    places_of(&s, intact__f32(grad->operands[1]), i, &rx, &ry);
    for (int64_t c = 0; c < s.c; c++) {
      int64_t plane = (i / out * s.c + c) * in;
      double d = intact__f32(grad->d_results[0])[(i / out * s.c + c) * out + i % out];
      for (int t = 0; t < rx.taps * ry.taps; t++) {
        int v = t / rx.taps, h = t % rx.taps;
        if (ry.at[v] < 0 || rx.at[h] < 0) continue;
        int64_t at = plane + ry.at[v] * s.w + rx.at[h];
        sums[at] += ry.weight[v] * rx.weight[h] * d;
        by_x += ry.weight[v] * rx.slope[h] * d * intact__f32(x)[at];
        by_y += ry.slope[v] * rx.weight[h] * d * intact__f32(x)[at];
      }
    }
    if (d_grid != NULL) {
      intact__f32(d_grid)[2 * i] = (float)by_x;
      intact__f32(d_grid)[2 * i + 1] = (float)by_y;
    }
  }
  for (int64_t i = 0; dx != NULL && i < x->count; i++) intact__f32(dx)[i] = (float)sums[i];
  intact__free(grad->context, sums);
  return INTACT_OK;
}

const intact_op intact_op_grid_sampler_2d = {
    .name = "grid_sampler_2d",
    .doc =
        "x read at grid (x, y in -1..1) by bilinear, nearest or bicubic interpolation; zeros, border or reflection outside.",
    .schema = {INTACT_OPERANDS({"x", INTACT_ROLE_ACTIVATION, 0}, {"grid", INTACT_ROLE_NONE, 0}), INTACT_RESULTS("y"),
               INTACT_ATTRS(INTACT_STRING_ATTR("mode", "bilinear"), INTACT_STRING_ATTR("padding_mode", "zeros"),
                            INTACT_BOOL_ATTR("align_corners", 0))},
    .infer = infer_grid_sampler,
    .eval_f32 = eval_grid_sampler,
    .grad = grad_grid_sampler,
    .quant = {.result = INTACT_RESULT_OWN},
    .int_layout = INTACT_INT_ROWS,
    /* aten fix-up grid_sampler: numbers of the modes become words. onnx fix-up grid_sample: linear and cubic become bilinear
       and bicubic. */
    .aliases = INTACT_ALIASES(
        INTACT_ATEN_AS("grid_sampler_2d", NULL, "grid_sampler"), INTACT_ATEN_AS("grid_sampler", NULL, "grid_sampler"),
        INTACT_ONNX_AS("GridSample", "mode=mode,padding_mode=padding_mode,align_corners=align_corners", "grid_sample")),
};
