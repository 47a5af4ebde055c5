/* SPDX-License-Identifier: Apache-2.0 */
/* Integer pooling, and mean over neighbouring axes. */
#include <string.h>

#include "kernels/qpool/qpool.h"
#include "ops/lower.h"
#include "ops/pool.h"

enum { GRAIN_BYTES = 1 << 13 };

typedef struct pool_step {
  intact_qpool_plan plan;
  int64_t rows, grain;
  size_t thread_scratch;
} pool_step;

static bool is_max(const intact_node *node) { return strstr(node->op->name, "max_pool") != NULL; }

static bool same_grid(const intact_value *a, const intact_value *b) {
  return a->dtype == b->dtype && a->qparams->scale[0] == b->qparams->scale[0] && intact__zero_of(a) == intact__zero_of(b);
}

const char *intact__check_pool(const intact_node *node) {
  const char *why = intact__check_int8(node, 0);
  if (why != NULL) return why;
  if (node->n_results > 1 && (node->results[1]->n_uses > 0 || node->results[1]->is_output)) return "the indices are read";
  if (node->operands[0]->rank != strstr(node->op->name, "pool")[4] - '0' + 2) return "the input has no batch axis";
  if (is_max(node) && !same_grid(node->operands[0], node->results[0])) return "input and output differ in scale or zero point";
  return NULL;
}

typedef struct pool_job {
  const pool_step *step;
  const void *x;
  void *y;
  uint8_t *scratch;
} pool_job;

static void run_rows(void *user, int64_t begin, int64_t end) {
  const pool_job *job = user;
  intact__qpool_run(&job->step->plan, job->x, job->y, job->scratch + (size_t)intact__thread_index() * job->step->thread_scratch,
                    begin, end);
}

static intact_status run_pool(const intact_step_call *call) {
  const pool_step *s = call->step->params;
  pool_job job = {s, call->in[0], call->out[0], call->scratch};
  intact__parallel(call->context, s->rows, s->grain, run_rows, &job);
  return INTACT_OK;
}

static intact_status finish(intact_lower *lower, pool_step *s, bool mean) {
  const intact_value *x = lower->node->operands[0], *y = lower->node->results[0];
  intact_qpool_plan *plan = &s->plan;
  bool signed_x = intact__is_signed(x), signed_y = intact__is_signed(y);
  const intact_qpool_kernel *kernel = intact__qpool_pick(lower->isa_set);
  plan->run = kernel->run;
  plan->params = (intact_qpool_params){.mean = mean,
                                       .flip_x = signed_x ? 0x80 : 0,
                                       .zero_x = intact__zero_of(x) + (signed_x ? 128 : 0),
                                       .max8 = (uint8_t)(y->qparams->quant_max + (signed_y ? 128 : 0))};
  plan->params.round = intact__round8(signed_y, intact__zero_of(y), (int32_t)y->qparams->quant_min, (int32_t)y->qparams->quant_max);
  plan->scale_x = x->qparams->scale[0], plan->scale_y = y->qparams->scale[0];
  plan->most_taps = 1;
  for (int a = 0; a < 3; a++) {
    int64_t most = 1;
    for (int64_t o = 0; o < plan->axis[a].out; o++)
      if (plan->axis[a].windows[o].count > most) most = plan->axis[a].windows[o].count;
    plan->most_taps *= most;
  }
  s->rows = plan->batch * plan->axis[0].out * plan->axis[1].out;
  s->grain = GRAIN_BYTES / (plan->axis[2].out * plan->channels + 1) + 1;
  s->thread_scratch = ((size_t)plan->most_taps * sizeof(int64_t) + 63) / 64 * 64;
  lower->step->scratch_bytes = s->thread_scratch * (size_t)intact_context_threads(lower->context);
  lower->step->kernel = kernel->name;
  lower->step->run = run_pool;
  lower->step->params = s;
  intact__lower_packed(lower);
  return INTACT_OK;
}

intact_status intact__lower_pool(intact_lower *lower) {
  const intact_node *node = lower->node;
  const intact_value *x = node->operands[0], *y = node->results[0];
  pool_step *s;
  INTACT_TRY(INTACT_LOWER_NEW(lower, 1, &s));
  intact_tensor shape_x = {.rank = x->rank}, shape_y = {.rank = y->rank};
  memcpy(shape_x.dims, x->dims, sizeof shape_x.dims);
  memcpy(shape_y.dims, y->dims, sizeof shape_y.dims);
  intact_pool pool;
  intact__pool_geometry(node, &shape_x, &shape_y, &pool);
  const intact_window *w = &pool.window;
  if (lower->channels_last && x->rank == w->n + 2) {
    s->plan.batch = x->dims[0], s->plan.channels = x->dims[1];
  } else { /* logical order: each channel is an image of its own */
    s->plan.batch = pool.planes, s->plan.channels = 1;
  }
  s->plan.divisor = is_max(node) ? 1 : pool.divisor;
  for (int a = 0; a < 3; a++) {
    intact_qpool_window *windows;
    INTACT_TRY(INTACT_LOWER_NEW(lower, w->out[a], &windows));
    intact_conv_axis axis = {w->in[a], w->out[a], w->kernel[a], w->stride[a], w->dilation[a], w->before[a]};
    if (pool.adaptive)
      intact__qpool_adaptive_windows(w->in[a], w->out[a], windows);
    else
      intact__qpool_windows(&axis, w->after[a], pool.include_pad, windows);
    s->plan.axis[a] = (intact_qpool_axis){w->in[a], w->out[a], pool.adaptive ? 1 : w->dilation[a], windows};
  }
  return finish(lower, s, !is_max(node));
}

/* ---- mean ---- */

/* Which logical axes are averaged; false when the attribute has another form. */
static bool mean_axes(const intact_node *node, int rank, bool *is_axis) {
  const intact_attr *dim = intact__attr(node, "dim");
  memset(is_axis, 0, (size_t)INTACT_MAX_RANK);
  bool all = !dim->present || dim->n == 0;
  for (int i = 0; i < rank; i++) is_axis[i] = all;
  for (int i = 0; !all && i < dim->n; i++) {
    int64_t axis = dim->ints[i] < 0 ? dim->ints[i] + rank : dim->ints[i];
    if (axis < 0 || axis >= rank) return false;
    is_axis[axis] = true;
  }
  return true;
}

/* Averaged axes with longer axes between them, in a given order of the axes. */
static bool has_gap(const intact_value *x, const bool *is_axis, bool channels_last) {
  int state = 0; /* 0 before, 1 within, 2 after the averaged axes */
  for (int i = 0; i < x->rank; i++) {
    int axis = channels_last && i > 0 ? (i + 1 < x->rank ? i + 1 : 1) : i;
    if (x->dims[axis] == 1) continue;
    if (is_axis[axis] && state == 2) return true;
    state = is_axis[axis] ? 1 : state == 1 ? 2 : state;
  }
  return false;
}

/* Without the averaged axes, the rest of N, spatial..., C is the order that a result of rank >= 3 must have: axis 1 of the result
   comes last. */
static bool order_fits(const intact_value *x, const intact_value *y, const bool *is_axis) {
  if (x->rank < 3 || y->rank < 3 || y->rank == x->rank) return true;
  int kept[INTACT_MAX_RANK], n = 0, expected = 0;
  for (int i = 0; i < x->rank; i++)
    if (!is_axis[i]) kept[n++] = i;
  for (int i = 0; i < x->rank; i++) {
    int axis = i > 0 ? (i + 1 < x->rank ? i + 1 : 1) : i;
    if (is_axis[axis]) continue;
    int want = expected == 0 ? 0 : expected + 1 < n ? expected + 1 : 1;
    if (kept[want] != axis) return false;
    expected++;
  }
  return true;
}

const char *intact__check_mean(const intact_node *node) {
  const intact_value *x = node->operands[0];
  bool is_axis[INTACT_MAX_RANK];
  const char *why = intact__check_int8(node, 0);
  if (why != NULL) return why;
  for (int i = 1; i < node->n_operands; i++)
    if (node->operands[i] != NULL) return "the axes are an operand";
  if (x->rank < 1 || !mean_axes(node, x->rank, is_axis)) return "the axes are not known";
  if (!order_fits(x, node->results[0], is_axis)) return "the result would lie in another order";
  return has_gap(x, is_axis, x->rank >= 3) ? "the averaged axes are not neighbours with channels last" : NULL;
}

intact_status intact__lower_mean(intact_lower *lower) {
  const intact_node *node = lower->node;
  const intact_value *x = node->operands[0];
  bool is_axis[INTACT_MAX_RANK], last = lower->channels_last && x->rank >= 3;
  pool_step *s;
  INTACT_TRY(INTACT_LOWER_NEW(lower, 1, &s));
  mean_axes(node, x->rank, is_axis);
  int64_t taps = 1;
  s->plan.batch = s->plan.channels = 1;
  for (int i = 0, seen = 0; i < x->rank; i++) {
    int axis = last && i > 0 ? (i + 1 < x->rank ? i + 1 : 1) : i;
    int64_t *count = is_axis[axis] ? &taps : seen ? &s->plan.channels : &s->plan.batch;
    seen = seen || (is_axis[axis] && x->dims[axis] > 1);
    *count *= x->dims[axis];
  }
  for (int a = 0; a < 3; a++) {
    intact_qpool_window *window;
    INTACT_TRY(INTACT_LOWER_NEW(lower, 1, &window));
    int64_t n = a == 0 ? taps : 1;
    *window = (intact_qpool_window){0, n, n};
    s->plan.axis[a] = (intact_qpool_axis){n, 1, 1, window};
  }
  return finish(lower, s, true);
}
