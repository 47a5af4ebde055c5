/* SPDX-License-Identifier: Apache-2.0 */
/* fold_constants and fold_batch_norm against the unrewritten graph, and the places where they must not work. */
#include "support/lab.h"

#include "graph/pass.h"

static intact_context *context;

static int64_t run_pass(intact_graph *graph, const char *name) {
  int64_t changed = 0;
  const intact_pass *pass = intact__find_pass(name);
  assert_non_null(pass);
  assert_ok(context, pass->run(graph, &changed));
  intact__graph_remove_dead(graph);
  assert_ok(context, intact_graph_verify(graph));
  return changed;
}

/* The results on x before and after the pass differ by at most `tolerance` of the largest value. */
static int64_t compare_pass(intact_graph *graph, const char *name, const intact_tensor *x, double tolerance) {
  intact_tensor *before = lab_run(graph, x);
  int64_t changed = run_pass(graph, name);
  intact_tensor *after = lab_run(graph, x);
  double most = 0, gap = 0;
  assert_int_equal(before->count, after->count);
  for (int64_t i = 0; i < before->count; i++) {
    most = fmax(most, fabs((double)intact__f32(before)[i]));
    gap = fmax(gap, fabs((double)intact__f32(before)[i] - (double)intact__f32(after)[i]));
  }
  assert_true(gap <= tolerance * most);
  intact_tensor_destroy(before);
  intact_tensor_destroy(after);
  return changed;
}

static intact_value *batch_norm(lab *l, intact_value *x, int64_t channels, bool affine) {
  intact_value *operands[5] = {x};
  if (affine) {
    operands[1] = lab_constant(l, "gamma", lab_random(l, -1.5f, 1.5f, LAB_DIMS(channels)));
    operands[2] = lab_constant(l, "beta", lab_random(l, -1, 1, LAB_DIMS(channels)));
    intact__f32(operands[1]->constant)[0] = 0.0f; /* a channel that is switched off */
  }
  operands[3] = lab_constant(l, "mean", lab_random(l, -1, 1, LAB_DIMS(channels)));
  operands[4] = lab_constant(l, "var", lab_random(l, 0.01f, 2, LAB_DIMS(channels)));
  return lab_infer(l, lab_node(l, &intact_op_batch_norm, NULL, 5, operands));
}

static void test_batch_norm_after_conv(void **state) {
  (void)state;
  for (int groups = 1; groups <= 4; groups *= 4) {
    lab l = lab_create(context);
    intact_value *x = lab_input(&l, "x", LAB_DIMS(1, 4, 5, 5));
    intact_value *y = batch_norm(&l, lab_conv(&l, "conv", x, 8, 3, groups), 8, groups == 1);
    lab_find(l.graph, "conv")->source = "c";
    y->producer->source = "n";
    lab_outputs(&l, 1, &y);
    intact_tensor *data = lab_random(&l, -1, 1, LAB_DIMS(2, 4, 5, 5));
    assert_int_equal(compare_pass(l.graph, "fold_batch_norm", data, 1e-6), 1);
    assert_int_equal(l.graph->n_nodes, 1);
    assert_string_equal(lab_find(l.graph, "conv")->source, "c+n");
    assert_string_equal(intact_graph_output(l.graph, 0).name, "batch_norm");
    intact_tensor_destroy(data);
    intact_graph_destroy(l.graph);
  }
}

/* Transposed, grouped: output channels lie as groups x axis 1. Without a bias: it gets one. */
static void test_batch_norm_after_conv_transpose(void **state) {
  (void)state;
  for (int64_t groups = 1; groups <= 2; groups++) {
    lab l = lab_create(context);
    intact_value *x = lab_input(&l, "x", LAB_DIMS(1, 4, 5, 5));
    intact_value *w = lab_constant(&l, "w", lab_random(&l, -1, 1, LAB_DIMS(4, 3, 2, 2)));
    intact_node *conv = lab_node(&l, &intact_op_conv_transpose2d, "conv", 2, (intact_value *[]){x, w});
    intact__attr_set_int(conv, "groups", groups);
    intact_value *y = batch_norm(&l, lab_infer(&l, conv), 3 * groups, true);
    lab_outputs(&l, 1, &y);
    intact_tensor *data = lab_random(&l, -1, 1, LAB_DIMS(2, 4, 5, 5));
    assert_int_equal(compare_pass(l.graph, "fold_batch_norm", data, 1e-6), 1);
    assert_int_equal(lab_find(l.graph, "conv")->n_operands, 3);
    intact_tensor_destroy(data);
    intact_graph_destroy(l.graph);
  }
}

static void test_batch_norm_after_linear(void **state) {
  (void)state;
  lab l = lab_create(context);
  intact_value *x = lab_input(&l, "x", LAB_DIMS(1, 6));
  intact_value *y = batch_norm(&l, lab_linear(&l, "linear", x, 5), 5, true);
  lab_outputs(&l, 1, &y);
  intact_tensor *data = lab_random(&l, -1, 1, LAB_DIMS(3, 6));
  assert_int_equal(compare_pass(l.graph, "fold_batch_norm", data, 1e-6), 1);
  intact_tensor_destroy(data);
  intact_graph_destroy(l.graph);
}

/* The layer's result is read elsewhere; the channels of a linear over three dimensions are last; statistics in training. */
static void test_batch_norm_that_stays(void **state) {
  (void)state;
  lab l = lab_create(context);
  intact_value *x = lab_input(&l, "x", LAB_DIMS(1, 4, 5, 5)), *c = lab_conv(&l, "conv", x, 8, 3, 1);
  intact_value *outputs[] = {batch_norm(&l, c, 8, true), c};
  lab_outputs(&l, 2, outputs);
  assert_int_equal(run_pass(l.graph, "fold_batch_norm"), 0);
  intact_graph_destroy(l.graph);
  l = lab_create(context);
  x = lab_input(&l, "x", LAB_DIMS(1, 5, 6));
  intact_value *y = batch_norm(&l, lab_linear(&l, "linear", x, 5), 5, true);
  lab_outputs(&l, 1, &y);
  assert_int_equal(run_pass(l.graph, "fold_batch_norm"), 0);
  intact_graph_destroy(l.graph);
  l = lab_create(context);
  x = lab_input(&l, "x", LAB_DIMS(1, 4, 5, 5));
  y = batch_norm(&l, lab_conv(&l, "conv", x, 8, 3, 1), 8, true);
  intact__attr_set_int(y->producer, "training", 1);
  lab_outputs(&l, 1, &y);
  assert_int_equal(run_pass(l.graph, "fold_batch_norm"), 0);
  intact_graph_destroy(l.graph);
}

static void test_fold_constants(void **state) {
  (void)state;
  lab l = lab_create(context);
  intact_value *x = lab_input(&l, "x", LAB_DIMS(1, 6));
  intact_value *w = lab_constant(&l, "w", lab_random(&l, -1, 1, LAB_DIMS(6, 4)));
  intact_node *permute = lab_node(&l, &intact_op_permute, NULL, 1, &w);
  assert_ok(context, intact__attr_set_ints(permute, "dims", 2, (const int64_t[]){1, 0}));
  w = lab_unary(&l, &intact_op_neg, NULL, lab_infer(&l, permute));
  intact_value *y = lab_binary(&l, &intact_op_linear, "linear", x, w);
  intact_value *constant_output = lab_unary(&l, &intact_op_exp, NULL, lab_constant(&l, "c", lab_random(&l, 0, 1, LAB_DIMS(3))));
  lab_outputs(&l, 2, (intact_value *[]){y, constant_output});
  intact_tensor *data = lab_random(&l, -1, 1, LAB_DIMS(3, 6));
  assert_int_equal(compare_pass(l.graph, "fold_constants", data, 0), 2);
  assert_non_null(lab_find(l.graph, "linear")->operands[1]->constant);
  assert_int_equal(l.graph->n_nodes, 2); /* an output stays the result of a node */
  intact_tensor_destroy(data);
  intact_graph_destroy(l.graph);
}

/* A scalar spread over 64 MB is cheaper to spread again than to keep. */
static void test_large_results_stay(void **state) {
  (void)state;
  lab l = lab_create(context);
  intact_value *x = lab_input(&l, "x", LAB_DIMS(1, 4096));
  intact_value *c = lab_constant(&l, "c", lab_random(&l, -1, 1, LAB_DIMS(1, 1)));
  intact_node *expand = lab_node(&l, &intact_op_expand, NULL, 1, &c);
  assert_ok(context, intact__attr_set_ints(expand, "size", 2, (const int64_t[]){4096, 4096}));
  intact_value *y = lab_binary(&l, &intact_op_add, NULL, x, lab_infer(&l, expand));
  lab_outputs(&l, 1, &y);
  assert_int_equal(run_pass(l.graph, "fold_constants"), 0);
  intact_graph_destroy(l.graph);
}

/* The table: every row says what it needs; finding works; a pass is not run on another stage. */
static void test_table(void **state) {
  (void)state;
  assert_true(intact__n_passes >= 5);
  for (int i = 0; i < intact__n_passes; i++) {
    const intact_pass *pass = intact__passes[i];
    assert_ptr_equal(intact__find_pass(pass->name), pass);
    assert_true(pass->doc && *pass->doc && pass->precondition && *pass->precondition && pass->numerics && *pass->numerics);
    assert_true(pass->gives >= pass->needs && pass->run);
  }
  assert_null(intact__find_pass("no_such_pass"));
}

int main(void) {
  context = test_context(1);
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(test_batch_norm_after_conv),   cmocka_unit_test(test_batch_norm_after_conv_transpose),
      cmocka_unit_test(test_batch_norm_after_linear), cmocka_unit_test(test_batch_norm_that_stays),
      cmocka_unit_test(test_fold_constants),          cmocka_unit_test(test_large_results_stay),
      cmocka_unit_test(test_table),
  };
  int failed = cmocka_run_group_tests(tests, NULL, NULL);
  intact_context_destroy(context);
  return failed;
}
