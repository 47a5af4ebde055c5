/* SPDX-License-Identifier: Apache-2.0 */
/* Random integer networks: every value that the program computes, against the definition of its node on the very operands that
   the program had. So wrong layouts, lifetimes and aliases show at the node where they happen. */
#include "run/net.h"

#include "run/program.h"

enum { MOST_VALUES = 64, MOST_SEEN = 256 };

static intact_context *context;

typedef struct pool {
  net n;
  intact_value *values[MOST_VALUES]; /* quantized values that may be read */
  int count;
} pool;

static uint32_t pick(pool *p, uint32_t limit) { return test_random(&p->n.random) % limit; }

static float some_scale(pool *p) { return test_uniform(&p->n.random, 0.02f, 0.08f) * (pick(p, 4) == 0 ? -1.0f : 1.0f); }
static int32_t some_zero(pool *p, float scale) { return scale < 0 ? (int32_t)pick(p, 60) - 30 : (int32_t)pick(p, 160) + 40; }

/* A value of that rank made so far, the first ones less often; NULL: none. */
static intact_value *some_value(pool *p, int rank) {
  for (int tries = 0; tries < 20; tries++) {
    intact_value *value = p->values[p->count > 6 && pick(p, 3) ? (uint32_t)p->count - 1 - pick(p, 6) : pick(p, (uint32_t)p->count)];
    if (rank == 0 || value->rank == rank) return value;
  }
  return NULL;
}

static intact_value *same_shape(pool *p, const intact_value *as) {
  for (int i = p->count - 1; i >= 0; i--) {
    intact_value *value = p->values[i];
    if (value != as && intact__shape_equal(value->rank, value->dims, as->rank, as->dims) && pick(p, 2)) return value;
  }
  return NULL;
}

/* A node whose result has the operand's qparams. */
static intact_node *moves(pool *p, const intact_op *op, intact_value *x) {
  intact_node *node = net_node(&p->n, op, 1, &x, 0, 0);
  assert_ok(context, intact__value_set_qparams(p->n.graph, node->results[0], x->qparams));
  return node;
}

static intact_value *add_conv(pool *p, intact_value *x, float scale) {
  const int64_t c = x->dims[1], k = pick(p, 2) ? 3 : 1, groups = pick(p, 3) == 0 ? c : 1;
  const int64_t out = groups > 1 ? c : 1 + pick(p, 20);
  return net_conv(&p->n, x, out, k, 1 + pick(p, 2), groups, scale, some_zero(p, scale));
}

static intact_value *add_image_node(pool *p, intact_value *x, float scale) {
  net *n = &p->n;
  intact_value *other;
  intact_node *node;
  switch (pick(p, 9)) {
    case 0:
    case 1:
    case 2:
      return add_conv(p, x, scale);
    case 3:
      if (x->dims[2] < 2 || x->dims[3] < 2) return NULL;
      return net_max_pool(n, x);
    case 4:
      other = same_shape(p, x);
      return other == NULL ? NULL : net_binary(n, pick(p, 2) ? &intact_op_add : &intact_op_mul, x, other, scale, some_zero(p, scale));
    case 5:
      other = same_shape(p, x);
      if (other == NULL) return NULL;
      node = net_node(n, &intact_op_cat, 2, (intact_value *[]){x, other}, scale, some_zero(p, scale));
      intact__attr_set_int(node, "dim", 1 + (int64_t)pick(p, 3));
      return net_infer(n, node);
    case 6:
      node = net_node(n, &intact_op_mean, 1, &x, scale, some_zero(p, scale));
      assert_ok(context, intact__attr_set_ints(node, "dim", 2, (const int64_t[]){2, 3}));
      intact__attr_set_int(node, "keepdim", pick(p, 2));
      return net_infer(n, node);
    case 7:
      node = moves(p, &intact_op_permute, x);
      assert_ok(context, intact__attr_set_ints(node, "dims", 4, pick(p, 2) ? (const int64_t[]){0, 2, 3, 1} : (const int64_t[]){0, 1, 3, 2}));
      return net_infer(n, node);
    default:
      node = moves(p, &intact_op_flatten, x);
      intact__attr_set_int(node, "start_dim", 1);
      return net_infer(n, node);
  }
}

static intact_value *add_any_node(pool *p, intact_value *x, float scale) {
  static const intact_op *const unary[] = {&intact_op_relu, &intact_op_hardswish, &intact_op_sigmoid, &intact_op_tanh, &intact_op_requantize};
  net *n = &p->n;
  intact_node *node;
  switch (pick(p, 5)) {
    case 0:
      return net_unary(n, unary[pick(p, 5)], x, scale, some_zero(p, scale));
    case 1: /* in float, between dequantize and quantize */
      node = net_node(n, &intact_op_softmax, 1, &x, 1.0f / 256, 0);
      intact__attr_set_int(node, "dim", x->rank - 1);
      return net_infer(n, node);
    case 2:
      node = moves(p, &intact_op_slice, x);
      assert_ok(context, intact__attr_set_ints(node, "dim", 1, (const int64_t[]){1}));
      assert_ok(context, intact__attr_set_ints(node, "start", 1, (const int64_t[]){x->dims[1] / 3}));
      assert_ok(context, intact__attr_set_ints(node, "end", 1, (const int64_t[]){x->dims[1]}));
      assert_ok(context, intact__attr_set_ints(node, "step", 1, (const int64_t[]){1}));
      return net_infer(n, node);
    case 3:
      node = moves(p, &intact_op_unsqueeze, x);
      assert_ok(context, intact__attr_set_ints(node, "dim", 1, (const int64_t[]){x->rank}));
      if (x->rank > 3) return net_infer(n, node);
      return net_infer(n, node);
    default:
      return x->rank == 2 && x->dims[1] <= 512 ? net_linear(n, x, 1 + pick(p, 30), scale, some_zero(p, scale)) : NULL;
  }
}

static pool random_network(uint64_t seed) {
  pool p = {.n = net_create(context, INTACT_STAGE_INTEGER)};
  p.n.random = seed;
  const int64_t dims[] = {1 + pick(&p, 3), 1 + pick(&p, 5), 1 + pick(&p, 9), 1 + pick(&p, 9)};
  for (int i = 0; i < 2; i++) {
    const float scale = 0.02f * (pick(&p, 2) ? 1.0f : -1.0f);
    p.values[p.count++] = net_quantize(&p.n, net_input(&p.n, i ? "x" : "z", 4, dims), scale, scale < 0 ? 5 : 120);
  }
  const int wanted = 4 + (int)pick(&p, 20);
  for (int tries = 0; tries < 200 && p.count < wanted; tries++) {
    const float scale = some_scale(&p);
    intact_value *x = some_value(&p, pick(&p, 3) ? 4 : 0);
    if (x == NULL) continue;
    intact_value *made = x->rank == 4 && pick(&p, 3) ? add_image_node(&p, x, scale) : add_any_node(&p, x, scale);
    if (made != NULL) p.values[p.count++] = made;
  }
  intact_value *outputs[4];
  int n_outputs = 0;
  for (int i = 0; i < 3; i++) {
    intact_value *value = p.values[(uint32_t)p.count - 1 - pick(&p, p.count > 5 ? 5 : (uint32_t)p.count)];
    bool twice = false;
    for (int k = 0; k < n_outputs; k++) twice = twice || outputs[k] == value;
    if (!twice) outputs[n_outputs++] = i > 0 ? value : net_dequantize(&p.n, value);
  }
  net_outputs(&p.n, n_outputs, outputs);
  intact__graph_remove_dead(p.n.graph);
  return p;
}

typedef struct seen {
  int n;
  const intact_value *values[MOST_SEEN];
  intact_tensor *tensors[MOST_SEEN];
} seen;

static intact_status keep(void *user, const intact_value *value, const intact_tensor *tensor) {
  seen *s = user;
  assert_true(s->n < MOST_SEEN);
  s->values[s->n] = value;
  return intact_tensor_copy(tensor, &s->tensors[s->n++]);
}

static const intact_tensor *tensor_of(const seen *s, const intact_value *value) {
  if (value == NULL) return NULL;
  if (value->constant != NULL) return value->constant;
  for (int i = 0; i < s->n; i++)
    if (s->values[i] == value) return s->tensors[i];
  fail_msg("value %s was not shown", value->name);
  return NULL;
}

/* At most one step (a rounding tie that tipped over) here and there, exact where nothing is computed. */
static void check_node(const seen *s, const intact_node *node, const char *text) {
  const intact_tensor *operands[8];
  intact_tensor *result = NULL;
  assert_true(node->n_operands <= 8 && node->n_results == 1);
  for (int i = 0; i < node->n_operands; i++) operands[i] = tensor_of(s, node->operands[i]);
  assert_ok(context, intact__eval_node(node, operands, false, &result));
  const intact_tensor *got = tensor_of(s, node->results[0]);
  assert_true(intact__shape_equal(got->rank, got->dims, result->rank, result->dims) && got->dtype == result->dtype);
  int64_t different = 0;
  double worst = 0;
  for (int64_t i = 0; i < got->count; i++) {
    const double gap = fabs(intact__tensor_get_f64(got, i) - intact__tensor_get_f64(result, i));
    different += gap > 1e-6;
    worst = gap > worst ? gap : worst;
  }
  const bool fine = worst <= 1 && different <= (node->op->on_integers ? 0 : 2 + got->count / 50);
  if (!fine) fprintf(stderr, "%s\nnode %s (%s): %lld of %lld differ, by up to %g\n", text, node->name, node->op->name,
                     (long long)different, (long long)got->count, worst);
  assert_true(fine);
  intact_tensor_destroy(result);
}

static void check_network(uint64_t seed) {
  pool p = random_network(seed);
  intact_program *program;
  intact_tensor *inputs[2], *tapped[4], *plain[4];
  char *text;
  assert_ok(context, intact_graph_print(p.n.graph, &text));
  assert_ok(context, intact_program_create(p.n.graph, &program));
  for (int i = 0; i < 2; i++) inputs[i] = net_random_tensor(&p.n, 4, p.n.graph->inputs[i]->dims, -2.5f, 2.5f);
  seen s = {0};
  assert_ok(context, intact_program_run(program, (const intact_tensor *const *)inputs, plain));
  assert_ok(context, intact__program_run_tapped(program, (const intact_tensor *const *)inputs, keep, &s, tapped));
  const intact_graph *planned = intact__program_plan(program)->graph;
  for (const intact_node *node = planned->first; node != NULL; node = node->next) check_node(&s, node, text);
  for (int i = 0; i < planned->n_outputs; i++) {
    const intact_tensor *value = tensor_of(&s, planned->outputs[i]);
    assert_memory_equal(value->data, plain[i]->data, intact_tensor_bytes(value));
    assert_memory_equal(value->data, tapped[i]->data, intact_tensor_bytes(value));
    intact_tensor_destroy(plain[i]);
    intact_tensor_destroy(tapped[i]);
  }
  for (int i = 0; i < s.n; i++) intact_tensor_destroy(s.tensors[i]);
  for (int i = 0; i < 2; i++) intact_tensor_destroy(inputs[i]);
  intact_text_destroy(context, text);
  intact_program_destroy(program);
  intact_graph_destroy(p.n.graph);
}

static void test_networks(void **state) {
  (void)state;
  const char *rounds = getenv("INTACT_TEST_ROUNDS");
  const uint64_t start = test_random_start();
  for (int64_t i = 0; i < (rounds ? atoll(rounds) : 80); i++) check_network(start + (uint64_t)i * 7919);
}

int main(void) {
  context = test_context(2);
  const struct CMUnitTest tests[] = {cmocka_unit_test(test_networks)};
  const int failed = cmocka_run_group_tests(tests, NULL, NULL);
  intact_context_destroy(context);
  return failed;
}
