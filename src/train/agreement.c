/* SPDX-License-Identifier: Apache-2.0 */
/* Whether all replicas train the same: at the start by their options, later by their networks, bit for bit. By construction they do, unless
   processes were started with other options, read other files, or are other builds. */
#include <stdio.h>
#include <string.h>
#include <zlib.h>

#include "base/comm.h"
#include "train/trainer.h"

static uint32_t digest(const intact_tensor *tensor) { return (uint32_t)crc32_z(0, tensor->data, intact_tensor_bytes(tensor)); }

/* sums: [ranks][n] after the exchange. */
static intact_status compare(const intact_trainer *t, const intact_tensor_set *set, const uint32_t *sums) {
  const int n = intact_tensor_set_count(set);
  for (int rank = 1; rank < t->ranks; rank++)
    for (int i = 0; i < n; i++)
      if (sums[rank * n + i] != sums[i])
        INTACT_FAIL(t->context, INTERNAL, intact_tensor_set_name(set, i),
                    "step %lld: '%s' of replica %d is not that of replica 0; all processes need the same data, options and build",
                    (long long)t->step, intact_tensor_set_name(set, i), rank);
  return INTACT_OK;
}

static intact_status exchange(const intact_trainer *t, const intact_tensor_set *set) {
  const size_t n = (size_t)intact_tensor_set_count(set);
  uint32_t *mine = intact__alloc(t->context, n * ((size_t)t->ranks + 1) + 1, sizeof *mine);
  if (!mine) return intact__no_memory(t->context, n * (size_t)t->ranks * sizeof *mine);
  uint32_t *all = mine + n;
  for (size_t i = 0; i < n; i++) mine[i] = digest(intact_tensor_set_get(set, (int)i));
  intact_status status = intact__comm_gather(t->context, mine, n * sizeof *mine, all);
  if (status == INTACT_OK) status = compare(t, set, all);
  intact__free(t->context, mine);
  return status;
}

intact_status intact__train_check_agreement(const intact_trainer *t) {
  intact_tensor_set *set;
  if (t->ranks < 2) return INTACT_OK;
  INTACT_TRY(intact_tensor_set_create(t->context, &set));
  intact_status status = intact__checkpoint_network(t, set);
  if (status == INTACT_OK) status = exchange(t, set);
  intact_tensor_set_destroy(set);
  return status;
}

/* ---- options ---- */
enum { LINES = 64, NUMBERS = 6 };

/* What each says before the first exchange whose size depends on options. */
typedef struct account {
  int64_t numbers[NUMBERS];
  uint32_t lines[LINES], rest; /* digests of resume_options.c's lines */
} account;

static void sum_lines(const char *text, account *a) {
  for (int i = 0; i < LINES && *text; i++) {
    const size_t length = strcspn(text, "\n");
    a->lines[i] = (uint32_t)crc32_z(0, (const uint8_t *)text, length);
    text += length + (text[length] == '\n');
  }
  a->rest = (uint32_t)crc32_z(0, (const uint8_t *)text, strlen(text));
}

/* The name in line `index` of "name = value". */
static void name_of_line(const char *text, int index, char *name, size_t size) {
  for (int i = 0; i < index && *text; i++) {
    const size_t length = strcspn(text, "\n");
    text += length + (text[length] == '\n');
  }
  const char *end = strstr(text, " = ");
  if (end) snprintf(name, size, "%.*s", (int)(end - text), text);
}

static intact_status compare_accounts(const intact_trainer *t, const char *text, const account *all) {
  static const char *const names[NUMBERS] = {"seed", "batch", "number of samples", "number of epochs", "checkpoint (epoch)", "checkpoint (step)"};
  for (int rank = 1; rank < t->ranks; rank++) {
    char name[200] = "kind of training";
    const account *a = &all[0], *b = &all[rank];
    if (memcmp(a, b, sizeof *a) == 0) continue;
    int i = 0, line = 0;
    while (i < NUMBERS && a->numbers[i] == b->numbers[i]) i++;
    while (line < LINES && a->lines[line] == b->lines[line]) line++;
    if (i < NUMBERS) snprintf(name, sizeof name, "%s", names[i]);
    else if (line < LINES) name_of_line(text, line, name, sizeof name);
    INTACT_FAIL(t->context, WRONG_USE, "", "replica %d was started with another %s than replica 0; all processes need the same data, options and "
                "build", rank, name);
  }
  return INTACT_OK;
}

intact_status intact__train_check_options_agree(const intact_trainer *t) {
  const intact_train_options *o = t->options;
  char *text;
  if (t->ranks < 2) return INTACT_OK;
  INTACT_TRY(intact__train_settings(t, &text));
  intact_status status = INTACT_NO_MEMORY;
  account mine = {.numbers = {(int64_t)o->seed, o->batch, t->samples, o->epochs, t->epoch, t->step}};
  account *all = intact__alloc(t->context, (size_t)t->ranks, sizeof *all);
  sum_lines(text, &mine);
  if (!all) intact__no_memory(t->context, (size_t)t->ranks * sizeof *all);
  if (all) status = intact__comm_gather(t->context, &mine, sizeof mine, all);
  if (status == INTACT_OK) status = compare_accounts(t, text, all);
  intact__free(t->context, all);
  intact__free(t->context, text);
  return status;
}
