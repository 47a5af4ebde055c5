/* SPDX-License-Identifier: Apache-2.0 */
/* Samples: a data set for calibration and evaluation, read in batches with fixed memory. */
#ifndef INTACT_DATA_H
#define INTACT_DATA_H

#include "intact/graph.h"

#ifdef __cplusplus
extern "C" {
#endif

typedef struct intact_data_options {
  int n_mean, n_std;
  const double *mean, *std; /* one value or one per channel; none: 0 and 1. u8 become (u8/255 - mean)/std in float32, others
                               (x - mean)/std; inputs of integer types take whole numbers as they are */
  int64_t samples;          /* use the first so many; 0: all */
} intact_data_options;

typedef struct intact_data intact_data;

/* Opens an IDX file, .npy, .npz, .safetensors (keys are input names), or a folder of such files or of PNG/JPEG pictures (all of
   its files in the order of their names), for the inputs of `graph`: the first dimension counts samples, a sample is reshaped
   to the input's shape when the element counts agree, else it is refused (size-mismatch naming both shapes). Pictures have the
   input's size. An input that is quantized gets quantized values. The data set keeps what it needs of graph's shapes.
   Errors besides those of the files: missing-entry (no such file, no tensor for an input), invalid-value (no sample),
   type-mismatch, wrong-use. */
INTACT_API intact_status intact_data_open(intact_context *context, const char *path, const intact_graph *graph,
                                          const intact_data_options *options, intact_data **data);
INTACT_API void intact_data_close(intact_data *data); /* takes NULL */
INTACT_API int64_t intact_data_count(const intact_data *data);
/* Samples first .. first+count-1 as one tensor per graph input, owned by the caller. */
INTACT_API intact_status intact_data_batch(intact_data *data, int64_t first, int64_t count, intact_tensor **inputs);
/* The samples with these numbers, in this order (numbers may repeat). */
INTACT_API intact_status intact_data_gather(intact_data *data, int64_t count, const int64_t *samples, intact_tensor **inputs);
/* Labels (IDX, .npy, or the only tensor of a .safetensors file) as s64 [n]. */
INTACT_API intact_status intact_labels_read(intact_context *context, const char *path, intact_tensor **labels);
/* The same for the samples of `data`: refused (size-mismatch) unless there are as many as its files hold samples, or as are used. */
INTACT_API intact_status intact_data_labels(intact_data *data, const char *path, intact_tensor **labels);

#ifdef __cplusplus
}
#endif
#endif
