/* SPDX-License-Identifier: Apache-2.0 */
/* Integer convolution and matrix product: u8 or s8 activations, s8 weights per output channel, s32 sums, requantized to 8 bits.

   For output pixel p and output channel n of group g (all sums modulo 2^32):
     acc[p][n] = bias[n] + sum over taps t and channels c of (x[p at t][g, c] - zero_x) * w[n][t][c]     (padding counts 0)
     y = round8(f32(acc) * scale[n])                                            rule f32_rne
   Fully connected layers and 1x1 convolutions are the case of one tap. A weight zero point is part of w.

   Work is cut into bands: some output lines of one image. For a band the input is copied once, padded and in the
   kernel's own
   type, into scratch; a kernel's tap loop then reads runs of contiguous elements ("segments") at fixed offsets from the
   pixel's first element. What a kernel cannot hold of some weights (a difference w - zero beyond s8; pairs whose
   products could
   exceed 16 bits) is added in extra steps at the end: every kernel is exact for all weights. Bands are independent of
   each other; so is the result of how they are spread over threads. */
#ifndef INTACT_KERNELS_QGEMM_QGEMM_H
#define INTACT_KERNELS_QGEMM_QGEMM_H

#include "kernels/kernel.h"

typedef enum intact_qgemm_output { INTACT_QGEMM_8BIT, INTACT_QGEMM_S32 } intact_qgemm_output;

/* What is to be computed; bands are cut along axis 0. x is [batch][axis 0][axis 1][axis 2][groups * in_channels], y the same with out_channels. */
typedef struct intact_qgemm_shape {
  int64_t batch;
  intact_conv_axis axis[3];
  int64_t groups, in_channels, out_channels; /* channels per group */
  bool x_signed, y_signed;
  int32_t zero_x, zero_y, y_min, y_max; /* in the range of x and y */
  intact_qgemm_output output;           /* S32: acc itself, y is int32_t */
} intact_qgemm_shape;

/* Where the weights lie: element (group g, channel n, tap t, input channel c) is data[(g * out_channels + n) * n_stride +
   t * tap_stride + c * c_stride], taps in row-major order of the axes. */
typedef struct intact_qgemm_weights {
  const void *data;
  bool is_unsigned; /* u8 rather than s8 */
  int64_t n_stride, tap_stride, c_stride;
  const int32_t *zero;  /* per output channel (all groups) or NULL: 0 */
  const int32_t *bias;  /* per output channel or NULL: 0 */
  const float *scale;   /* per output channel; NULL for output S32 */
} intact_qgemm_weights;

typedef struct intact_qgemm_plan intact_qgemm_plan;

/* A panel: the packed weights of `width` output channels. After this head and up to weights_at: width int32 bias, width float
   scale. Then for each step of `depth` elements of K, per vector, per lane, `depth` bytes; behind the segments' steps
   n_extra
   more; then n_extra int64, the byte offsets of the extra steps from the pixel's first element. Lane l of vector j is column
   (l / 4) * 4 * vectors + 4 * j + l % 4, the order that packing 32-bit results to bytes puts right. */
typedef struct intact_qgemm_panel {
  int64_t n_extra;
  int64_t bytes; /* of the whole panel */
  int64_t unused[6];
} intact_qgemm_panel;

/* A row. */
typedef struct intact_qgemm_kernel {
  const char *name;
  intact_isa isa;
  int depth;     /* elements of K in one step */
  int lanes;     /* 32-bit lanes of a vector */
  int n_widths;  /* panel widths that the kernel knows, widest first, each a multiple of lanes */
  int widths[4];
  bool pairs;    /* neighbours 2i, 2i + 1 of a step are summed in s16: their weights of one sign must not exceed 128 together */
  bool centered; /* the copy of x holds s16 of x - zero_x; else u8 of x (+ 128 when signed) with zero_x folded into the bias */
  /* count elements of x into the copy; x NULL: padding. */
  void (*copy)(const uint8_t *x, int64_t count, bool is_signed, int32_t zero, void *copy);
  /* One panel over n_pixels pixels. pixels[i] points to the first element of pixel i in the copy, offset (bytes) is added to
     all. y is the output of pixel 0 at the panel's first column, y_stride bytes (8BIT) or int32 elements (S32) from pixel to
     pixel; columns <= width are written. */
  void (*panel)(const intact_qgemm_plan *plan, const uint8_t *panel, int width, int columns, const void *const *pixels,
                int64_t n_pixels, int64_t offset, void *y);
} intact_qgemm_kernel;

/* Made by intact__qgemm_plan; read-only after that. */
struct intact_qgemm_plan {
  const intact_qgemm_kernel *kernel;
  intact_qgemm_shape shape;
  int64_t copied[3];     /* extents of the copy along the axes; along axis 0 that of a whole band */
  int64_t n_segments;
  int64_t *segments;     /* byte offsets of the segments */
  int64_t steps;         /* depth-steps of one segment */
  int64_t segment_length;/* elements of K in one segment */
  int64_t run_taps;      /* taps in one segment */
  bool in_place;         /* x is read where it is */
  bool one_piece;        /* no padding: a band's input is one run of elements */
  int64_t band_lines, bands_per_image, n_bands, band_pixels;
  int64_t grain;         /* bands that are worth a thread's while */
  size_t element;        /* bytes of an element of the copy */
  size_t copy_bytes, scratch_bytes; /* of one band */
  const uint8_t *packed;
  int64_t y_stride;      /* elements from pixel to pixel */
  intact_round8 round;
};

#define INTACT_KERNEL(family, name, isa) extern const intact_qgemm_kernel name;
#include "kernels/qgemm/qgemm.def"
#undef INTACT_KERNEL

/* The best row of the set for these weights: a row that would need too many extra steps is passed over. */
const intact_qgemm_kernel *intact__qgemm_pick(uint32_t isa_set, const intact_qgemm_shape *shape, const intact_qgemm_weights *weights);

/* Step 1: everything but the weights. threads: how many will share the bands. False when a size overflows. plan->n_segments
   int64_t are needed for the segments, and intact__qgemm_packed_bytes bytes for the weights, before intact__qgemm_pack. */
bool intact__qgemm_plan(const intact_qgemm_kernel *kernel, const intact_qgemm_shape *shape, int threads, intact_qgemm_plan *plan);
size_t intact__qgemm_packed_bytes(const intact_qgemm_plan *plan, const intact_qgemm_weights *weights);
/* Step 2: fills segments and `packed` (64-byte aligned), which the plan then refers to. */
void intact__qgemm_pack(intact_qgemm_plan *plan, const intact_qgemm_weights *weights, int64_t *segments, uint8_t *packed);
/* Bands begin..end with a scratch of plan->scratch_bytes (64-byte aligned) of one's own. */
void intact__qgemm_run(const intact_qgemm_plan *plan, const void *x, void *y, void *scratch, int64_t begin, int64_t end);

/* Parts of a panel. */
static inline const uint8_t *intact__qgemm_weights_of(const uint8_t *panel, int width) {
  return panel + sizeof(intact_qgemm_panel) + (size_t)width * (sizeof(int32_t) + sizeof(float));
}
static inline const float *intact__qgemm_scale_of(const uint8_t *panel, int width) {
  return (const float *)(const void *)(panel + sizeof(intact_qgemm_panel) + (size_t)width * sizeof(int32_t));
}
static inline int64_t intact__qgemm_extra_of(const uint8_t *panel) {
  return ((const intact_qgemm_panel *)(const void *)panel)->n_extra;
}

#endif
