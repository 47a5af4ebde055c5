/* SPDX-License-Identifier: Apache-2.0 */
/* Whole tensors quantized and dequantized: every layout of qparams against a plain restatement in double. */
#include "support/test.h"

#include <math.h>
#include <string.h>

#include "tensor/blocks.h"
#include "tensor/fused_fake_quant.h"

static intact_context *context;

static intact_tensor *random_tensor(int rank, const int64_t *dims, float low, float high, uint64_t *random) {
  intact_tensor *x;
  assert_ok(context, intact_tensor_create(context, INTACT_F32, rank, dims, &x));
  for (int64_t i = 0; i < x->count; i++) intact__f32(x)[i] = test_uniform(random, low, high);
  return x;
}

/* Index of the scale of element i, by the definition of intact_qparams. */
static int64_t scale_index(const intact_qparams *p, const intact_tensor *x, int64_t i) {
  if (p->axis < 0) return 0;
  int64_t inner = 1, length = x->dims[p->axis];
  for (int k = p->axis + 1; k < x->rank; k++) inner *= x->dims[k];
  int64_t along = i / inner % length, outer = i / inner / length;
  if (p->group == 0) return along;
  return (outer * ((length + p->group - 1) / p->group) + along / p->group) * inner + i % inner;
}

static void check_layout(int rank, const int64_t *dims, int axis, int64_t group, intact_dtype dtype, bool divide, uint64_t *random) {
  intact_tensor *x = random_tensor(rank, dims, -9.0f, 9.0f, random), *q = NULL, *back = NULL;
  int64_t n = axis < 0 ? 1 : dims[axis];
  if (group > 0) n = x->count / dims[axis] * ((dims[axis] + group - 1) / group);
  float *scale = calloc((size_t)n, sizeof *scale);
  int32_t *zero = calloc((size_t)n, sizeof *zero);
  int64_t low = intact_dtype_min(dtype), high = intact_dtype_max(dtype);
  for (int64_t i = 0; i < n; i++) {
    scale[i] = test_uniform(random, 0.01f, 0.2f) * (intact_dtype_bits(dtype) < 8 ? 10.0f : 1.0f);
    zero[i] = (int32_t)(low / 2 + high / 2 + (int64_t)(test_random(random) % 3));
  }
  const intact_qparams p = {INTACT_PER_CHANNEL_AFFINE, dtype, low, high, axis, group, n, scale, zero, NULL};
  assert_ok(context, intact__quantize_tensor_by(x, &p, divide, &q));
  assert_true(q->dtype == dtype && intact__shape_equal(q->rank, q->dims, rank, dims));
  assert_ok(context, intact__dequantize_tensor(q, &p, &back));
  for (int64_t i = 0; i < x->count; i++) {
    int64_t at = scale_index(&p, x, i);
    float v = intact__f32(x)[i], steps = divide ? v / scale[at] : v * (1.0f / scale[at]);
    double want = fmin(fmax(nearbyint((double)steps) + zero[at], (double)low), (double)high);
    assert_true((double)intact__tensor_get_s64(q, i) == want);
    assert_true(intact__f32(back)[i] == (float)(want - zero[at]) * scale[at]);
  }
  free(scale);
  free(zero);
  intact_tensor_destroy(x);
  intact_tensor_destroy(q);
  intact_tensor_destroy(back);
}

static void every_layout(void **state) {
  (void)state;
  uint64_t random = test_random_start();
  static const intact_dtype dtypes[] = {INTACT_U8, INTACT_S8, INTACT_U16, INTACT_S16, INTACT_S32, INTACT_U4, INTACT_S4, INTACT_U2, INTACT_S2};
  const int64_t dims[] = {3, 5, 7, 2}, row[] = {4, 37}, one_axis[] = {6}, tail[] = {2, 3, 1};
  for (size_t d = 0; d < sizeof dtypes / sizeof dtypes[0]; d++) {
    for (int divide = 0; divide < 2; divide++) {
      check_layout(4, dims, -1, 0, dtypes[d], divide, &random);
      for (int axis = 0; axis < 4; axis++) check_layout(4, dims, axis, 0, dtypes[d], divide, &random);
      check_layout(4, dims, 1, 2, dtypes[d], divide, &random); /* groups, the last one short, along an inner axis */
      check_layout(2, row, 1, 8, dtypes[d], divide, &random);  /* along the last axis */
      check_layout(2, row, 1, 37, dtypes[d], divide, &random); /* a token */
      check_layout(2, row, 0, 2, dtypes[d], divide, &random);
      check_layout(1, one_axis, 0, 0, dtypes[d], divide, &random);
      check_layout(3, tail, 2, 0, dtypes[d], divide, &random);
    }
  }
}

/* The split over threads changes nothing. */
static void threads_do_not_matter(void **state) {
  (void)state;
  uint64_t random = test_random_start();
  const int64_t dims[] = {64, 1500};
  intact_context *four = test_context(4);
  intact_tensor *x = random_tensor(2, dims, -9.0f, 9.0f, &random), *copy, *a, *b;
  const float scale = 0.03f;
  const int32_t zero = 7;
  const intact_qparams p = {INTACT_PER_TENSOR_AFFINE, INTACT_U8, 0, 255, -1, 0, 1, &scale, &zero, NULL};
  assert_ok(four, intact_tensor_create(four, INTACT_F32, 2, dims, &copy));
  memcpy(copy->data, x->data, intact_tensor_bytes(x));
  assert_ok(context, intact__quantize_tensor(x, &p, &a));
  assert_ok(four, intact__quantize_tensor(copy, &p, &b));
  assert_memory_equal(a->data, b->data, (size_t)a->count);
  intact_tensor *dx[2], *ds[2], *dz[2], *one, *real_zero;
  const intact_tensor *inputs[2] = {x, copy};
  for (int k = 0; k < 2; k++) {
    intact_context *c = k ? four : context;
    assert_ok(c, intact__tensor_scalar_f32(c, 0.03f, &one));
    assert_ok(c, intact__tensor_scalar_f32(c, 3.0f, &real_zero));
    const intact_learnable_spec spec = {"x", -1, -128, 127, one, real_zero, 1.0f, NULL};
    assert_ok(c, intact__learnable_backward(inputs[k], inputs[k], &spec, &dx[k], &ds[k], &dz[k]));
    intact_tensor_destroy(one);
    intact_tensor_destroy(real_zero);
  }
  assert_memory_equal(dx[0]->data, dx[1]->data, intact_tensor_bytes(dx[0]));
  assert_memory_equal(ds[0]->data, ds[1]->data, sizeof(float));
  assert_memory_equal(dz[0]->data, dz[1]->data, sizeof(float));
  for (int k = 0; k < 2; k++) {
    intact_tensor_destroy(dx[k]);
    intact_tensor_destroy(ds[k]);
    intact_tensor_destroy(dz[k]);
  }
  intact_tensor_destroy(x);
  intact_tensor_destroy(copy);
  intact_tensor_destroy(a);
  intact_tensor_destroy(b);
  intact_context_destroy(four);
}

/* P17, coremltools pull request 2851: half weights of magnitude 1e-6 keep their channel. */
static void small_half_weights(void **state) {
  (void)state;
  const int64_t dims[] = {2, 4};
  intact_tensor *w, *q, *back;
  assert_ok(context, intact_tensor_create(context, INTACT_F16, 2, dims, &w));
  for (int i = 0; i < 8; i++) ((uint16_t *)w->data)[i] = intact__f32_to_f16((float)(i % 4 - 2) * 1e-6f);
  float largest = intact__f16_to_f32(intact__f32_to_f16(2e-6f));
  const float scale[] = {largest / 127.0f, largest / 127.0f};
  const int32_t zero[] = {0, 0};
  const intact_qparams p = {INTACT_PER_CHANNEL_SYMMETRIC, INTACT_S8, -127, 127, 0, 0, 2, scale, zero, NULL};
  assert_ok(context, intact__quantize_tensor(w, &p, &q));
  assert_int_equal(((int8_t *)q->data)[0], -127);
  assert_ok(context, intact__dequantize_tensor(q, &p, &back));
  for (int i = 0; i < 8; i++) assert_true(fabs((double)intact__f32(back)[i] - intact__tensor_get_f64(w, i)) <= (double)scale[0] * 0.5001);
  intact_tensor_destroy(w);
  intact_tensor_destroy(q);
  intact_tensor_destroy(back);
}

/* P10, ExecuTorch 16429: per-channel dequantize of a convolution's weights; every element counts. */
static void executorch_16429(void **state) {
  (void)state;
  static const int8_t codes[36] = {-20, -59, -22, -40, 127};
  static const float scale[] = {0.0016989057185128331f, 0.001776964869350195f};
  static const int32_t zero[2] = {0, 0};
  static const double want[] = {-0.033978, -0.100235, -0.037376, -0.067956, 0.215761};
  const int64_t dims[] = {2, 2, 3, 3};
  const intact_qparams p = {INTACT_PER_CHANNEL_SYMMETRIC, INTACT_S8, -128, 127, 0, 0, 2, scale, zero, NULL};
  intact_tensor *q, *x;
  assert_ok(context, intact_tensor_borrow(context, INTACT_S8, 4, dims, codes, &q));
  assert_ok(context, intact__dequantize_tensor(q, &p, &x));
  for (int i = 0; i < 5; i++) assert_true(fabs((double)intact__f32(x)[i] - want[i]) < 1e-6);
  intact_tensor_destroy(q);
  intact_tensor_destroy(x);
}

/* P04, ONNX Runtime 32452: half x and half scale, just above a half step. */
static void half_inputs_round(void **state) {
  (void)state;
  const uint16_t x[] = {intact__f32_to_f16(0.050018310546875f), intact__f32_to_f16(-0.050018310546875f)};
  const float scale = intact__f16_to_f32(intact__f32_to_f16(0.0999755859375f));
  const int32_t zero = 0;
  const int64_t two = 2;
  const intact_qparams p = {INTACT_PER_TENSOR_AFFINE, INTACT_S8, -128, 127, -1, 0, 1, &scale, &zero, NULL};
  intact_tensor *t, *q;
  assert_ok(context, intact_tensor_borrow(context, INTACT_F16, 1, &two, x, &t));
  assert_ok(context, intact__quantize_tensor_by(t, &p, true, &q));
  assert_true(((int8_t *)q->data)[0] == 1 && ((int8_t *)q->data)[1] == -1);
  intact_tensor_destroy(t);
  intact_tensor_destroy(q);
}

/* P11, burn 5278, 4491: quantizing a transposed tensor along the other axis gives the transposed codes; blocks of 32 too. */
static void transposes_commute(void **state) {
  (void)state;
  enum { R = 64, C = 32 };
  uint64_t random = test_random_start();
  const int64_t dims[] = {R, C}, turned[] = {C, R};
  intact_tensor *x = random_tensor(2, dims, -4.0f, 4.0f, &random), *t, *a, *b;
  float scale[R * C], other[R * C];
  int32_t zero[R * C] = {0};
  assert_ok(context, intact_tensor_create(context, INTACT_F32, 2, turned, &t));
  for (int i = 0; i < R; i++)
    for (int k = 0; k < C; k++) intact__f32(t)[k * R + i] = intact__f32(x)[i * C + k];
  for (int i = 0; i < R; i++) scale[i] = other[i] = test_uniform(&random, 0.01f, 0.05f); /* a group of 32 is a row of x */
  const intact_qparams rows = {INTACT_PER_GROUP_AFFINE, INTACT_S8, -128, 127, 1, 32, R, scale, zero, NULL};
  const intact_qparams columns = {INTACT_PER_GROUP_AFFINE, INTACT_S8, -128, 127, 0, 32, R, other, zero, NULL};
  assert_ok(context, intact__quantize_tensor(x, &rows, &a));
  assert_ok(context, intact__quantize_tensor(t, &columns, &b));
  for (int i = 0; i < R; i++)
    for (int k = 0; k < C; k++) assert_int_equal(((int8_t *)a->data)[i * C + k], ((int8_t *)b->data)[k * R + i]);
  intact_tensor_destroy(x);
  intact_tensor_destroy(t);
  intact_tensor_destroy(a);
  intact_tensor_destroy(b);
}

static void bad_qparams_are_refused(void **state) {
  (void)state;
  const int64_t dims[] = {2, 3};
  const float scale[] = {1, 1, 1, 1};
  const int32_t zero[4] = {0};
  uint64_t random = test_random_start();
  intact_tensor *x = random_tensor(2, dims, -1, 1, &random), *q = NULL, *whole;
  const intact_qparams short_list = {INTACT_PER_CHANNEL_AFFINE, INTACT_U8, 0, 255, 1, 0, 2, scale, zero, NULL};
  assert_fails(intact__quantize_tensor(x, &short_list, &q), INTACT_SIZE_MISMATCH);
  const intact_qparams axis = {INTACT_PER_CHANNEL_AFFINE, INTACT_U8, 0, 255, 2, 0, 3, scale, zero, NULL};
  assert_fails(intact__quantize_tensor(x, &axis, &q), INTACT_OUT_OF_RANGE);
  const intact_qparams range = {INTACT_PER_TENSOR_AFFINE, INTACT_U8, 0, 256, -1, 0, 1, scale, zero, NULL};
  assert_fails(intact__quantize_tensor(x, &range, &q), INTACT_OUT_OF_RANGE);
  const intact_qparams type = {INTACT_PER_TENSOR_AFFINE, INTACT_F32, 0, 255, -1, 0, 1, scale, zero, NULL};
  assert_fails(intact__quantize_tensor(x, &type, &q), INTACT_UNSUPPORTED_TYPE);
  const intact_qparams good = {INTACT_PER_TENSOR_AFFINE, INTACT_U8, 0, 255, -1, 0, 1, scale, zero, NULL};
  assert_ok(context, intact_tensor_cast(x, INTACT_S32, &whole));
  assert_fails(intact__quantize_tensor(whole, &good, &q), INTACT_TYPE_MISMATCH);
  assert_fails(intact__dequantize_tensor(whole, &good, &q), INTACT_TYPE_MISMATCH);
  assert_null(q);
  intact_tensor_destroy(x);
  intact_tensor_destroy(whole);
}

static void empty_and_scalar_tensors(void **state) {
  (void)state;
  const int64_t none[] = {0, 3};
  const float scale[] = {0.5f, 0.5f, 0.5f};
  const int32_t zero[3] = {0};
  const intact_qparams tensor = {INTACT_PER_TENSOR_AFFINE, INTACT_U8, 0, 255, -1, 0, 1, scale, zero, NULL};
  const intact_qparams channel = {INTACT_PER_CHANNEL_AFFINE, INTACT_U8, 0, 255, 1, 0, 3, scale, zero, NULL};
  intact_tensor *empty, *scalar, *q;
  assert_ok(context, intact_tensor_create(context, INTACT_F32, 2, none, &empty));
  assert_ok(context, intact__quantize_tensor(empty, &tensor, &q));
  intact_tensor_destroy(q);
  assert_ok(context, intact__quantize_tensor(empty, &channel, &q));
  assert_int_equal(q->count, 0);
  intact_tensor_destroy(q);
  assert_ok(context, intact__tensor_scalar_f32(context, 3.3f, &scalar));
  assert_ok(context, intact__quantize_tensor(scalar, &tensor, &q));
  assert_true(q->rank == 0 && ((uint8_t *)q->data)[0] == 7);
  intact_tensor_destroy(q);
  intact_tensor_destroy(empty);
  intact_tensor_destroy(scalar);
}

static void blocks_of_tensors(void **state) {
  (void)state;
  const int64_t dims[] = {4, 6}, block[] = {2, 3}, whole[] = {0}, wrong[] = {4}, deep[] = {1, 1, 2};
  intact_blocks b;
  assert_ok(context, intact__blocks_create(context, "", 2, dims, 2, block, &b));
  assert_true(b.n == 4 && b.value_rank == 2 && b.value_dims[0] == 2 && b.value_dims[1] == 2);
  assert_int_equal(intact__block_of(&b, 0), 0);
  assert_int_equal(intact__block_of(&b, 5), 1);  /* row 0, column 5 */
  assert_int_equal(intact__block_of(&b, 14), 2); /* row 2, column 2 */
  assert_ok(context, intact__blocks_create(context, "", 2, dims, 1, whole, &b)); /* a row each */
  assert_true(b.n == 4 && b.value_rank == 1 && b.value_dims[0] == 4);
  assert_fails(intact__blocks_create(context, "", 2, dims, 1, wrong, &b), INTACT_SIZE_MISMATCH);
  assert_fails(intact__blocks_create(context, "", 2, dims, 3, deep, &b), INTACT_SIZE_MISMATCH);
}

int main(void) {
  context = test_context(1);
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(every_layout),           cmocka_unit_test(threads_do_not_matter), cmocka_unit_test(small_half_weights),
      cmocka_unit_test(executorch_16429),       cmocka_unit_test(half_inputs_round),      cmocka_unit_test(transposes_commute),
      cmocka_unit_test(bad_qparams_are_refused), cmocka_unit_test(empty_and_scalar_tensors),
      cmocka_unit_test(blocks_of_tensors),
  };
  int failed = cmocka_run_group_tests(tests, NULL, NULL);
  intact_context_destroy(context);
  return failed;
}
