/* SPDX-License-Identifier: Apache-2.0 */
/* Equalization that keeps batch norms: the reference mobilenet, whose channels are uneven on purpose, computes the same bits, and the ranges
   of its folded weights come together. */
#include "support/test.h"

#include <math.h>

#include "graph/pass.h"
#include "intact/io.h"
#include "intact/train.h"
#include "quant/equalize_norms.h"
#include "support/reference.h"

static char models[1024];

/* Largest |weight| of the output channels of a layer after folding: the ratio of the largest to the smallest. */
static double spread(const intact_graph *graph, const char *layer) {
  intact_graph *copy;
  assert_int_equal(intact_graph_copy(graph, &copy), INTACT_OK);
  assert_int_equal(intact__run_passes(copy, INTACT_STAGE_FLOAT, INTACT_STAGE_FLOAT), INTACT_OK);
  const intact_tensor *w = intact__graph_find_node(copy, layer)->operands[1]->constant;
  const int64_t row = w->count / w->dims[0];
  double low = INFINITY, high = 0;
  for (int64_t c = 0; c < w->dims[0]; c++) {
    double most = 0;
    for (int64_t i = 0; i < row; i++) most = fmax(most, fabs((double)intact__f32(w)[c * row + i]));
    low = fmin(low, most);
    high = fmax(high, most);
  }
  intact_graph_destroy(copy);
  return high / low;
}

static void the_function_stays_and_ranges_come_together(void **state) {
  (void)state;
  intact_context *c = test_context(1);
  const double mean = 0.286, std = 0.353;
  const intact_data_options data_options = {.n_mean = 1, .n_std = 1, .mean = &mean, .std = &std, .samples = 64};
  const intact_quantize_options options = intact_quantize_default_options();
  char path[1200];
  intact_generator *g;
  intact_graph *graph;
  intact_data *data;
  intact_tensor *x, *before, *after;
  intact_note_list notes;
  assert_ok(c, intact_generator_create(c, 0, &g));
  assert_ok(c, intact_network_create(c, "mobilenet", g, &graph));
  snprintf(path, sizeof path, "%s/mobilenet/model.safetensors", models);
  assert_ok(c, intact_weights_load(graph, path));
  snprintf(path, sizeof path, "%s/data/train-512-images-idx3-ubyte", models);
  assert_ok(c, intact_data_open(c, path, graph, &data_options, &data));
  assert_ok(c, intact_data_batch(data, 0, 8, &x));
  const intact_tensor *const inputs[] = {x};
  assert_ok(c, intact_graph_interpret(graph, inputs, true, &before));
  const double spread_before = spread(graph, "b1.pw");
  intact__notes_init(&notes, c);
  assert_ok(c, intact__equalize_with_norms(graph, &options, data, &notes));
  intact__notes_fini(&notes);
  assert_ok(c, intact_graph_interpret(graph, inputs, true, &after));
  assert_memory_equal(before->data, after->data, intact_tensor_bytes(before));
  assert_true(spread_before > 100);
  assert_true(spread(graph, "b1.pw") < spread_before / 4);
  int norms = 0;
  for (const intact_node *node = graph->first; node; node = node->next) norms += intact__is_op(node, "batch_norm");
  assert_int_equal(norms, 16);
  intact_tensor_destroy(x);
  intact_tensor_destroy(before);
  intact_tensor_destroy(after);
  intact_data_close(data);
  intact_graph_destroy(graph);
  intact_generator_destroy(g);
  intact_context_destroy(c);
}

int main(void) {
  const struct CMUnitTest tests[] = {cmocka_unit_test(the_function_stays_and_ranges_come_together)};
  test_reference("models", models, sizeof models);
  return cmocka_run_group_tests(tests, NULL, NULL);
}
