/* SPDX-License-Identifier: Apache-2.0 */
/* Shapes with an open batch: arithmetic on shapes stays known, data movement keeps symbols; movement of every element type.
 */
#include <string.h>

#include "graph/graph.h"
#include "ops/ops.h"
#include "support/test.h"

static intact_context *context;

static int start(void **state) {
  (void)state;
  context = test_context(1);
  return 0;
}

static int stop(void **state) {
  (void)state;
  intact_context_destroy(context);
  return 0;
}

/* ---- an open batch ---- */

typedef struct open_graph {
  intact_graph *graph;
  int64_t n; /* the symbol N */
  intact_value *x;
} open_graph;

static open_graph open_input(int rank, const int64_t *dims) {
  open_graph g = {0};
  int64_t opened[INTACT_MAX_RANK];
  assert_ok(context, intact__graph_create(context, "open", &g.graph));
  g.n = intact__graph_symbol(g.graph, "N");
  for (int k = 0; k < rank; k++) opened[k] = dims[k] < 0 ? g.n : dims[k];
  assert_ok(context, intact__graph_add_input(g.graph, "x", INTACT_F32, rank, opened, &g.x));
  return g;
}

static intact_node *add(open_graph *g, const intact_op *op, int n, intact_value **operands, int n_results) {
  intact_node *node = NULL;
  const char *name = intact__graph_fresh_name(g->graph, op->name);
  assert_ok(context, intact__graph_add_node(g->graph, op, name, n, operands, n_results, NULL, NULL, &node));
  return node;
}

static intact_value *done(intact_node *node) {
  assert_ok(context, intact__node_infer(node));
  return node->results[0];
}

static intact_value *ints(open_graph *g, int rank, int n, const int64_t *values) {
  intact_tensor *tensor = NULL;
  intact_value *value = NULL;
  const int64_t dims[] = {n};
  assert_ok(context, intact__tensor_from_s64(context, rank, dims, values, &tensor));
  assert_ok(context, intact__graph_add_constant(g->graph, intact__graph_fresh_name(g->graph, "c"), tensor, NULL, &value));
  return value;
}

static void expect_dims(const intact_value *value, int rank, const int64_t *dims) {
  assert_int_equal(value->rank, rank);
  for (int k = 0; k < rank; k++) assert_true(value->dims[k] == dims[k]);
}

/* Shape -> Gather -> Unsqueeze -> Concat with -1 -> Reshape: what exporters write for flatten(1). */
static void test_exported_flatten(void **state) {
  (void)state;
  const int64_t dims[] = {-1, 8, 3, 3}, zero[] = {0}, rest[] = {-1};
  open_graph g = open_input(4, dims);
  intact_value *shape = done(add(&g, &intact_op_shape, 1, &g.x, 1));
  intact_node *pick = add(&g, &intact_op_take_along, 2, (intact_value *[]){shape, ints(&g, 0, 1, zero)}, 1);
  intact_value *batch = done(pick);
  assert_int_equal(batch->rank, 0);
  intact_node *wide = add(&g, &intact_op_unsqueeze, 1, &batch, 1);
  assert_ok(context, intact__attr_set_ints(wide, "dim", 1, zero));
  intact_value *both[] = {done(wide), ints(&g, 1, 1, rest)};
  intact_value *wanted = done(add(&g, &intact_op_cat, 2, both, 1));
  intact_value *y = done(add(&g, &intact_op_reshape, 2, (intact_value *[]){g.x, wanted}, 1));
  expect_dims(y, 2, (const int64_t[]){g.n, 72});
  intact_graph_destroy(g.graph);
}

/* Slice of the shape, a product of it with a number, ConstantOfShape and Expand: known where known. */
static void test_shape_arithmetic(void **state) {
  (void)state;
  const int64_t dims[] = {-1, 4, 6}, two[] = {2};
  open_graph g = open_input(3, dims);
  intact_node *shape = add(&g, &intact_op_shape, 1, &g.x, 1);
  intact__attr_set_int(shape, "start", 1);
  intact_value *inner = done(shape);
  assert_int_equal(inner->n_elements, 2);
  intact_value *half = done(add(&g, &intact_op_floor_divide, 2, (intact_value *[]){inner, ints(&g, 1, 1, two)}, 1));
  intact_value *zeros = done(add(&g, &intact_op_full, 1, &half, 1));
  expect_dims(zeros, 2, (const int64_t[]){2, 3});
  intact_value *whole = done(add(&g, &intact_op_shape, 1, &g.x, 1));
  intact_value *filled = done(add(&g, &intact_op_full, 1, &whole, 1));
  expect_dims(filled, 3, (const int64_t[]){g.n, 4, 6});
  const int64_t ones[] = {1, 1, 1};
  intact_value *one = done(add(&g, &intact_op_full, 1, (intact_value *[]){ints(&g, 1, 3, ones)}, 1));
  intact_value *grown = done(add(&g, &intact_op_expand, 2, (intact_value *[]){one, whole}, 1));
  expect_dims(grown, 3, (const int64_t[]){g.n, 4, 6});
  intact_graph_destroy(g.graph);
}

static void test_symbols_through_movement(void **state) {
  (void)state;
  const int64_t dims[] = {-1, 4, 6}, order[] = {2, 0, 1}, back[] = {0, 0, -1}, mixed[] = {-1, 24}, sum[] = {1, 2};
  open_graph g = open_input(3, dims);
  intact_node *node = add(&g, &intact_op_permute, 1, &g.x, 1);
  assert_ok(context, intact__attr_set_ints(node, "dims", 3, order));
  expect_dims(done(node), 3, (const int64_t[]){6, g.n, 4});
  node = add(&g, &intact_op_reshape, 1, &g.x, 1);
  assert_ok(context, intact__attr_set_ints(node, "shape", 2, mixed));
  expect_dims(done(node), 2, (const int64_t[]){g.n, 24}); /* -1 against an open batch */
  node = add(&g, &intact_op_reshape, 1, &g.x, 1);
  assert_ok(context, intact__attr_set_ints(node, "shape", 3, back));
  intact__attr_set_int(node, "allowzero", 0);
  expect_dims(done(node), 3, (const int64_t[]){g.n, 4, 6});
  node = add(&g, &intact_op_flatten, 1, &g.x, 1);
  intact__attr_set_int(node, "start_dim", 1);
  expect_dims(done(node), 2, (const int64_t[]){g.n, 24});
  node = add(&g, &intact_op_mean, 1, &g.x, 1);
  assert_ok(context, intact__attr_set_ints(node, "dim", 2, sum));
  expect_dims(done(node), 1, &g.n);
  node = add(&g, &intact_op_select, 1, &g.x, 1);
  intact__attr_set_int(node, "dim", 1);
  intact__attr_set_int(node, "index", -1);
  expect_dims(done(node), 2, (const int64_t[]){g.n, 6});
  node = add(&g, &intact_op_cat, 2, (intact_value *[]){g.x, g.x}, 1);
  intact__attr_set_int(node, "dim", 1);
  expect_dims(done(node), 3, (const int64_t[]){g.n, 8, 6});
  node = add(&g, &intact_op_split_with_sizes, 1, &g.x, 2);
  intact__attr_set_int(node, "dim", -1);
  assert_ok(context, intact__attr_set_ints(node, "split_sizes", 2, (const int64_t[]){2, 4}));
  (void)done(node);
  expect_dims(node->results[1], 3, (const int64_t[]){g.n, 4, 4});
  node = add(&g, &intact_op_add, 2, (intact_value *[]){g.x, done(add(&g, &intact_op_relu, 1, &g.x, 1))}, 1);
  expect_dims(done(node), 3, (const int64_t[]){g.n, 4, 6});
  intact_graph_destroy(g.graph);
}

static void test_refusals_say_what_is_wrong(void **state) {
  (void)state;
  const int64_t dims[] = {-1, 4, 6}, five[] = {5}, shape[] = {7, -1, -1}, twice[] = {0, 0, 1};
  open_graph g = open_input(3, dims);
  intact_value *other = NULL;
  assert_ok(context, intact__graph_add_input(g.graph, "b", INTACT_F32, 1, five, &other));
  intact_node *node = add(&g, &intact_op_add, 2, (intact_value *[]){g.x, other}, 1);
  assert_fails(intact__node_infer(node), INTACT_SIZE_MISMATCH);
  assert_string_equal(intact_context_where(context), node->name);
  assert_non_null(strstr(intact_context_message(context), "[5]"));
  node = add(&g, &intact_op_reshape, 1, &g.x, 1);
  assert_ok(context, intact__attr_set_ints(node, "shape", 3, shape));
  assert_fails(intact__node_infer(node), INTACT_SIZE_MISMATCH);
  node = add(&g, &intact_op_permute, 1, &g.x, 1);
  assert_ok(context, intact__attr_set_ints(node, "dims", 3, twice));
  assert_fails(intact__node_infer(node), INTACT_DUPLICATE);
  node = add(&g, &intact_op_softmax, 1, &g.x, 1);
  intact__attr_set_int(node, "dim", 3);
  assert_fails(intact__node_infer(node), INTACT_OUT_OF_RANGE);
  intact_graph_destroy(g.graph);
}

/* ---- every element type moves ---- */

/* Runs one row on one operand and compares element i of the result with element from[i] of the operand. */
static void moves(const intact_op *op, const intact_tensor *x, const char *list, int n, const int64_t *values, int count,
                  const int *from) {
  intact_graph *graph = NULL;
  intact_value *input = NULL;
  intact_node *node = NULL;
  intact_tensor *y = NULL;
  assert_ok(context, intact__graph_create(context, "move", &graph));
  assert_ok(context, intact__graph_add_input(graph, "x", x->dtype, x->rank, x->dims, &input));
  assert_ok(context, intact__graph_add_node(graph, op, "node", 1, &input, 1, NULL, NULL, &node));
  assert_ok(context, intact__attr_set_ints(node, list, n, values));
  if (op == &intact_op_slice) {
    const int64_t axis[] = {1}, end[] = {INT64_MAX}, step[] = {2};
    assert_ok(context, intact__attr_set_ints(node, "dim", 1, axis));
    assert_ok(context, intact__attr_set_ints(node, "end", 1, end));
    assert_ok(context, intact__attr_set_ints(node, "step", 1, step));
  }
  assert_ok(context, intact__node_infer(node));
  assert_ok(context, intact__eval_node(node, (const intact_tensor *const *)&x, false, &y));
  assert_int_equal(y->dtype, x->dtype);
  assert_int_equal(y->count, count);
  for (int i = 0; i < count; i++) {
    const double want = from[i] < 0 ? 0 : intact__tensor_get_f64(x, from[i]);
    assert_true(intact__tensor_get_f64(y, i) == want);
  }
  intact_tensor_destroy(y);
  intact_graph_destroy(graph);
}

static void test_types_move(void **state) {
  (void)state;
  const int64_t dims[] = {2, 3};
  for (intact_dtype dtype = 0; dtype < INTACT_DTYPE_COUNT; dtype++) {
    intact_tensor *x = NULL;
    if (dtype == INTACT_C64 || dtype == INTACT_F8E8M0) continue; /* no reals, no 0 */
    assert_ok(context, intact_tensor_create(context, dtype, 2, dims, &x));
    for (int i = 0; i < 6; i++) intact__tensor_set_f64(x, i, i % 3 == 0 ? 1 : i % 2);
    moves(&intact_op_permute, x, "dims", 2, (const int64_t[]){1, 0}, 6, (const int[]){0, 3, 1, 4, 2, 5});
    moves(&intact_op_flip, x, "dims", 1, (const int64_t[]){1}, 6, (const int[]){2, 1, 0, 5, 4, 3});
    moves(&intact_op_slice, x, "start", 1, (const int64_t[]){0}, 4, (const int[]){0, 2, 3, 5});
    moves(&intact_op_reshape, x, "shape", 1, (const int64_t[]){-1}, 6, (const int[]){0, 1, 2, 3, 4, 5});
    moves(&intact_op_repeat, x, "repeats", 2, (const int64_t[]){1, 2}, 12,
          (const int[]){0, 1, 2, 0, 1, 2, 3, 4, 5, 3, 4, 5});
    moves(&intact_op_roll, x, "shifts", 1, (const int64_t[]){1}, 6, (const int[]){5, 0, 1, 2, 3, 4});
    moves(&intact_op_constant_pad_nd, x, "pad", 2, (const int64_t[]){1, -1}, 6, (const int[]){-1, 0, 1, -1, 3, 4});
    moves(&intact_op_replication_pad, x, "padding", 2, (const int64_t[]){0, 1}, 8, (const int[]){0, 1, 2, 2, 3, 4, 5, 5});
    intact_tensor_destroy(x);
  }
}

/* A transposition large enough to be walked in squares, against the plain rule. */
static void test_large_transposition(void **state) {
  (void)state;
  const int64_t dims[] = {3, 37, 70}, order[] = {2, 0, 1};
  intact_tensor *x = NULL;
  int from[3 * 37 * 70];
  assert_ok(context, intact_tensor_create(context, INTACT_S32, 3, dims, &x));
  for (int i = 0; i < x->count; i++) intact__tensor_set_s64(x, i, i);
  for (int c = 0, at = 0; c < 70; c++) {
    for (int a = 0; a < 3; a++) {
      for (int b = 0; b < 37; b++) from[at++] = (a * 37 + b) * 70 + c;
    }
  }
  moves(&intact_op_permute, x, "dims", 3, order, 3 * 37 * 70, from);
  intact_tensor_destroy(x);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(test_exported_flatten),
      cmocka_unit_test(test_shape_arithmetic),
      cmocka_unit_test(test_symbols_through_movement),
      cmocka_unit_test(test_refusals_say_what_is_wrong),
      cmocka_unit_test(test_types_move),
      cmocka_unit_test(test_large_transposition),
  };
  return cmocka_run_group_tests(tests, start, stop);
}
