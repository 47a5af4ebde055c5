/* SPDX-License-Identifier: Apache-2.0 */
/* Lines that say what quantization did to a network. */
#include "quant/notes.h"

#include <stdio.h>

void intact__notes_init(intact_note_list *notes, intact_context *context) {
  *notes = (intact_note_list){.context = context};
}

void intact__notes_fini(intact_note_list *notes) {
  for (size_t i = 0; i < notes->n; i++) intact__free(notes->context, notes->lines[i]);
  intact__free(notes->context, notes->lines);
  intact__notes_init(notes, notes->context);
}

intact_status intact__note(intact_note_list *notes, const char *format, ...) {
  char buffer[512];
  va_list args;
  va_start(args, format);
  vsnprintf(buffer, sizeof buffer, format, args);
  va_end(args);
  char *line = intact__strdup(notes->context, buffer);
  if (!line) return intact__no_memory(notes->context, sizeof buffer);
  void *lines = notes->lines;
  intact_status status = intact__reserve(notes->context, &lines, &notes->capacity, notes->n + 1, sizeof *notes->lines);
  notes->lines = lines;
  if (status != INTACT_OK) {
    intact__free(notes->context, line);
    return status;
  }
  notes->lines[notes->n++] = line;
  intact__log(notes->context, INTACT_LOG_INFO, "%s", line);
  return INTACT_OK;
}

void intact__notes_take(intact_note_list *notes, intact_quantize_notes *taken) {
  taken->n = (int)notes->n;
  taken->lines = notes->lines;
  intact__notes_init(notes, notes->context);
}

void intact_quantize_notes_destroy(intact_context *context, intact_quantize_notes *notes) {
  if (!notes) return;
  for (int i = 0; i < notes->n; i++) intact__free(context, notes->lines[i]);
  intact__free(context, notes->lines);
  *notes = (intact_quantize_notes){0};
}
