/* SPDX-License-Identifier: Apache-2.0 */
/* Product and bias as one linear node: the same numbers, the places that stay, and the way through a file. */
#include "support/lab.h"

#include "graph/pass.h"
#include "intact/run.h"

static intact_context *context;

static int64_t run_pass(intact_graph *graph, const char *name) {
  int64_t changed = 0;
  assert_ok(context, intact__find_pass(name)->run(graph, &changed));
  intact__graph_remove_dead(graph);
  assert_ok(context, intact_graph_verify(graph));
  return changed;
}

static intact_value *product(lab *l, const char *name, intact_value *x, int64_t outputs) {
  intact_value *w = lab_constant(l, "w", lab_random(l, -1, 1, LAB_DIMS(x->dims[x->rank - 1], outputs)));
  return lab_binary(l, &intact_op_matmul, name, x, w);
}

/* The bias on either side, of one axis or more. */
static void test_fuses(void **state) {
  (void)state;
  for (int form = 0; form < 4; form++) {
    lab l = lab_create(context);
    intact_value *x = lab_input(&l, "x", LAB_DIMS(1, 3, 5)), *y = product(&l, "product", x, 7);
    const int64_t dims[] = {1, 1, 7};
    const int rank = form < 2 ? 1 : 3;
    intact_value *b = lab_constant(&l, "b", lab_random(&l, -1, 1, rank, dims + 3 - rank));
    y = form % 2 ? lab_binary(&l, &intact_op_add, "sum", b, y) : lab_binary(&l, &intact_op_add, "sum", y, b);
    lab_find(l.graph, "product")->source = "p";
    lab_find(l.graph, "sum")->source = "s";
    lab_outputs(&l, 1, &y);
    intact_tensor *data = lab_random(&l, -1, 1, LAB_DIMS(2, 3, 5)), *before = lab_run(l.graph, data);
    assert_int_equal(run_pass(l.graph, "fuse_matmul_bias"), 1);
    run_pass(l.graph, "fold_constants");
    assert_int_equal(l.graph->n_nodes, 1);
    assert_string_equal(lab_find(l.graph, "product")->op->name, "linear");
    assert_string_equal(lab_find(l.graph, "product")->source, "p+s");
    intact_tensor *after = lab_run(l.graph, data);
    assert_int_equal(before->count, after->count);
    for (int64_t i = 0; i < before->count; i++) assert_true(fabsf(intact__f32(before)[i] - intact__f32(after)[i]) < 2e-6f);
    intact_tensor_destroy(before);
    intact_tensor_destroy(after);
    intact_tensor_destroy(data);
    intact_graph_destroy(l.graph);
  }
}

typedef enum refusal { TWO_READERS, FACTOR, ONE_NUMBER, PER_ROW, TWO_PRODUCTS, N_REFUSALS } refusal;

static void test_leaves_alone(void **state) {
  (void)state;
  for (int why = 0; why < N_REFUSALS; why++) {
    lab l = lab_create(context);
    intact_value *x = lab_input(&l, "x", LAB_DIMS(1, 3, 5)), *y = product(&l, "product", x, 7), *outputs[2] = {NULL, y};
    intact_value *b = why == TWO_PRODUCTS ? lab_unary(&l, &intact_op_relu, NULL, product(&l, "other", x, 7))
                      : why == ONE_NUMBER ? lab_constant(&l, "b", lab_random(&l, -1, 1, LAB_DIMS(1)))
                      : why == PER_ROW    ? lab_constant(&l, "b", lab_random(&l, -1, 1, LAB_DIMS(3, 7)))
                                          : lab_constant(&l, "b", lab_random(&l, -1, 1, LAB_DIMS(7)));
    intact_node *sum = lab_node(&l, &intact_op_add, NULL, 2, (intact_value *[]){y, b});
    if (why == FACTOR) intact__attr_set_float(sum, "alpha", 2);
    outputs[0] = lab_infer(&l, sum);
    lab_outputs(&l, why == TWO_READERS ? 2 : 1, outputs);
    assert_int_equal(run_pass(l.graph, "fuse_matmul_bias"), 0);
    intact_graph_destroy(l.graph);
  }
}

/* Quantized, written as product and addition, read, and run as the one integer node that it was. */
static void test_through_a_file(void **state) {
  (void)state;
  lab l = lab_create(context);
  intact_value *x = lab_input(&l, "x", LAB_DIMS(1, 3, 5)), *y = product(&l, "product", x, 7);
  y = lab_binary(&l, &intact_op_add, "sum", y, lab_constant(&l, "b", lab_random(&l, -1, 1, LAB_DIMS(7))));
  lab_outputs(&l, 1, &y);
  intact_tensor *samples = lab_random(&l, -1, 1, LAB_DIMS(16, 3, 5));
  const intact_tensor *inputs[] = {samples};
  intact_data *data = lab_data(l.graph, samples);
  intact_graph *quantized, *graphs[2] = {NULL, NULL};
  assert_ok(context, intact_quantize(l.graph, data, NULL, &quantized, NULL));
  intact_data_close(data);
  char path[] = "/tmp/intact_fuse_XXXXXX.onnx";
  const int file = mkstemps(path, 5);
  assert_true(file >= 0);
  close(file);
  assert_ok(context, intact_model_write(quantized, path, NULL));
  assert_ok(context, intact_model_read(context, path, &graphs[1]));
  unlink(path);
  assert_int_equal(lab_count(graphs[1], "matmul"), 1);
  assert_ok(context, intact_graph_copy(quantized, &graphs[0]));
  intact_tensor *out[2];
  for (int i = 0; i < 2; i++) {
    assert_ok(context, intact_to_integer(graphs[i]));
    assert_int_equal(lab_count(graphs[i], "linear"), 1);
    assert_int_equal(lab_count(graphs[i], "matmul") + lab_count(graphs[i], "add"), 0);
    intact_program *program;
    assert_ok(context, intact_program_create(graphs[i], &program));
    assert_ok(context, intact_program_run(program, inputs, &out[i]));
    for (int s = 0; s < intact_program_step_count(program); s++) assert_true(intact_program_step(program, s).integer);
    intact_program_destroy(program);
  }
  assert_int_equal(out[0]->count, out[1]->count);
  assert_memory_equal(out[0]->data, out[1]->data, intact_tensor_bytes(out[0]));
  intact_tensor *exact = lab_run(l.graph, samples);
  assert_true(lab_sqnr(exact, out[0]) > 35);
  intact_tensor_destroy(exact);
  for (int i = 0; i < 2; i++) {
    intact_tensor_destroy(out[i]);
    intact_graph_destroy(graphs[i]);
  }
  intact_graph_destroy(quantized);
  intact_tensor_destroy(samples);
  intact_graph_destroy(l.graph);
}

static int setup(void **state) {
  (void)state;
  context = test_context(1);
  return 0;
}

static int teardown(void **state) {
  (void)state;
  intact_context_destroy(context);
  return 0;
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(test_fuses),
      cmocka_unit_test(test_leaves_alone),
      cmocka_unit_test(test_through_a_file),
  };
  return cmocka_run_group_tests(tests, setup, teardown);
}
