/* SPDX-License-Identifier: Apache-2.0 */
/* Integer lowerings against the ops' float definitions between dequantize and quantize: exact for tables, element-wise
   operations and maximum; at most one step, and rarely, where an integer sum replaces a float one. */
#include "ops/lower.h"

#include "ops/lower_lab.h"

static lab l;

static intact_dtype any8(void) { return lab_random(&l, 2) ? INTACT_U8 : INTACT_S8; }
static int32_t any_zero(intact_dtype dtype) { return (int32_t)intact_dtype_min(dtype) + lab_random(&l, 256); }

/* Result 0 gets random qparams, now and then with a fused clamp. */
static void give_result(intact_node *node, intact_dtype dtype, float scale) {
  int32_t zero = any_zero(dtype);
  int64_t low = intact_dtype_min(dtype), high = intact_dtype_max(dtype);
  if (lab_random(&l, 3) == 0) low = zero;
  if (lab_random(&l, 3) == 0) high = high - 30 > low ? high - 30 : high;
  lab_set_qparams(&l, node->results[0], dtype, -1, 1, &scale, &zero, low, high);
  assert_ok(l.context, intact__node_infer(node));
}

static void expect_exact(intact_node *node, bool channels_last) {
  double most;
  int64_t differ = lab_compare(&l, node, channels_last, &most);
  if (differ != 0) print_error("%s: %lld elements differ, by up to %g\n", node->op->name, (long long)differ, most);
  assert_int_equal(differ, 0);
}

static void expect_close(intact_node *node, bool channels_last) {
  double most;
  int64_t differ = lab_compare(&l, node, channels_last, &most), count = intact__value_count(node->results[0]);
  if (most > 1 || differ > 2 + count / 20)
    print_error("%s: %lld of %lld elements differ, by up to %g\n", node->op->name, (long long)differ, (long long)count, most);
  assert_true(most <= 1 && differ <= 2 + count / 20);
}

static void test_tables(void **state) {
  (void)state;
  static const char *const ops[] = {"relu", "relu6", "sigmoid", "tanh", "hardswish", "hardsigmoid", "gelu", "leaky_relu", "silu", "exp"};
  const int64_t dims[] = {2, 5, 3, 7};
  for (size_t i = 0; i < sizeof ops / sizeof ops[0]; i++) {
    lab_new_graph(&l);
    intact_dtype dtype = any8();
    intact_value *x = lab_input(&l, dtype, 0.043f, any_zero(dtype), 4, dims);
    intact_node *node = lab_node(&l, ops[i], 1, &x, 1);
    give_result(node, any8(), 0.031f);
    expect_exact(node, lab_random(&l, 2));
  }
}

static void test_binary(void **state) {
  (void)state;
  static const char *const ops[] = {"add", "sub", "mul", "maximum", "minimum"};
  static const struct {
    int rank_a, rank_b;
    int64_t a[4], b[4];
  } shapes[] = {{4, 4, {2, 5, 3, 7}, {2, 5, 3, 7}}, {4, 4, {2, 21, 3, 7}, {2, 21, 1, 1}}, {4, 3, {2, 5, 3, 7}, {5, 1, 1}},
                {2, 2, {3, 40}, {3, 1}},            {2, 1, {3, 40}, {40}},              {4, 4, {2, 5, 1, 7}, {1, 5, 3, 1}},
                {4, 4, {1, 1, 1, 1}, {2, 5, 3, 7}}, {4, 0, {2, 5, 3, 7}, {0}},          {3, 3, {2, 9, 11}, {2, 1, 11}}};
  for (size_t i = 0; i < sizeof shapes / sizeof shapes[0]; i++)
    for (size_t k = 0; k < sizeof ops / sizeof ops[0]; k++)
      for (int constant = 0; constant < 2; constant++) {
        lab_new_graph(&l);
        intact_dtype da = any8(), db = any8();
        intact_value *operands[2] = {lab_input(&l, da, 0.043f, any_zero(da), shapes[i].rank_a, shapes[i].a), NULL};
        operands[1] = constant ? lab_constant(&l, db, shapes[i].rank_b, shapes[i].b)
                               : lab_input(&l, db, 0.021f, any_zero(db), shapes[i].rank_b, shapes[i].b);
        if (constant) lab_per_tensor(&l, operands[1], db, 0.021f, any_zero(db));
        intact_node *node = lab_node(&l, ops[k], 2, operands, 1);
        give_result(node, any8(), k == 2 ? 0.08f : 0.05f);
        bool last = lab_random(&l, 2) && (shapes[i].rank_b != 3 || shapes[i].rank_a != 4 || constant);
        expect_exact(node, last);
      }
}

static intact_value *weights(intact_dtype dtype, int rank, const int64_t *dims, int axis, bool zeros) {
  intact_value *w = lab_constant(&l, dtype, rank, dims);
  float scale[64];
  int32_t zero[64];
  for (int64_t i = 0; i < dims[axis]; i++) {
    scale[i] = test_uniform(&l.random, 0.002f, 0.02f);
    zero[i] = zeros ? (int32_t)intact_dtype_min(dtype) + lab_random(&l, 256) : 0;
  }
  bool per_tensor = lab_random(&l, 3) == 0;
  lab_set_qparams(&l, w, dtype, per_tensor ? -1 : axis, per_tensor ? 1 : dims[axis], scale, zero, intact_dtype_min(dtype),
                  intact_dtype_max(dtype));
  return w;
}

static intact_value *bias_for(const intact_value *x, const intact_value *w, int64_t channels) {
  switch (lab_random(&l, 4)) {
    case 0:
      return NULL;
    case 1:
      return lab_constant(&l, INTACT_F32, 1, &channels);
    default: {
      intact_value *bias = lab_constant(&l, INTACT_S32, 1, &channels);
      float scale[64];
      int32_t zero[64] = {0};
      for (int64_t i = 0; i < w->qparams->n; i++) scale[i] = x->qparams->scale[0] * w->qparams->scale[i];
      lab_set_qparams(&l, bias, INTACT_S32, w->qparams->n > 1 ? 0 : -1, w->qparams->n, scale, zero, INT32_MIN, INT32_MAX);
      return bias;
    }
  }
}

static void set_ints(intact_node *node, const char *name, int n, int64_t low, int64_t high) {
  int64_t values[6];
  for (int i = 0; i < n; i++) values[i] = low + lab_random(&l, (int)(high - low + 1));
  assert_ok(l.context, intact__attr_set_ints(node, name, n, values));
}

static void test_convolutions(void **state) {
  (void)state;
  static const char *const ops[] = {"conv1d", "conv2d", "conv3d"};
  for (int repeat = 0; repeat < 60; repeat++) {
    lab_new_graph(&l);
    int n = 1 + lab_random(&l, 3), depthwise = lab_random(&l, 3) == 0;
    int64_t groups = depthwise ? 1 + lab_random(&l, 20) : lab_random(&l, 3) ? 1 : 2, per = depthwise ? 1 : 1 + lab_random(&l, 9);
    int64_t out = groups * (depthwise ? 1 : 1 + lab_random(&l, 12));
    int64_t dims[5] = {1 + lab_random(&l, 2), groups * per}, kernel[5] = {out, per};
    for (int i = 0; i < n; i++) dims[2 + i] = 5 + lab_random(&l, n == 3 ? 3 : 9), kernel[2 + i] = 1 + lab_random(&l, 3);
    intact_dtype dx = any8(), dw = lab_random(&l, 3) ? INTACT_S8 : INTACT_U8;
    intact_value *operands[3] = {lab_input(&l, dx, 0.02f, any_zero(dx), n + 2, dims)};
    operands[1] = weights(dw, n + 2, kernel, 0, dw == INTACT_U8 || lab_random(&l, 4) == 0);
    operands[2] = bias_for(operands[0], operands[1], out);
    intact_node *node = lab_node(&l, ops[n - 1], 3, operands, 1);
    set_ints(node, "stride", n, 1, 2);
    set_ints(node, "dilation", n, 1, 2);
    set_ints(node, "padding", lab_random(&l, 2) ? n : 2 * n, 0, 2);
    intact__attr_set_int(node, "groups", groups);
    give_result(node, any8(), 0.2f);
    expect_close(node, true);
  }
}

static void test_products(void **state) {
  (void)state;
  for (int repeat = 0; repeat < 60; repeat++) {
    lab_new_graph(&l);
    int64_t k = 1 + lab_random(&l, 90), n = 1 + lab_random(&l, 40), batch = 1 + lab_random(&l, 14);
    int form = lab_random(&l, 3), rank = form != 1 && lab_random(&l, 2) ? 3 : 2;
    int64_t x2[] = {batch, k}, x3[] = {2, batch, k}, wt[] = {n, k}, w[] = {k, n};
    intact_dtype dx = any8(), dw = lab_random(&l, 3) ? INTACT_S8 : INTACT_U8;
    intact_value *x = lab_input(&l, dx, 0.02f, any_zero(dx), rank, rank == 3 ? x3 : x2);
    intact_value *weight = weights(dw, 2, form == 0 ? wt : w, form == 0 ? 0 : 1, dw == INTACT_U8);
    intact_value *bias = bias_for(x, weight, n);
    if (form == 1 && bias == NULL) continue;
    intact_value *linear[] = {x, weight, bias}, *addmm[] = {bias, x, weight}, *matmul[] = {x, weight};
    intact_node *node = lab_node(&l, form == 0 ? "linear" : form == 1 ? "addmm" : "matmul", form == 2 ? 2 : 3,
                                 form == 0   ? linear
                                 : form == 1 ? addmm
                                             : matmul,
                                 1);
    if (lab_random(&l, 4)) {
      give_result(node, any8(), 0.2f);
      expect_close(node, false);
    } else { /* a float result */
      double most;
      assert_ok(l.context, intact__node_infer(node));
      lab_compare(&l, node, false, &most);
      assert_true(most < 0.02);
    }
  }
}

/* The integer rules round away from zero, or twice: within a step of the float definition. */
static void test_other_rules(void **state) {
  (void)state;
  static const char *const rules[] = {"int32_single_round", "int32_double_round"};
  for (int r = 0; r < 2; r++) {
    double most;
    const int64_t dims[] = {2, 6, 9, 8}, kernel[] = {11, 6, 3, 3};
    lab_new_graph(&l);
    l.rule = rules[r];
    intact_value *operands[3] = {lab_input(&l, INTACT_U8, 0.02f, 17, 4, dims)};
    operands[1] = weights(INTACT_S8, 4, kernel, 0, false);
    operands[2] = bias_for(operands[0], operands[1], 11);
    intact_node *node = lab_node(&l, "conv2d", 3, operands, 1);
    give_result(node, INTACT_U8, 0.2f);
    lab_compare(&l, node, true, &most);
    assert_true(most <= 1);
  }
  l.rule = "f32_rne";
}

static void test_pools(void **state) {
  (void)state;
  static const char *const ops[] = {"max_pool2d", "avg_pool2d", "adaptive_avg_pool2d", "max_pool1d", "avg_pool3d"};
  for (int repeat = 0; repeat < 60; repeat++) {
    lab_new_graph(&l);
    int kind = repeat % 5, n = kind == 3 ? 1 : kind == 4 ? 3 : 2;
    int64_t dims[5] = {1 + lab_random(&l, 2), 1 + lab_random(&l, 50)};
    for (int i = 0; i < n; i++) dims[2 + i] = 5 + lab_random(&l, 8);
    intact_dtype dx = any8();
    int32_t zero = any_zero(dx);
    intact_value *x = lab_input(&l, dx, 0.02f, zero, n + 2, dims);
    intact_node *node = lab_node(&l, ops[kind], 1, &x, 1);
    if (kind == 2) {
      set_ints(node, "output_size", 2, 1, 4);
    } else {
      set_ints(node, "kernel_size", n, 2, 3);
      set_ints(node, "stride", n, 1, 3);
      set_ints(node, "padding", n, 0, 1);
      intact__attr_set_int(node, "ceil_mode", lab_random(&l, 2));
      if (kind == 0) set_ints(node, "dilation", n, 1, 2);
      if (kind == 1 || kind == 4) intact__attr_set_int(node, "count_include_pad", lab_random(&l, 2));
    }
    if (kind == 0 || kind == 3) {
      lab_per_tensor(&l, node->results[0], dx, 0.02f, zero);
      assert_ok(l.context, intact__node_infer(node));
      expect_exact(node, true);
    } else {
      give_result(node, any8(), 0.013f);
      expect_close(node, lab_random(&l, 4));
    }
  }
}

/* Result r has the qparams of operand 0, or others. */
static void give_moved(intact_node *node, bool same) {
  const intact_qparams *q = node->operands[0]->qparams;
  intact_dtype dtype = same ? q->dtype : any8();
  float scale = same ? q->scale[0] : 0.07f;
  int32_t zero = same ? q->zero_point[0] : any_zero(dtype);
  for (int r = 0; r < node->n_results; r++) lab_per_tensor(&l, node->results[r], dtype, scale, zero);
  assert_ok(l.context, intact__node_infer(node));
}

static void test_movement(void **state) {
  (void)state;
  static const struct {
    const char *op, *attr[3];
    int n[3];
    int64_t values[3][4];
    bool any_order;
  } cases[] = {
      {"slice", {"dim", "start", "end"}, {2, 2, 2}, {{1, 3}, {2, 1}, {7, 5}}, true},
      {"permute", {"dims"}, {4}, {{0, 2, 3, 1}}, false},
      {"transpose", {"dim0", "dim1"}, {0, 0}, {{1}, {3}}, false},
      {"flip", {"dims"}, {2}, {{1, 3}}, true},
      {"select", {"dim", "index"}, {0, 0}, {{1}, {3}}, false},
      {"reshape", {"shape"}, {3}, {{2, 24, 10}}, false},
      {"pixel_shuffle", {"upscale_factor"}, {0}, {{2}}, true},
      {"channel_shuffle", {"groups"}, {0}, {{4}}, true},
      {"constant_pad_nd", {"pad"}, {4}, {{1, 2, 0, 3}}, true},
      {"reflection_pad", {"padding"}, {4}, {{1, 2, 0, 3}}, true},
      {"roll", {"shifts", "dims"}, {2, 2}, {{1, 3}, {1, 3}}, true},
      {"upsample_nearest2d", {"size"}, {2}, {{9, 11}}, true},
      {"repeat", {"repeats"}, {4}, {{1, 2, 1, 3}}, true},
  };
  const int64_t dims[] = {2, 8, 6, 5};
  for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++)
    for (int k = 0; k < 4; k++) {
      lab_new_graph(&l);
      intact_dtype dtype = any8();
      intact_value *x = lab_input(&l, dtype, 0.043f, any_zero(dtype), 4, dims);
      intact_node *node = lab_node(&l, cases[i].op, 1, &x, 1);
      for (int a = 0; a < 3 && cases[i].attr[a] != NULL; a++) {
        if (cases[i].n[a] > 0)
          assert_ok(l.context, intact__attr_set_ints(node, cases[i].attr[a], cases[i].n[a], cases[i].values[a]));
        else
          intact__attr_set_int(node, cases[i].attr[a], cases[i].values[a][0]);
      }
      bool pad = strcmp(cases[i].op, "constant_pad_nd") == 0;
      if (pad) intact__attr_set_float(node, "value", 0.7);
      give_moved(node, k < 2 || pad);
      expect_exact(node, cases[i].any_order && (k & 1));
    }
}

static void test_cat(void **state) {
  (void)state;
  for (int repeat = 0; repeat < 16; repeat++) {
    lab_new_graph(&l);
    int axis = lab_random(&l, 4), n = 1 + lab_random(&l, 3);
    intact_value *parts[3];
    for (int i = 0; i < n; i++) {
      int64_t dims[] = {2, 5, 4, 3};
      dims[axis] = 1 + lab_random(&l, 40);
      intact_dtype dtype = repeat % 2 ? INTACT_U8 : any8();
      parts[i] = lab_input(&l, dtype, repeat % 2 ? 0.05f : 0.02f * (float)(i + 1), repeat % 2 ? 7 : any_zero(dtype), 4, dims);
    }
    intact_node *node = lab_node(&l, "cat", n, parts, 1);
    intact__attr_set_int(node, "dim", lab_random(&l, 2) ? axis : axis - 4);
    give_moved(node, repeat % 2);
    expect_exact(node, lab_random(&l, 2));
  }
}

static void test_mean(void **state) {
  (void)state;
  static const struct {
    int rank, n;
    int64_t axes[3];
  } cases[] = {{4, 2, {2, 3}}, {4, 1, {1}}, {3, 1, {1}}, {3, 1, {2}}, {2, 1, {1}}, {2, 1, {0}}, {4, 3, {1, 2, 3}}, {4, 1, {-1}}, {3, 0, {0}}};
  const int64_t dims[] = {3, 9, 6, 5};
  for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++)
    for (int keep = 0; keep < 2; keep++) {
      lab_new_graph(&l);
      intact_dtype dtype = any8();
      intact_value *x = lab_input(&l, dtype, 0.043f, any_zero(dtype), cases[i].rank, dims);
      intact_node *node = lab_node(&l, "mean", 1, &x, 1);
      assert_ok(l.context, intact__attr_set_ints(node, "dim", cases[i].n, cases[i].axes));
      intact__attr_set_int(node, "keepdim", keep);
      give_result(node, any8(), 0.02f);
      bool refused = cases[i].rank == 4 && cases[i].n == 1 && !keep && cases[i].axes[0] == 1; /* [N,H,W] without C in the end */
      if (refused)
        assert_non_null(node->op->check_int(node));
      else
        expect_close(node, true);
    }
}

static void test_borders(void **state) {
  (void)state;
  for (int repeat = 0; repeat < 12; repeat++) {
    lab_new_graph(&l);
    int64_t dims[] = {2, 1 + lab_random(&l, 20), 3 + lab_random(&l, 40), 30};
    int rank = 1 + lab_random(&l, 4);
    intact_value *x = lab_input(&l, INTACT_F32, 0, 0, rank, dims);
    intact_node *node = lab_node(&l, "quantize", 1, &x, 1);
    if (lab_random(&l, 2)) assert_ok(l.context, intact__attr_set_string(node, "rule", "divide"));
    give_result(node, any8(), 0.031f);
    expect_exact(node, lab_random(&l, 2));
    lab_new_graph(&l);
    intact_dtype dtype = any8();
    x = lab_input(&l, dtype, 0.031f, any_zero(dtype), rank, dims);
    node = lab_node(&l, "dequantize", 1, &x, 1);
    assert_ok(l.context, intact__node_infer(node));
    expect_exact(node, lab_random(&l, 2));
  }
}

int main(void) {
  lab_open(&l, 2);
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(test_tables),   cmocka_unit_test(test_binary),      cmocka_unit_test(test_convolutions),
      cmocka_unit_test(test_products), cmocka_unit_test(test_other_rules), cmocka_unit_test(test_pools),
      cmocka_unit_test(test_borders),  cmocka_unit_test(test_movement),    cmocka_unit_test(test_cat),
      cmocka_unit_test(test_mean),
  };
  int failed = cmocka_run_group_tests(tests, NULL, NULL);
  lab_close(&l);
  return failed;
}
