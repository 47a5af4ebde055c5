/* SPDX-License-Identifier: Apache-2.0 */
/* Depthwise convolution (every channel has its own kernel): u8 or s8 activations, weights of at most 9 bits, s32 sums.

     acc[p][c] = bias[c] + sum over taps of (x[p at tap][c] - zero_x) * w[c][tap]       modulo 2^32; padding counts 0
     y = round8(f32(acc) * scale[c])                                                    rule f32_rne

   Work is cut into bands of output lines, a band into blocks of channels. A block's input is copied into groups of
   `rows` neighbouring input rows whose elements
   stand side by side, channel by channel, so that one multiply-add sums several taps of a column. A group starts every
   `group_step` rows. Which rows of a group belong to the kernel depends on the line: each of the group_step phases has weights
   of its own, with zeros where a row is not the kernel's. */
#ifndef INTACT_KERNELS_QDWCONV_QDWCONV_H
#define INTACT_KERNELS_QDWCONV_QDWCONV_H

#include "kernels/kernel.h"

/* x is [batch][height.in][width.in][channels], y the same with out. */
typedef struct intact_qdwconv_shape {
  int64_t batch, channels;
  intact_conv_axis height, width;
  bool x_signed, y_signed;
  int32_t zero_x, zero_y, y_min, y_max;
  bool sums; /* y is int32_t, acc itself */
} intact_qdwconv_shape;

/* The weight of channel c, tap (i, k) is data[(c * height.kernel + i) * width.kernel + k]. */
typedef struct intact_qdwconv_weights {
  const void *data;
  bool is_unsigned;
  const int32_t *zero; /* per channel or NULL */
  const int32_t *bias; /* per channel or NULL */
  const float *scale;  /* per channel; NULL with sums */
} intact_qdwconv_weights;

enum { INTACT_QDWCONV_PHASES = 4, INTACT_QDWCONV_WIDTHS = 4 };

typedef struct intact_qdwconv_plan intact_qdwconv_plan;

/* A row. Channels are cut into blocks of the widths it knows, each a multiple of lanes. The packed block: width int32 bias, width
   float scale, then for every phase and step of it the weights: per vector, per lane, `rows` weights of weight_bytes. The copy
   has the same order within a block. Lane l of vector j is channel (l / 4) * 4 * vectors + 4 * j + l % 4 of the block. */
typedef struct intact_qdwconv_kernel {
  const char *name;
  intact_isa isa;
  int rows, group_step; /* group_step divides rows */
  int lanes, weight_bytes, element; /* element: bytes in the copy */
  int n_widths, widths[INTACT_QDWCONV_WIDTHS]; /* widest first */
  bool centered; /* the copy holds x - zero_x; else x (+ 128 when signed), and zero_x is in the bias */
  /* `pixels` pixels of a block of `width` channels, of which the first `channels` are x's, into the copy. x[r] is the first
     element of row r, NULL: padding; x_step from pixel to pixel; copy_step bytes from pixel to pixel of the copy. */
  void (*copy)(const uint8_t *const *x, int64_t pixels, int64_t x_step, int width, int channels, bool is_signed, int32_t zero,
               uint8_t *copy, int64_t copy_step);
  /* One line of output: pixel p reads copy + p * step + offsets[s] at step s of the phase. */
  void (*line)(const intact_qdwconv_plan *plan, int phase, const uint8_t *block, int width, int channels, const uint8_t *copy,
               int64_t pixels, void *y);
} intact_qdwconv_kernel;

struct intact_qdwconv_plan {
  const intact_qdwconv_kernel *kernel;
  intact_qdwconv_shape shape;
  int parts;                      /* s8 weights: how many a weight is the sum of */
  int64_t copied_width;           /* pixels of a row of the copy */
  int64_t pixel_bytes, group_bytes; /* of the copy of the widest block */
  int64_t pixel_step;             /* bytes of the copy from output pixel to output pixel */
  int64_t steps[INTACT_QDWCONV_PHASES], first_step[INTACT_QDWCONV_PHASES], all_steps;
  const int64_t *offsets;         /* all_steps: bytes from the first group and column of a pixel */
  const uint8_t *packed;
  int64_t band_lines, bands_per_image, n_bands;
  int64_t grain; /* bands that are worth a thread's while */
  size_t scratch_bytes;
  intact_round8 round;
};

#define INTACT_KERNEL(family, name, isa) extern const intact_qdwconv_kernel name;
#include "kernels/qdwconv/qdwconv.def"
#undef INTACT_KERNEL

const intact_qdwconv_kernel *intact__qdwconv_pick(uint32_t isa_set);
/* How many numbers of the kernel's weight type a weight minus its zero point is the sum of. */
int intact__qdwconv_parts(const intact_qdwconv_kernel *kernel, const intact_qdwconv_shape *shape,
                          const intact_qdwconv_weights *weights);
/* Everything but the weights; false when a size overflows. */
bool intact__qdwconv_plan(const intact_qdwconv_kernel *kernel, const intact_qdwconv_shape *shape, int parts, int threads,
                          intact_qdwconv_plan *plan);
size_t intact__qdwconv_packed_bytes(const intact_qdwconv_plan *plan);
/* Fills offsets (plan->all_steps) and packed (64-byte aligned), which the plan then refers to. */
void intact__qdwconv_pack(intact_qdwconv_plan *plan, const intact_qdwconv_weights *weights, int64_t *offsets, uint8_t *packed);
/* Bands begin..end with a scratch of one's own. */
void intact__qdwconv_run(const intact_qdwconv_plan *plan, const void *x, void *y, void *scratch, int64_t begin, int64_t end);

/* The weights of a phase within a packed block. */
static inline size_t intact__qdwconv_step_bytes(const intact_qdwconv_kernel *kernel, int width) {
  return (size_t)width * (size_t)kernel->rows * (size_t)kernel->weight_bytes;
}

#endif
