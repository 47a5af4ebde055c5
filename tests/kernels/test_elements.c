/* SPDX-License-Identifier: Apache-2.0 */
/* Every row of qbinary, qlut and qpool against a plain restatement of its formula, bit for bit. */
#include <math.h>
#include <string.h>

#include "support/emulated.h"
#include "support/test.h"

enum { MOST = 300, GUARD = 16 };

/* The emulated rows run on every CPU; they stand last. */
#define INTACT_KERNEL(family, name, isa) {#name, INTACT_ISA_##isa, name},
static const intact_qbinary_kernel binary_rows[] = {
#include "kernels/qbinary/qbinary.def"
    {"qbinary, avx512 emulated", INTACT_ISA_SCALAR, intact_qbinary_u8u8__avx512_emulated}};
static const intact_qlut_kernel lut_rows[] = {
#include "kernels/qlut/qlut.def"
    {"qlut, avx512 emulated", INTACT_ISA_SCALAR, intact_qlut_u8u8__avx512_emulated}};
static const intact_qpool_kernel pool_rows[] = {
#include "kernels/qpool/qpool.def"
    {"qpool, avx512 emulated", INTACT_ISA_SCALAR, intact_qpool_u8u8__avx512_emulated}};
#undef INTACT_KERNEL

static void fill(uint8_t *bytes, size_t n, uint64_t *random) {
  for (size_t i = 0; i < n; i++) bytes[i] = (uint8_t)test_random(random);
}

static int value_of(uint8_t bits, bool is_signed) { return is_signed ? (int8_t)bits : bits; }

/* clamp(rne(v) + zero, min, max); NaN and what is below go to the lowest. */
static int rounded(float v, int zero, int min, int max) {
  if (!(v > (float)(min - zero))) return min;
  if (v > (float)(max - zero)) return max;
  return (int)nearbyint((double)v) + zero;
}

typedef struct signs {
  bool a, b, y;
  int za, zb, zy, min, max;
} signs;

static signs random_signs(uint64_t *random) {
  uint32_t bits = test_random(random);
  signs s = {.a = bits & 1, .b = bits & 2, .y = bits & 4};
  s.za = (int)(test_random(random) % 256) - (s.a ? 128 : 0), s.zb = (int)(test_random(random) % 256) - (s.b ? 128 : 0);
  s.zy = (int)(test_random(random) % 256) - (s.y ? 128 : 0);
  s.min = bits & 8 ? s.zy : s.y ? -128 : 0, s.max = s.y ? 127 : 255;
  if (bits & 16) s.max = s.min + (int)(test_random(random) % (uint32_t)(s.max - s.min + 1));
  return s;
}

static float binary_of(intact_qbinary_op op, float a, float b) {
  switch (op) {
    case INTACT_QBINARY_ADD:
      return a + b;
    case INTACT_QBINARY_SUB:
      return a - b;
    case INTACT_QBINARY_MUL:
      return a * b;
    case INTACT_QBINARY_MAX:
      return a > b ? a : b;
    default:
      return a < b ? a : b;
  }
}

static void test_binary(void **state) {
  (void)state;
  uint64_t random = test_random_start();
  uint8_t a[3 * MOST], b[3 * MOST], y[3 * MOST + GUARD];
  for (int repeat = 0; repeat < 400; repeat++) {
    signs s = random_signs(&random);
    /* powers of two make ties, huge scales infinities and NaN */
    float scale_a = repeat % 5 == 0 ? 0.5f : repeat % 17 == 1 ? 3e38f : test_uniform(&random, 0.001f, 0.1f);
    float scale_b = repeat % 5 == 0 ? 0.25f : repeat % 17 == 1 ? 3e38f : test_uniform(&random, 0.001f, 0.1f);
    intact_qbinary_params p = {(intact_qbinary_op)(repeat % 5), s.a ? 0x80 : 0, s.b ? 0x80 : 0, s.za + (s.a ? 128 : 0),
                               s.zb + (s.b ? 128 : 0), scale_a, scale_b, 0, 0, repeat % 2 == 1, intact__round8(s.y, s.zy, s.min, s.max)};
    p.scale_y = repeat % 5 == 0 ? 1 : test_uniform(&random, 0.01f, 1), p.inverse_y = 1.0f / p.scale_y;
    int64_t n = 1 + test_random(&random) % MOST;
    intact_qbinary_block block = {3, n, a, b, y, n, repeat % 3 == 1 ? 0 : n, n, repeat % 7 != 3, repeat % 3 != 2};
    fill(a, sizeof a, &random), fill(b, sizeof b, &random);
    for (size_t k = 0; k < sizeof binary_rows / sizeof *binary_rows; k++) {
      if (!intact_isa_available(binary_rows[k].isa)) continue;
      memset(y, 0xA5, sizeof y);
      binary_rows[k].run(&p, &block);
      for (int64_t i = 0; i < 3 * n; i++) {
        int64_t row = i / n, at = i % n;
        float fa = (float)(value_of(a[row * block.a_row + at * block.a_step], s.a) - s.za) * scale_a;
        float fb = (float)(value_of(b[row * block.b_row + at * block.b_step], s.b) - s.zb) * scale_b;
        float r = binary_of(p.op, fa, fb);
        int want = rounded(p.divide ? r / p.scale_y : r * p.inverse_y, s.zy, s.min, s.max);
        if (value_of(y[i], s.y) != want) print_error("%s: element %d of %d\n", binary_rows[k].name, (int)i, (int)n);
        assert_int_equal(value_of(y[i], s.y), want);
      }
      for (int i = 0; i < GUARD; i++) assert_int_equal(y[3 * n + i], 0xA5);
    }
  }
}

static void test_lut(void **state) {
  (void)state;
  uint64_t random = test_random_start();
  uint8_t x[MOST], table[256], y[MOST + GUARD];
  for (int repeat = 0; repeat < 100; repeat++) {
    int64_t n = test_random(&random) % (MOST + 1);
    fill(x, sizeof x, &random), fill(table, sizeof table, &random);
    for (size_t k = 0; k < sizeof lut_rows / sizeof *lut_rows; k++) {
      if (!intact_isa_available(lut_rows[k].isa)) continue;
      memset(y, 0xA5, sizeof y);
      lut_rows[k].run(x, n, table, y);
      for (int64_t i = 0; i < n; i++) assert_int_equal(y[i], table[x[i]]);
      for (int64_t i = n; i < n + GUARD; i++) assert_int_equal(y[i], 0xA5);
    }
  }
}

static int pooled(const intact_qpool_params *p, const intact_qpool_block *b, const signs *s, int64_t from) {
  int most = s->min, sum = 0;
  for (int64_t t = 0; t < b->taps; t++) {
    int v = value_of(b->x[from + b->offsets[t]], s->a);
    most = v > most ? v : most, sum += v - s->za;
  }
  return p->mean ? rounded((float)sum * b->scale, s->zy, s->min, s->max) : most > s->max ? s->max : most;
}

static void test_pool(void **state) {
  (void)state;
  uint64_t random = test_random_start();
  enum { TAPS = 300, PIXELS = 3 };
  uint8_t *x = test_malloc(TAPS * MOST * 2), *y = test_malloc(PIXELS * MOST + GUARD);
  int64_t offsets[TAPS];
  for (int repeat = 0; repeat < 150; repeat++) {
    signs s = random_signs(&random);
    bool mean = repeat % 2;
    if (!mean) s.y = s.a, s.zy = s.za, s.min = s.a ? -128 : 0, s.max = s.min + 255 - repeat % 20;
    intact_qpool_params p = {mean, s.a ? 0x80 : 0, s.za + (s.a ? 128 : 0), intact__round8(s.y, s.zy, s.min, s.max),
                             (uint8_t)(s.max + (s.y ? 128 : 0))};
    int64_t channels = 1 + test_random(&random) % (repeat % 3 ? 40 : MOST);
    int64_t taps = repeat % 10 == 1 ? TAPS : 1 + test_random(&random) % 12;
    intact_qpool_block block = {x, offsets, taps, PIXELS, channels, channels, 0, y, channels};
    block.scale = repeat % 4 == 3 ? 0.5f : test_uniform(&random, 0.1f, 2) / (float)taps;
    for (int64_t t = 0; t < taps; t++) offsets[t] = (int64_t)(test_random(&random) % TAPS) * channels;
    fill(x, TAPS * MOST * 2, &random);
    if (repeat % 10 == 1) memset(x, s.a ? 0x7f : 0xff, TAPS * MOST * 2); /* the largest sums */
    for (size_t k = 0; k < sizeof pool_rows / sizeof *pool_rows; k++) {
      if (!intact_isa_available(pool_rows[k].isa)) continue;
      memset(y, 0xA5, PIXELS * MOST + GUARD);
      pool_rows[k].run(&p, &block);
      for (int64_t i = 0; i < PIXELS * channels; i++) {
        int want = pooled(&p, &block, &s, i / channels * block.x_step + i % channels);
        if (value_of(y[i], s.y) != want) print_error("%s: channel %d of %d\n", pool_rows[k].name, (int)(i % channels), (int)channels);
        assert_int_equal(value_of(y[i], s.y), want);
      }
      for (int i = 0; i < GUARD; i++) assert_int_equal(y[PIXELS * channels + i], 0xA5);
    }
  }
  test_free(x), test_free(y);
}

int main(void) {
  intact_context_destroy(test_context(1));
  const struct CMUnitTest tests[] = {cmocka_unit_test(test_binary), cmocka_unit_test(test_lut), cmocka_unit_test(test_pool)};
  return cmocka_run_group_tests(tests, NULL, NULL);
}
