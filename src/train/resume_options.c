/* SPDX-License-Identifier: Apache-2.0 */
/* What decides the bits of a training besides its samples, as lines of text in the checkpoint: to go on means to go on with the same. */
#include <string.h>
#include <zlib.h>

#include "autograd/optimizer.h"
#include "autograd/scheduler.h"
#include "base/text.h"
#include "graph/fake_quantizer.h"
#include "train/trainer.h"

static void add_number(intact_text *text, const char *name, double value) {
  intact__text_add(text, "%s = ", name);
  intact__text_add_double(text, value);
  intact__text_add(text, "\n");
}

static void add_loop(const intact_trainer *t, intact_text *text) {
  const intact_train_options *o = t->options;
  add_number(text, "label smoothing", o->label_smoothing);
  add_number(text, "clipping to a norm", o->clip_norm);
  add_number(text, "shifts of pictures", o->augment_shift);
  add_number(text, "flips of pictures", o->augment_flip);
  add_number(text, "a teacher's weight", t->teacher ? o->distill_weight : 0);
  if (t->teacher) add_number(text, "a teacher's temperature", o->distill_temperature);
  add_number(text, "statistics of batch norms frozen at step", (double)t->qat.freeze_batch_norm_at);
  const size_t bytes = (size_t)t->samples * sizeof(int64_t);
  intact__text_add(text, "labels (checksum) = %08lx\n", (unsigned long)crc32_z(0, t->labels->data, bytes));
}

/* Numbers that differ from node to node have a line each. */
static void add_node(const intact_node *node, intact_text *text) {
  const intact_quant_spec *spec = &node->observation->spec;
  const intact_fake_quantizer *fake = node->observation->fake;
  intact__text_add(text, "%s = %s %lld..%lld %s %s", node->name, intact_dtype_text(spec->dtype), fake ? (long long)fake->low : 0,
                   fake ? (long long)fake->high : 0, intact_qscheme_text(spec->scheme), spec->observer ? spec->observer->name : "fixed");
  intact__text_add(text, " %s, method %d\n", spec->options ? spec->options : "", fake ? (int)fake->kind : -1);
}

static void add_quantization(const intact_trainer *t, intact_text *text) {
  const intact_qat_schedule *q = &t->qat;
  if (t->graph->stage != INTACT_STAGE_OBSERVED) return;
  add_number(text, "fake quantization at step", (double)q->fake_quantize_at);
  add_number(text, "observers frozen at step", (double)q->freeze_observers_at);
  add_number(text, "scales learned at step", (double)q->learn_at);
  add_number(text, "rate of learned scales", t->options->qparams_lr);
  add_number(text, "outputs that stand in", t->options->stand_in != NULL);
  for (const intact_node *node = t->graph->first; node; node = node->next)
    if (node->observation) add_node(node, text);
}

intact_status intact__train_settings(const intact_trainer *t, char **settings) {
  const intact_train_options *o = t->options;
  intact_optimizer_options defaults;
  intact_text text;
  INTACT_TRY(intact_optimizer_default_options(t->context, o->optimizer ? o->optimizer : "AdamW", &defaults));
  intact__text_init(&text, t->context);
  intact__optimizer_options_text(o->optimizer_options ? o->optimizer_options : &defaults, &text);
  if (t->scheduler) add_number(&text, "schedule goes by epochs", o->schedule_by_epoch);
  if (t->scheduler) intact__scheduler_text(t->scheduler, &text);
  if (!t->scheduler) intact__text_add(&text, "schedule = none\n");
  add_loop(t, &text);
  add_quantization(t, &text);
  *settings = intact__text_take(&text);
  intact__text_fini(&text);
  return *settings ? INTACT_OK : intact__no_memory(t->context, 0);
}

/* The lines of the two that differ first; a text that has ended gives "". */
static bool differ(const char **a, const char **b, size_t *a_length, size_t *b_length) {
  for (;;) {
    *a_length = strcspn(*a, "\n");
    *b_length = strcspn(*b, "\n");
    if (*a_length != *b_length || memcmp(*a, *b, *a_length) != 0) return true;
    if (!(*a)[*a_length] || !(*b)[*b_length]) return (*a)[*a_length] != (*b)[*b_length];
    *a += *a_length + 1;
    *b += *b_length + 1;
  }
}

intact_status intact__train_compare_settings(const intact_trainer *t, const char *saved) {
  char *now;
  size_t saved_length, now_length;
  INTACT_TRY(intact__train_settings(t, &now));
  const char *own = now;
  intact_status status = INTACT_OK;
  if (differ(&saved, &own, &saved_length, &now_length)) {
    status = intact__fail(t->context, INTACT_WRONG_USE, t->options->checkpoint, __FILE__, __LINE__,
                          "checkpoint '%s' was made with '%.*s', now it is '%.*s'; resume with the same options, or begin in an empty folder",
                          t->options->checkpoint, (int)saved_length, saved, (int)now_length, own);
  }
  intact__free(t->context, now);
  return status;
}
