/* SPDX-License-Identifier: Apache-2.0 */
/* Shapes, shared storage, element types and conversions. */
#include "support/test.h"

#include <math.h>
#include <string.h>

#include "tensor/tensor.h"

static void shapes_are_checked(void **state) {
  (void)state;
  intact_context *c = test_context(1);
  intact_tensor *t = NULL;
  const int64_t huge[] = {INT64_MAX / 2, 4}, negative[] = {2, -1}, empty[] = {3, 0, 1 << 20}, fine[] = {2, 3};
  assert_fails(intact_tensor_create(c, INTACT_F32, 2, huge, &t), INTACT_OVERFLOW);
  const int64_t empty_huge[] = {3, 0, INT64_MAX}; /* NumPy refuses it too: array is too big */
  assert_fails(intact_tensor_create(c, INTACT_F32, 3, empty_huge, &t), INTACT_OVERFLOW);
  assert_fails(intact_tensor_create(c, INTACT_F32, 2, negative, &t), INTACT_INVALID_VALUE);
  assert_fails(intact_tensor_create(c, INTACT_F32, 9, fine, &t), INTACT_OUT_OF_RANGE);
  assert_null(t);
  assert_ok(c, intact_tensor_create(c, INTACT_F32, 3, empty, &t));
  assert_int_equal(intact_tensor_count(t), 0);
  intact_tensor_destroy(t);
  assert_ok(c, intact_tensor_create(c, INTACT_S4, 2, fine, &t));
  assert_int_equal(intact_tensor_bytes(t), 3);
  intact_tensor_destroy(t);
  intact_tensor_destroy(NULL);
  intact_context_destroy(c);
}

static void shared_storage_lives_as_long_as_a_handle(void **state) {
  (void)state;
  intact_context *c = test_context(1);
  const int64_t dims[] = {2, 3}, flat[] = {6}, wrong[] = {7};
  intact_tensor *a, *b, *copy;
  assert_ok(c, intact_tensor_create(c, INTACT_F32, 2, dims, &a));
  intact__f32(a)[5] = 4;
  assert_ok(c, intact_tensor_share(a, 1, flat, &b));
  assert_ok(c, intact_tensor_copy(a, &copy));
  assert_fails(intact_tensor_share(a, 1, wrong, &b), INTACT_SIZE_MISMATCH);
  intact__f32(a)[0] = 9;
  intact_tensor_destroy(a);
  assert_true(intact__f32(b)[0] == 9 && intact__f32(b)[5] == 4 && intact_tensor_rank(b) == 1);
  assert_true(intact__f32(copy)[0] == 0 && intact__f32(copy)[5] == 4);
  intact_tensor_destroy(b);
  intact_tensor_destroy(copy);
  intact_context_destroy(c);
}

static void broadcasting_follows_numpy(void **state) {
  (void)state;
  const int64_t a[] = {8, 1, 6, 1}, b[] = {7, 1, 5}, bad[] = {4, 5};
  int64_t dims[INTACT_MAX_RANK];
  int rank;
  assert_true(intact__broadcast_shapes(4, a, 3, b, &rank, dims));
  assert_int_equal(rank, 4);
  assert_true(dims[0] == 8 && dims[1] == 7 && dims[2] == 6 && dims[3] == 5);
  assert_true(intact__broadcast_shapes(4, a, 0, NULL, &rank, dims) && rank == 4);
  assert_false(intact__broadcast_shapes(4, a, 2, bad, &rank, dims)); /* 6 against 4 */
}

/* The definition of a binary float: value of a code from its fields. */
static double decode(unsigned code, int exponent_bits, int mantissa_bits, int bias) {
  const unsigned sign = code >> (exponent_bits + mantissa_bits) & 1u, e = code >> mantissa_bits & ((1u << exponent_bits) - 1);
  const unsigned m = code & ((1u << mantissa_bits) - 1);
  const double magnitude =
      e ? ldexp(1 + (double)m / (double)(1u << mantissa_bits), (int)e - bias) : ldexp((double)m, 1 - bias - mantissa_bits);
  return sign ? -magnitude : magnitude;
}

static void half_precision_is_exact(void **state) {
  (void)state;
  for (unsigned code = 0; code < 65536; code++) {
    const unsigned e = code >> 10 & 31u;
    const float value = intact__f16_to_f32((uint16_t)code);
    if (e == 31) {
      assert_true(code & 1023u ? isnan(value) : isinf(value));
      continue;
    }
    assert_true((double)value == decode(code, 5, 10, 15));
    assert_int_equal(intact__f32_to_f16(value), code);
    if (e == 30 && (code & 1023u) == 1023u) continue;
    const float above = intact__f16_to_f32((uint16_t)(code + 1)), middle = (value + above) / 2; /* ties go to the even code */
    assert_int_equal(intact__f32_to_f16(middle), code & 1u ? code + 1 : code);
    assert_int_equal(intact__f32_to_f16(nextafterf(middle, value)), code);
    assert_int_equal(intact__f32_to_f16(nextafterf(middle, above)), code + 1);
  }
  assert_int_equal(intact__f32_to_f16(65519.99f), 0x7bff);
  assert_int_equal(intact__f32_to_f16(65520.0f), 0x7c00);
  assert_int_equal(intact__f32_to_bf16(1.00390625f), 0x3f80); /* 1 + 2^-8: a tie */
  assert_int_equal(intact__f32_to_bf16(1.01171875f), 0x3f82); /* 1 + 3 * 2^-8: a tie */
  assert_true(isnan(intact__bf16_to_f32(intact__f32_to_bf16(NAN))));
}

static void float8_is_exact(void **state) {
  (void)state;
  const struct {
    intact_dtype dtype;
    int e, m, bias;
    double largest;
  } kinds[] = {{INTACT_F8E4M3FN, 4, 3, 7, 448},
               {INTACT_F8E4M3FNUZ, 4, 3, 8, 240},
               {INTACT_F8E5M2, 5, 2, 15, 57344},
               {INTACT_F8E5M2FNUZ, 5, 2, 16, 57344}};
  for (size_t k = 0; k < sizeof kinds / sizeof *kinds; k++) {
    double largest = 0;
    for (unsigned code = 0; code < 256; code++) {
      const float value = intact__f8_to_f32(kinds[k].dtype, (uint8_t)code);
      if (!isfinite(value)) continue;
      assert_true((double)value == decode(code, kinds[k].e, kinds[k].m, kinds[k].bias));
      assert_int_equal(intact__f32_to_f8(kinds[k].dtype, value, false), code);
      if ((double)value > largest) largest = (double)value;
      const float above = code < 127 ? intact__f8_to_f32(kinds[k].dtype, (uint8_t)(code + 1)) : NAN;
      if (!isfinite(above)) continue;
      const float middle = (value + above) / 2;
      assert_int_equal(intact__f32_to_f8(kinds[k].dtype, middle, false), code & 1u ? code + 1 : code);
    }
    assert_true(largest == kinds[k].largest);
    const uint8_t saturated = intact__f32_to_f8(kinds[k].dtype, 1e9f, true);
    assert_true((double)intact__f8_to_f32(kinds[k].dtype, saturated) == kinds[k].largest);
    assert_false(isfinite(intact__f8_to_f32(kinds[k].dtype, intact__f32_to_f8(kinds[k].dtype, 1e9f, false))));
    assert_true(isnan(intact__f8_to_f32(kinds[k].dtype, intact__f32_to_f8(kinds[k].dtype, NAN, true))));
  }
  const double e2m1[] = {0, 0.5, 1, 1.5, 2, 3, 4, 6};
  for (unsigned code = 0; code < 8; code++) {
    assert_true((double)intact__f8_to_f32(INTACT_F4E2M1, (uint8_t)code) == e2m1[code]);
    assert_int_equal(intact__f32_to_f8(INTACT_F4E2M1, (float)e2m1[code], true), code);
  }
  assert_int_equal(intact__f32_to_f8(INTACT_F4E2M1, -100.0f, true), 15);
}

static void casts_saturate(void **state) {
  (void)state;
  intact_context *c = test_context(1);
  const float values[] = {-INFINITY, -1e30f, -1.9f, 1.9f, 300, 1e30f, INFINITY, NAN};
  const int expected_s8[] = {-128, -128, -1, 1, 127, 127, 127, 0}, expected_u4[] = {0, 0, 0, 1, 15, 15, 15, 0};
  const int64_t dims[] = {8};
  intact_tensor *x, *y;
  assert_ok(c, intact_tensor_borrow(c, INTACT_F32, 1, dims, values, &x));
  assert_ok(c, intact_tensor_cast(x, INTACT_S8, &y));
  for (int i = 0; i < 8; i++) assert_int_equal(intact__tensor_get_s64(y, i), expected_s8[i]);
  intact_tensor_destroy(y);
  assert_ok(c, intact_tensor_cast(x, INTACT_U4, &y));
  for (int i = 0; i < 8; i++) assert_int_equal(intact__tensor_get_s64(y, i), expected_u4[i]);
  intact_tensor_destroy(y);
  assert_ok(c, intact_tensor_cast(x, INTACT_S64, &y));
  assert_true(intact__tensor_get_s64(y, 5) == INT64_MAX && intact__tensor_get_s64(y, 1) == INT64_MIN);
  intact_tensor_destroy(y);
  intact_tensor_destroy(x);
  intact_context_destroy(c);
}

static void names_of_types_round_trip(void **state) {
  (void)state;
  intact_dtype dtype;
  for (int i = 0; i < INTACT_DTYPE_COUNT; i++) {
    assert_true(intact_dtype_from_text(intact_dtype_text((intact_dtype)i), &dtype));
    assert_int_equal(dtype, i);
  }
  assert_false(intact_dtype_from_text("float32", &dtype));
  assert_true(intact_dtype_min(INTACT_S4) == -8 && intact_dtype_max(INTACT_U4) == 15 && intact_dtype_max(INTACT_S32) == INT32_MAX);
  intact_qscheme scheme;
  assert_true(intact_qscheme_from_text("per_channel_symmetric", &scheme) && scheme == INTACT_PER_CHANNEL_SYMMETRIC);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(shapes_are_checked),       cmocka_unit_test(shared_storage_lives_as_long_as_a_handle),
      cmocka_unit_test(broadcasting_follows_numpy), cmocka_unit_test(half_precision_is_exact),
      cmocka_unit_test(float8_is_exact),          cmocka_unit_test(casts_saturate),
      cmocka_unit_test(names_of_types_round_trip),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
