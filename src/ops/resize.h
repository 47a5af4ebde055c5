/* SPDX-License-Identifier: Apache-2.0 */
/* Interpolation along one axis as a table: each result is a weighted sum of a few elements. */
#ifndef INTACT_OPS_RESIZE_H
#define INTACT_OPS_RESIZE_H

#include "ops/layer.h"

typedef enum intact_resize_mode { INTACT_RESIZE_NEAREST, INTACT_RESIZE_LINEAR, INTACT_RESIZE_CUBIC } intact_resize_mode;

/* Where result o lies among the elements: */
typedef enum intact_resize_place {
  INTACT_PLACE_HALF_PIXEL,         /* (o + 0.5) step - 0.5 */
  INTACT_PLACE_HALF_PIXEL_CLAMPED, /* the same, at least 0 (PyTorch's linear modes) */
  INTACT_PLACE_PYTORCH_HALF_PIXEL, /* the same, 0 when there is one result */
  INTACT_PLACE_HALF_PIXEL_SYMMETRIC,
  INTACT_PLACE_ALIGN_CORNERS, /* o (in - 1) / (out - 1) */
  INTACT_PLACE_ASYMMETRIC     /* o step */
} intact_resize_place;

typedef enum intact_resize_nearest {
  INTACT_NEAREST_FLOOR32,      /* PyTorch: floor(o step) in float32 */
  INTACT_NEAREST_EXACT32,      /* PyTorch: floor((o + 0.5) step) in float32 */
  INTACT_NEAREST_PREFER_FLOOR, /* ONNX, of the place */
  INTACT_NEAREST_PREFER_CEIL,
  INTACT_NEAREST_FLOOR,
  INTACT_NEAREST_CEIL
} intact_resize_nearest;

typedef struct intact_resize_rule {
  intact_resize_mode mode;
  intact_resize_place place;
  intact_resize_nearest nearest;
  bool antialias, exclude_outside;
  bool whole_steps; /* PyTorch: an axis that keeps its size is copied, nearest doubles one exactly, whatever the scale says */
  double cubic_a; /* -0.75; antialiased -0.5 */
} intact_resize_rule;

/* One axis: result o = sum over t < taps of weight[o * taps + t] * element[index[o * taps + t]]. */
typedef struct intact_resize_axis {
  int64_t in, out, taps;
  int64_t *index;
  double *weight;
} intact_resize_axis;

/* scale: out / in as the user gave it, 0 when only the size was given. index and weight are in one block that starts at
 * index. */
intact_status intact__resize_axis_make(intact_context *context, const intact_resize_rule *rule, int64_t in, int64_t out,
                                       double scale, intact_resize_axis *axis);

#endif
