/* SPDX-License-Identifier: Apache-2.0 */
/* PNG and JPEG pictures through libpng and libjpeg. */
#include "data/picture.h"

#include <inttypes.h>
#include <jerror.h>
#include <jpeglib.h>
#include <png.h>
#include <setjmp.h>
#include <stdio.h>
#include <string.h>

enum { MAX_SIDE = 65500, MAX_PIXELS = 100000000 };

static bool is_png(const uint8_t *data, size_t bytes) {
  return bytes >= 8 && memcmp(data, "\x89PNG\r\n\x1a\n", 8) == 0;
}
static bool is_jpeg(const uint8_t *data, size_t bytes) {
  return bytes >= 3 && memcmp(data, "\xff\xd8\xff", 3) == 0;
}

bool intact__picture_magic(const uint8_t *data, size_t bytes) {
  return is_png(data, bytes) || is_jpeg(data, bytes);
}

/* What both decoders need: where the bytes are, where the pixels go, and the way out on an error. */
typedef struct decoder {
  intact_context *context;
  const char *path;
  const uint8_t *data;
  size_t bytes, at;
  const intact_picture_info *wanted; /* NULL: header only */
  intact_picture_info found;
  int channels;
  uint8_t *pixels;
  uint8_t *row; /* one row as decoded */
  png_structp png;
  png_infop png_info;
  struct jpeg_decompress_struct jpeg;
  struct jpeg_error_mgr jpeg_errors;
  jmp_buf leave;
  bool truncated, no_memory;
  char message[JMSG_LENGTH_MAX > 200 ? JMSG_LENGTH_MAX : 200];
} decoder;

static void put_row(const decoder *d, int64_t y, const uint8_t *from, int from_channels) {
  uint8_t *to = d->pixels + (size_t)(y * d->found.width * d->channels);
  if (from_channels == d->channels) {
    memcpy(to, from, (size_t)(d->found.width * d->channels));
    return;
  }
  for (int64_t x = 0; x < d->found.width; x++) {
    if (d->channels == 1) {
      to[x] = (uint8_t)((19595u * from[3 * x] + 38470u * from[3 * x + 1] + 7471u * from[3 * x + 2] + 32768u) >> 16);
    } else {
      to[3 * x] = to[3 * x + 1] = to[3 * x + 2] = from[x];
    }
  }
}

static intact_status check_size(const decoder *d) {
  const int64_t height = d->found.height, width = d->found.width;
  if (height < 1 || width < 1 || height > MAX_SIDE || width > MAX_SIDE || height * width > MAX_PIXELS) {
    INTACT_FAIL(d->context, OUT_OF_RANGE, d->path, "a picture of %" PRId64 " x %" PRId64 " pixels: at most %d are read",
                height, width, (int)MAX_PIXELS);
  }
  if (d->wanted && (height != d->wanted->height || width != d->wanted->width)) {
    INTACT_FAIL(d->context, SIZE_MISMATCH, d->path,
                "the picture has %" PRId64 " x %" PRId64 " pixels, %" PRId64 " x %" PRId64 " are needed: scale it", height,
                width, d->wanted->height, d->wanted->width);
  }
  return INTACT_OK;
}

static intact_status failed(const decoder *d, const char *kind) {
  if (d->no_memory) return intact__no_memory(d->context, d->bytes);
  if (d->truncated) INTACT_FAIL(d->context, TRUNCATED, d->path, "the %s picture ends early", kind);
  INTACT_FAIL(d->context, SYNTAX, d->path, "the %s picture is corrupt: %s", kind, d->message);
}

/* ---- PNG ---- */

static void png_failed(png_structp png, png_const_charp message) {
  decoder *d = png_get_error_ptr(png);
  snprintf(d->message, sizeof d->message, "%s", message);
  longjmp(d->leave, 1);
}

static void png_warned(png_structp png, png_const_charp message) {
  (void)png;
  (void)message;
}

static void png_take(png_structp png, png_bytep out, png_size_t bytes) {
  decoder *d = png_get_io_ptr(png);
  if (bytes > d->bytes - d->at) {
    d->truncated = true;
    png_error(png, "too short");
  }
  memcpy(out, d->data + d->at, bytes);
  d->at += bytes;
}

static png_voidp png_get_memory(png_structp png, png_alloc_size_t bytes) {
  decoder *d = png_get_mem_ptr(png);
  void *memory = intact__alloc(d->context, bytes, 1);
  if (!memory) d->no_memory = true;
  return memory;
}

static void png_drop_memory(png_structp png, png_voidp memory) {
  decoder *d = png_get_mem_ptr(png);
  intact__free(d->context, memory);
}

/* The rows in the order of the file; an interlaced picture needs all of its passes over the whole picture. */
static void png_rows(decoder *d) {
  png_structp png = d->png;
  const int type = png_get_color_type(png, d->png_info), depth = png_get_bit_depth(png, d->png_info);
  if (type == PNG_COLOR_TYPE_PALETTE) png_set_palette_to_rgb(png);
  if (type == PNG_COLOR_TYPE_GRAY && depth < 8) png_set_expand_gray_1_2_4_to_8(png);
  if (depth == 16) png_set_strip_16(png);
  png_set_strip_alpha(png);
  const int passes = png_set_interlace_handling(png);
  png_read_update_info(png, d->png_info);
  const int channels = png_get_channels(png, d->png_info);
  const size_t row_bytes = png_get_rowbytes(png, d->png_info);
  if ((channels != 1 && channels != 3) || row_bytes != (size_t)(d->found.width * channels))
    png_error(png, "unknown colour type");
  const size_t rows = passes > 1 ? (size_t)d->found.height : 1;
  d->row = png_malloc(png, rows * row_bytes);
  for (int pass = 0; pass < passes; pass++) {
    for (int64_t y = 0; y < d->found.height; y++) {
      uint8_t *row = d->row + (passes > 1 ? (size_t)y * row_bytes : 0);
      png_read_row(png, row, NULL);
      if (pass == passes - 1) put_row(d, y, row, channels);
    }
  }
  png_read_end(png, NULL);
}

static intact_status read_png(decoder *d) {
  d->png = png_create_read_struct_2(PNG_LIBPNG_VER_STRING, d, png_failed, png_warned, d, png_get_memory, png_drop_memory);
  if (!d->png) return intact__no_memory(d->context, 1024);
  d->png_info = png_create_info_struct(d->png);
  if (!d->png_info) {
    png_destroy_read_struct(&d->png, NULL, NULL);
    return intact__no_memory(d->context, 1024);
  }
  intact_status status = INTACT_OK;
  if (setjmp(d->leave)) {
    intact__free(d->context, d->row);
    png_destroy_read_struct(&d->png, &d->png_info, NULL);
    return failed(d, "PNG");
  }
  png_set_user_limits(d->png, MAX_SIDE, MAX_SIDE);
  png_set_crc_action(d->png, PNG_CRC_ERROR_QUIT, PNG_CRC_WARN_DISCARD);
  png_set_read_fn(d->png, d, png_take);
  png_read_info(d->png, d->png_info);
  d->found = (intact_picture_info){png_get_image_height(d->png, d->png_info), png_get_image_width(d->png, d->png_info)};
  status = check_size(d);
  if (status == INTACT_OK && d->wanted) png_rows(d);
  intact__free(d->context, d->row);
  png_destroy_read_struct(&d->png, &d->png_info, NULL);
  return status;
}

/* ---- JPEG ---- */

static void jpeg_failed(j_common_ptr jpeg) {
  decoder *d = jpeg->client_data;
  jpeg->err->format_message(jpeg, d->message);
  longjmp(d->leave, 1);
}

/* libjpeg only warns of data that end early or can't be decoded and fills the rest with grey: refused here. Other warnings
   (bytes between markers, odd version numbers) leave the pixels as they are. */
static void jpeg_warned(j_common_ptr jpeg, int level) {
  const int code = jpeg->err->msg_code;
  decoder *d = jpeg->client_data;
  if (level >= 0 || (code != JWRN_JPEG_EOF && code != JWRN_HIT_MARKER && code != JWRN_HUFF_BAD_CODE)) return;
  d->truncated = code == JWRN_JPEG_EOF;
  jpeg_failed(jpeg);
}

static void jpeg_silent(j_common_ptr jpeg) {
  (void)jpeg;
}

static void jpeg_rows(decoder *d) {
  struct jpeg_decompress_struct *jpeg = &d->jpeg;
  if (jpeg->jpeg_color_space != JCS_GRAYSCALE && jpeg->num_components != 3) {
    snprintf(d->message, sizeof d->message, "%d colour components, 1 or 3 are read", jpeg->num_components);
    longjmp(d->leave, 1);
  }
  jpeg->out_color_space = jpeg->jpeg_color_space == JCS_GRAYSCALE ? JCS_GRAYSCALE : JCS_RGB;
  jpeg_start_decompress(jpeg);
  JSAMPARRAY row =
      jpeg->mem->alloc_sarray((j_common_ptr)jpeg, JPOOL_IMAGE, jpeg->output_width * (JDIMENSION)jpeg->output_components, 1);
  while (jpeg->output_scanline < jpeg->output_height) {
    const int64_t y = jpeg->output_scanline;
    if (jpeg_read_scanlines(jpeg, row, 1) == 1) put_row(d, y, row[0], jpeg->output_components);
  }
  jpeg_finish_decompress(jpeg);
}

static intact_status read_jpeg(decoder *d) {
  d->jpeg.err = jpeg_std_error(&d->jpeg_errors);
  d->jpeg.client_data = d;
  d->jpeg_errors.error_exit = jpeg_failed;
  d->jpeg_errors.emit_message = jpeg_warned;
  d->jpeg_errors.output_message = jpeg_silent;
  if (setjmp(d->leave)) {
    jpeg_destroy_decompress(&d->jpeg);
    return failed(d, "JPEG");
  }
  jpeg_create_decompress(&d->jpeg);
  jpeg_mem_src(&d->jpeg, d->data, d->bytes);
  jpeg_read_header(&d->jpeg, TRUE);
  d->found = (intact_picture_info){d->jpeg.image_height, d->jpeg.image_width};
  intact_status status = check_size(d);
  if (status == INTACT_OK && d->wanted) jpeg_rows(d);
  jpeg_destroy_decompress(&d->jpeg);
  return status;
}

static intact_status read_picture(intact_context *context, const char *path, const uint8_t *data, size_t bytes,
                                  const intact_picture_info *wanted, int channels, uint8_t *pixels,
                                  intact_picture_info *found) {
  decoder *d = intact__alloc_zeroed(context, 1, sizeof *d);
  if (!d) return intact__no_memory(context, sizeof *d);
  d->context = context;
  d->path = path;
  d->data = data;
  d->bytes = bytes;
  d->wanted = wanted;
  d->channels = channels;
  d->pixels = pixels;
  intact_status status;
  if (is_png(data, bytes)) {
    status = read_png(d);
  } else if (is_jpeg(data, bytes)) {
    status = read_jpeg(d);
  } else {
    status =
        intact__fail(context, INTACT_BAD_MAGIC, path, __FILE__, __LINE__, "the file is neither a PNG nor a JPEG picture");
  }
  if (status == INTACT_OK && found) *found = d->found;
  intact__free(context, d);
  return status;
}

intact_status intact__picture_info(intact_context *context, const char *path, const uint8_t *data, size_t bytes,
                                   intact_picture_info *info) {
  return read_picture(context, path, data, bytes, NULL, 0, NULL, info);
}

intact_status intact__picture_decode(intact_context *context, const char *path, const uint8_t *data, size_t bytes,
                                     const intact_picture_info *info, int channels, uint8_t *pixels) {
  return read_picture(context, path, data, bytes, info, channels, pixels, NULL);
}
