/* SPDX-License-Identifier: Apache-2.0 */
/* Every row of qgemm against a plain restatement of the formula, bit for bit, over shapes, types and band splits: the
   variants of one kernel differ nowhere (P51, TensorFlow 99072). */
#include "kernels/qgemm/qgemm.h"

#include <math.h>
#include <string.h>

#include "support/emulated.h"
#include "support/test.h"

typedef struct conv_case {
  intact_qgemm_shape shape;
  bool unsigned_weights, weight_zeros;
  int threads;
} conv_case;

/* All rows, then the emulated ones, which every CPU runs. */
static const intact_qgemm_kernel *const rows[] = {
#define INTACT_KERNEL(family, name, isa) &name,
#include "kernels/qgemm/qgemm.def"
#undef INTACT_KERNEL
    &intact_qgemm_u8s8_6x64__avx512vnni_emulated,
};
enum { N_ROWS = sizeof rows / sizeof rows[0], N_EMULATED = 1 };

static bool runs(int row) { return row >= N_ROWS - N_EMULATED || intact_isa_available(rows[row]->isa); }

static const intact_conv_axis one = {1, 1, 1, 1, 1, 0};

static intact_conv_axis axis(int64_t in, int64_t kernel, int64_t stride, int64_t dilation, int64_t pad) {
  return (intact_conv_axis){in, (in + 2 * pad - (kernel - 1) * dilation - 1) / stride + 1, kernel, stride, dilation, pad};
}

typedef struct problem {
  intact_qgemm_shape shape;
  intact_qgemm_weights weights;
  uint8_t *x, *w;
  int32_t *zero, *bias;
  float *scale;
  int64_t n_x, n_w, n_y, channels;
} problem;

static int64_t in_pixels(const intact_qgemm_shape *s) { return s->batch * s->axis[0].in * s->axis[1].in * s->axis[2].in; }
static int64_t out_pixels(const intact_qgemm_shape *s) { return s->batch * s->axis[0].out * s->axis[1].out * s->axis[2].out; }
static int64_t taps(const intact_qgemm_shape *s) { return s->axis[0].kernel * s->axis[1].kernel * s->axis[2].kernel; }

static problem make(const conv_case *c, uint64_t *random) {
  problem p = {.shape = c->shape};
  const intact_qgemm_shape *s = &p.shape;
  p.channels = s->groups * s->out_channels;
  p.n_x = in_pixels(s) * s->groups * s->in_channels;
  p.n_w = p.channels * taps(s) * s->in_channels;
  p.n_y = out_pixels(s) * p.channels;
  p.x = test_malloc((size_t)p.n_x);
  p.w = test_malloc((size_t)p.n_w);
  p.zero = test_malloc((size_t)p.channels * 4);
  p.bias = test_malloc((size_t)p.channels * 4);
  p.scale = test_malloc((size_t)p.channels * 4);
  bool extreme = test_random(random) % 3 == 0; /* the largest products: where narrow sums would saturate */
  for (int64_t i = 0; i < p.n_x; i++) p.x[i] = extreme ? (s->x_signed ? 0x80 : 0xff) : (uint8_t)test_random(random);
  for (int64_t i = 0; i < p.n_w; i++)
    p.w[i] = extreme ? (c->unsigned_weights ? (uint8_t)(i % 7 ? 255 : 0) : (i % 7 ? 0x80 : 0x7f)) : (uint8_t)test_random(random);
  double spread = 4000.0 * sqrt((double)(taps(s) * s->in_channels));
  for (int64_t i = 0; i < p.channels; i++) {
    p.zero[i] = c->unsigned_weights ? (int32_t)(test_random(random) % 256) : (int32_t)(test_random(random) % 256) - 128;
    p.bias[i] = (int32_t)(test_random(random) % 20001) - 10000;
    p.scale[i] = (float)(100.0 / spread) * test_uniform(random, 0.01f, 2.0f);
    if (i % 11 == 10) p.scale[i] = 1e30f; /* saturates before the conversion to an integer */
    if (i % 7 == 6) p.scale[i] = 0.5f;    /* ties */
  }
  p.weights = (intact_qgemm_weights){p.w, c->unsigned_weights, taps(s) * s->in_channels, 1, taps(s), c->weight_zeros ? p.zero : NULL,
                                     p.bias, p.scale};
  return p;
}

static void release(problem *p) {
  test_free(p->x), test_free(p->w), test_free(p->zero), test_free(p->bias), test_free(p->scale);
}

/* One output by the formula, in 64-bit integers (wrapped to 32 at the end) and float. */
static int32_t sum_at(const problem *p, int64_t image, const int64_t *o, int64_t g, int64_t n) {
  const intact_qgemm_shape *s = &p->shape;
  const intact_conv_axis *a = s->axis;
  int64_t channel = g * s->out_channels + n, acc = p->bias[channel], t = 0;
  for (int64_t k0 = 0; k0 < a[0].kernel; k0++)
    for (int64_t k1 = 0; k1 < a[1].kernel; k1++)
      for (int64_t k2 = 0; k2 < a[2].kernel; k2++, t++) {
        int64_t i[3] = {o[0] * a[0].stride - a[0].pad + k0 * a[0].dilation, o[1] * a[1].stride - a[1].pad + k1 * a[1].dilation,
                        o[2] * a[2].stride - a[2].pad + k2 * a[2].dilation};
        if (i[0] < 0 || i[0] >= a[0].in || i[1] < 0 || i[1] >= a[1].in || i[2] < 0 || i[2] >= a[2].in) continue;
        for (int64_t c = 0; c < s->in_channels; c++) {
          int64_t at = (((image * a[0].in + i[0]) * a[1].in + i[1]) * a[2].in + i[2]) * s->groups * s->in_channels;
          uint8_t x = p->x[at + g * s->in_channels + c];
          uint8_t w = p->w[(channel * s->in_channels + c) * taps(s) + t];
          int64_t real_w = (p->weights.is_unsigned ? w : (int8_t)w) - (p->weights.zero ? p->zero[channel] : 0);
          acc += ((s->x_signed ? (int8_t)x : x) - s->zero_x) * real_w;
        }
      }
  return (int32_t)(uint32_t)(uint64_t)acc;
}

static int64_t rounded(const problem *p, int32_t acc, float scale) {
  float product = (float)acc * scale;
  double v = nearbyint((double)product) + p->shape.zero_y;
  return v < p->shape.y_min ? p->shape.y_min : v > p->shape.y_max ? p->shape.y_max : (int64_t)v;
}

static void check(const problem *p, const intact_qgemm_plan *plan, const void *y) {
  const intact_qgemm_shape *s = &p->shape;
  int64_t i = 0, o[3];
  for (int64_t image = 0; image < s->batch; image++)
    for (o[0] = 0; o[0] < s->axis[0].out; o[0]++)
      for (o[1] = 0; o[1] < s->axis[1].out; o[1]++)
        for (o[2] = 0; o[2] < s->axis[2].out; o[2]++)
          for (int64_t n = 0; n < p->channels; n++, i++) {
            int32_t acc = sum_at(p, image, o, n / s->out_channels, n % s->out_channels);
            int64_t want = s->output == INTACT_QGEMM_S32 ? acc : rounded(p, acc, p->scale[n]);
            int64_t got = s->output == INTACT_QGEMM_S32 ? ((const int32_t *)y)[i]
                          : s->y_signed                 ? ((const int8_t *)y)[i]
                                                        : ((const uint8_t *)y)[i];
            if (got != want) {
              print_error("%s: pixel %lld,%lld,%lld of image %lld, channel %lld\n", plan->kernel->name, (long long)o[0],
                          (long long)o[1], (long long)o[2], (long long)image, (long long)n);
              assert_int_equal(got, want);
            }
          }
}

static void run_case(const conv_case *c, const intact_qgemm_kernel *kernel, uint64_t *random) {
  problem p = make(c, random);
  intact_qgemm_plan plan;
  assert_true(intact__qgemm_plan(kernel, &p.shape, c->threads, &plan));
  int64_t *segments = test_malloc((size_t)plan.n_segments * sizeof *segments);
  uint8_t *packed = aligned_alloc(64, intact__qgemm_packed_bytes(&plan, &p.weights));
  uint8_t *scratch = aligned_alloc(64, plan.scratch_bytes);
  size_t bytes = (size_t)p.n_y * (p.shape.output == INTACT_QGEMM_S32 ? 4 : 1);
  uint8_t *y = test_malloc(bytes + 16);
  memset(y, 0xA5, bytes + 16);
  intact__qgemm_pack(&plan, &p.weights, segments, packed);
  intact__qgemm_run(&plan, p.x, y, scratch, plan.n_bands / 2, plan.n_bands);
  intact__qgemm_run(&plan, p.x, y, scratch, 0, plan.n_bands / 2);
  check(&p, &plan, y);
  for (int i = 0; i < 16; i++) assert_int_equal(y[bytes + (size_t)i], 0xA5);
  test_free(segments), free(packed), free(scratch), test_free(y);
  release(&p);
}

static void run_on_all_rows(const conv_case *c, uint64_t *random) {
  for (int i = 0; i < N_ROWS; i++) {
    uint64_t same = *random;
    if (runs(i)) run_case(c, rows[i], &same);
  }
  test_random(random);
}

static conv_case types(uint64_t *random) {
  conv_case c = {.threads = 1 + (int)(test_random(random) % 3)};
  uint32_t bits = test_random(random);
  c.shape.x_signed = bits & 1, c.shape.y_signed = bits & 2;
  c.unsigned_weights = (bits & 12) == 12, c.weight_zeros = c.unsigned_weights || (bits & 48) == 48;
  c.shape.output = (bits & 192) == 192 ? INTACT_QGEMM_S32 : INTACT_QGEMM_8BIT;
  int32_t low_x = c.shape.x_signed ? -128 : 0, low_y = c.shape.y_signed ? -128 : 0;
  c.shape.zero_x = low_x + (int32_t)(test_random(random) % 256);
  c.shape.zero_y = low_y + (int32_t)(test_random(random) % 256);
  c.shape.y_min = low_y, c.shape.y_max = low_y + 255;
  if (bits & 256) c.shape.y_min = c.shape.zero_y; /* a fused relu */
  if (bits & 512) c.shape.y_max = low_y + 200 > c.shape.y_min ? low_y + 200 : c.shape.y_min;
  return c;
}

static void test_matrix_products(void **state) {
  (void)state;
  uint64_t random = test_random_start();
  static const int64_t sizes[][3] = {{1, 1, 1},   {1, 784, 64}, {5, 33, 10},  {7, 16, 16},  {8, 17, 24}, {13, 64, 48},
                                     {64, 64, 10}, {3, 5, 7},    {100, 12, 72}, {6, 128, 8}, {11, 2, 130}, {1, 1000, 33}};
  for (int repeat = 0; repeat < 4; repeat++)
    for (size_t i = 0; i < sizeof sizes / sizeof sizes[0]; i++) {
      conv_case c = types(&random);
      c.shape.batch = sizes[i][0], c.shape.groups = 1, c.shape.in_channels = sizes[i][1], c.shape.out_channels = sizes[i][2];
      c.shape.axis[0] = c.shape.axis[1] = c.shape.axis[2] = one;
      run_on_all_rows(&c, &random);
    }
}

static void test_convolutions(void **state) {
  (void)state;
  uint64_t random = test_random_start() + 1;
  for (int repeat = 0; repeat < 150; repeat++) {
    conv_case c = types(&random);
    c.shape.batch = 1 + test_random(&random) % 3;
    c.shape.groups = test_random(&random) % 4 ? 1 : 1 + test_random(&random) % 5;
    c.shape.in_channels = 1 + test_random(&random) % 20, c.shape.out_channels = 1 + test_random(&random) % 40;
    int rank = 1 + (int)(test_random(&random) % 3);
    c.shape.axis[0] = c.shape.axis[1] = c.shape.axis[2] = one;
    for (int i = 0; i < rank; i++) {
      int64_t kernel = 1 + test_random(&random) % 4, dilation = 1 + test_random(&random) % 2;
      int64_t in = (kernel - 1) * dilation + 1 + test_random(&random) % (rank == 3 ? 4 : 12);
      int where = rank == 2 && i == 1 ? 2 : i;
      c.shape.axis[where] = axis(in, kernel, 1 + test_random(&random) % 3, dilation, test_random(&random) % 3);
    }
    run_on_all_rows(&c, &random);
  }
}

/* P30, ONNX Runtime 16105; P32, PyTorch 44939: pairs whose products exceed 16 bits. P33, PyTorch 56331: a negative sum into an
   unsigned type. */
static void test_published_sums(void **state) {
  (void)state;
  static const uint8_t x1[] = {210, 198, 234}, x2[] = {211, 171}, x3[] = {3, 9, 30, 14, 4, 22, 11, 7, 5};
  static const int8_t w1[] = {-81, -80, 127}, w2[] = {71, 107}, w3[] = {17, 21, -59, -4, -10, -31, 2, -3, 59};
  static const struct {
    const uint8_t *x;
    const int8_t *w;
    int64_t k;
    int32_t acc;
  } cases[] = {{x1, w1, 3, -3132}, {x2, w2, 2, 33278}, {x3, w3, 9, -2012}};
  for (int r = 0; r < N_ROWS; r++)
    for (size_t i = 0; i < 3 && runs(r); i++)
      for (int s32 = 0; s32 < 2; s32++) {
        float scale = 1.0f / 32;
        intact_qgemm_shape shape = {.batch = 1, .axis = {one, one, one}, .groups = 1, .in_channels = cases[i].k, .out_channels = 1,
                                    .y_max = 255, .output = s32 ? INTACT_QGEMM_S32 : INTACT_QGEMM_8BIT};
        intact_qgemm_weights weights = {cases[i].w, false, cases[i].k, 1, 1, NULL, NULL, &scale};
        intact_qgemm_plan plan;
        assert_true(intact__qgemm_plan(rows[r], &shape, 1, &plan));
        int64_t segment[1];
        uint8_t *packed = aligned_alloc(64, intact__qgemm_packed_bytes(&plan, &weights)), *scratch = aligned_alloc(64, plan.scratch_bytes);
        int32_t y = 0;
        intact__qgemm_pack(&plan, &weights, segment, packed);
        intact__qgemm_run(&plan, cases[i].x, &y, scratch, 0, plan.n_bands);
        if (s32)
          assert_int_equal(y, cases[i].acc);
        else
          assert_int_equal(y & 255, cases[i].acc < 0 ? 0 : (cases[i].acc + 16) / 32 < 255 ? (cases[i].acc + 16) / 32 : 255);
        free(packed), free(scratch);
      }
}

int main(void) {
  intact_context_destroy(test_context(1));
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(test_published_sums),
      cmocka_unit_test(test_matrix_products),
      cmocka_unit_test(test_convolutions),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
