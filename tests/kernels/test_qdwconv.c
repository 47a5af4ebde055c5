/* SPDX-License-Identifier: Apache-2.0 */
/* Every row of qdwconv against a plain restatement of the formula, bit for bit. */
#include "kernels/qdwconv/qdwconv.h"

#include <math.h>
#include <string.h>

#include "support/emulated.h"
#include "support/test.h"

typedef struct problem {
  intact_qdwconv_shape shape;
  intact_qdwconv_weights weights;
  uint8_t *x, *w;
  int32_t *zero, *bias;
  float *scale;
} problem;

static intact_conv_axis axis(int64_t in, int64_t kernel, int64_t stride, int64_t dilation, int64_t pad) {
  return (intact_conv_axis){in, (in + 2 * pad - (kernel - 1) * dilation - 1) / stride + 1, kernel, stride, dilation, pad};
}

static problem make(const intact_qdwconv_shape *shape, uint64_t *random) {
  problem p = {.shape = *shape};
  int64_t c = shape->channels, taps = shape->height.kernel * shape->width.kernel;
  int64_t n_x = shape->batch * shape->height.in * shape->width.in * c;
  p.x = test_malloc((size_t)n_x), p.w = test_malloc((size_t)(c * taps));
  p.zero = test_malloc((size_t)c * 4), p.bias = test_malloc((size_t)c * 4), p.scale = test_malloc((size_t)c * 4);
  uint32_t bits = test_random(random);
  bool extreme = (bits & 3) == 0, is_unsigned = (bits & 12) == 12, zeros = is_unsigned || (bits & 48) == 48;
  for (int64_t i = 0; i < n_x; i++) p.x[i] = extreme ? (shape->x_signed ? 0x80 : 0xff) : (uint8_t)test_random(random);
  for (int64_t i = 0; i < c * taps; i++) p.w[i] = extreme ? (is_unsigned ? 255 : 0x80) : (uint8_t)test_random(random);
  for (int64_t i = 0; i < c; i++) {
    p.zero[i] = (int32_t)(test_random(random) % 256) - (is_unsigned ? 0 : 128);
    p.bias[i] = (int32_t)(test_random(random) % 20001) - 10000;
    p.scale[i] = i % 7 == 6 ? 0.5f : i % 11 == 10 ? 1e30f : test_uniform(random, 0.0001f, 0.01f);
  }
  p.weights = (intact_qdwconv_weights){p.w, is_unsigned, zeros ? p.zero : NULL, p.bias, p.scale};
  return p;
}

static int32_t sum_at(const problem *p, int64_t image, int64_t oy, int64_t ox, int64_t c) {
  const intact_qdwconv_shape *s = &p->shape;
  int64_t acc = p->bias[c];
  for (int64_t i = 0; i < s->height.kernel; i++)
    for (int64_t k = 0; k < s->width.kernel; k++) {
      int64_t y = oy * s->height.stride - s->height.pad + i * s->height.dilation;
      int64_t x = ox * s->width.stride - s->width.pad + k * s->width.dilation;
      if (y < 0 || y >= s->height.in || x < 0 || x >= s->width.in) continue;
      uint8_t v = p->x[((image * s->height.in + y) * s->width.in + x) * s->channels + c];
      uint8_t w = p->w[(c * s->height.kernel + i) * s->width.kernel + k];
      int64_t real_w = (p->weights.is_unsigned ? w : (int8_t)w) - (p->weights.zero ? p->zero[c] : 0);
      acc += ((s->x_signed ? (int8_t)v : v) - s->zero_x) * real_w;
    }
  return (int32_t)(uint32_t)(uint64_t)acc;
}

static int64_t want_at(const problem *p, int32_t acc, int64_t c) {
  if (p->shape.sums) return acc;
  float product = (float)acc * p->scale[c];
  double v = nearbyint((double)product) + p->shape.zero_y;
  return v < p->shape.y_min ? p->shape.y_min : v > p->shape.y_max ? p->shape.y_max : (int64_t)v;
}

static void check(const problem *p, const char *name, const void *y) {
  const intact_qdwconv_shape *s = &p->shape;
  int64_t i = 0;
  for (int64_t image = 0; image < s->batch; image++)
    for (int64_t oy = 0; oy < s->height.out; oy++)
      for (int64_t ox = 0; ox < s->width.out; ox++)
        for (int64_t c = 0; c < s->channels; c++, i++) {
          int64_t want = want_at(p, sum_at(p, image, oy, ox, c), c);
          int64_t got = s->sums ? ((const int32_t *)y)[i] : s->y_signed ? ((const int8_t *)y)[i] : ((const uint8_t *)y)[i];
          if (got != want) {
            print_error("%s: image %lld, line %lld, pixel %lld, channel %lld\n", name, (long long)image, (long long)oy,
                        (long long)ox, (long long)c);
            assert_int_equal(got, want);
          }
        }
}

static void run_row(const problem *p, const intact_qdwconv_kernel *kernel, int threads) {
  intact_qdwconv_plan plan;
  const intact_qdwconv_shape *s = &p->shape;
  assert_true(intact__qdwconv_plan(kernel, s, intact__qdwconv_parts(kernel, s, &p->weights), threads, &plan));
  int64_t *offsets = test_malloc((size_t)plan.all_steps * sizeof *offsets);
  uint8_t *packed = aligned_alloc(64, intact__qdwconv_packed_bytes(&plan)), *scratch = aligned_alloc(64, plan.scratch_bytes);
  size_t bytes = (size_t)(s->batch * s->height.out * s->width.out * s->channels) * (s->sums ? 4 : 1);
  uint8_t *y = test_malloc(bytes + 16);
  memset(y, 0xA5, bytes + 16);
  intact__qdwconv_pack(&plan, &p->weights, offsets, packed);
  intact__qdwconv_run(&plan, p->x, y, scratch, plan.n_bands / 2, plan.n_bands);
  intact__qdwconv_run(&plan, p->x, y, scratch, 0, plan.n_bands / 2);
  check(p, kernel->name, y);
  for (int i = 0; i < 16; i++) assert_int_equal(y[bytes + (size_t)i], 0xA5);
  test_free(offsets), free(packed), free(scratch), test_free(y);
}

static void test_depthwise(void **state) {
  (void)state;
  static const intact_qdwconv_kernel *const rows[] = {
#define INTACT_KERNEL(family, name, isa) &name,
#include "kernels/qdwconv/qdwconv.def"
#undef INTACT_KERNEL
      &intact_qdwconv_u8s8_4x64__avx512vnni_emulated, /* every CPU runs it */
  };
  const size_t n_rows = sizeof rows / sizeof rows[0];
  uint64_t random = test_random_start();
  for (int repeat = 0; repeat < 200; repeat++) {
    uint32_t bits = test_random(&random);
    intact_qdwconv_shape s = {.batch = 1 + bits % 2, .x_signed = bits & 4, .y_signed = bits & 8, .sums = (bits & 48) == 48};
    s.channels = 1 + test_random(&random) % (repeat % 2 ? 20 : 150);
    int64_t kh = 1 + test_random(&random) % 5, kw = 1 + test_random(&random) % 5, dh = 1 + (bits >> 8 & 1), dw = 1 + (bits >> 9 & 1);
    s.height = axis((kh - 1) * dh + 1 + test_random(&random) % 12, kh, 1 + (bits >> 10) % 3, dh, (bits >> 12) % 3);
    s.width = axis((kw - 1) * dw + 1 + test_random(&random) % 12, kw, 1 + (bits >> 14) % 3, dw, (bits >> 16) % 3);
    int32_t low_x = s.x_signed ? -128 : 0, low_y = s.y_signed ? -128 : 0;
    s.zero_x = low_x + (int32_t)(test_random(&random) % 256), s.zero_y = low_y + (int32_t)(test_random(&random) % 256);
    s.y_min = bits & 1 << 20 ? s.zero_y : low_y, s.y_max = low_y + 255;
    problem p = make(&s, &random);
    for (size_t i = 0; i < n_rows; i++)
      if (i == n_rows - 1 || intact_isa_available(rows[i]->isa)) run_row(&p, rows[i], 1 + (int)(bits >> 24) % 3);
    test_free(p.x), test_free(p.w), test_free(p.zero), test_free(p.bias), test_free(p.scale);
  }
}

int main(void) {
  intact_context_destroy(test_context(1));
  const struct CMUnitTest tests[] = {cmocka_unit_test(test_depthwise)};
  return cmocka_run_group_tests(tests, NULL, NULL);
}
