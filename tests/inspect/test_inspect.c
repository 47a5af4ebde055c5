/* SPDX-License-Identifier: Apache-2.0 */
/* SQNR, cosine and clipping on numbers worked out by hand; bounds of accumulators; advice. */
#include "support/test.h"

#include <math.h>
#include <string.h>

#include "inspect/difference.h"
#include "inspect/headroom.h"
#include "inspect/report.h"
#include "ops/ops.h"

static void add(intact_context *c, intact_difference *d, int64_t n, const float *a, const float *b) {
  intact_tensor *x, *y;
  assert_ok(c, intact_tensor_borrow(c, INTACT_F32, 1, &n, a, &x));
  assert_ok(c, intact_tensor_borrow(c, INTACT_F32, 1, &n, b, &y));
  intact__difference_add(d, x, y);
  intact_tensor_destroy(x);
  intact_tensor_destroy(y);
}

static void sums_follow_their_formulas(void **state) {
  (void)state;
  intact_context *c = test_context(1);
  const float a[] = {3, 4, 0, NAN}, b[] = {3, 4.5f, 0, 1};
  intact_difference d = {.low = -1, .high = 3.5, .least = -INFINITY, .most = INFINITY};
  add(c, &d, 4, a, b);
  /* signal 25, error 0.25: 20 dB; cosine (9 + 18) / sqrt(25 * 29.25) */
  assert_true(fabs(intact__difference_sqnr_db(&d) - 20) < 1e-12);
  assert_true(fabs(intact__difference_cosine(&d) - 27 / sqrt(25 * 29.25)) < 1e-12);
  assert_true(d.max_abs == 0.5 && d.count == 4 && d.outside == 1);
  intact_difference same = {.low = NAN, .high = NAN, .least = -INFINITY, .most = INFINITY};
  assert_true(isnan(intact__difference_sqnr_db(&same)));
  add(c, &same, 2, a, a);
  assert_true(isinf(intact__difference_sqnr_db(&same)) && intact__difference_sqnr_db(&same) > 0);
  assert_true(intact__difference_cosine(&same) == 1 && same.outside == 0);
  intact_context_destroy(c);
}

/* linear(x: u8 with zero point 128, w: [2,3] s8, b: s32) -> y */
static intact_graph *small_linear(intact_context *c) {
  static const int8_t w[] = {127, -127, 1, 2, 3, 4};
  static const int32_t b[] = {1000, -70000};
  const int64_t x_dims[] = {1, 3}, w_dims[] = {2, 3}, b_dims[] = {2};
  const float half = 0.5f, quarters[] = {0.25f, 0.25f}, eighths[] = {0.125f, 0.125f};
  const int32_t zero = 128, zeros[] = {0, 0};
  intact_graph *graph;
  intact_tensor *weights, *bias;
  intact_value *operands[3];
  intact_node *node;
  assert_ok(c, intact__graph_create(c, "g", &graph));
  assert_ok(c, intact__graph_add_input(graph, "x", INTACT_U8, 2, x_dims, &operands[0]));
  assert_ok(c, intact__value_set_qparams(graph, operands[0], intact__qparams_create(&graph->arena, INTACT_PER_TENSOR_AFFINE, INTACT_U8,
                                                                                    0, 255, -1, 1, &half, &zero)));
  assert_ok(c, intact_tensor_borrow(c, INTACT_S8, 2, w_dims, w, &weights));
  assert_ok(c, intact_tensor_borrow(c, INTACT_S32, 1, b_dims, b, &bias));
  assert_ok(c, intact__graph_add_constant(graph, "w", weights, intact__qparams_create(&graph->arena, INTACT_PER_CHANNEL_SYMMETRIC,
                                          INTACT_S8, -127, 127, 0, 2, quarters, zeros), &operands[1]));
  assert_ok(c, intact__graph_add_constant(graph, "b", bias, intact__qparams_create(&graph->arena, INTACT_PER_CHANNEL_SYMMETRIC,
                                          INTACT_S32, INT32_MIN, INT32_MAX, 0, 2, eighths, zeros), &operands[2]));
  assert_ok(c, intact__graph_add_node(graph, &intact_op_linear, "fc", 3, operands, 1, NULL, NULL, &node));
  assert_ok(c, intact__graph_set_outputs(graph, 1, node->results));
  return graph;
}

static void headroom_is_the_worst_case(void **state) {
  (void)state;
  intact_context *c = test_context(1);
  intact_graph *graph = small_linear(c);
  /* |x - 128| <= 128; channel 0: 255 * 128 + 1000 = 33640; channel 1: 9 * 128 + 70000 = 71152 */
  assert_true(fabs(intact__accumulator_headroom(graph->first) - (31 - log2(71152))) < 1e-12);
  assert_true(fabs(intact__bias_headroom(graph->first) - (31 - log2(70000))) < 1e-12);
  intact_graph_facts facts;
  assert_ok(c, intact_graph_count_facts(graph, &facts));
  assert_true(facts.nodes == 1 && facts.parameters == 8 && facts.macs == 6);
  intact_graph_destroy(graph);
  intact_context_destroy(c);
}

static void advice_names_the_worst_layer(void **state) {
  (void)state;
  intact_context *c = test_context(1);
  intact_layer_report layers[] = {
      {.name = "good", .op = "conv2d", .integer = true, .why = "", .sqnr_here_db = 40, .bias_headroom = 0, .acc_headroom = 0, .macs = 50},
      {.name = "poor", .op = "conv2d", .integer = true, .why = "", .sqnr_here_db = 9, .bias_headroom = 10, .acc_headroom = 9, .macs = 50},
      {.name = "slow", .op = "gru", .integer = false, .why = "no integer kernel", .sqnr_here_db = NAN, .bias_headroom = NAN,
       .acc_headroom = NAN, .macs = 100}};
  intact_report report = {.context = c, .layers = layers, .n_layers = 3};
  intact__arena_init(&report.arena, c);
  assert_ok(c, intact__report_advise(&report));
  assert_int_equal(intact_report_advice_count(&report), 2); /* a bias that just fits is no trouble */
  assert_non_null(strstr(intact_report_advice(&report, 0), "slow stays float (no integer kernel) with 50 %"));
  assert_non_null(strstr(intact_report_advice(&report, 1), "poor loses most here (9.0 dB"));
  layers[0].acc_headroom = -1.5;
  report.n_advice = 0;
  assert_ok(c, intact__report_advise(&report));
  assert_int_equal(intact_report_advice_count(&report), 3);
  assert_non_null(strstr(intact_report_advice(&report, 0), "good: its int32 accumulator can overflow by 1.5 bits"));
  intact__arena_fini(&report.arena);
  intact_report_destroy(NULL);
  intact_context_destroy(c);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(sums_follow_their_formulas),
      cmocka_unit_test(headroom_is_the_worst_case),
      cmocka_unit_test(advice_names_the_worst_layer),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
