/* SPDX-License-Identifier: Apache-2.0 */
/* Integer add, sub, mul, maximum and minimum with broadcasting. */
#include <string.h>

#include "kernels/qbinary/qbinary.h"
#include "ops/lower.h"

enum { MAX_AXES = INTACT_MAX_RANK + 2, GRAIN = 1 << 13 };

/* Axes in physical order, joined where they can be: outer ones, then rows, then elements of a row. */
typedef struct binary_step {
  intact_qbinary_fn *run;
  intact_qbinary_params params;
  const void *constant[2]; /* NULL: comes with the call */
  int rank;                /* at least 2 */
  int64_t dims[MAX_AXES], a_strides[MAX_AXES], b_strides[MAX_AXES], y_strides[MAX_AXES];
  int64_t outer; /* product of the outer dims */
} binary_step;

static bool find_op(const char *name, intact_qbinary_op *op) {
  static const struct {
    const char *name;
    intact_qbinary_op op;
  } ops[] = {{"add", INTACT_QBINARY_ADD},
             {"sub", INTACT_QBINARY_SUB},
             {"mul", INTACT_QBINARY_MUL},
             {"maximum", INTACT_QBINARY_MAX},
             {"minimum", INTACT_QBINARY_MIN}};
  for (size_t i = 0; i < sizeof ops / sizeof ops[0]; i++)
    if (strcmp(ops[i].name, name) == 0) {
      *op = ops[i].op;
      return true;
    }
  return false;
}

/* Attribute alpha of add and sub, where the schema has it. */
static double alpha_of(const intact_node *node) {
  for (int i = 0; i < node->op->schema.n_attrs; i++)
    if (strcmp(node->op->schema.attrs[i].name, "alpha") == 0) return node->attrs[i].f;
  return 1;
}

const char *intact__check_binary(const intact_node *node) {
  intact_qbinary_op op;
  if (intact__check_unary(node) == NULL) return NULL;
  if (!find_op(node->op->name, &op)) return "no integer kernel for two varying operands";
  if (node->n_operands < 2 || node->operands[0] == NULL || node->operands[1] == NULL) return "an operand is left out";
  if (alpha_of(node) != 1) return "alpha is not 1";
  const char *why = intact__check_int8(node, 0);
  return why != NULL ? why : intact__check_int8(node, 1);
}

typedef struct binary_job {
  const binary_step *step;
  const uint8_t *a, *b;
  uint8_t *y;
} binary_job;

/* Outer positions begin..end. */
static void run_outer(void *user, int64_t begin, int64_t end) {
  const binary_job *job = user;
  const binary_step *s = job->step;
  int r = s->rank - 2, e = s->rank - 1;
  for (int64_t at = begin; at < end; at++) {
    int64_t a = 0, b = 0, y = 0, rest = at;
    for (int i = r - 1; i >= 0; i--) {
      int64_t index = rest % s->dims[i];
      rest /= s->dims[i];
      a += index * s->a_strides[i], b += index * s->b_strides[i], y += index * s->y_strides[i];
    }
    intact_qbinary_block block = {s->dims[r],      s->dims[e],      job->a + a,      job->b + b,             job->y + y,
                                  s->a_strides[r], s->b_strides[r], s->y_strides[r], (int)s->a_strides[e], (int)s->b_strides[e]};
    s->run(&s->params, &block);
  }
}

/* One outer position, or none: pieces of the rows. */
static void run_rows(void *user, int64_t begin, int64_t end) {
  const binary_job *job = user;
  const binary_step *s = job->step;
  int r = s->rank - 2, e = s->rank - 1;
  intact_qbinary_block block = {end - begin,
                                s->dims[e],
                                job->a + begin * s->a_strides[r],
                                job->b + begin * s->b_strides[r],
                                job->y + begin * s->y_strides[r],
                                s->a_strides[r],
                                s->b_strides[r],
                                s->y_strides[r],
                                (int)s->a_strides[e],
                                (int)s->b_strides[e]};
  s->run(&s->params, &block);
}

/* One row: pieces of its elements. */
static void run_elements(void *user, int64_t begin, int64_t end) {
  const binary_job *job = user;
  const binary_step *s = job->step;
  int e = s->rank - 1;
  intact_qbinary_block block = {1,
                                end - begin,
                                job->a + begin * s->a_strides[e],
                                job->b + begin * s->b_strides[e],
                                job->y + begin * s->y_strides[e],
                                0,
                                0,
                                0,
                                (int)s->a_strides[e],
                                (int)s->b_strides[e]};
  s->run(&s->params, &block);
}

static intact_status run_binary(const intact_step_call *call) {
  const binary_step *s = call->step->params;
  binary_job job = {s, s->constant[0] != NULL ? s->constant[0] : call->in[0], s->constant[1] != NULL ? s->constant[1] : call->in[1],
                    call->out[0]};
  int64_t row = s->dims[s->rank - 1], block = row * s->dims[s->rank - 2];
  if (block == 0 || s->outer == 0) return INTACT_OK;
  if (s->outer > 1) {
    intact__parallel(call->context, s->outer, GRAIN / block + 1, run_outer, &job);
  } else if (s->dims[s->rank - 2] > 1) {
    intact__parallel(call->context, s->dims[s->rank - 2], GRAIN / row + 1, run_rows, &job);
  } else {
    intact__parallel(call->context, row, GRAIN, run_elements, &job);
  }
  return INTACT_OK;
}

/* Strides of an operand along the logical axes of the result; 0 where it is repeated. */
static void broadcast_strides(const intact_lower *lower, const intact_value *value, int64_t *strides) {
  int64_t own[INTACT_MAX_RANK];
  int rank = lower->node->results[0]->rank;
  intact__lower_strides(lower, value, own);
  for (int i = 0; i < rank; i++) {
    int at = i - (rank - value->rank);
    strides[i] = at >= 0 && value->dims[at] != 1 ? own[at] : 0;
  }
}

static void add_axis(binary_step *s, int64_t dim, int64_t a, int64_t b, int64_t y) {
  int n = s->rank;
  if (dim == 1) return;
  if (n > 0 && s->a_strides[n - 1] == a * dim && s->b_strides[n - 1] == b * dim && s->y_strides[n - 1] == y * dim) {
    s->dims[n - 1] *= dim;
  } else {
    n = s->rank++;
    s->dims[n] = dim;
  }
  n = s->rank - 1;
  s->a_strides[n] = a, s->b_strides[n] = b, s->y_strides[n] = y;
}

static void push_axis(binary_step *s, bool front) {
  int at = front ? 0 : s->rank;
  for (int i = s->rank; front && i > 0; i--) {
    s->dims[i] = s->dims[i - 1];
    s->a_strides[i] = s->a_strides[i - 1], s->b_strides[i] = s->b_strides[i - 1], s->y_strides[i] = s->y_strides[i - 1];
  }
  s->dims[at] = 1;
  s->a_strides[at] = s->b_strides[at] = s->y_strides[at] = 0;
  s->rank++;
}

/* A constant of lower rank is copied as if it had the result's rank, so that its channels come last too. */
static intact_status place_constants(const intact_lower *lower, binary_step *s, int64_t (*strides)[INTACT_MAX_RANK]) {
  int rank = lower->node->results[0]->rank;
  for (int i = 0; i < 2; i++) {
    intact_value value = *lower->node->operands[i];
    if (value.constant == NULL) continue;
    int missing = rank - value.rank;
    for (int k = rank - 1; k >= 0; k--) value.dims[k] = k >= missing ? value.dims[k - missing] : 1;
    value.rank = rank;
    intact_tensor *full = NULL;
    INTACT_TRY(intact_tensor_share(value.constant, rank, value.dims, &full));
    value.constant = full;
    intact_value *operands[2] = {&value, &value};
    intact_node node = *lower->node;
    node.operands = operands, node.n_operands = 2;
    intact_lower inner = *lower;
    inner.node = &node;
    intact_status status = intact__lower_constant(&inner, i, &s->constant[i]);
    broadcast_strides(&inner, &value, strides[i]);
    intact_tensor_destroy(full);
    INTACT_TRY(status);
  }
  return INTACT_OK;
}

static intact_qbinary_params make_params(const intact_node *node) {
  const intact_value *a = node->operands[0], *b = node->operands[1], *y = node->results[0];
  bool signed_a = intact__is_signed(a), signed_b = intact__is_signed(b);
  intact_qbinary_params p = {.flip_a = signed_a ? 0x80 : 0,
                             .flip_b = signed_b ? 0x80 : 0,
                             .zero_a = intact__zero_of(a) + (signed_a ? 128 : 0),
                             .zero_b = intact__zero_of(b) + (signed_b ? 128 : 0),
                             .scale_a = a->qparams->scale[0],
                             .scale_b = b->qparams->scale[0],
                             .scale_y = y->qparams->scale[0],
                             .inverse_y = 1.0f / y->qparams->scale[0],
                             .divide = node->divides};
  find_op(node->op->name, &p.op);
  p.round = intact__round8(intact__is_signed(y), intact__zero_of(y), (int32_t)y->qparams->quant_min, (int32_t)y->qparams->quant_max);
  return p;
}

intact_status intact__lower_binary(intact_lower *lower) {
  if (intact__check_unary(lower->node) == NULL) return intact__lower_unary(lower);
  const intact_value *y = lower->node->results[0];
  binary_step *s;
  INTACT_TRY(INTACT_LOWER_NEW(lower, 1, &s));
  int64_t strides[2][INTACT_MAX_RANK], y_strides[INTACT_MAX_RANK];
  for (int i = 0; i < 2; i++) broadcast_strides(lower, lower->node->operands[i], strides[i]);
  INTACT_TRY(place_constants(lower, s, strides));
  intact__lower_strides(lower, y, y_strides);
  for (int i = 0; i < y->rank; i++) { /* physical order: the channel axis comes after the others */
    int axis = i;
    if (lower->channels_last && y->rank >= 3 && i > 0) axis = i + 1 < y->rank ? i + 1 : 1;
    add_axis(s, y->dims[axis], strides[0][axis], strides[1][axis], y_strides[axis]);
  }
  int last = s->rank - 1;
  bool stepped = last >= 0 && (s->a_strides[last] > 1 || s->b_strides[last] > 1);
  if (s->rank == 0 || stepped) push_axis(s, false);
  while (s->rank < 2) push_axis(s, true);
  s->outer = 1;
  for (int i = 0; i < s->rank - 2; i++) s->outer *= s->dims[i];
  const intact_qbinary_kernel *kernel = intact__qbinary_pick(lower->isa_set);
  s->run = kernel->run;
  s->params = make_params(lower->node);
  lower->step->kernel = kernel->name;
  lower->step->run = run_binary;
  lower->step->params = s;
  intact__lower_packed(lower);
  lower->step->can_run_in_place = s->constant[0] == NULL && intact__value_count(lower->node->operands[0]) == intact__value_count(y);
  return INTACT_OK;
}
