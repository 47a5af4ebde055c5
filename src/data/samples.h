/* SPDX-License-Identifier: Apache-2.0 */
/* The parts of a data set: files of tensors or pictures whose samples follow each other. */
#ifndef INTACT_DATA_SAMPLES_H
#define INTACT_DATA_SAMPLES_H

#include "graph/graph.h"
#include "intact/data.h"
#include "intact/io.h"

/* An input of the network as the data set must fill it. */
typedef struct intact_data_input {
  const char *name;
  intact_dtype dtype;
  const intact_qparams *qparams; /* NULL: plain */
  int rank;                      /* of one sample; -1: not known yet */
  int64_t dims[INTACT_MAX_RANK]; /* of one sample; < 0: not known yet */
} intact_data_input;

typedef struct intact_data_part {
  const char *path;
  int64_t first, count; /* samples */
  bool is_picture;
} intact_data_part;

struct intact_data {
  intact_context *context;
  intact_arena arena;
  const char *path;
  int n_inputs;
  intact_data_input *inputs;
  int n_mean, n_std;
  const float *mean, *std;
  intact_data_part *parts;
  size_t n_parts, parts_capacity;
  int64_t count;  /* samples that are used */
  int64_t all;    /* samples in the files */
  size_t current; /* part whose tensors are open; SIZE_MAX: none */
  intact_tensor_set *tensors;
  bool channels_last; /* pictures: the input is H, W, C */
};

/* Opens the parts behind data->path and settles what is not known of the inputs' shapes (samples.c). */
intact_status intact__samples_open(intact_data *data);
/* The tensor of a part that fills input `index`: part->count samples, one behind the other. */
intact_status intact__samples_tensor(intact_data *data, const intact_data_part *part, int index,
                                     const intact_tensor **tensor);
/* Decodes a picture into the bytes of one sample. */
intact_status intact__samples_picture(intact_data *data, const intact_data_part *part, uint8_t *pixels);
/* Elements of one sample of an input. */
int64_t intact__samples_elements(const intact_data_input *input);
/* Writes `count` samples of `from`, beginning with its sample `first`, as samples at, at + 1, ... of `to`, by the rule of
   input `index` (normalise.c): `to` is float32 for float and quantized inputs, else of the input's type. */
intact_status intact__normalise(intact_data *data, int index, const intact_tensor *from, int64_t first, int64_t count,
                                intact_tensor *to, int64_t at);
/* Checks mean and std against the inputs. */
intact_status intact__normalise_check(const intact_data *data);

#endif
