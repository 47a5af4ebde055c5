/* SPDX-License-Identifier: Apache-2.0 */
/* The array kernels of this family by C name, as affine.def lists them. */
#ifndef INTACT_KERNELS_AFFINE_AFFINE_KERNELS_H
#define INTACT_KERNELS_AFFINE_AFFINE_KERNELS_H

#include "kernels/affine/affine.h"
#include "kernels/affine/statistics.h"

typedef void (*intact_quantize_fn)(const float *x, void *q, int64_t n, const intact_affine *p);
typedef void (*intact_dequantize_fn)(const void *q, float *x, int64_t n, float scale, int32_t zero_point);
typedef void (*intact_min_max_fn)(const float *x, int64_t n, intact_min_max *m);
typedef void (*intact_histogram_fn)(const float *x, int64_t n, const intact_bins *bins, uint32_t *tables);

/* Signatures by kind, so that a row of affine.def declares its function. */
#define INTACT_SIGNATURE_quantize(name) void name(const float *x, void *q, int64_t n, const intact_affine *p)
#define INTACT_SIGNATURE_dequantize(name) void name(const void *q, float *x, int64_t n, float scale, int32_t zero_point)
#define INTACT_SIGNATURE_min_max(name) void name(const float *x, int64_t n, intact_min_max *m)
#define INTACT_SIGNATURE_histogram(name) void name(const float *x, int64_t n, const intact_bins *bins, uint32_t *tables)

#define INTACT_AFFINE_KERNEL(ISA, kind, function, slot) INTACT_SIGNATURE_##kind(function);
#include "kernels/affine/affine.def"
#undef INTACT_AFFINE_KERNEL

#endif
