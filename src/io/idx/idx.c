/* SPDX-License-Identifier: Apache-2.0 */
/* The IDX format of MNIST's data sets: one array in big-endian order, plain or gzipped; a tensor named "". */
#include <limits.h>
#include <string.h>

#define ZLIB_CONST
#include <zlib.h>

#include "io/formats.h"
#include "io/raw/raw_tensor.h"

enum { MAX_HEADER = 4 + 4 * INTACT_MAX_RANK };
/* Deflate shrinks to no less than 1/1032 of the size. */
enum { DEFLATE_RATIO = 1032 };

typedef struct idx_header {
  intact_dtype dtype;
  int rank;
  int64_t dims[INTACT_MAX_RANK];
  size_t data_offset, data_bytes;
} idx_header;

static bool type_of(uint8_t code, intact_dtype *dtype) {
  switch (code) {
    case 0x08:
      *dtype = INTACT_U8;
      return true;
    case 0x09:
      *dtype = INTACT_S8;
      return true;
    case 0x0b:
      *dtype = INTACT_S16;
      return true;
    case 0x0c:
      *dtype = INTACT_S32;
      return true;
    case 0x0d:
      *dtype = INTACT_F32;
      return true;
    case 0x0e:
      *dtype = INTACT_F64;
      return true;
    default:
      return false;
  }
}

static bool is_gzip(const uint8_t *data, size_t bytes) {
  return bytes >= 2 && data[0] == 0x1f && data[1] == 0x8b;
}

static int probe(const uint8_t *head, size_t head_bytes, size_t bytes, const char *path) {
  intact_dtype dtype;
  (void)bytes;
  if (head_bytes >= 4 && head[0] == 0 && head[1] == 0 && type_of(head[2], &dtype) && head[3] >= 1) return 2;
  if (is_gzip(head, head_bytes)) return 2;
  return intact__has_extension(path, "-ubyte,.idx,-ubyte.gz,.idx.gz") ? 1 : 0;
}

static intact_status parse_header(intact_context *context, const char *path, const uint8_t *data, size_t bytes,
                                  idx_header *header) {
  if (bytes < 4) INTACT_FAIL(context, TRUNCATED, path, "the file has %zu bytes: an IDX file begins with 4 of magic", bytes);
  idx_header result = {.rank = data[3]};
  if (data[0] != 0 || data[1] != 0) INTACT_FAIL(context, BAD_MAGIC, path, "an IDX file begins with two zero bytes");
  if (!type_of(data[2], &result.dtype)) {
    INTACT_FAIL(context, UNSUPPORTED_TYPE, path, "IDX type 0x%02x is unknown; there are 08, 09, 0b, 0c, 0d, 0e", data[2]);
  }
  if (result.rank < 1 || result.rank > INTACT_MAX_RANK) {
    INTACT_FAIL(context, OUT_OF_RANGE, path, "an IDX file of %d dimensions; 1 to %d are read", result.rank, INTACT_MAX_RANK);
  }
  result.data_offset = 4 + 4 * (size_t)result.rank;
  if (bytes < result.data_offset) {
    INTACT_FAIL(context, TRUNCATED, path, "the file has %zu bytes: its header of %zu is not whole", bytes,
                result.data_offset);
  }
  for (int i = 0; i < result.rank; i++) {
    const uint8_t *at = data + 4 + 4 * i;
    result.dims[i] = (int64_t)((uint32_t)at[0] << 24 | (uint32_t)at[1] << 16 | (uint32_t)at[2] << 8 | at[3]);
  }
  int64_t count;
  char shape[160];
  if (!intact__shape_bytes(result.dtype, result.rank, result.dims, &count, &result.data_bytes)) {
    INTACT_FAIL(context, OVERFLOW, path, "shape %s overflows", intact__shape_text(result.rank, result.dims, shape));
  }
  *header = result;
  return INTACT_OK;
}

static intact_status wrong_size(intact_context *context, const char *path, const idx_header *header, size_t found) {
  char shape[160];
  INTACT_FAIL(context, SIZE_MISMATCH, path, "the header promises %zu bytes (%s of %s), the file has %zu behind it",
              header->data_bytes, intact__shape_text(header->rank, header->dims, shape), intact_dtype_text(header->dtype),
              found);
}

static intact_status read_plain(intact_context *context, const char *path, intact_mapping *mapping, intact_tensor **tensor) {
  const uint8_t *data = intact__mapping_data(mapping);
  const size_t bytes = intact__mapping_bytes(mapping);
  idx_header header;
  INTACT_TRY(parse_header(context, path, data, bytes, &header));
  if (bytes - header.data_offset != header.data_bytes) return wrong_size(context, path, &header, bytes - header.data_offset);
  const size_t unit = intact__swap_size(header.dtype);
  if (unit == 1) {
    return intact__tensor_map(context, header.dtype, header.rank, header.dims, mapping, header.data_offset, tensor);
  }
  INTACT_TRY(intact__tensor_create_raw(context, header.dtype, header.rank, header.dims, tensor));
  if (header.data_bytes) memcpy((*tensor)->data, data + header.data_offset, header.data_bytes);
  intact__swap_bytes((*tensor)->data, header.data_bytes / unit, unit);
  return INTACT_OK;
}

/* ---- gzip ---- */

static voidpf zlib_alloc(voidpf user, uInt count, uInt size) {
  return intact__alloc_zeroed(user, count, size);
}
static void zlib_free(voidpf user, voidpf memory) {
  intact__free(user, memory);
}

/* Inflates up to `bytes` into `out`; *done is less when the stream ends before. */
static intact_status inflate_some(intact_context *context, const char *path, z_stream *stream, const uint8_t *end,
                                  uint8_t *out, size_t bytes, size_t *done, bool *ended) {
  size_t made = 0;
  while (made < bytes && !*ended) {
    const size_t room = bytes - made, left = (size_t)(end - stream->next_in);
    stream->next_out = out + made;
    stream->avail_out = room > UINT_MAX ? UINT_MAX : (uInt)room;
    stream->avail_in = left > UINT_MAX ? UINT_MAX : (uInt)left;
    const uInt before = stream->avail_out;
    const int code = inflate(stream, Z_NO_FLUSH);
    made += before - stream->avail_out;
    if (code == Z_STREAM_END) {
      *ended = true;
    } else if (code == Z_MEM_ERROR) {
      return intact__no_memory(context, bytes);
    } else if (code == Z_BUF_ERROR || (code == Z_OK && before == stream->avail_out && stream->next_in == end)) {
      INTACT_FAIL(context, TRUNCATED, path, "the gzip data end early");
    } else if (code != Z_OK) {
      INTACT_FAIL(context, CHECKSUM, path, "the gzip data are corrupt: %s", stream->msg ? stream->msg : "unknown error");
    }
  }
  *done = made;
  return INTACT_OK;
}

static intact_status inflate_array(intact_context *context, const char *path, z_stream *stream, const uint8_t *end,
                                   size_t compressed, intact_tensor **tensor) {
  uint8_t head[MAX_HEADER], more;
  size_t done = 0, extra = 0;
  bool ended = false;
  idx_header header;
  INTACT_TRY(inflate_some(context, path, stream, end, head, 4, &done, &ended));
  size_t wanted = done == 4 && head[3] >= 1 && head[3] <= INTACT_MAX_RANK ? 4 + 4 * (size_t)head[3] : 4;
  if (wanted > 4) INTACT_TRY(inflate_some(context, path, stream, end, head + 4, wanted - 4, &extra, &ended));
  INTACT_TRY(parse_header(context, path, head, done + extra, &header));
  if (header.data_bytes / DEFLATE_RATIO > compressed) return wrong_size(context, path, &header, compressed);
  intact_tensor *t;
  INTACT_TRY(intact__tensor_create_raw(context, header.dtype, header.rank, header.dims, &t));
  intact_status status = inflate_some(context, path, stream, end, t->data, header.data_bytes, &done, &ended);
  if (status == INTACT_OK && done < header.data_bytes) status = wrong_size(context, path, &header, done);
  /* one byte more: the end of the stream with its checksum must come instead */
  if (status == INTACT_OK && !ended)
    status = inflate_some(context, path, stream, end, &more, 1, &extra, &ended);
  else
    extra = 0;
  if (status == INTACT_OK && extra) status = wrong_size(context, path, &header, header.data_bytes + extra);
  if (status != INTACT_OK) {
    intact_tensor_destroy(t);
    return status;
  }
  const size_t unit = intact__swap_size(header.dtype);
  if (unit > 1) intact__swap_bytes(t->data, header.data_bytes / unit, unit);
  *tensor = t;
  return INTACT_OK;
}

static intact_status read_gzip(intact_context *context, const char *path, intact_mapping *mapping, intact_tensor **tensor) {
  const uint8_t *data = intact__mapping_data(mapping);
  const size_t bytes = intact__mapping_bytes(mapping);
  z_stream stream = {.next_in = data, .zalloc = zlib_alloc, .zfree = zlib_free, .opaque = context};
  const int gzip_with_largest_window = 15 + 16;
  if (inflateInit2(&stream, gzip_with_largest_window) != Z_OK) return intact__no_memory(context, 1u << 15);
  intact_status status = inflate_array(context, path, &stream, data + bytes, bytes, tensor);
  inflateEnd(&stream);
  return status;
}

static intact_status read_tensors(intact_context *context, const char *path, intact_tensor_set **set) {
  intact_mapping *mapping;
  intact_tensor *tensor;
  INTACT_TRY(intact__map_file(context, path, &mapping));
  const bool gzip = is_gzip(intact__mapping_data(mapping), intact__mapping_bytes(mapping));
  intact_status status = gzip ? read_gzip(context, path, mapping, &tensor) : read_plain(context, path, mapping, &tensor);
  intact__mapping_release(mapping);
  INTACT_TRY(status);
  return intact__raw_single(context, tensor, set);
}

const intact_format intact_format_idx = {
    .name = "idx",
    .extensions = ".idx,-ubyte,-ubyte.gz",
    .doc = "one array of MNIST's kind, plain or gzipped",
    .probe = probe,
    .read_tensors = read_tensors,
};
