/* SPDX-License-Identifier: Apache-2.0 */
/* Files: mapped for reading, written beside and renamed into place. */
#ifndef INTACT_BASE_FILE_H
#define INTACT_BASE_FILE_H

#include <stdio.h>

#include "base/context.h"

/* A read-only mapping of a whole file; data is NULL for an empty file. Shared by counting, so that tensors can live in it. */
typedef struct intact_mapping intact_mapping;
intact_status intact__map_file(intact_context *context, const char *path, intact_mapping **mapping);
const uint8_t *intact__mapping_data(const intact_mapping *mapping);
size_t intact__mapping_bytes(const intact_mapping *mapping);
intact_mapping *intact__mapping_retain(intact_mapping *mapping);
void intact__mapping_release(intact_mapping *mapping); /* takes NULL */
/* Lets the memory of `bytes` from `offset` on go until they are read again: who streams through a large file calls it behind. */
void intact__mapping_forget(const intact_mapping *mapping, size_t offset, size_t bytes);

/* A file that appears under its name only when committed: written to a temporary file in the same folder, synced, renamed.
   abort (or an interrupted process: signal handlers call intact__remove_unfinished_files) leaves nothing behind. */
typedef struct intact_writer intact_writer;
intact_status intact__writer_open(intact_context *context, const char *path, intact_writer **writer);
FILE *intact__writer_stream(intact_writer *writer);
intact_status intact__writer_commit(intact_writer *writer); /* consumes the writer, also on failure */
void intact__writer_abort(intact_writer *writer);           /* takes NULL */

#endif
