/* SPDX-License-Identifier: Apache-2.0 */
/* The tape: gradients of calls by name, accumulation, sharing, detaching, changes in place, and what is refused. */
#include "support/test.h"

#include <math.h>
#include <string.h>

#include "intact/autograd.h"
#include "ops/ops.h"
#include "tensor/tensor.h"

static intact_context *context;

static intact_variable *variable_of(int rank, const int64_t *dims, const float *values, bool requires_grad) {
  intact_tensor *tensor;
  intact_variable *variable;
  assert_ok(context, intact_tensor_create(context, INTACT_F32, rank, dims, &tensor));
  memcpy(intact_tensor_mutable_data(tensor), values, intact_tensor_bytes(tensor));
  assert_ok(context, intact_variable_create(tensor, requires_grad, &variable));
  intact_tensor_destroy(tensor);
  return variable;
}

static intact_variable *scalar(float value, bool requires_grad) { return variable_of(0, NULL, &value, requires_grad); }

static intact_variable *call(const char *op, const char *attributes, intact_variable *a, intact_variable *b) {
  intact_variable *result = NULL, *const operands[2] = {a, b};
  assert_ok(context, intact_variable_call(context, op, attributes, b ? 2 : 1, operands, 1, &result));
  return result;
}

/* The same, and the operands are let go. */
static intact_variable *then(const char *op, intact_variable *a, intact_variable *b) {
  intact_variable *result = call(op, NULL, a, b);
  intact_variable_release(a);
  intact_variable_release(b);
  return result;
}

static const float *values_of(const intact_variable *variable) { return intact_tensor_data(intact_variable_tensor(variable)); }

static float gradient_of(const intact_variable *variable, int i) {
  assert_non_null(intact_variable_gradient(variable));
  return ((const float *)intact_tensor_data(intact_variable_gradient(variable)))[i];
}

/* ---- straight-through: round has gradient 0, the detach form and an op row made for it have 1 ---- */

static intact_variable *on_grid(intact_variable *w) {
  intact_variable *steps = scalar(127, false);
  intact_variable *q = then("round", call("mul", NULL, w, steps), NULL);
  return then("div", q, steps);
}

static void test_straight_through(void **state) {
  (void)state;
  intact_variable *w = scalar(0.4f, true), *y = on_grid(w);
  assert_float_equal(values_of(y)[0], 51.0f / 127.0f, 1e-7);
  assert_ok(context, intact_variable_backward(y, NULL, false));
  assert_float_equal(gradient_of(w, 0), 0, 0);
  intact_variable_release(y);

  intact_variable_clear_gradient(w);
  intact_variable *gap = call("sub", NULL, y = on_grid(w), w), *fixed;
  assert_ok(context, intact_variable_detach(gap, &fixed));
  intact_variable *form = call("add", NULL, w, fixed);
  assert_float_equal(values_of(form)[0], 51.0f / 127.0f, 1e-7);
  assert_ok(context, intact_variable_backward(form, NULL, false));
  assert_float_equal(gradient_of(w, 0), 1, 0);
  intact_variable_release(y);
  intact_variable_release(gap);
  intact_variable_release(fixed);
  intact_variable_release(form);

  intact_variable_clear_gradient(w);
  intact_variable *scale = scalar(1.0f / 127.0f, false), *zero, *quantized;
  intact_tensor *none;
  assert_ok(context, intact_tensor_create(context, INTACT_S32, 0, NULL, &none));
  assert_ok(context, intact_variable_create(none, false, &zero));
  intact_tensor_destroy(none);
  intact_variable *const operands[3] = {w, scale, zero};
  assert_ok(context, intact_variable_call(context, "fake_quantize_per_tensor_affine", "quant_min=-127 quant_max=127", 3, operands, 1,
                                          &quantized));
  assert_float_equal(values_of(quantized)[0], 51.0f / 127.0f, 1e-7);
  assert_ok(context, intact_variable_backward(quantized, NULL, false));
  assert_float_equal(gradient_of(w, 0), 1, 0);
  intact_variable_release(scale);
  intact_variable_release(zero);
  intact_variable_release(quantized);
  intact_variable_release(w);
}

/* ---- sums over paths, broadcasts, views ---- */

/* y = sum((x + b)^2) with b of shape [3] over rows of x [2,3]: dy/dx = 2 (x + b), dy/db the column sums of that. */
static void test_broadcast_and_reuse(void **state) {
  (void)state;
  const float x_values[6] = {1, 2, 3, 4, 5, 6}, b_values[3] = {0.5f, -1, 2};
  intact_variable *x = variable_of(2, (const int64_t[]){2, 3}, x_values, true);
  intact_variable *b = variable_of(1, (const int64_t[]){3}, b_values, true);
  intact_variable *sum = call("add", NULL, x, b), *square = call("mul", NULL, sum, sum), *y = call("sum", NULL, square, NULL);
  intact_variable_keep_gradient(sum);
  assert_ok(context, intact_variable_backward(y, NULL, false));
  for (int i = 0; i < 6; i++) {
    assert_float_equal(gradient_of(x, i), 2 * (x_values[i] + b_values[i % 3]), 1e-6);
    assert_float_equal(gradient_of(sum, i), 2 * (x_values[i] + b_values[i % 3]), 1e-6);
  }
  for (int i = 0; i < 3; i++) assert_float_equal(gradient_of(b, i), 2 * (x_values[i] + x_values[i + 3] + 2 * b_values[i]), 1e-6);
  intact_variable_release(y);
  intact_variable_release(square);
  intact_variable_release(sum);
  intact_variable_release(x);
  intact_variable_release(b);
}

/* Gradients add up over backward calls until they are cleared; a kept record can be walked again. */
static void test_accumulation(void **state) {
  (void)state;
  intact_variable *w = scalar(3, true), *y = call("mul", NULL, w, w);
  assert_ok(context, intact_variable_backward(y, NULL, true));
  assert_float_equal(gradient_of(w, 0), 6, 0);
  assert_ok(context, intact_variable_backward(y, NULL, false));
  assert_float_equal(gradient_of(w, 0), 12, 0);
  assert_fails(intact_variable_backward(y, NULL, false), INTACT_WRONG_USE);
  assert_non_null(strstr(intact_context_message(context), "second time"));
  intact_variable_clear_gradient(w);
  assert_null(intact_variable_gradient(w));
  intact_variable_release(y);
  intact_variable_release(w);
}

/* A reshape shares the elements: its gradient comes back in the leaf's shape, and a change through it is seen. */
static void test_views(void **state) {
  (void)state;
  const float values[4] = {1, 2, 3, 4};
  intact_variable *x = variable_of(2, (const int64_t[]){2, 2}, values, true), *flat, *y;
  flat = call("reshape", "shape=[4]", x, NULL);
  y = then("sum", call("mul", NULL, flat, flat), NULL);
  intact_variable *const keep = y;
  assert_ok(context, intact_variable_backward(keep, NULL, true));
  assert_int_equal(intact_tensor_rank(intact_variable_gradient(x)), 2);
  for (int i = 0; i < 4; i++) assert_float_equal(gradient_of(x, i), 2 * values[i], 0);
  ((float *)intact_tensor_mutable_data(intact_variable_tensor(x)))[0] = 9;
  assert_fails(intact_variable_backward(y, NULL, false), INTACT_WRONG_USE);
  assert_non_null(strstr(intact_context_message(context), "changed in place"));
  intact_variable_release(flat);
  intact_variable_release(y);
  intact_variable_release(x);
}

static void test_without_recording(void **state) {
  (void)state;
  intact_variable *w = scalar(2, true);
  assert_true(intact_grad_enabled(context));
  assert_true(intact_grad_set_enabled(context, false));
  intact_variable *y = call("mul", NULL, w, w);
  intact_variable *seven = scalar(7, false);
  assert_ok(context, intact_variable_assign(w, intact_variable_tensor(seven)));
  assert_false(intact_grad_set_enabled(context, true));
  assert_false(intact_variable_requires_grad(y));
  assert_fails(intact_variable_backward(y, NULL, false), INTACT_WRONG_USE);
  assert_float_equal(values_of(w)[0], 7, 0);
  assert_fails(intact_variable_assign(w, intact_variable_tensor(seven)), INTACT_WRONG_USE);
  intact_variable_release(seven);
  intact_variable_release(y);
  intact_variable_release(w);
}

static void test_refusals(void **state) {
  (void)state;
  intact_variable *x = variable_of(1, (const int64_t[]){3}, (const float[]){1, 2, 3}, true), *y = NULL, *odd;
  intact_variable *const one[1] = {x};
  assert_fails(intact_variable_call(context, "no_such_op", NULL, 1, one, 1, &y), INTACT_UNSUPPORTED_OP);
  assert_fails(intact_variable_call(context, "add", NULL, 1, one, 1, &y), INTACT_MISSING_FIELD);
  assert_fails(intact_variable_call(context, "relu", "slope=3", 1, one, 1, &y), INTACT_SYNTAX);
  assert_fails(intact_variable_call(context, "fake_quantize_per_tensor_affine", "quant_min=0", 1, one, 1, &y), INTACT_MISSING_FIELD);
  assert_fails(intact_variable_call(context, "relu", NULL, 1, one, 2, &y), INTACT_OUT_OF_RANGE);
  odd = variable_of(1, (const int64_t[]){2}, (const float[]){1, 2}, false);
  assert_fails(intact_variable_call(context, "add", NULL, 2, (intact_variable *const[]){x, odd}, 1, &y), INTACT_SIZE_MISMATCH);
  assert_null(y);
  y = call("relu", NULL, x, NULL);
  assert_fails(intact_variable_backward(y, NULL, false), INTACT_WRONG_USE);
  assert_fails(intact_variable_backward(y, intact_variable_tensor(odd), false), INTACT_SIZE_MISMATCH);
  assert_fails(intact_variable_set_requires_grad(y, false), INTACT_WRONG_USE);
  assert_ok(context, intact_variable_backward(y, intact_variable_tensor(x), false));
  for (int i = 0; i < 3; i++) assert_float_equal(gradient_of(x, i), i + 1, 0);
  intact_tensor *integers;
  assert_ok(context, intact_tensor_create(context, INTACT_S64, 1, (const int64_t[]){3}, &integers));
  intact_variable *indices = NULL;
  assert_fails(intact_variable_create(integers, true, &indices), INTACT_TYPE_MISMATCH);
  assert_null(indices);
  intact_tensor_destroy(integers);
  intact_variable_release(odd);
  intact_variable_release(y);
  intact_variable_release(x);
}

/* A hundred thousand calls in a row: neither backward nor letting go recurses. */
static void test_long_chain(void **state) {
  (void)state;
  enum { LENGTH = 100000 };
  for (int walked = 0; walked < 2; walked++) {
    intact_variable *w = scalar(1, true), *one = scalar(1, false), *y = intact_variable_retain(w);
    for (int i = 0; i < LENGTH; i++) {
      intact_variable *next = call("add", NULL, y, one);
      intact_variable_release(y);
      y = next;
    }
    assert_float_equal(values_of(y)[0], LENGTH + 1, 0);
    if (walked) assert_ok(context, intact_variable_backward(y, NULL, false));
    if (walked) assert_float_equal(gradient_of(w, 0), 1, 0);
    intact_variable_release(y);
    intact_variable_release(one);
    intact_variable_release(w);
  }
}

int main(void) {
  context = test_context(2);
  const struct CMUnitTest tests[] = {cmocka_unit_test(test_straight_through), cmocka_unit_test(test_broadcast_and_reuse),
                                     cmocka_unit_test(test_accumulation),     cmocka_unit_test(test_views),
                                     cmocka_unit_test(test_without_recording), cmocka_unit_test(test_refusals),
                                     cmocka_unit_test(test_long_chain)};
  int failed = cmocka_run_group_tests(tests, NULL, NULL);
  intact_context_destroy(context);
  return failed;
}
