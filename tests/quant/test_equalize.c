/* SPDX-License-Identifier: Apache-2.0 */
/* Cross-layer equalization: the function stays bit for bit, the ranges become even; and where it must not happen. */
#include "support/lab.h"

#include "quant/annotate.h"
#include "quant/channel_map.h"
#include "quant/equalize.h"

static intact_context *context;

/* Channel c of `from` times s_c, of `to`'s input divided by it: the function is the same, the ranges are uneven. */
static void unbalance(const intact_graph *graph, const char *from, const char *to, int64_t per_channel) {
  intact_node *a = lab_find(graph, from), *b = lab_find(graph, to);
  float *w = intact__f32(a->operands[1]->constant), *bias = intact__f32(a->operands[2]->constant);
  const intact_tensor *u = b->operands[1]->constant;
  int64_t channels = a->operands[1]->constant->dims[0], row = a->operands[1]->constant->count / channels;
  int64_t in = u->dims[1], inner = u->count / u->dims[0] / in;
  for (int64_t c = 0; c < channels; c++) {
    float s = exp2f((float)(c * 7 % 9) - 4.0f);
    for (int64_t i = 0; i < row; i++) w[c * row + i] *= s;
    bias[c] *= s;
  }
  for (int64_t i = 0; i < u->count; i++) {
    int64_t c = in == 1 ? i / inner : i / inner % in / per_channel;
    intact__f32(u)[i] /= exp2f((float)(c * 7 % 9) - 4.0f);
  }
}

static intact_quantize_notes equalize(intact_graph *graph, const intact_tensor *samples) {
  intact_quantize_notes taken;
  intact_note_list notes;
  intact__notes_init(&notes, context);
  intact_data *data = lab_data(graph, samples);
  assert_ok(context, intact_annotate(graph, NULL));
  assert_ok(context, intact__equalize(graph, data, 4, &notes));
  assert_ok(context, intact_graph_verify(graph));
  intact_data_close(data);
  intact__notes_take(&notes, &taken);
  return taken;
}

static double weight_spread(const intact_graph *graph, const char *name) {
  const intact_tensor *w = lab_find(graph, name)->operands[1]->constant;
  double low = INFINITY, high = 0;
  int64_t row = w->count / w->dims[0];
  for (int64_t c = 0; c < w->dims[0]; c++) {
    double most = 0;
    for (int64_t i = 0; i < row; i++) most = fmax(most, fabs((double)intact__f32(w)[c * row + i]));
    low = fmin(low, most);
    high = fmax(high, most);
  }
  return high / low;
}

/* Runs before and after; expects `notes` links changed and the very same bits. */
static void expect_same_function(lab *l, const intact_tensor *x, int links) {
  intact_tensor *before = lab_run(l->graph, x);
  intact_quantize_notes notes = equalize(l->graph, x);
  intact_tensor *after = lab_run(l->graph, x);
  for (int i = 0; i < notes.n; i++) print_message("%s\n", notes.lines[i]);
  assert_int_equal(notes.n, links);
  assert_int_equal(before->count, after->count);
  assert_memory_equal(before->data, after->data, intact_tensor_bytes(before));
  intact_quantize_notes_destroy(context, &notes);
  intact_tensor_destroy(before);
  intact_tensor_destroy(after);
}

/* 1x1 -> relu -> depthwise -> relu -> 1x1, as in the inverted residuals of MobileNet. */
static void test_depthwise_block(void **state) {
  (void)state;
  lab l = lab_create(context);
  intact_value *x = lab_input(&l, "x", LAB_DIMS(1, 6, 7, 7));
  intact_value *h = lab_unary(&l, &intact_op_relu, NULL, lab_conv(&l, "expand", x, 9, 1, 1));
  h = lab_unary(&l, &intact_op_relu, NULL, lab_conv(&l, "depthwise", h, 9, 3, 9));
  h = lab_conv(&l, "project", h, 5, 1, 1);
  lab_outputs(&l, 1, &h);
  unbalance(l.graph, "expand", "depthwise", 1);
  unbalance(l.graph, "depthwise", "project", 1);
  assert_true(weight_spread(l.graph, "expand") > 100);
  intact_tensor *samples = lab_random(&l, -1, 1, LAB_DIMS(8, 6, 7, 7));
  expect_same_function(&l, samples, 2);
  assert_true(weight_spread(l.graph, "expand") < 12);
  intact_tensor_destroy(samples);
  intact_graph_destroy(l.graph);
}

/* Through pooling and flattening: features 4 c .. 4 c + 3 of the linear layer belong to channel c; and to two readers. */
static void test_pool_flatten_and_two_readers(void **state) {
  (void)state;
  lab l = lab_create(context);
  intact_value *x = lab_input(&l, "x", LAB_DIMS(1, 3, 4, 4));
  intact_value *h = lab_max_pool(&l, "pool", lab_unary(&l, &intact_op_relu, NULL, lab_conv(&l, "conv", x, 6, 3, 1)));
  intact_node *flat = lab_node(&l, &intact_op_reshape, "flatten", 1, &h);
  assert_ok(context, intact__attr_set_ints(flat, "shape", 2, (const int64_t[]){-1, 24}));
  h = lab_infer(&l, flat);
  intact_value *outputs[] = {lab_linear(&l, "one", h, 5), lab_linear(&l, "two", h, 3)};
  lab_outputs(&l, 2, outputs);
  unbalance(l.graph, "conv", "one", 4);
  unbalance(l.graph, "conv", "two", 4); /* conv is scaled twice now, one and two once each */
  intact_node *one = lab_find(l.graph, "one"), *two = lab_find(l.graph, "two");
  for (int64_t i = 0; i < 24 * 5; i++) intact__f32(one->operands[1]->constant)[i] /= exp2f((float)(i % 24 / 4 * 7 % 9) - 4.0f);
  for (int64_t i = 0; i < 24 * 3; i++) intact__f32(two->operands[1]->constant)[i] /= exp2f((float)(i % 24 / 4 * 7 % 9) - 4.0f);
  intact_tensor *samples = lab_random(&l, -1, 1, LAB_DIMS(8, 3, 4, 4));
  expect_same_function(&l, samples, 1);
  assert_true(weight_spread(l.graph, "conv") < 64);
  intact_tensor_destroy(samples);
  intact_graph_destroy(l.graph);
}

/* Places that must stay: a clamp at 6 is not homogeneous, hardswish neither; a branch that adds; an output between. */
static void expect_untouched(lab *l, intact_value *y, const intact_tensor *samples) {
  lab_outputs(l, 1, &y);
  unbalance(l->graph, "a", "b", 1);
  intact_tensor *before;
  assert_ok(context, intact_tensor_copy(lab_find(l->graph, "a")->operands[1]->constant, &before));
  intact_quantize_notes notes = equalize(l->graph, samples);
  assert_int_equal(notes.n, 0);
  assert_memory_equal(before->data, lab_find(l->graph, "a")->operands[1]->constant->data, intact_tensor_bytes(before));
  intact_quantize_notes_destroy(context, &notes);
  intact_tensor_destroy(before);
  intact_graph_destroy(l->graph);
}

static void test_preconditions(void **state) {
  (void)state;
  lab l = lab_create(context);
  intact_tensor *samples = lab_random(&l, -1, 1, LAB_DIMS(4, 3, 5, 5));
  intact_graph_destroy(l.graph);
  const intact_op *const between[] = {&intact_op_relu6, &intact_op_hardswish, &intact_op_sigmoid};
  for (int i = 0; i < 3; i++) {
    l = lab_create(context);
    intact_value *x = lab_input(&l, "x", LAB_DIMS(1, 3, 5, 5));
    intact_value *h = lab_unary(&l, between[i], NULL, lab_conv(&l, "a", x, 6, 3, 1));
    expect_untouched(&l, lab_conv(&l, "b", h, 4, 1, 1), samples);
  }
  l = lab_create(context);
  intact_value *x = lab_input(&l, "x", LAB_DIMS(1, 3, 5, 5));
  intact_value *h = lab_unary(&l, &intact_op_relu, NULL, lab_conv(&l, "a", x, 6, 3, 1));
  intact_value *b = lab_conv(&l, "b", h, 6, 1, 1);
  expect_untouched(&l, lab_binary(&l, &intact_op_add, NULL, h, b), samples);
  intact_tensor_destroy(samples);
}

/* Channel maps: a pool with zero padding keeps channels; a mean over channels and a constant pad with 1 do not. */
static void test_channel_maps(void **state) {
  (void)state;
  lab l = lab_create(context);
  intact_value *x = lab_input(&l, "x", LAB_DIMS(1, 4, 6, 6));
  intact_node *pool = lab_node(&l, &intact_op_avg_pool2d, "pool", 1, &x);
  assert_ok(context, intact__attr_set_ints(pool, "kernel_size", 2, (const int64_t[]){3, 3}));
  assert_ok(context, intact__attr_set_ints(pool, "padding", 2, (const int64_t[]){1, 1}));
  intact_node *spatial = lab_node(&l, &intact_op_mean, "spatial", 1, &x), *channels = lab_node(&l, &intact_op_mean, "channels", 1, &x);
  assert_ok(context, intact__attr_set_ints(spatial, "dim", 2, (const int64_t[]){2, 3}));
  assert_ok(context, intact__attr_set_ints(channels, "dim", 1, (const int64_t[]){1}));
  intact__attr_set_int(channels, "keepdim", 1);
  intact_node *permute = lab_node(&l, &intact_op_permute, "permute", 1, &x);
  assert_ok(context, intact__attr_set_ints(permute, "dims", 4, (const int64_t[]){0, 2, 3, 1}));
  int64_t identity[] = {0, 1, 2, 3};
  const intact_channels from = {.axis = 1, .n = 4, .map = identity};
  intact_arena arena;
  intact__arena_init(&arena, context);
  intact_node *const nodes[] = {pool, spatial, channels, permute};
  const int axes[] = {1, 1, -1, 3};
  for (int i = 0; i < 4; i++) {
    lab_infer(&l, nodes[i]);
    intact_channels to;
    bool found;
    assert_true(intact__is_homogeneous(nodes[i]));
    assert_ok(context, intact__map_channels(nodes[i], &from, 4, &arena, &to, &found));
    assert_int_equal(found, axes[i] >= 0);
    if (!found) continue;
    assert_int_equal(to.axis, axes[i]);
    assert_int_equal(to.n, 4);
    for (int c = 0; c < 4; c++) assert_int_equal(to.map[c], c);
  }
  intact__arena_fini(&arena);
  intact_graph_destroy(l.graph);
}

int main(void) {
  context = test_context(1);
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(test_depthwise_block), cmocka_unit_test(test_pool_flatten_and_two_readers),
      cmocka_unit_test(test_preconditions),   cmocka_unit_test(test_channel_maps),
  };
  int failed = cmocka_run_group_tests(tests, NULL, NULL);
  intact_context_destroy(context);
  return failed;
}
