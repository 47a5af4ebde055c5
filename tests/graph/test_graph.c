/* SPDX-License-Identifier: Apache-2.0 */
/* Building, inferring, verifying, rewriting, matching and copying graphs. */
#include "support/test.h"

#include <math.h>

#include "graph/toy_ops.h"

static intact_context *context;

/* x[N,3] -> add(x, c) -> relu -> out */
static intact_graph *chain(intact_value **x) {
  intact_graph *graph = NULL;
  assert_ok(context, intact__graph_create(context, "chain", &graph));
  const int64_t dims[] = {intact__graph_symbol(graph, "N"), 3};
  assert_ok(context, intact__graph_add_input(graph, "x", INTACT_F32, 2, dims, x));
  intact_node *add, *relu;
  assert_ok(context, intact__graph_add_node(graph, &toy_add, "sum", 2, (intact_value *[]){*x, *x}, 1, NULL, NULL, &add));
  assert_ok(context, intact__graph_add_node(graph, &toy_relu, "cut", 1, add->results, 1, (const char *[]){"y"}, NULL, &relu));
  assert_ok(context, intact__graph_set_outputs(graph, 1, relu->results));
  assert_ok(context, intact__graph_infer(graph));
  assert_ok(context, intact_graph_verify(graph));
  return graph;
}

static intact_tensor *ramp(int64_t rows, int64_t columns) {
  intact_tensor *tensor = NULL;
  assert_ok(context, intact_tensor_create(context, INTACT_F32, 2, (const int64_t[]){rows, columns}, &tensor));
  for (int64_t i = 0; i < tensor->count; i++) intact__f32(tensor)[i] = (float)(i - 2);
  return tensor;
}

static void test_symbols_stay_open_and_close_with_shapes(void **state) {
  (void)state;
  intact_value *x;
  intact_graph *graph = chain(&x);
  const intact_value_info out = intact_graph_output(graph, 0);
  assert_string_equal(out.name, "y");
  assert_int_equal(out.rank, 2);
  assert_string_equal(intact_graph_symbol(graph, out.dims[0]), "N");
  assert_int_equal(out.dims[1], 3);
  intact_tensor *input = ramp(4, 3);
  intact_graph *shaped = NULL;
  assert_ok(context, intact__graph_with_shapes(graph, (const intact_tensor *[]){input}, &shaped));
  assert_int_equal(intact_graph_output(shaped, 0).dims[0], 4);
  assert_int_equal(intact_graph_node_count(shaped), 2);
  intact_graph_destroy(shaped);
  intact_tensor_destroy(input);
  input = ramp(4, 2);
  assert_fails(intact__graph_with_shapes(graph, (const intact_tensor *[]){input}, &shaped), INTACT_SIZE_MISMATCH);
  assert_string_equal(intact_context_where(context), "x");
  assert_non_null(strstr(intact_context_message(context), "[4,2]"));
  intact_tensor_destroy(input);
  intact_graph_destroy(graph);
}

static void test_one_size_per_symbol(void **state) {
  (void)state;
  intact_value *x, *z;
  intact_graph *graph = chain(&x);
  const int64_t n = intact__graph_symbol(graph, "N");
  assert_ok(context, intact__graph_add_input(graph, "z", INTACT_F32, 1, &n, &z));
  intact_tensor *a = ramp(4, 3), *b = NULL;
  assert_ok(context, intact_tensor_create(context, INTACT_F32, 1, (const int64_t[]){5}, &b));
  assert_fails(intact__graph_check_inputs(graph, (const intact_tensor *[]){a, b}), INTACT_SIZE_MISMATCH);
  assert_string_equal(intact_context_where(context), "z");
  intact_tensor_destroy(a);
  intact_tensor_destroy(b);
  intact_graph_destroy(graph);
}

static void test_interpret(void **state) {
  (void)state;
  intact_value *x;
  intact_graph *graph = chain(&x);
  intact_tensor *input = ramp(2, 3), *output = NULL;
  assert_ok(context, intact_graph_interpret(graph, (const intact_tensor *[]){input}, false, &output));
  const float expected[] = {0, 0, 0, 2, 4, 6};
  assert_memory_equal(intact_tensor_data(output), expected, sizeof expected);
  intact_tensor_destroy(output);
  intact_tensor_destroy(input);
  assert_ok(context, intact_tensor_create(context, INTACT_S32, 2, (const int64_t[]){2, 3}, &input));
  assert_fails(intact_graph_interpret(graph, (const intact_tensor *[]){input}, false, &output), INTACT_TYPE_MISMATCH);
  intact_tensor_destroy(input);
  intact_graph_destroy(graph);
}

/* real = 0.5 * (q - 10): x + x with x = -2 is -4, q 2, cut to 0 is q 10; a result narrowed to 0..12 stops at 1.0. */
static void test_quantized_values(void **state) {
  (void)state;
  intact_graph *graph = NULL;
  assert_ok(context, intact__graph_create(context, "q", &graph));
  const float scale = 0.5f;
  const int32_t zero = 10;
  const intact_qparams q = {INTACT_PER_TENSOR_AFFINE, INTACT_U8, 0, 255, -1, 0, 1, &scale, &zero, NULL};
  const intact_qparams narrow = {INTACT_PER_TENSOR_AFFINE, INTACT_U8, 0, 12, -1, 0, 1, &scale, &zero, NULL};
  intact_value *x;
  intact_node *add, *relu;
  assert_ok(context, intact__graph_add_input(graph, "x", INTACT_U8, 1, (const int64_t[]){4}, &x));
  assert_ok(context, intact__value_set_qparams(graph, x, &q));
  assert_ok(context, intact__graph_add_node(graph, &toy_add, NULL, 2, (intact_value *[]){x, x}, 1, NULL, NULL, &add));
  assert_ok(context, intact__value_set_qparams(graph, add->results[0], &q));
  assert_ok(context, intact__graph_add_node(graph, &toy_relu, NULL, 1, add->results, 1, NULL, NULL, &relu));
  assert_ok(context, intact__value_set_qparams(graph, relu->results[0], &narrow));
  assert_ok(context, intact__graph_set_outputs(graph, 2, (intact_value *[]){add->results[0], relu->results[0]}));
  graph->stage = INTACT_STAGE_INTEGER;
  assert_ok(context, intact__graph_infer(graph));
  assert_ok(context, intact_graph_verify(graph));
  assert_int_equal(add->results[0]->dtype, INTACT_U8);
  const uint8_t codes[] = {6, 10, 11, 200};
  intact_tensor *input = NULL, *outputs[2];
  assert_ok(context, intact_tensor_borrow(context, INTACT_U8, 1, (const int64_t[]){4}, codes, &input));
  assert_ok(context, intact_graph_interpret(graph, (const intact_tensor *[]){input}, false, outputs));
  const uint8_t sums[] = {2, 10, 12, 255}, cuts[] = {10, 10, 12, 12};
  assert_memory_equal(intact_tensor_data(outputs[0]), sums, 4);
  assert_memory_equal(intact_tensor_data(outputs[1]), cuts, 4);
  for (int i = 0; i < 2; i++) intact_tensor_destroy(outputs[i]);
  intact_tensor_destroy(input);
  graph->stage = INTACT_STAGE_FLOAT;
  assert_fails(intact_graph_verify(graph), INTACT_WRONG_USE);
  graph->stage = INTACT_STAGE_QDQ;
  assert_fails(intact_graph_verify(graph), INTACT_WRONG_USE);
  intact_graph_destroy(graph);
}

static void test_bad_qparams(void **state) {
  (void)state;
  const float good = 1, bad[] = {0, -1, (float)NAN, (float)INFINITY};
  const float two[] = {1, 1};
  const int32_t zero = 0, far = 300, zeros[] = {0, 0};
  const struct {
    intact_qparams q;
    intact_status status;
  } cases[] = {
      {{INTACT_PER_TENSOR_AFFINE, INTACT_U8, 0, 255, -1, 0, 1, &bad[0], &zero, NULL}, INTACT_INVALID_VALUE},
      {{INTACT_PER_TENSOR_AFFINE, INTACT_U8, 0, 255, -1, 0, 1, &bad[1], &zero, NULL}, INTACT_INVALID_VALUE},
      {{INTACT_PER_TENSOR_AFFINE, INTACT_U8, 0, 255, -1, 0, 1, &bad[2], &zero, NULL}, INTACT_INVALID_VALUE},
      {{INTACT_PER_TENSOR_AFFINE, INTACT_U8, 0, 255, -1, 0, 1, &bad[3], &zero, NULL}, INTACT_INVALID_VALUE},
      {{INTACT_PER_TENSOR_AFFINE, INTACT_U8, 0, 255, -1, 0, 1, &good, &far, NULL}, INTACT_INVALID_VALUE},
      {{INTACT_PER_TENSOR_AFFINE, INTACT_U8, 0, 256, -1, 0, 1, &good, &zero, NULL}, INTACT_INVALID_VALUE},
      {{INTACT_PER_TENSOR_AFFINE, INTACT_U8, 9, 8, -1, 0, 1, &good, &zero, NULL}, INTACT_INVALID_VALUE},
      {{INTACT_PER_CHANNEL_AFFINE, INTACT_U8, 0, 255, 0, 0, 2, two, zeros, NULL}, INTACT_SIZE_MISMATCH},
      {{INTACT_PER_CHANNEL_AFFINE, INTACT_U8, 0, 255, 1, 0, 2, two, zeros, NULL}, INTACT_SIZE_MISMATCH},
      {{INTACT_PER_TENSOR_AFFINE, INTACT_U8, 0, 255, -1, 0, 1, &good, &zero, NULL}, INTACT_OK},
  };
  for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
    intact_graph *graph = NULL;
    intact_value *x;
    assert_ok(context, intact__graph_create(context, "q", &graph));
    assert_ok(context, intact__graph_add_input(graph, "x", INTACT_U8, 1, (const int64_t[]){4}, &x));
    assert_ok(context, intact__value_set_qparams(graph, x, &cases[i].q));
    assert_ok(context, intact__graph_set_outputs(graph, 1, &x));
    graph->stage = INTACT_STAGE_INTEGER;
    assert_fails(intact_graph_verify(graph), cases[i].status);
    if (cases[i].status != INTACT_OK) assert_string_equal(intact_context_where(context), "x");
    intact_graph_destroy(graph);
  }
}

static void test_names_and_arity(void **state) {
  (void)state;
  intact_value *x, *again;
  intact_graph *graph = chain(&x);
  intact_node *node;
  const int64_t dims[] = {1};
  assert_fails(intact__graph_add_input(graph, "x", INTACT_F32, 1, dims, &again), INTACT_DUPLICATE);
  assert_fails(intact__graph_add_node(graph, &toy_relu, "cut", 1, &x, 1, NULL, NULL, &node), INTACT_DUPLICATE);
  assert_fails(intact__graph_add_node(graph, &toy_relu, NULL, 0, NULL, 1, NULL, NULL, &node), INTACT_MISSING_FIELD);
  assert_fails(intact__graph_add_node(graph, &toy_relu, NULL, 2, (intact_value *[]){x, x}, 1, NULL, NULL, &node),
               INTACT_INVALID_VALUE);
  assert_fails(intact__graph_add_node(graph, &toy_relu, NULL, 1, &x, 2, NULL, NULL, &node), INTACT_INVALID_VALUE);
  assert_string_equal(intact__graph_fresh_name(graph, "x"), "x_1");
  assert_string_equal(intact__graph_fresh_name(graph, "x"), "x_2");
  assert_string_equal(intact__graph_fresh_name(graph, "cut"), "cut_1");
  assert_string_equal(intact__graph_fresh_name(graph, "free"), "free");
  assert_ptr_equal(intact__graph_find_value(graph, "x"), x);
  assert_null(intact__graph_find_value(graph, "cut"));
  assert_string_equal(intact__graph_find_node(graph, "cut")->op->name, "toy_relu");
  intact_graph_destroy(graph);
}

static void test_attributes(void **state) {
  (void)state;
  intact_value *x;
  intact_graph *graph = chain(&x);
  intact_node *sum = graph->first;
  assert_true(intact__attr_float(sum, "alpha") == 1.0);
  assert_false(intact__attr(sum, "sizes")->present);
  assert_int_equal(intact__attr(sum, "sizes")->n, 2);
  assert_int_equal(intact__attr(sum, "sizes")->ints[1], 7);
  assert_string_equal(intact__attr_string(sum, "mode"), "plain");
  assert_ok(context, intact__attr_set_ints(sum, "sizes", 1, (const int64_t[]){4}));
  assert_ok(context, intact__attr_set_string(sum, "mode", "odd"));
  intact_graph *copy = NULL;
  assert_ok(context, intact_graph_copy(graph, &copy));
  assert_int_equal(intact__attr(copy->first, "sizes")->ints[0], 4);
  assert_string_equal(intact__attr_string(copy->first, "mode"), "odd");
  assert_ok(context, intact_graph_verify(copy));
  intact_node *pick;
  assert_ok(context, intact__graph_add_node(graph, &toy_pick, NULL, 1, &x, 1, NULL, NULL, &pick));
  assert_fails(intact_graph_verify(graph), INTACT_MISSING_FIELD);
  assert_non_null(strstr(intact_context_message(context), "index"));
  intact_graph_destroy(copy);
  intact_graph_destroy(graph);
}

static void test_order(void **state) {
  (void)state;
  intact_value *x;
  intact_graph *graph = chain(&x);
  intact__node_move_before(graph->last, graph->first);
  assert_string_equal(graph->first->name, "cut");
  assert_fails(intact_graph_verify(graph), INTACT_CYCLE);
  intact__node_move_before(graph->first, NULL);
  assert_ok(context, intact_graph_verify(graph));
  intact_graph_destroy(graph);
}

static void test_replace_keeps_output_names(void **state) {
  (void)state;
  intact_value *x;
  intact_graph *graph = chain(&x);
  intact_node *sum = graph->first, *cut = graph->last;
  intact__value_replace_uses(cut->results[0], sum->results[0]);
  assert_ok(context, intact__node_add_source(sum, "a"));
  assert_ok(context, intact__node_add_source(sum, "b+a"));
  assert_string_equal(sum->source, "a+b");
  intact__node_remove(cut);
  assert_ok(context, intact_graph_verify(graph));
  assert_string_equal(intact_graph_output(graph, 0).name, "y");
  assert_ptr_equal(intact__graph_find_value(graph, "y"), sum->results[0]);
  assert_int_equal(graph->n_nodes, 1);
  intact_graph_destroy(graph);
}

static void test_remove_dead(void **state) {
  (void)state;
  intact_value *x, *constant;
  intact_graph *graph = chain(&x);
  intact_node *a, *b;
  intact_tensor *tensor = ramp(2, 3);
  assert_ok(context, intact__graph_add_constant(graph, "c", tensor, NULL, &constant));
  assert_ok(context, intact__graph_add_node(graph, &toy_relu, NULL, 1, &constant, 1, NULL, graph->first, &a));
  assert_ok(context, intact__graph_add_node(graph, &toy_relu, NULL, 1, a->results, 1, NULL, NULL, &b));
  assert_int_equal(graph->n_nodes, 4);
  intact__graph_remove_dead(graph);
  assert_int_equal(graph->n_nodes, 2);
  assert_null(graph->values[constant->id]);
  assert_ok(context, intact_graph_verify(graph));
  intact_graph_destroy(graph);
}

static void test_match(void **state) {
  (void)state;
  intact_value *x;
  intact_graph *graph = chain(&x);
  intact_node *nodes[4], *sum = graph->first, *cut = graph->last;
  assert_int_equal(intact__match(sum, "toy_add -> toy_relu", nodes, 4), 2);
  assert_ptr_equal(nodes[0], sum);
  assert_ptr_equal(nodes[1], cut);
  assert_int_equal(intact__match(sum, "toy_add -> toy_shape? -> toy_pick|toy_relu", nodes, 4), 3);
  assert_null(nodes[1]);
  assert_ptr_equal(nodes[2], cut);
  assert_int_equal(intact__match(sum, "toy_add(?, !) -> toy_relu", nodes, 4), 0);
  assert_int_equal(intact__match(sum, "toy_add(?, ?) -> toy_relu -> toy_relu", nodes, 4), 0);
  assert_int_equal(intact__match(sum, "toy_add(q)", nodes, 4), 0);
  assert_int_equal(intact__match(cut, "toy_relu(?, _)", nodes, 4), 1);
  assert_int_equal(intact__match(sum, "toy_shape", nodes, 4), 0);
  intact__node_set_operand(sum, 1, NULL);
  assert_int_equal(intact__match(sum, "toy_add(?,_)->toy_relu?", nodes, 4), 2);
  intact_graph_destroy(graph);
}

/* shape(x[N,3]) = (N, 3); picked, both become sizes of zeros without a run. */
static void test_shape_arithmetic(void **state) {
  (void)state;
  intact_value *x;
  intact_graph *graph = chain(&x);
  intact_node *shape, *pick[2], *zeros[2];
  assert_ok(context, intact__graph_add_node(graph, &toy_shape, NULL, 1, &x, 1, NULL, NULL, &shape));
  for (int i = 0; i < 2; i++) {
    assert_ok(context, intact__graph_add_node(graph, &toy_pick, NULL, 1, shape->results, 1, NULL, NULL, &pick[i]));
    intact__attr_set_int(pick[i], "index", i);
    assert_ok(context, intact__graph_add_node(graph, &toy_zeros, NULL, 1, pick[i]->results, 1, NULL, NULL, &zeros[i]));
  }
  assert_ok(context, intact__graph_infer(graph));
  assert_int_equal(zeros[0]->results[0]->dims[0], x->dims[0]);
  assert_int_equal(zeros[1]->results[0]->dims[0], 3);
  intact_graph_destroy(graph);
}

static void test_elements_of_symbols(void **state) {
  (void)state;
  for (int64_t dim = -3; dim <= 3; dim++)
    assert_int_equal(intact__dim_from_element(intact__element_from_dim(dim)), dim);
  assert_true(intact__element_is_symbol(intact__element_from_dim(-1)));
  assert_false(intact__element_is_symbol(-1));
}

int main(void) {
  context = test_context(1);
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(test_symbols_stay_open_and_close_with_shapes),
      cmocka_unit_test(test_one_size_per_symbol),
      cmocka_unit_test(test_interpret),
      cmocka_unit_test(test_quantized_values),
      cmocka_unit_test(test_bad_qparams),
      cmocka_unit_test(test_names_and_arity),
      cmocka_unit_test(test_attributes),
      cmocka_unit_test(test_order),
      cmocka_unit_test(test_replace_keeps_output_names),
      cmocka_unit_test(test_remove_dead),
      cmocka_unit_test(test_match),
      cmocka_unit_test(test_shape_arithmetic),
      cmocka_unit_test(test_elements_of_symbols),
  };
  const int failed = cmocka_run_group_tests(tests, NULL, NULL);
  intact_context_destroy(context);
  return failed;
}
