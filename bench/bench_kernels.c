/* SPDX-License-Identifier: Apache-2.0 */
/* Integer kernels on layer shapes of small and large networks: GMAC/s and the share of the instruction's peak in the same run,
   every row of the tables that this CPU has. One thread. Argument: a part of the shapes' names. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "kernels/qbinary/qbinary.h"
#include "kernels/qdwconv/qdwconv.h"
#include "kernels/qgemm/qgemm.h"
#include "kernels/qlut/qlut.h"
#include "kernels/qpool/qpool.h"

static double now(void) {
  struct timespec t;
  clock_gettime(CLOCK_MONOTONIC, &t);
  return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

typedef void (*work_fn)(void *user);

/* Seconds of one call: the least of many short repeats. */
static double seconds_of(work_fn work, void *user) {
  double best = 1e9;
  int calls = 1;
  for (double t; calls < 1 << 20; calls *= 2) {
    t = now();
    for (int i = 0; i < calls; i++) work(user);
    if (now() - t > 1e-3) break;
  }
  for (int r = 0; r < 25; r++) {
    double t = now();
    for (int i = 0; i < calls; i++) work(user);
    t = (now() - t) / calls;
    best = t < best ? t : best;
  }
  return best;
}

/* ---- peaks of the instructions that the kernels are made of, MAC per second ---- */
#if defined(__x86_64__)
#define PAIR(t, a) "vpmaddwd %%ymm13, %%ymm14, %%ymm" #t "\n\tvpaddd %%ymm" #t ", %%ymm" #a ", %%ymm" #a "\n\t"
#define DOT(a) "vpdpbusd %%zmm14, %%zmm15, %%zmm" #a "\n\t"
static void madd_peak(void *user) {
  (void)user;
  for (int i = 0; i < 1000; i++)
    __asm__ volatile(PAIR(0, 6) PAIR(1, 7) PAIR(2, 8) PAIR(3, 9) PAIR(4, 10) PAIR(5, 11)::
                         : "xmm0", "xmm1", "xmm2", "xmm3", "xmm4", "xmm5", "xmm6", "xmm7", "xmm8", "xmm9", "xmm10", "xmm11");
}
static void dot_peak(void *user) {
  (void)user;
  for (int i = 0; i < 1000; i++)
    __asm__ volatile(DOT(0) DOT(1) DOT(2) DOT(3) DOT(4) DOT(5) DOT(6) DOT(7) DOT(8) DOT(9) DOT(10) DOT(11)::
                         : "xmm0", "xmm1", "xmm2", "xmm3", "xmm4", "xmm5", "xmm6", "xmm7", "xmm8", "xmm9", "xmm10", "xmm11");
}
static double peak_of(intact_isa isa) {
  if (isa == INTACT_ISA_AVX512VNNI) return 12 * 64 * 1000 / seconds_of(dot_peak, NULL);
  return isa == INTACT_ISA_AVX2 || isa == INTACT_ISA_AVX512 ? 6 * 16 * 1000 / seconds_of(madd_peak, NULL) : 0;
}
#else
static double peak_of(intact_isa isa) { return isa == INTACT_ISA_COUNT; }
#endif

static double peaks[INTACT_ISA_COUNT];

static void print_row(const char *shape, const char *kernel, intact_isa isa, double macs, double seconds) {
  printf("%-34s %-40s %9.2f us %8.1f GMAC/s", shape, kernel, seconds * 1e6, macs / seconds * 1e-9);
  if (peaks[isa] > 0) printf(" %5.1f %% of peak", 100 * macs / seconds / peaks[isa]);
  printf("\n");
}

static void *bytes(size_t n) {
  uint8_t *p = aligned_alloc(64, (n + 63) / 64 * 64 + 64);
  if (p == NULL) exit(1);
  for (size_t i = 0; i < n; i++) p[i] = (uint8_t)(i * 2654435761u >> 13);
  return p;
}

/* ---- convolutions and products ---- */

typedef struct conv_shape {
  const char *name;
  int64_t batch, in_channels, out_channels, size, kernel, stride, groups;
} conv_shape;

static const conv_shape conv_shapes[] = {
    {"stem 3x3 1->24 @28", 1, 1, 24, 28, 3, 1, 1},
    {"stem 3x3 1->16 @28", 1, 1, 16, 28, 3, 1, 1},
    {"3x3 24->48 @14", 1, 24, 48, 14, 3, 1, 1},
    {"3x3 48->96 @7", 1, 48, 96, 7, 3, 1, 1},
    {"3x3 16->16 @28", 1, 16, 16, 28, 3, 1, 1},
    {"3x3 s2 16->32 @28", 1, 16, 32, 28, 3, 2, 1},
    {"3x3 32->32 @14", 1, 32, 32, 14, 3, 1, 1},
    {"3x3 64->64 @7", 1, 64, 64, 7, 3, 1, 1},
    {"1x1 24->72 @14", 1, 24, 72, 14, 1, 1, 1},
    {"1x1 144->48 @4", 1, 144, 48, 4, 1, 1, 1},
    {"linear 864->10", 1, 864, 10, 1, 1, 1, 1},
    {"linear 784->64 x64", 64, 784, 64, 1, 1, 1, 1},
    {"matmul 128x768x768", 128, 768, 768, 1, 1, 1, 1},
    {"3x3 64->64 @56", 1, 64, 64, 56, 3, 1, 1},
    {"1x1 64->256 @56", 1, 64, 256, 56, 1, 1, 1},
    {"7x7 s2 3->64 @224", 1, 3, 64, 224, 7, 2, 1},
};

typedef struct gemm_work {
  intact_qgemm_plan plan;
  void *x, *y, *scratch;
} gemm_work;

static void run_gemm(void *user) {
  gemm_work *w = user;
  intact__qgemm_run(&w->plan, w->x, w->y, w->scratch, 0, w->plan.n_bands);
}

static intact_conv_axis axis_of(const conv_shape *s) {
  int64_t pad = s->kernel / 2;
  return (intact_conv_axis){s->size, (s->size + 2 * pad - s->kernel) / s->stride + 1, s->kernel, s->stride, 1, pad};
}

static void bench_gemm(const conv_shape *s, const intact_qgemm_kernel *kernel) {
  intact_conv_axis axis = axis_of(s);
  intact_qgemm_shape shape = {.batch = s->batch, .axis = {axis, {1, 1, 1, 1, 1, 0}, axis}, .groups = s->groups,
                              .in_channels = s->in_channels / s->groups, .out_channels = s->out_channels / s->groups, .zero_x = 7,
                              .zero_y = 3, .y_max = 255};
  int64_t k = shape.in_channels * s->kernel * s->kernel;
  gemm_work w;
  if (!intact__qgemm_plan(kernel, &shape, 1, &w.plan)) return;
  float *scale = bytes((size_t)s->out_channels * sizeof *scale);
  for (int64_t i = 0; i < s->out_channels; i++) scale[i] = 0.001f;
  int8_t *data = bytes((size_t)(s->out_channels * k));
  for (int64_t i = 0; i < s->out_channels * k; i++) data[i] = (int8_t)(data[i] / 8 + data[(i * 7 + 3) % (s->out_channels * k)] / 8);
  int64_t *segments = bytes((size_t)w.plan.n_segments * sizeof *segments);
  intact_qgemm_weights weights = {data, false, k, 1, s->kernel * s->kernel, NULL, NULL, scale};
  void *packed = bytes(intact__qgemm_packed_bytes(&w.plan, &weights));
  intact__qgemm_pack(&w.plan, &weights, segments, packed);
  w.x = bytes((size_t)(s->batch * s->in_channels * s->size * s->size));
  w.y = bytes((size_t)(s->batch * s->out_channels * axis.out * axis.out));
  w.scratch = bytes(w.plan.scratch_bytes);
  double macs = (double)(s->batch * s->out_channels * k) * (double)(axis.out * axis.out);
  print_row(s->name, kernel->name, kernel->isa, macs, seconds_of(run_gemm, &w));
  free(scale), free(data), free(packed), free(segments), free(w.x), free(w.y), free(w.scratch);
}

/* ---- depthwise ---- */

static const conv_shape depthwise_shapes[] = {
    {"dw 3x3 16 @14", 1, 16, 16, 14, 3, 1, 16},        {"dw 3x3 s2 72 @14", 1, 72, 72, 14, 3, 2, 72},
    {"dw 3x3 96 @7", 1, 96, 96, 7, 3, 1, 96},          {"dw 3x3 144 @4", 1, 144, 144, 4, 3, 1, 144},
    {"dw 3x3 32 @112", 1, 32, 32, 112, 3, 1, 32},      {"dw 3x3 144 @56", 1, 144, 144, 56, 3, 1, 144},
    {"dw 3x3 576 @14", 1, 576, 576, 14, 3, 1, 576},    {"dw 5x5 120 @28", 1, 120, 120, 28, 5, 1, 120},
};

typedef struct depthwise_work {
  intact_qdwconv_plan plan;
  void *x, *y, *scratch;
} depthwise_work;

static void run_depthwise(void *user) {
  depthwise_work *w = user;
  intact__qdwconv_run(&w->plan, w->x, w->y, w->scratch, 0, w->plan.n_bands);
}

static void bench_depthwise(const conv_shape *s, const intact_qdwconv_kernel *kernel) {
  intact_conv_axis axis = axis_of(s);
  intact_qdwconv_shape shape = {.batch = s->batch, .channels = s->groups, .height = axis, .width = axis, .zero_x = 7, .zero_y = 3,
                                .y_max = 255};
  int64_t taps = s->kernel * s->kernel;
  depthwise_work w;
  if (!intact__qdwconv_plan(kernel, &shape, 1, 1, &w.plan)) return;
  float *scale = bytes((size_t)s->groups * sizeof *scale);
  for (int64_t i = 0; i < s->groups; i++) scale[i] = 0.01f;
  void *data = bytes((size_t)(s->groups * taps)), *packed = bytes(intact__qdwconv_packed_bytes(&w.plan));
  int64_t *offsets = bytes((size_t)w.plan.all_steps * sizeof *offsets);
  intact_qdwconv_weights weights = {data, false, NULL, NULL, scale};
  intact__qdwconv_pack(&w.plan, &weights, offsets, packed);
  w.x = bytes((size_t)(s->batch * s->groups * s->size * s->size));
  w.y = bytes((size_t)(s->batch * s->groups * axis.out * axis.out));
  w.scratch = bytes(w.plan.scratch_bytes);
  double macs = (double)(s->batch * s->groups * taps) * (double)(axis.out * axis.out);
  print_row(s->name, kernel->name, kernel->isa, macs, seconds_of(run_depthwise, &w));
  free(scale), free(data), free(packed), free(offsets), free(w.x), free(w.y), free(w.scratch);
}

/* ---- element by element: G elements/s ---- */

enum { ELEMENTS = 14 * 14 * 64 };

typedef struct elements_work {
  intact_qlut_fn *lut;
  intact_qbinary_fn *binary;
  intact_qpool_fn *pool;
  uint8_t *a, *b, *y;
  bool mean;
} elements_work;

static void run_lut(void *user) {
  elements_work *w = user;
  w->lut(w->a, ELEMENTS, w->b, w->y);
}

static void run_add(void *user) {
  elements_work *w = user;
  intact_qbinary_params p = {.op = INTACT_QBINARY_ADD, .zero_a = 3, .zero_b = 9, .scale_a = 0.1f, .scale_b = 0.2f,
                             .scale_y = 0.25f, .inverse_y = 4.0f, .round = intact__round8(false, 5, 0, 255)};
  intact_qbinary_block block = {.rows = 1, .n = ELEMENTS, .a = w->a, .b = w->b, .y = w->y, .a_step = 1, .b_step = 1};
  w->binary(&p, &block);
}

/* 2x2 windows of 64 channels over 14x14. */
static void run_pool(void *user) {
  elements_work *w = user;
  int64_t offsets[4] = {0, 64, 14 * 64, 15 * 64};
  intact_qpool_params p = {.mean = w->mean, .zero_x = 3, .round = intact__round8(false, 5, 0, 255), .max8 = 255};
  for (int i = 0; i < 7; i++) {
    intact_qpool_block block = {w->a + i * 28 * 64, offsets, 4, 7, 128, 64, 0.3f, w->y + i * 7 * 64, 64};
    w->pool(&p, &block);
  }
}

static void print_elements(const char *name, double seconds) {
  printf("%-34s %-40s %9.2f us %8.2f Gelement/s\n", "", name, seconds * 1e6, ELEMENTS / seconds * 1e-9);
}

static void bench_elements(void) {
  elements_work w = {.a = bytes(ELEMENTS), .b = bytes(ELEMENTS), .y = bytes(ELEMENTS)};
  for (int i = 0; i < intact__n_qlut_rows; i++)
    if (intact_isa_available(intact__qlut_rows[i].isa)) {
      w.lut = intact__qlut_rows[i].run;
      print_elements(intact__qlut_rows[i].name, seconds_of(run_lut, &w));
    }
  for (int i = 0; i < intact__n_qbinary_rows; i++)
    if (intact_isa_available(intact__qbinary_rows[i].isa)) {
      w.binary = intact__qbinary_rows[i].run;
      print_elements(intact__qbinary_rows[i].name, seconds_of(run_add, &w));
    }
  for (int i = 0; i < intact__n_qpool_rows; i++)
    for (int mean = 0; mean < 2 && intact_isa_available(intact__qpool_rows[i].isa); mean++) {
      w.pool = intact__qpool_rows[i].run, w.mean = mean;
      print_elements(intact__qpool_rows[i].name, seconds_of(run_pool, &w));
    }
  free(w.a), free(w.b), free(w.y);
}

int main(int argc, char **argv) {
  const char *only = argc > 1 ? argv[1] : "";
  static const intact_qgemm_kernel *const gemm_rows[] = {
#define INTACT_KERNEL(family, name, isa) &name,
#include "kernels/qgemm/qgemm.def"
  };
  static const intact_qdwconv_kernel *const depthwise_rows[] = {
#include "kernels/qdwconv/qdwconv.def"
#undef INTACT_KERNEL
  };
  for (int i = 0; i < INTACT_ISA_COUNT; i++)
    if (intact_isa_available((intact_isa)i)) {
      for (int r = 0; r < 5; r++) {
        double peak = peak_of((intact_isa)i);
        if (peak > peaks[i]) peaks[i] = peak;
      }
      if (peaks[i] > 0) printf("peak %s: %.1f GMAC/s\n", intact_isa_text((intact_isa)i), peaks[i] * 1e-9);
    }
  for (size_t i = 0; i < sizeof conv_shapes / sizeof conv_shapes[0]; i++)
    for (size_t r = 0; r < sizeof gemm_rows / sizeof gemm_rows[0]; r++)
      if (strstr(conv_shapes[i].name, only) && intact_isa_available(gemm_rows[r]->isa)) bench_gemm(&conv_shapes[i], gemm_rows[r]);
  for (size_t i = 0; i < sizeof depthwise_shapes / sizeof depthwise_shapes[0]; i++)
    for (size_t r = 0; r < sizeof depthwise_rows / sizeof depthwise_rows[0]; r++)
      if (strstr(depthwise_shapes[i].name, only) && intact_isa_available(depthwise_rows[r]->isa))
        bench_depthwise(&depthwise_shapes[i], depthwise_rows[r]);
  if (strstr("elements", only)) bench_elements();
  return 0;
}
