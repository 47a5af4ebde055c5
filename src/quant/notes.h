/* SPDX-License-Identifier: Apache-2.0 */
/* Lines that say what quantization did to a network. */
#ifndef INTACT_QUANT_NOTES_H
#define INTACT_QUANT_NOTES_H

#include "base/context.h"
#include "intact/quant.h"

typedef struct intact_note_list {
  intact_context *context;
  size_t n, capacity;
  char **lines;
} intact_note_list;

void intact__notes_init(intact_note_list *notes, intact_context *context);
void intact__notes_fini(intact_note_list *notes);
/* Adds a line and logs it. */
intact_status intact__note(intact_note_list *notes, const char *format, ...) INTACT_PRINTF(2, 3);
/* Moves the lines out. */
void intact__notes_take(intact_note_list *notes, intact_quantize_notes *taken);

#endif
