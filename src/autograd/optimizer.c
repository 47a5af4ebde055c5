/* SPDX-License-Identifier: Apache-2.0 */
/* Optimizers: groups, checks, the step over all parameters, state in and out. */
#include "autograd/optimizer.h"

#include <math.h>
#include <stdio.h>
#include <string.h>
#include <strings.h>

#include "autograd/option_list.h"
#include "tensor/tensor.h"

typedef struct parameter {
  intact_tensor *tensor; /* the caller's */
  int group;
  int64_t step;
  intact_tensor *state[INTACT_OPTIMIZER_STATES]; /* NULL: not there (yet) */
} parameter;

typedef struct group {
  intact_optimizer_options options;
} group;

struct intact_optimizer {
  intact_context *context;
  const intact_optimizer_row *row;
  intact_optimizer_options defaults;
  group *groups;
  size_t n_groups, group_capacity;
  parameter *parameters;
  size_t n_parameters, parameter_capacity;
};

const intact_optimizer_row *const intact__optimizers[] = {
#define INTACT_OPTIMIZER(name) &intact__optimizer_##name,
#include "autograd/optimizers.def"
#undef INTACT_OPTIMIZER
};
const int intact__n_optimizers = sizeof intact__optimizers / sizeof *intact__optimizers;

const intact_optimizer_row *intact__find_optimizer(const char *name) {
  for (int i = 0; i < intact__n_optimizers; i++) {
    if (strcasecmp(intact__optimizers[i]->name, name) == 0) return intact__optimizers[i];
  }
  return NULL;
}

static intact_status find_row(intact_context *context, const char *name, const intact_optimizer_row **row) {
  *row = intact__find_optimizer(name);
  if (*row) return INTACT_OK;
  char names[200] = "";
  for (int i = 0; i < intact__n_optimizers; i++) {
    snprintf(names + strlen(names), sizeof names - strlen(names), " %s", intact__optimizers[i]->name);
  }
  INTACT_FAIL(context, WRONG_USE, "", "there is no optimizer '%s'; there are:%s", name, names);
}

/* ---- options ---- */
static const struct option {
  const char *name;
  size_t offset;
  bool is_flag;
} known_options[] = {
#define NUMBER(field) {#field, offsetof(intact_optimizer_options, field), false}
#define FLAG(field) {#field, offsetof(intact_optimizer_options, field), true}
    NUMBER(lr),      NUMBER(weight_decay), NUMBER(momentum), NUMBER(dampening), NUMBER(beta1), NUMBER(beta2), NUMBER(eps),
    NUMBER(alpha),   NUMBER(rho),          NUMBER(lr_decay), FLAG(nesterov),    FLAG(amsgrad), FLAG(centered), FLAG(maximize),
    {"initial_accumulator_value", offsetof(intact_optimizer_options, initial_accumulator), false},
#undef NUMBER
#undef FLAG
};

intact_status intact_optimizer_set_option(intact_context *context, intact_optimizer_options *options, const char *name,
                                          const char *value) {
  char names[300] = "";
  for (size_t i = 0; i < sizeof known_options / sizeof *known_options; i++) {
    const struct option *option = &known_options[i];
    snprintf(names + strlen(names), sizeof names - strlen(names), " %s", option->name);
    if (strcmp(option->name, name) != 0) continue;
    double number;
    if (option->is_flag && (strcmp(value, "true") == 0 || strcmp(value, "") == 0)) value = "1";
    if (option->is_flag && strcmp(value, "false") == 0) value = "0";
    if (!intact__parse_double(value, &number) || (option->is_flag && number != 0 && number != 1)) {
      INTACT_FAIL(context, WRONG_USE, "", "optimizer option %s: '%s' is not %s", name, value,
                  option->is_flag ? "true or false" : "a number");
    }
    char *field = (char *)options + option->offset;
    if (option->is_flag) {
      *(bool *)field = number != 0;
    } else {
      *(double *)(void *)field = number;
    }
    return INTACT_OK;
  }
  INTACT_FAIL(context, WRONG_USE, "", "optimizers have no option '%s'; there are:%s", name, names);
}

void intact__optimizer_options_text(const intact_optimizer_options *options, intact_text *text) {
  for (size_t i = 0; i < sizeof known_options / sizeof *known_options; i++) {
    const char *field = (const char *)options + known_options[i].offset;
    intact__text_add(text, "%s = ", known_options[i].name);
    intact__text_add_double(text, known_options[i].is_flag ? *(const bool *)field : *(const double *)(const void *)field);
    intact__text_add(text, "\n");
  }
}

bool intact_optimizer_has_option(const char *name, const char *option) {
  const intact_optimizer_row *row = intact__find_optimizer(name);
  return row && intact__option_listed(row->options, option);
}

static intact_status set_option(intact_context *context, void *options, const char *name, const char *value) {
  return intact_optimizer_set_option(context, options, name, value);
}

intact_status intact_optimizer_default_options(intact_context *context, const char *name, intact_optimizer_options *options) {
  const intact_optimizer_row *row;
  intact_optimizer_options read = {0};
  INTACT_TRY(find_row(context, name, &row));
  INTACT_TRY(intact__each_option(context, row->options, set_option, &read));
  *options = read;
  return INTACT_OK;
}

static intact_status check_between(const intact_optimizer *optimizer, const char *name, double value, double low, double high) {
  if (value >= low && value < high) return INTACT_OK;
  INTACT_FAIL(optimizer->context, OUT_OF_RANGE, "", "%s: %s is %g; it is at least %g and below %g", optimizer->row->name, name,
              value, low, high);
}

static intact_status check_options(const intact_optimizer *optimizer, const intact_optimizer_options *o) {
  if (!(o->lr > 0) || isinf(o->lr)) {
    INTACT_FAIL(optimizer->context, OUT_OF_RANGE, "", "%s: the learning rate is %g; give one above 0, or leave out the parameters "
                "that are to stay", optimizer->row->name, o->lr);
  }
  INTACT_TRY(check_between(optimizer, "weight_decay", o->weight_decay, 0, INFINITY));
  INTACT_TRY(check_between(optimizer, "momentum", o->momentum, 0, INFINITY));
  INTACT_TRY(check_between(optimizer, "beta1", o->beta1, 0, 1));
  INTACT_TRY(check_between(optimizer, "beta2", o->beta2, 0, 1));
  INTACT_TRY(check_between(optimizer, "eps", o->eps, 0, INFINITY));
  INTACT_TRY(check_between(optimizer, "alpha", o->alpha, 0, INFINITY));
  INTACT_TRY(check_between(optimizer, "rho", o->rho, 0, 1));
  INTACT_TRY(check_between(optimizer, "lr_decay", o->lr_decay, 0, INFINITY));
  INTACT_TRY(check_between(optimizer, "initial_accumulator_value", o->initial_accumulator, 0, INFINITY));
  if (o->nesterov && (o->momentum <= 0 || o->dampening != 0)) {
    INTACT_FAIL(optimizer->context, OUT_OF_RANGE, "", "%s: nesterov with momentum %g and dampening %g; it needs a momentum above 0 "
                "and no dampening", optimizer->row->name, o->momentum, o->dampening);
  }
  return INTACT_OK;
}

/* ---- making ---- */
intact_status intact_optimizer_create(intact_context *context, const char *name, const intact_optimizer_options *options,
                                      intact_optimizer **optimizer) {
  const intact_optimizer_row *row;
  INTACT_TRY(find_row(context, name, &row));
  intact_optimizer trial = {.context = context, .row = row};
  INTACT_TRY(intact_optimizer_default_options(context, name, &trial.defaults));
  if (options) trial.defaults = *options;
  INTACT_TRY(check_options(&trial, &trial.defaults));
  intact_optimizer *made = intact__alloc(context, 1, sizeof *made);
  if (!made) return intact__no_memory(context, sizeof *made);
  *made = trial;
  *optimizer = made;
  return INTACT_OK;
}

void intact_optimizer_destroy(intact_optimizer *optimizer) {
  if (!optimizer) return;
  for (size_t i = 0; i < optimizer->n_parameters; i++) {
    for (int k = 0; k < INTACT_OPTIMIZER_STATES; k++) intact_tensor_destroy(optimizer->parameters[i].state[k]);
  }
  intact__free(optimizer->context, optimizer->parameters);
  intact__free(optimizer->context, optimizer->groups);
  intact__free(optimizer->context, optimizer);
}

intact_status intact_optimizer_add_group(intact_optimizer *optimizer, const intact_optimizer_options *options, int n,
                                         intact_tensor *const *parameters) {
  intact_context *context = optimizer->context;
  if (!options) options = &optimizer->defaults;
  INTACT_TRY(check_options(optimizer, options));
  for (int i = 0; i < n; i++) {
    if (parameters[i]->dtype != INTACT_F32) {
      INTACT_FAIL(context, TYPE_MISMATCH, "", "%s: parameter %d has type %s; parameters are f32", optimizer->row->name, i,
                  intact_dtype_text(parameters[i]->dtype));
    }
    bool twice = false;
    for (size_t k = 0; k < optimizer->n_parameters; k++) twice = twice || optimizer->parameters[k].tensor == parameters[i];
    for (int k = 0; k < i; k++) twice = twice || parameters[k] == parameters[i];
    if (twice) INTACT_FAIL(context, DUPLICATE, "", "%s: parameter %d is given twice; give it once", optimizer->row->name, i);
  }
  INTACT_TRY(intact__reserve(context, (void **)&optimizer->groups, &optimizer->group_capacity, optimizer->n_groups + 1,
                             sizeof *optimizer->groups));
  INTACT_TRY(intact__reserve(context, (void **)&optimizer->parameters, &optimizer->parameter_capacity,
                             optimizer->n_parameters + (size_t)n, sizeof *optimizer->parameters));
  optimizer->groups[optimizer->n_groups].options = *options;
  for (int i = 0; i < n; i++) {
    optimizer->parameters[optimizer->n_parameters++] =
        (parameter){.tensor = parameters[i], .group = (int)optimizer->n_groups};
  }
  optimizer->n_groups++;
  return INTACT_OK;
}

int intact_optimizer_group_count(const intact_optimizer *optimizer) { return (int)optimizer->n_groups; }
int intact_optimizer_parameter_count(const intact_optimizer *optimizer) { return (int)optimizer->n_parameters; }
intact_context *intact__optimizer_context(const intact_optimizer *optimizer) { return optimizer->context; }

intact_optimizer_options *intact_optimizer_group_options(intact_optimizer *optimizer, int index) {
  return &optimizer->groups[index].options;
}

double *intact__optimizer_momentum(intact_optimizer *optimizer, int index) {
  intact_optimizer_options *options = intact_optimizer_group_options(optimizer, index);
  if (optimizer->row->momentum == INTACT_MOMENTUM_NONE) return NULL;
  return optimizer->row->momentum == INTACT_MOMENTUM_BETA1 ? &options->beta1 : &options->momentum;
}

/* ---- stepping ---- */
static bool keeps(const intact_optimizer_row *row, const intact_optimizer_options *options, int i) {
  return row->states[i] && (!row->keeps || row->keeps(options, i));
}

static intact_status make_states(const intact_optimizer *optimizer, parameter *p) {
  const intact_optimizer_options *options = &optimizer->groups[p->group].options;
  for (int i = 0; i < INTACT_OPTIMIZER_STATES; i++) {
    if (p->state[i] || !keeps(optimizer->row, options, i)) continue;
    INTACT_TRY(intact_tensor_create(optimizer->context, INTACT_F32, p->tensor->rank, p->tensor->dims, &p->state[i]));
    if (i > 0 || !optimizer->row->starts_at_accumulator) continue;
    float *out = intact_tensor_mutable_data(p->state[i]);
    for (int64_t k = 0; k < p->tensor->count; k++) out[k] = (float)options->initial_accumulator;
  }
  return INTACT_OK;
}

typedef struct piece {
  const intact_optimizer_row *row;
  intact_optimizer_call whole;
} piece;

static void step_piece(void *user, int64_t begin, int64_t end) {
  const piece *job = user;
  intact_optimizer_call call = job->whole;
  call.n = end - begin;
  call.parameter += begin;
  call.gradient += begin;
  for (int i = 0; i < INTACT_OPTIMIZER_STATES; i++) call.state[i] = call.state[i] ? call.state[i] + begin : NULL;
  job->row->step(&call);
}

static void step_parameter(const intact_optimizer *optimizer, parameter *p, const intact_tensor *gradient, bool fresh) {
  const intact_optimizer_options *options = &optimizer->groups[p->group].options;
  piece job = {optimizer->row,
               {.options = options,
                .step = ++p->step,
                .fresh = fresh,
                .parameter = intact_tensor_mutable_data(p->tensor),
                .gradient = intact_tensor_data(gradient)}};
  for (int i = 0; i < INTACT_OPTIMIZER_STATES; i++) {
    if (keeps(optimizer->row, options, i)) job.whole.state[i] = intact_tensor_mutable_data(p->state[i]);
  }
  intact__parallel(optimizer->context, p->tensor->count, 16384, step_piece, &job);
}

intact_status intact_optimizer_step(intact_optimizer *optimizer, const intact_tensor *const *gradients) {
  for (size_t i = 0; i < optimizer->n_parameters; i++) {
    const intact_tensor *g = gradients[i], *p = optimizer->parameters[i].tensor;
    if (!g) continue;
    if (g->dtype != INTACT_F32 || g->count != p->count) {
      INTACT_FAIL(optimizer->context, SIZE_MISMATCH, "", "%s: gradient %d has %lld elements of type %s; the parameter has %lld of "
                  "type f32", optimizer->row->name, (int)i, (long long)g->count, intact_dtype_text(g->dtype), (long long)p->count);
    }
  }
  for (size_t i = 0; i < optimizer->n_parameters; i++) {
    parameter *p = &optimizer->parameters[i];
    if (!gradients[i]) continue;
    const bool fresh = !p->state[0];
    intact_status status = make_states(optimizer, p);
    if (status != INTACT_OK) return status;
    step_parameter(optimizer, p, gradients[i], fresh);
  }
  return INTACT_OK;
}

/* ---- state in and out ---- */
enum { SAVED_OPTIONS = 3 };
static const char *const saved_names[SAVED_OPTIONS] = {"lr", "momentum", "beta1"};
static double *saved_option(intact_optimizer_options *options, int i) {
  return i == 0 ? &options->lr : i == 1 ? &options->momentum : &options->beta1;
}

intact_status intact_optimizer_save(const intact_optimizer *optimizer, const char *prefix, intact_tensor_set *set) {
  char name[300];
  intact_tensor *tensor;
  const int64_t n = (int64_t)optimizer->n_parameters, groups = (int64_t)optimizer->n_groups;
  INTACT_TRY(intact_tensor_create(optimizer->context, INTACT_S64, 1, &n, &tensor));
  for (int64_t i = 0; i < n; i++) ((int64_t *)intact_tensor_mutable_data(tensor))[i] = optimizer->parameters[i].step;
  snprintf(name, sizeof name, "%s%s.step", prefix, optimizer->row->name);
  INTACT_TRY(intact_tensor_set_add(set, name, tensor));
  for (int k = 0; k < SAVED_OPTIONS; k++) {
    INTACT_TRY(intact_tensor_create(optimizer->context, INTACT_F64, 1, &groups, &tensor));
    for (int64_t g = 0; g < groups; g++) {
      ((double *)intact_tensor_mutable_data(tensor))[g] = *saved_option(&optimizer->groups[g].options, k);
    }
    snprintf(name, sizeof name, "%s%s", prefix, saved_names[k]);
    INTACT_TRY(intact_tensor_set_add(set, name, tensor));
  }
  for (int64_t i = 0; i < n; i++) {
    for (int k = 0; k < INTACT_OPTIMIZER_STATES; k++) {
      const intact_tensor *state = optimizer->parameters[i].state[k];
      if (!state) continue;
      INTACT_TRY(intact_tensor_copy(state, &tensor));
      snprintf(name, sizeof name, "%s%s.%lld", prefix, optimizer->row->states[k], (long long)i);
      INTACT_TRY(intact_tensor_set_add(set, name, tensor));
    }
  }
  return INTACT_OK;
}

/* The tensor called prefix + name with so many elements of a type; *found NULL when it is not there and may be left out. */
static intact_status find_saved(const intact_optimizer *optimizer, const intact_tensor_set *set, const char *name,
                                intact_dtype dtype, int64_t count, bool optional, const intact_tensor **found) {
  *found = intact_tensor_set_find(set, name);
  if (!*found && optional) return INTACT_OK;
  if (!*found) {
    INTACT_FAIL(optimizer->context, MISSING_ENTRY, name, "state of %s: there is no tensor '%s'; was it saved by another optimizer?",
                optimizer->row->name, name);
  }
  if ((*found)->dtype != dtype || (*found)->count != count) {
    INTACT_FAIL(optimizer->context, SIZE_MISMATCH, name, "state of %s: '%s' has %lld elements of type %s; %lld of type %s belong "
                "there", optimizer->row->name, name, (long long)(*found)->count, intact_dtype_text((*found)->dtype),
                (long long)count, intact_dtype_text(dtype));
  }
  return INTACT_OK;
}

static intact_status read_states(const intact_optimizer *optimizer, const char *prefix, const intact_tensor_set *set,
                                 intact_tensor **states) {
  char name[300];
  for (size_t i = 0; i < optimizer->n_parameters; i++) {
    const parameter *p = &optimizer->parameters[i];
    for (int k = 0; k < INTACT_OPTIMIZER_STATES && optimizer->row->states[k]; k++) {
      const intact_tensor *saved;
      snprintf(name, sizeof name, "%s%s.%d", prefix, optimizer->row->states[k], (int)i);
      INTACT_TRY(find_saved(optimizer, set, name, INTACT_F32, p->tensor->count, true, &saved));
      if (saved) INTACT_TRY(intact_tensor_copy(saved, &states[i * INTACT_OPTIMIZER_STATES + (size_t)k]));
    }
  }
  return INTACT_OK;
}

/* Numbers that no optimizer has saved. */
static intact_status check_saved(const intact_optimizer *optimizer, const char *where, const intact_tensor *steps,
                                 const intact_tensor *const *saved) {
  bool good = true;
  for (int64_t i = 0; i < steps->count; i++) {
    const int64_t step = ((const int64_t *)intact_tensor_data(steps))[i];
    good = good && step >= 0 && step < INT64_MAX / 2;
  }
  for (int k = 0; k < SAVED_OPTIONS; k++)
    for (int64_t g = 0; g < saved[k]->count; g++) good = good && isfinite(((const double *)intact_tensor_data(saved[k]))[g]);
  if (good) return INTACT_OK;
  INTACT_FAIL(optimizer->context, INVALID_VALUE, where, "state of %s: steps or rates are none that it saves; the file is damaged",
              optimizer->row->name);
}

intact_status intact_optimizer_load(intact_optimizer *optimizer, const char *prefix, const intact_tensor_set *set) {
  char name[300];
  const intact_tensor *steps, *options[SAVED_OPTIONS];
  const size_t n = optimizer->n_parameters;
  snprintf(name, sizeof name, "%s%s.step", prefix, optimizer->row->name);
  INTACT_TRY(find_saved(optimizer, set, name, INTACT_S64, (int64_t)n, false, &steps));
  for (int k = 0; k < SAVED_OPTIONS; k++) {
    snprintf(name, sizeof name, "%s%s", prefix, saved_names[k]);
    INTACT_TRY(find_saved(optimizer, set, name, INTACT_F64, (int64_t)optimizer->n_groups, false, &options[k]));
  }
  INTACT_TRY(check_saved(optimizer, name, steps, options));
  intact_tensor **states = intact__alloc_zeroed(optimizer->context, n * INTACT_OPTIMIZER_STATES + 1, sizeof *states);
  if (!states) return intact__no_memory(optimizer->context, n * INTACT_OPTIMIZER_STATES * sizeof *states);
  intact_status status = read_states(optimizer, prefix, set, states);
  for (size_t i = 0; i < n; i++) {
    parameter *p = &optimizer->parameters[i];
    for (int k = 0; k < INTACT_OPTIMIZER_STATES; k++) {
      intact_tensor **made = &states[i * INTACT_OPTIMIZER_STATES + (size_t)k];
      intact_tensor_destroy(status == INTACT_OK ? p->state[k] : *made);
      if (status == INTACT_OK) p->state[k] = *made;
    }
    if (status == INTACT_OK) p->step = ((const int64_t *)intact_tensor_data(steps))[i];
  }
  for (size_t g = 0; status == INTACT_OK && g < optimizer->n_groups; g++) {
    for (int k = 0; k < SAVED_OPTIONS; k++) {
      *saved_option(&optimizer->groups[g].options, k) = ((const double *)intact_tensor_data(options[k]))[g];
    }
  }
  intact__free(optimizer->context, states);
  return status;
}
