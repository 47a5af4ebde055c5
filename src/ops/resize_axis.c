/* SPDX-License-Identifier: Apache-2.0 */
/* Tables of interpolation along one axis: nearest, linear, cubic, antialiased; PyTorch's and ONNX's places. */
#include <math.h>

#include "ops/resize.h"

/* Elements per result. */
static double step_of(const intact_resize_rule *rule, int64_t in, int64_t out, double scale) {
  if (rule->place == INTACT_PLACE_ALIGN_CORNERS) return out > 1 ? (double)(in - 1) / (double)(out - 1) : 0;
  return scale > 0 ? 1 / scale : (double)in / (double)out;
}

static double place_of(const intact_resize_rule *rule, int64_t in, int64_t out, double step, double scale, int64_t o) {
  double half = ((double)o + 0.5) * step - 0.5;
  switch (rule->place) {
    case INTACT_PLACE_HALF_PIXEL_CLAMPED:
      return half < 0 ? 0 : half;
    case INTACT_PLACE_PYTORCH_HALF_PIXEL:
      return out > 1 ? half : 0;
    case INTACT_PLACE_HALF_PIXEL_SYMMETRIC: {
      double wanted = scale > 0 ? scale * (double)in : (double)out, adjustment = (double)out / wanted;
      return (double)in / 2 * (1 - adjustment) + half;
    }
    case INTACT_PLACE_ALIGN_CORNERS:
    case INTACT_PLACE_ASYMMETRIC:
      return (double)o * step;
    default:
      return half;
  }
}

static int64_t clamp_index(double position, int64_t in) {
  if (!(position > 0)) return 0;
  return position > (double)(in - 1) ? in - 1 : (int64_t)position;
}

static int64_t nearest_of(const intact_resize_rule *rule, int64_t in, int64_t out, double scale, double place, int64_t o) {
  float step = scale > 0 ? (float)(1 / scale) : (float)in / (float)out;
  switch (rule->nearest) {
    case INTACT_NEAREST_FLOOR32:
      if (rule->whole_steps && out == 2 * in) return o / 2;
      return clamp_index(floorf((float)o * step), in);
    case INTACT_NEAREST_EXACT32:
      return clamp_index(floorf(((float)o + 0.5f) * step), in);
    case INTACT_NEAREST_PREFER_FLOOR:
      return clamp_index(ceil(place - 0.5), in);
    case INTACT_NEAREST_PREFER_CEIL:
      return clamp_index(floor(place + 0.5), in);
    case INTACT_NEAREST_FLOOR:
      return clamp_index(floor(place), in);
    default:
      return clamp_index(ceil(place), in);
  }
}

/* Keys' kernel at distance d. */
static double cubic(double d, double a) {
  d = fabs(d);
  if (d < 1) return ((a + 2) * d - (a + 3)) * d * d + 1;
  return d < 2 ? ((a * d - 5 * a) * d + 8 * a) * d - 4 * a : 0;
}

static double filter(const intact_resize_rule *rule, double d) {
  if (rule->mode == INTACT_RESIZE_CUBIC) return cubic(d, rule->cubic_a);
  d = fabs(d);
  return d < 1 ? 1 - d : 0;
}

static void normalise(double *weight, int64_t n) {
  double sum = 0;
  for (int64_t t = 0; t < n; t++) sum += weight[t];
  for (int64_t t = 0; t < n && sum != 0; t++) weight[t] /= sum;
}

/* Two or four neighbours of the place. */
static void fill_plain(const intact_resize_rule *rule, const intact_resize_axis *axis, double place, int64_t *index,
                       double *weight) {
  double below = floor(place), fraction = place - below;
  int64_t first = axis->taps == 4 ? -1 : 0;
  bool outside = false;
  for (int64_t t = 0; t < axis->taps; t++) {
    double at = below + (double)(first + t);
    index[t] = clamp_index(at, axis->in);
    weight[t] = filter(rule, (double)(first + t) - fraction);
    if (rule->exclude_outside && (at < 0 || at > (double)(axis->in - 1))) {
      weight[t] = 0;
      outside = true;
    }
  }
  if (outside) normalise(weight, axis->taps);
}

/* All elements under the kernel, which is stretched when the picture shrinks. What lies outside is left out, or read at the
 * edge. */
static void fill_antialiased(const intact_resize_rule *rule, const intact_resize_axis *axis, double step, double center,
                             int64_t *index, double *weight) {
  double stretch = step > 1 ? step : 1, support = (rule->mode == INTACT_RESIZE_CUBIC ? 2 : 1) * stretch;
  double first = floor(center - support + 0.5), end = floor(center + support + 0.5);
  if (rule->exclude_outside && first < 0) first = 0;
  for (int64_t t = 0; t < axis->taps; t++) {
    double at = first + (double)t;
    bool counts = at < end && !(rule->exclude_outside && at > (double)(axis->in - 1));
    index[t] = clamp_index(at, axis->in);
    weight[t] = counts ? filter(rule, (at - center + 0.5) / stretch) : 0;
  }
  normalise(weight, axis->taps);
}

intact_status intact__resize_axis_make(intact_context *context, const intact_resize_rule *rule, int64_t in, int64_t out,
                                       double scale, intact_resize_axis *axis) {
  if (rule->whole_steps && in == out) scale = 0;
  double step = step_of(rule, in, out, scale);
  int64_t width = rule->mode == INTACT_RESIZE_CUBIC ? 2 : 1;
  axis->in = in;
  axis->out = out;
  axis->taps = rule->mode == INTACT_RESIZE_NEAREST ? 1 : 2 * width;
  if (rule->antialias && rule->mode != INTACT_RESIZE_NEAREST) {
    double reach = 2 * (double)width * (step > 1 ? step : 1) + 2;
    axis->taps = rule->exclude_outside && reach > (double)in ? in : (int64_t)reach;
  }
  size_t count = (size_t)(out * axis->taps) + 1;
  axis->index = intact__alloc(context, count, sizeof(int64_t) + sizeof(double));
  if (axis->index == NULL) return intact__no_memory(context, count * (sizeof(int64_t) + sizeof(double)));
  axis->weight = (double *)(void *)(axis->index + count);
  for (int64_t o = 0; o < out; o++) {
    int64_t *index = axis->index + o * axis->taps;
    double *weight = axis->weight + o * axis->taps;
    double place = place_of(rule, in, out, step, scale, o);
    if (rule->mode == INTACT_RESIZE_NEAREST) {
      *index = nearest_of(rule, in, out, scale, place, o);
      *weight = 1;
    } else if (rule->antialias) {
      /* PyTorch's center, also with corners aligned */
      double center = rule->place == INTACT_PLACE_ALIGN_CORNERS ? ((double)o + 0.5) * step : place + 0.5;
      fill_antialiased(rule, axis, step, center, index, weight);
    } else {
      fill_plain(rule, axis, place, index, weight);
    }
  }
  return INTACT_OK;
}
