/* SPDX-License-Identifier: Apache-2.0 */
/* What the .npy and .npz writers share. */
#ifndef INTACT_IO_NPY_NPY_WRITE_H
#define INTACT_IO_NPY_NPY_WRITE_H

#include "base/text.h"
#include "tensor/tensor.h"

/* Adds the bytes in front of the elements, as numpy.save writes them (version 1.0, padded to 64), to an empty text. `name`
   is for the message that NumPy has no such type. */
intact_status intact__npy_write_header(intact_context *context, const char *path, const char *name,
                                       const intact_tensor *tensor, intact_text *text);

#endif
