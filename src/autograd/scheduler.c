/* SPDX-License-Identifier: Apache-2.0 */
/* Schedules over an optimizer's groups. */
#include "autograd/scheduler.h"

#include <math.h>
#include <stdio.h>
#include <string.h>
#include <strings.h>

#include "autograd/option_list.h"
#include "autograd/optimizer.h"
#include "tensor/tensor.h"

enum { MAX_CHILDREN = 8 };

struct intact_scheduler {
  intact_context *context;
  intact_optimizer *optimizer;
  const intact_scheduler_row *row;
  intact_scheduler_options options;
  intact_scheduler_child children[MAX_CHILDREN];
  intact_scheduler_options child_options[MAX_CHILDREN];
  int64_t step;
  double best; /* ReduceLROnPlateau */
  int64_t bad, cooling;
  int n_groups;
  double start[]; /* n_groups */
};

const intact_scheduler_row *const intact__schedulers[] = {
#define INTACT_SCHEDULER(name) &intact__scheduler_##name,
#include "autograd/schedulers.def"
#undef INTACT_SCHEDULER
};
const int intact__n_schedulers = sizeof intact__schedulers / sizeof *intact__schedulers;

const intact_scheduler_row *intact__find_scheduler(const char *name) {
  for (int i = 0; i < intact__n_schedulers; i++) {
    if (strcasecmp(intact__schedulers[i]->name, name) == 0) return intact__schedulers[i];
  }
  return NULL;
}

static intact_status find_row(intact_context *context, const char *name, const intact_scheduler_row **row) {
  *row = intact__find_scheduler(name);
  if (*row) return INTACT_OK;
  char names[300] = "";
  for (int i = 0; i < intact__n_schedulers; i++) {
    snprintf(names + strlen(names), sizeof names - strlen(names), " %s", intact__schedulers[i]->name);
  }
  INTACT_FAIL(context, WRONG_USE, "", "there is no schedule '%s'; there are:%s", name, names);
}

/* ---- options from text ---- */
typedef enum field_kind { NUMBER, INTEGER, FLAG, TEXT, WORD } field_kind;
static const struct field {
  const char *name;
  size_t offset;
  field_kind kind;
  const char *yes, *no; /* WORD: a flag with two names */
} fields[] = {
#define FIELD(field, kind) {#field, offsetof(intact_scheduler_options, field), kind, NULL, NULL}
    FIELD(gamma, NUMBER),          FIELD(step_size, INTEGER),     FIELD(eta_min, NUMBER),       FIELD(start_factor, NUMBER),
    FIELD(end_factor, NUMBER),     FIELD(factor, NUMBER),         FIELD(total_iters, INTEGER),  FIELD(power, NUMBER),
    FIELD(max_lr, NUMBER),         FIELD(pct_start, NUMBER),      FIELD(div_factor, NUMBER),    FIELD(final_div_factor, NUMBER),
    FIELD(total_steps, INTEGER),   FIELD(three_phase, FLAG),      FIELD(cycle_momentum, FLAG),  FIELD(base_momentum, NUMBER),
    FIELD(max_momentum, NUMBER),   FIELD(base_lr, NUMBER),        FIELD(step_size_up, INTEGER), FIELD(step_size_down, INTEGER),
    FIELD(mode, TEXT),             FIELD(threshold, NUMBER),      FIELD(min_lr, NUMBER),        FIELD(eps, NUMBER),
    FIELD(patience, INTEGER),      FIELD(cooldown, INTEGER),
    {"T_max", offsetof(intact_scheduler_options, t_max), INTEGER, NULL, NULL},
    {"T_0", offsetof(intact_scheduler_options, t_0), INTEGER, NULL, NULL},
    {"T_mult", offsetof(intact_scheduler_options, t_mult), INTEGER, NULL, NULL},
    {"anneal_strategy", offsetof(intact_scheduler_options, linear), WORD, "linear", "cos"},
    {"threshold_mode", offsetof(intact_scheduler_options, absolute), WORD, "abs", "rel"},
#undef FIELD
};

/* "3;7" or "[3, 7]" */
static bool parse_milestones(const char *text, intact_scheduler_options *options) {
  char item[24];
  intact_scheduler_options read = *options;
  read.n_milestones = 0;
  for (const char *at = text + strspn(text, "[; ,"); *at; at += strspn(at, "]; ,")) {
    const size_t length = strcspn(at, "]; ,");
    if (length >= sizeof item || read.n_milestones == (int)(sizeof read.milestones / sizeof *read.milestones)) return false;
    memcpy(item, at, length);
    item[length] = 0;
    if (!intact__parse_int(item, &read.milestones[read.n_milestones++])) return false;
    at += length;
  }
  *options = read;
  return true;
}

static bool parse_field(const struct field *field, const char *value, intact_scheduler_options *options) {
  void *target = (char *)options + field->offset;
  switch (field->kind) {
    case NUMBER:
      return intact__parse_double(value, target);
    case INTEGER:
      return intact__parse_int(value, target);
    case TEXT:
      *(const char **)target = value;
      return true;
    default:
      break;
  }
  const char *yes = field->kind == WORD ? field->yes : "true", *no = field->kind == WORD ? field->no : "false";
  const bool is_yes = strcmp(value, yes) == 0 || (field->kind == FLAG && (!*value || strcmp(value, "1") == 0));
  if (!is_yes && strcmp(value, no) != 0 && strcmp(value, "0") != 0) return false;
  *(bool *)target = is_yes;
  return true;
}

intact_status intact_scheduler_set_option(intact_context *context, intact_scheduler_options *options, const char *name,
                                          const char *value) {
  bool known = strcmp(name, "milestones") == 0, taken = known && parse_milestones(value, options);
  char names[600] = " milestones";
  for (size_t i = 0; i < sizeof fields / sizeof *fields && !known; i++) {
    snprintf(names + strlen(names), sizeof names - strlen(names), " %s", fields[i].name);
    known = strcmp(fields[i].name, name) == 0;
    if (known) taken = parse_field(&fields[i], value, options);
  }
  if (!known) INTACT_FAIL(context, WRONG_USE, "", "schedules have no option '%s'; there are:%s", name, names);
  if (!taken) INTACT_FAIL(context, WRONG_USE, "", "schedule option %s: '%s' is no value for it", name, value);
  return INTACT_OK;
}

int64_t intact__scheduler_step_count(const intact_scheduler *s) { return s->step; }

void intact__scheduler_text(const intact_scheduler *s, intact_text *text) {
  intact__text_add(text, "schedule = %s\n", s->row->name);
  for (size_t i = 0; i < sizeof fields / sizeof *fields; i++) {
    const void *at = (const char *)&s->options + fields[i].offset;
    if (!intact__option_listed(s->row->options, fields[i].name)) continue;
    intact__text_add(text, "%s = ", fields[i].name);
    if (fields[i].kind == NUMBER) intact__text_add_double(text, *(const double *)at);
    else if (fields[i].kind == INTEGER) intact__text_add(text, "%lld", (long long)*(const int64_t *)at);
    else if (fields[i].kind == TEXT) intact__text_add(text, "%s", *(const char *const *)at ? *(const char *const *)at : "");
    else intact__text_add(text, "%d", *(const bool *)at);
    intact__text_add(text, "\n");
  }
  for (int i = 0; i < s->options.n_milestones; i++) intact__text_add(text, "milestone = %lld\n", (long long)s->options.milestones[i]);
}

bool intact_scheduler_has_option(const char *name, const char *option) {
  const intact_scheduler_row *row = intact__find_scheduler(name);
  return row && intact__option_listed(row->options, option);
}

static intact_status set_option(intact_context *context, void *options, const char *name, const char *value) {
  if (strcmp(name, "mode") == 0) { /* text that is kept: not the list's copy */
    static const char *const modes[] = {"min", "max", "triangular", "triangular2", "exp_range"};
    for (size_t i = 0; i < sizeof modes / sizeof *modes; i++) {
      if (strcmp(modes[i], value) == 0) value = modes[i];
    }
  }
  return intact_scheduler_set_option(context, options, name, value);
}

intact_status intact_scheduler_default_options(intact_context *context, const char *name, intact_scheduler_options *options) {
  const intact_scheduler_row *row;
  intact_scheduler_options read = {0};
  INTACT_TRY(find_row(context, name, &row));
  INTACT_TRY(intact__each_option(context, row->options, set_option, &read));
  *options = read;
  return INTACT_OK;
}

/* ---- stepping ---- */
/* The rates of s->step; checked before anything changes. */
static intact_status apply(intact_scheduler *s) {
  for (int g = 0; g < s->n_groups; g++) {
    const intact_schedule_point point = s->row->at(&s->options, s->start[g], s->step);
    if (!(point.lr >= 0) || isinf(point.lr)) {
      INTACT_FAIL(s->context, OUT_OF_RANGE, "", "%s: the learning rate of step %lld is %g (it began as %g); rates are finite and not below 0: "
                  "change the schedule's options",
                  s->row->name, (long long)s->step, isnan(point.lr) ? fabs(point.lr) : point.lr, s->start[g]);
    }
  }
  for (int g = 0; g < s->n_groups; g++) {
    const intact_schedule_point point = s->row->at(&s->options, s->start[g], s->step);
    double *momentum = intact__optimizer_momentum(s->optimizer, g);
    intact_optimizer_group_options(s->optimizer, g)->lr = point.lr;
    if (momentum && !isnan(point.momentum)) *momentum = point.momentum;
  }
  return INTACT_OK;
}

/* The first option that is no finite number; NULL: none. */
static const char *not_finite(const intact_scheduler_options *options) {
  for (size_t i = 0; i < sizeof fields / sizeof *fields; i++) {
    const void *at = (const char *)options + fields[i].offset;
    if (fields[i].kind == NUMBER && !isfinite(*(const double *)at)) return fields[i].name;
  }
  return NULL;
}

static intact_status check(intact_optimizer *optimizer, const intact_scheduler_row *row, const intact_scheduler_options *options) {
  intact_context *context = intact__optimizer_context(optimizer);
  const char *wrong = options->n_children > MAX_CHILDREN ? "at most 8 children" : row->check ? row->check(options) : NULL;
  if (wrong) INTACT_FAIL(context, OUT_OF_RANGE, "", "%s: %s", row->name, wrong);
  if (not_finite(options)) INTACT_FAIL(context, OUT_OF_RANGE, "", "%s: %s is infinite or NaN; give a number", row->name, not_finite(options));
  if (intact_optimizer_group_count(optimizer) == 0) {
    INTACT_FAIL(context, WRONG_USE, "", "%s: the optimizer has no parameters yet; add its groups first", row->name);
  }
  if (options->cycle_momentum && !intact__optimizer_momentum(optimizer, 0)) {
    INTACT_FAIL(context, WRONG_USE, "", "%s: the optimizer has no momentum to move; set cycle_momentum to false", row->name);
  }
  return INTACT_OK;
}

intact_status intact_scheduler_create(intact_optimizer *optimizer, const char *name, const intact_scheduler_options *options,
                                      intact_scheduler **scheduler) {
  intact_context *context = intact__optimizer_context(optimizer);
  const intact_scheduler_row *row;
  INTACT_TRY(find_row(context, name, &row));
  intact_scheduler_options defaults;
  INTACT_TRY(intact_scheduler_default_options(context, name, &defaults));
  if (!options) options = &defaults;
  INTACT_TRY(check(optimizer, row, options));
  const int n = intact_optimizer_group_count(optimizer);
  const size_t bytes = sizeof(intact_scheduler) + (size_t)n * sizeof(double);
  intact_scheduler *s = intact__alloc_zeroed(context, 1, bytes);
  if (!s) return intact__no_memory(context, bytes);
  s->context = context;
  s->optimizer = optimizer;
  s->row = row;
  s->options = *options;
  const int n_children = row == &intact__scheduler_sequential ? options->n_children : 0;
  for (int i = 0; i < n_children; i++) {
    s->child_options[i] = *options->children[i].options;
    s->children[i] = (intact_scheduler_child){intact__find_scheduler(options->children[i].name)->name, &s->child_options[i]};
  }
  s->options.children = s->children;
  s->n_groups = n;
  for (int g = 0; g < n; g++) s->start[g] = intact_optimizer_group_options(optimizer, g)->lr;
  s->best = options->mode && strcmp(options->mode, "max") == 0 ? -INFINITY : INFINITY;
  const intact_status status = row->at ? apply(s) : INTACT_OK;
  if (status != INTACT_OK) {
    intact__free(context, s);
    return status;
  }
  *scheduler = s;
  return INTACT_OK;
}

void intact_scheduler_destroy(intact_scheduler *scheduler) {
  if (scheduler) intact__free(scheduler->context, scheduler);
}

static bool is_better(const intact_scheduler *s, double metric) {
  const double t = s->options.threshold;
  if (strcmp(s->options.mode, "min") == 0) return metric < (s->options.absolute ? s->best - t : s->best * (1 - t));
  return metric > (s->options.absolute ? s->best + t : s->best * (1 + t));
}

/* Lowers the rates after more than `patience` metrics in a row that are not better. */
static void step_plateau(intact_scheduler *s, double metric) {
  if (is_better(s, metric)) {
    s->best = metric;
    s->bad = 0;
  } else {
    s->bad++;
  }
  if (s->cooling > 0) {
    s->cooling--;
    s->bad = 0;
  }
  if (s->bad <= s->options.patience) return;
  for (int g = 0; g < s->n_groups; g++) {
    double *lr = &intact_optimizer_group_options(s->optimizer, g)->lr;
    const double lower = fmax(*lr * s->options.factor, s->options.min_lr);
    if (*lr - lower > s->options.eps) *lr = lower;
  }
  s->cooling = s->options.cooldown;
  s->bad = 0;
}

intact_status intact_scheduler_step(intact_scheduler *s, double metric) {
  if (s->row == &intact__scheduler_one_cycle && s->step + 1 >= s->options.total_steps) {
    INTACT_FAIL(s->context, WRONG_USE, "", "OneCycleLR: step %lld of %lld; give total_steps as many as there are",
                (long long)s->step + 2, (long long)s->options.total_steps);
  }
  s->step++;
  if (s->row->at) {
    const intact_status status = apply(s);
    if (status != INTACT_OK) s->step--;
    return status;
  }
  step_plateau(s, metric);
  return INTACT_OK;
}

/* ---- state in and out: step, best, bad, cooling, then the start values ---- */
enum { SAVED = 4 };

intact_status intact_scheduler_save(const intact_scheduler *s, const char *prefix, intact_tensor_set *set) {
  char name[300];
  intact_tensor *tensor;
  const int64_t n = SAVED + s->n_groups;
  INTACT_TRY(intact_tensor_create(s->context, INTACT_F64, 1, &n, &tensor));
  double *out = intact_tensor_mutable_data(tensor);
  out[0] = (double)s->step;
  out[1] = s->best;
  out[2] = (double)s->bad;
  out[3] = (double)s->cooling;
  for (int g = 0; g < s->n_groups; g++) out[SAVED + g] = s->start[g];
  snprintf(name, sizeof name, "%sschedule", prefix);
  return intact_tensor_set_add(set, name, tensor);
}

intact_status intact_scheduler_load(intact_scheduler *s, const char *prefix, const intact_tensor_set *set) {
  char name[300];
  snprintf(name, sizeof name, "%sschedule", prefix);
  const intact_tensor *tensor = intact_tensor_set_find(set, name);
  if (!tensor || tensor->dtype != INTACT_F64 || tensor->count != SAVED + s->n_groups) {
    INTACT_FAIL(s->context, MISSING_ENTRY, name, "state of %s: tensor '%s' is not there or belongs to another number of groups",
                s->row->name, name);
  }
  const double *in = intact_tensor_data(tensor);
  const double most = 9007199254740992.0; /* whole numbers up to here are exact */
  bool good = true;
  for (int i = 0; i < SAVED; i++) good = good && (i == 1 ? !isnan(in[i]) : in[i] >= 0 && in[i] < most && in[i] == floor(in[i]));
  for (int g = 0; g < s->n_groups; g++) good = good && isfinite(in[SAVED + g]);
  if (!good) INTACT_FAIL(s->context, INVALID_VALUE, name, "state of %s: tensor '%s' holds what no schedule says; the file is damaged", s->row->name, name);
  s->step = (int64_t)in[0];
  s->best = in[1];
  s->bad = (int64_t)in[2];
  s->cooling = (int64_t)in[3];
  for (int g = 0; g < s->n_groups; g++) s->start[g] = in[SAVED + g];
  return s->row->at ? apply(s) : INTACT_OK;
}
