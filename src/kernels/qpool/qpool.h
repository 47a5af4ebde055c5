/* SPDX-License-Identifier: Apache-2.0 */
/* Pooling of 8-bit values, channels last: maximum (no requantization) and average with requantization:
     max:  y = clamp(max over the window's elements, y_min, y_max); padding does not take part
     mean: y = round8(f32(sum of (x - zero_x)) * f32(f32(scale_x / divisor) / scale_y)), one rounding to an integer, half to even
   Mean over axes is a window of the axes' whole length. */
#ifndef INTACT_KERNELS_QPOOL_QPOOL_H
#define INTACT_KERNELS_QPOOL_QPOOL_H

#include "kernels/kernel.h"

typedef struct intact_qpool_params {
  bool mean;
  uint8_t flip_x;      /* 0x80 when x is s8 */
  int32_t zero_x;      /* of x ^ flip_x, mean only */
  intact_round8 round; /* mean; max uses min8 and max8 */
  uint8_t max8;        /* y_max in the domain of u8 */
} intact_qpool_params;

/* `pixels` windows of `taps` elements for `channels` channels: element t of pixel p is x[p * x_step + offsets[t] + c]. */
typedef struct intact_qpool_block {
  const uint8_t *x;
  const int64_t *offsets;
  int64_t taps, pixels, x_step, channels;
  float scale; /* mean: f32(f32(scale_x / divisor) / scale_y) */
  uint8_t *y;
  int64_t y_step;
} intact_qpool_block;

typedef void intact_qpool_fn(const intact_qpool_params *params, const intact_qpool_block *block);

typedef struct intact_qpool_kernel {
  const char *name;
  intact_isa isa;
  intact_qpool_fn *run;
} intact_qpool_kernel;

#define INTACT_KERNEL(family, name, isa) intact_qpool_fn name;
#include "kernels/qpool/qpool.def"
#undef INTACT_KERNEL

extern const intact_qpool_kernel intact__qpool_rows[];
extern const int intact__n_qpool_rows;
const intact_qpool_kernel *intact__qpool_pick(uint32_t isa_set);

/* What one output along an axis looks at: `count` elements from `start` in steps of the axis' dilation, and what it adds to the
   divisor (product over the axes). */
typedef struct intact_qpool_window {
  int64_t start, count, divisor;
} intact_qpool_window;

typedef struct intact_qpool_axis {
  int64_t in, out, dilation;
  const intact_qpool_window *windows; /* out */
} intact_qpool_axis;

/* x is [batch][axis 0][axis 1][axis 2][channels]. */
typedef struct intact_qpool_plan {
  intact_qpool_fn *run;
  intact_qpool_params params;
  int64_t batch, channels;
  intact_qpool_axis axis[3];
  float scale_x, scale_y;
  int64_t divisor;  /* 0: by the windows; else this for all */
  int64_t most_taps;
} intact_qpool_plan;

/* Windows of a pooling axis. With include_pad the divisor counts padding up to in + pad_after too. */
void intact__qpool_windows(const intact_conv_axis *axis, int64_t pad_after, bool include_pad, intact_qpool_window *windows);
/* Windows of an adaptive pooling axis: floor(o * in / out) up to ceil((o + 1) * in / out). */
void intact__qpool_adaptive_windows(int64_t in, int64_t out, intact_qpool_window *windows);
/* Rows (batch, axis 0, axis 1) begin..end of the result; scratch: plan->most_taps int64_t. */
void intact__qpool_run(const intact_qpool_plan *plan, const void *x, void *y, void *scratch, int64_t begin, int64_t end);

#endif
