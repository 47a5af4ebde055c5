/* SPDX-License-Identifier: Apache-2.0 */
/* Zip archives that may be hostile: entries by name, read whole with their checksum. */
#ifndef INTACT_IO_ZIP_ZIP_ARCHIVE_H
#define INTACT_IO_ZIP_ZIP_ARCHIVE_H

#include "base/file.h"

typedef struct intact_zip intact_zip;

/* Opens the archive in `mapping` (retained). Kinds of refusal: truncated (no central directory), bad-magic (no zip),
   duplicate (two entries of one name), path-traversal (a name that leaves the archive), invalid-value, io. */
intact_status intact__zip_open(intact_context *context, const char *path, intact_mapping *mapping, intact_zip **zip);
void intact__zip_close(intact_zip *zip); /* takes NULL */
int64_t intact__zip_count(const intact_zip *zip);
const char *intact__zip_name(const intact_zip *zip, int64_t index);
int64_t intact__zip_find(const intact_zip *zip, const char *name); /* -1: not there */
/* Bytes of an entry when inflated, as the directory says. */
uint64_t intact__zip_entry_bytes(const intact_zip *zip, int64_t index);
/* Reads the first min(limit, size) bytes of an entry into `out`; when that is all of it the checksum has been compared. */
intact_status intact__zip_read(intact_zip *zip, int64_t index, void *out, uint64_t limit);
/* Whether the first bytes are those of a zip archive. */
bool intact__zip_magic(const uint8_t *data, size_t bytes);

#endif
