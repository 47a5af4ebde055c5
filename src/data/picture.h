/* SPDX-License-Identifier: Apache-2.0 */
/* PNG and JPEG pictures as bytes, row by row. */
#ifndef INTACT_DATA_PICTURE_H
#define INTACT_DATA_PICTURE_H

#include "base/file.h"

typedef struct intact_picture_info {
  int64_t height, width;
} intact_picture_info;

/* Whether the first bytes are those of a PNG or JPEG file. */
bool intact__picture_magic(const uint8_t *data, size_t bytes);
/* Reads the header only. */
intact_status intact__picture_info(intact_context *context, const char *path, const uint8_t *data, size_t bytes,
                                   intact_picture_info *info);
/* Decodes into height x width x channels bytes; channels is 1 or 3. Colour becomes grey as (19595 R + 38470 G + 7471 B +
   2^15) / 2^16 (ITU-R 601-2 luma); grey is repeated; an alpha channel is dropped; 16 bits become their high byte. */
intact_status intact__picture_decode(intact_context *context, const char *path, const uint8_t *data, size_t bytes,
                                     const intact_picture_info *info, int channels, uint8_t *pixels);

#endif
