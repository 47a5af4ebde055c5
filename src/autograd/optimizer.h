/* SPDX-License-Identifier: Apache-2.0 */
/* Rows of the optimizer table. */
#ifndef INTACT_AUTOGRAD_OPTIMIZER_H
#define INTACT_AUTOGRAD_OPTIMIZER_H

#include "base/text.h"
#include "intact/optim.h"

enum { INTACT_OPTIMIZER_STATES = 3 };

/* One step of a piece of one parameter. */
typedef struct intact_optimizer_call {
  const intact_optimizer_options *options;
  int64_t step; /* of this parameter, the first is 1 */
  bool fresh;   /* state 0 was made for this step */
  int64_t n;
  float *parameter;
  const float *gradient;
  float *state[INTACT_OPTIMIZER_STATES];
} intact_optimizer_call;

/* What schedules that move the momentum move. */
typedef enum intact_momentum_kind { INTACT_MOMENTUM_NONE, INTACT_MOMENTUM_MOMENTUM, INTACT_MOMENTUM_BETA1 } intact_momentum_kind;

typedef struct intact_optimizer_row {
  const char *name, *doc;
  const char *options; /* "name=default,...": what it takes */
  const char *states[INTACT_OPTIMIZER_STATES]; /* NULL: no more */
  /* Whether state i is kept with these options; NULL: always. */
  bool (*keeps)(const intact_optimizer_options *options, int i);
  bool starts_at_accumulator; /* state 0 starts at initial_accumulator, not 0 */
  intact_momentum_kind momentum;
  void (*step)(const intact_optimizer_call *call);
} intact_optimizer_row;

#define INTACT_OPTIMIZER(name) extern const intact_optimizer_row intact__optimizer_##name;
#include "autograd/optimizers.def"
#undef INTACT_OPTIMIZER

extern const intact_optimizer_row *const intact__optimizers[];
extern const int intact__n_optimizers;
const intact_optimizer_row *intact__find_optimizer(const char *name); /* any case; NULL: none */
/* What a schedule moves in group `group`; NULL when the optimizer has no momentum. */
double *intact__optimizer_momentum(intact_optimizer *optimizer, int group);
/* A line "name = value" for each option. */
void intact__optimizer_options_text(const intact_optimizer_options *options, intact_text *text);
intact_context *intact__optimizer_context(const intact_optimizer *optimizer);

#endif
