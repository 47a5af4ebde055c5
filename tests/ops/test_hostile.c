/* SPDX-License-Identifier: Apache-2.0 */
/* Every row with absurd attributes and operands: it refuses or computes, it never crashes, hangs or asks for much memory.
   What inference accepts with actual shapes and evaluation computes must agree. Seeded; INTACT_TEST_RANDOM gives another
   start. */
#include <math.h>
#include <string.h>

#include "graph/graph.h"
#include "ops/ops.h"
#include "support/test.h"

enum { TRIES = 120, MOST = 6 };

static intact_context *context;

/* Memory in proportion: operands here are below 4 KB. */
static void *small_allocate(void *user, size_t bytes) {
  (void)user;
  return bytes > (64u << 20) ? NULL : aligned_alloc(64, (bytes + 63) / 64 * 64 + 64);
}

static void small_release(void *user, void *memory) {
  (void)user;
  free(memory);
}

static int start(void **state) {
  (void)state;
  intact_context_options options = intact_context_default_options();
  options.threads = 1;
  options.allocator = (intact_allocator){NULL, small_allocate, small_release};
  if (intact_context_create(&options, &context) != INTACT_OK) exit(77);
  return 0;
}

static int stop(void **state) {
  (void)state;
  intact_context_destroy(context);
  return 0;
}

static uint64_t random_state;
static int disagreements;
static int pick(int n) {
  return (int)(test_random(&random_state) % (uint32_t)n);
}

static int64_t absurd_int(void) {
  static const int64_t values[] = {
      INT64_MIN, INT64_MIN + 1,          INT32_MIN,     -9,       -3, -2, -1, 0, 1, 2, 3, 4, 5, 8, 64,
      INT32_MAX, (int64_t)INT32_MAX + 1, INT64_MAX / 2, INT64_MAX};
  return pick(3) == 0 ? values[pick((int)(sizeof values / sizeof values[0]))] : pick(5) - 1;
}

static double absurd_float(void) {
  const double values[] = {0, -0.0, 1, -1, 0.5, 3, 1e-40, 1e38, -1e300, (double)INFINITY, -(double)INFINITY, (double)NAN};
  return values[pick((int)(sizeof values / sizeof values[0]))];
}

static intact_tensor *absurd_tensor(intact_role role) {
  static const intact_dtype types[] = {INTACT_F32, INTACT_F32,  INTACT_F32, INTACT_F32, INTACT_S64, INTACT_S32,
                                       INTACT_U8,  INTACT_BOOL, INTACT_F16, INTACT_F64, INTACT_S4};
  intact_dtype dtype = role == INTACT_ROLE_INDEX && pick(4) > 0 ? INTACT_S64 : types[pick(11)];
  int rank = role == INTACT_ROLE_INDEX ? pick(3) : pick(MOST);
  int64_t dims[MOST];
  for (int k = 0; k < rank; k++) dims[k] = pick(8) == 0 ? 0 : 1 + pick(3);
  intact_tensor *tensor = NULL;
  assert_ok(context, intact_tensor_create(context, dtype, rank, dims, &tensor));
  for (int64_t i = 0; i < tensor->count; i++) {
    if (intact_dtype_is_float(dtype)) {
      intact__tensor_set_f64(tensor, i, pick(4) == 0 ? absurd_float() : (double)test_uniform(&random_state, -3, 3));
    } else {
      intact__tensor_set_s64(tensor, i, dtype == INTACT_BOOL ? pick(2) : absurd_int());
    }
  }
  return tensor;
}

static void absurd_attr(intact_node *node, const intact_attr_spec *spec) {
  static const char *const words[] = {"none", "mean", "sum",     "tanh",  "",          "floor",
                                      "add",  "same", "nearest", "zeros", "ij,jk->ik", "x"};
  int n = pick(6);
  int64_t ints[8];
  double floats[8];
  if (!spec->required && pick(3) == 0) return;
  for (int i = 0; i < 8; i++) {
    ints[i] = absurd_int();
    floats[i] = absurd_float();
  }
  switch (spec->type) {
    case INTACT_ATTR_INT:
      intact__attr_set_int(node, spec->name, ints[0]);
      break;
    case INTACT_ATTR_BOOL:
      intact__attr_set_int(node, spec->name, ints[0] & 1);
      break;
    case INTACT_ATTR_FLOAT:
      intact__attr_set_float(node, spec->name, floats[0]);
      break;
    case INTACT_ATTR_STRING:
      assert_ok(context, intact__attr_set_string(node, spec->name, words[pick(12)]));
      break;
    case INTACT_ATTR_INTS:
      assert_ok(context, intact__attr_set_ints(node, spec->name, n, ints));
      break;
    case INTACT_ATTR_FLOATS:
      assert_ok(context, intact__attr_set_floats(node, spec->name, n, floats));
      break;
    case INTACT_ATTR_DTYPE:
      intact__attr_set_int(node, spec->name, pick(INTACT_DTYPE_COUNT));
      break;
    case INTACT_ATTR_TENSOR:
      assert_ok(context, intact__attr_set_tensor(node, spec->name, absurd_tensor(INTACT_ROLE_NONE)));
      break;
    default:
      break;
  }
}

/* Evaluates, and compares what comes out with what was inferred; then asks for all gradients. */
static void run(intact_node *node, intact_tensor *const *operands) {
  intact_tensor *results[8] = {NULL}, *gradients[16] = {NULL};
  bool needed[16];
  if (intact__eval_node(node, (const intact_tensor *const *)operands, false, results) != INTACT_OK) return;
  bool real = true;
  for (int i = 0; i < node->n_results; i++) {
    const intact_value *told = node->results[i];
    bool fits = told->dtype == results[i]->dtype && (told->rank < 0 || told->rank == results[i]->rank);
    for (int k = 0; fits && k < told->rank; k++) fits = told->dims[k] < 0 || told->dims[k] == results[i]->dims[k];
    if (!fits) print_error("%s: result %d is not what inference told\n", node->op->name, i);
    disagreements += !fits;
    real = real && results[i]->dtype == INTACT_F32;
  }
  for (int i = 0; i < node->n_operands; i++) needed[i] = operands[i] != NULL && operands[i]->dtype == INTACT_F32;
  intact_grad grad = {.context = context,
                      .node = node,
                      .n_operands = node->n_operands,
                      .n_results = node->n_results,
                      .operands = (const intact_tensor *const *)operands,
                      .results = (const intact_tensor *const *)results,
                      .d_results = (const intact_tensor *const *)results,
                      .needed = needed,
                      .d_operands = gradients};
  if (real) (void)node->op->grad(&grad);
  for (int i = 0; i < node->n_operands; i++) intact_tensor_destroy(gradients[i]);
  for (int i = 0; i < node->n_results; i++) intact_tensor_destroy(results[i]);
}

/* One node with random everything; true when inference took it. */
static bool attempt(const intact_op *op) {
  intact_graph *graph = NULL;
  intact_node *node = NULL;
  intact_tensor *operands[16] = {NULL};
  intact_value *values[16] = {NULL};
  assert_ok(context, intact__graph_create(context, "hostile", &graph));
  int n = 0;
  for (int i = 0; i < op->schema.n_operands; i++) {
    const intact_operand_spec *spec = &op->schema.operands[i];
    int copies = (spec->flags & INTACT_VARIADIC) != 0 ? pick(4) : 1;
    for (int k = 0; k < copies; k++, n++) {
      bool left_out = (spec->flags & INTACT_OPTIONAL) != 0 && pick(2) == 0;
      if (left_out) continue;
      char name[20];
      snprintf(name, sizeof name, "in%d", n);
      operands[n] = absurd_tensor(spec->role);
      if (n > 0 && operands[0] != NULL && pick(3) == 0) { /* often the shape of the first */
        intact_tensor_destroy(operands[n]);
        assert_ok(context, intact_tensor_copy(operands[0], &operands[n]));
      }
      const intact_tensor *x = operands[n];
      assert_ok(context, intact__graph_add_input(graph, name, x->dtype, x->rank, x->dims, &values[n]));
    }
  }
  int n_results = op->schema.n_results >= 0 ? op->schema.n_results : 1 + pick(3);
  bool taken = false;
  if (intact__graph_add_node(graph, op, "node", n, values, n_results, NULL, NULL, &node) == INTACT_OK) {
    for (int i = 0; i < op->schema.n_attrs; i++) absurd_attr(node, &op->schema.attrs[i]);
    taken = intact__node_infer(node) == INTACT_OK;
    if (taken) run(node, operands);
  }
  intact_graph_destroy(graph);
  for (int i = 0; i < n; i++) intact_tensor_destroy(operands[i]);
  return taken;
}

static void test_absurd_nodes(void **state) {
  (void)state;
  int64_t taken = 0, tried = 0;
  for (int i = 0; i < intact__n_ops; i++) {
    random_state = test_random_start() + (uint64_t)i;
    for (int k = 0; k < TRIES; k++, tried++) taken += attempt(intact__ops[i]);
  }
  assert_int_equal(disagreements, 0);
  print_message("%lld of %lld nodes were taken\n", (long long)taken, (long long)tried);
}

int main(void) {
  const struct CMUnitTest tests[] = {cmocka_unit_test(test_absurd_nodes)};
  return cmocka_run_group_tests(tests, start, stop);
}
