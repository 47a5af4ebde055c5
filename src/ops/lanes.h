/* SPDX-License-Identifier: Apache-2.0 */
/* Lanes: the elements of a tensor that differ only along some axes. Reductions, scans and sorts are functions of a lane. */
#ifndef INTACT_OPS_LANES_H
#define INTACT_OPS_LANES_H

#include "ops/common.h"

typedef struct intact_lanes {
  intact_context *context;
  int64_t count, length; /* lanes, elements of each */
  int kept, taken;       /* axes that number the lanes, axes along which they run */
  int64_t kept_dims[INTACT_MAX_RANK], kept_strides[INTACT_MAX_RANK];
  int64_t taken_dims[INTACT_MAX_RANK], taken_strides[INTACT_MAX_RANK];
  int64_t stride; /* of a lane's elements; 0: they lie at base + offsets[k] */
  int64_t *offsets;
  int64_t at, index[INTACT_MAX_RANK], base; /* the current lane and its first element */
} intact_lanes;

/* Lanes of a tensor of this shape along the marked axes; close with intact__lanes_close. Starts at lane 0. */
intact_status intact__lanes_open(intact_context *context, int rank, const int64_t *dims, const bool *is_axis,
                                 intact_lanes *lanes);
void intact__lanes_close(intact_lanes *lanes); /* also of a zeroed struct */
void intact__lanes_next(intact_lanes *lanes);  /* to the next lane */
static inline int64_t intact__lane_at(const intact_lanes *lanes, int64_t k) {
  return lanes->base + (lanes->stride != 0 ? k * lanes->stride : lanes->offsets[k]);
}
/* The current lane's elements as doubles or integers, whatever the type. */
void intact__lane_read_f64(const intact_lanes *lanes, const intact_tensor *x, double *values);
void intact__lane_read_s64(const intact_lanes *lanes, const intact_tensor *x, int64_t *values);
void intact__lane_write_f64(const intact_lanes *lanes, intact_tensor *y, const double *values);
void intact__lane_write_s64(const intact_lanes *lanes, intact_tensor *y, const int64_t *values);

/* ---- reductions: a lane to a number ---- */
typedef struct intact_reduction {
  double (*real)(const double *v, int64_t n, const double *p);
  int64_t (*integer)(const int64_t *v, int64_t n, const double *p); /* NULL: floats only */
  /* dv from the lane v, its result r and d = gradient of the result. NULL: the row has no gradient. */
  void (*grad)(const double *v, int64_t n, double r, double d, double *dv, const double *p);
  enum { INTACT_REDUCED_KEEPS, INTACT_REDUCED_WIDENS /* integers and bool to s64 */, INTACT_REDUCED_BOOL } type;
  bool needs_one; /* a lane without elements is refused */
} intact_reduction;

intact_status intact__reduction_infer(intact_infer *infer, const intact_reduction *op);
intact_status intact__reduction_eval(const intact_call *call, const intact_reduction *op);
intact_status intact__reduction_grad(intact_grad *grad, const intact_reduction *op);

/* Shape of a reduction's result. Returns its rank. */
int intact__reduced_dims(int rank, const int64_t *dims, const bool *is_axis, bool keepdim, int64_t *result);

#endif
