/* SPDX-License-Identifier: Apache-2.0 */
/* The .npy format: one array, a tensor named "". */
#include <inttypes.h>
#include <string.h>

#include "base/text.h"
#include "io/formats.h"
#include "io/npy/npy_header.h"
#include "io/npy/npy_write.h"
#include "io/raw/raw_tensor.h"

static int probe(const uint8_t *head, size_t head_bytes, size_t bytes, const char *path) {
  (void)bytes;
  return intact__npy_magic(head, head_bytes) ? 2 : intact__has_extension(path, ".npy") ? 1 : 0;
}

static intact_status read_mapped(intact_context *context, const char *path, intact_mapping *mapping,
                                 intact_tensor **tensor) {
  const uint8_t *data = intact__mapping_data(mapping);
  const size_t bytes = intact__mapping_bytes(mapping);
  intact_npy_header header;
  char shape[160];
  if (bytes == 0) INTACT_FAIL(context, TRUNCATED, path, "the file is empty");
  INTACT_TRY(intact__npy_header_parse(context, path, "the array", data, bytes, &header));
  if (header.data_bytes != bytes - header.data_offset) {
    INTACT_FAIL(context, SIZE_MISMATCH, path, "shape %s of %s needs %zu bytes, the file has %zu behind its header",
                intact__shape_text(header.rank, header.dims, shape), intact_dtype_text(header.dtype), header.data_bytes,
                bytes - header.data_offset);
  }
  if (intact__npy_plain(&header)) {
    return intact__raw_tensor(context, header.dtype, header.rank, header.dims, mapping, header.data_offset, tensor);
  }
  return intact__npy_tensor(context, &header, data + header.data_offset, tensor);
}

static intact_status read_tensors(intact_context *context, const char *path, intact_tensor_set **set) {
  intact_mapping *mapping;
  intact_tensor *tensor;
  INTACT_TRY(intact__map_file(context, path, &mapping));
  intact_status status = read_mapped(context, path, mapping, &tensor);
  intact__mapping_release(mapping);
  INTACT_TRY(status);
  return intact__raw_single(context, tensor, set);
}

intact_status intact__npy_write_header(intact_context *context, const char *path, const char *name,
                                       const intact_tensor *tensor, intact_text *text) {
  const char *descr = intact__npy_descr(intact_tensor_dtype(tensor));
  if (!descr) {
    INTACT_FAIL(context, UNSUPPORTED_TYPE, path, "tensor '%s': NumPy has no type for %s; convert it first", name,
                intact_dtype_text(intact_tensor_dtype(tensor)));
  }
  const int rank = intact_tensor_rank(tensor);
  intact__text_add_bytes(text, "\x93NUMPY\x01\x00\x00\x00", 10);
  intact__text_add(text, "{'descr': '%s', 'fortran_order': False, 'shape': (", descr);
  for (int i = 0; i < rank; i++) {
    intact__text_add(text, "%s%" PRId64, i ? ", " : "", intact_tensor_dims(tensor)[i]);
  }
  intact__text_add(text, "%s), }", rank == 1 ? "," : "");
  while (!text->failed && text->length % 64 != 63) intact__text_add(text, " ");
  intact__text_add(text, "\n");
  if (text->failed) return intact__no_memory(context, text->length);
  const size_t length = text->length - 10; /* at most 8 sizes of 20 characters: fits 16 bits */
  text->data[8] = (char)(length & 255);
  text->data[9] = (char)(length >> 8);
  return INTACT_OK;
}

static intact_status write_tensors(intact_context *context, const char *path, const intact_tensor_set *set) {
  if (intact_tensor_set_count(set) != 1) {
    INTACT_FAIL(context, WRONG_USE, path, "a .npy file holds one tensor, there are %d: write .npz or .safetensors",
                intact_tensor_set_count(set));
  }
  const intact_tensor *tensor = intact_tensor_set_get(set, 0);
  intact_writer *writer;
  intact_text text;
  intact__text_init(&text, context);
  intact_status status = intact__npy_write_header(context, path, intact_tensor_set_name(set, 0), tensor, &text);
  if (status == INTACT_OK) status = intact__writer_open(context, path, &writer);
  if (status == INTACT_OK) {
    const size_t bytes = intact_tensor_bytes(tensor);
    fwrite(text.data, 1, text.length, intact__writer_stream(writer));
    if (bytes) fwrite(intact_tensor_data(tensor), 1, bytes, intact__writer_stream(writer));
    status = intact__writer_commit(writer);
  }
  intact__text_fini(&text);
  return status;
}

const intact_format intact_format_npy = {
    .name = "npy",
    .extensions = ".npy",
    .doc = "one NumPy array",
    .probe = probe,
    .read_tensors = read_tensors,
    .write_tensors = write_tensors,
};
