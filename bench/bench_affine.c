/* SPDX-License-Identifier: Apache-2.0 */
/* Kernels of quantization at 256 K and 8.4 M elements, one thread: GB/s and the ratio to a plain stream of the same bytes in the
   same run, for every instruction set of this CPU. With a file of "<op> <elements> <milliseconds>" lines (bench/affine_torch.py
   writes them) also how many times PyTorch's operator takes. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "kernels/affine/fake_quantize.h"
#include "kernels/affine/statistics.h"

static double now(void) {
  struct timespec t;
  clock_gettime(CLOCK_THREAD_CPUTIME_ID, &t); /* one thread: others on the machine do not count */
  return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

typedef struct arrays {
  uint32_t isa_set;
  int64_t n;
  float *x, *dy, *out;
  uint8_t *codes;
  uint32_t *tables;
  intact_affine affine;
  volatile float sink;
} arrays;

typedef void (*work_fn)(arrays *a);

/* ---- streams: what memory gives for the same traffic ---- */

static void stream_copy(arrays *a) { memcpy(a->out, a->x, (size_t)a->n * sizeof(float)); }

/* Vectors that every processor has. */
typedef float numbers __attribute__((vector_size(16)));
enum { AT_ONCE = 4 };

static inline numbers load(const float *x) {
  numbers v;
  memcpy(&v, x, sizeof v);
  return v;
}
static inline void store(float *out, numbers v) { memcpy(out, &v, sizeof v); }

/* The same as memcpy with plain vector stores, as a kernel makes them. */
static void stream_loop(arrays *a) {
  for (int64_t i = 0; i < a->n; i += AT_ONCE) store(a->out + i, load(a->x + i) * 0.5f);
}

static void stream_two(arrays *a) {
  for (int64_t i = 0; i < a->n; i += AT_ONCE) store(a->out + i, load(a->x + i) + load(a->dy + i));
}

static void stream_over(arrays *a) {
  for (int64_t i = 0; i < a->n; i += AT_ONCE) store(a->dy + i, load(a->x + i) + load(a->dy + i));
}

static void stream_read(arrays *a) {
  numbers sums[4] = {{0}};
  for (int64_t i = 0; i < a->n; i += 4 * AT_ONCE)
    for (int k = 0; k < 4; k++) sums[k] += load(a->x + i + k * AT_ONCE);
  sums[0] += sums[1] + sums[2] + sums[3];
  a->sink = sums[0][0];
}

/* 4 bytes read, 1 written, and the other way round. */
static void stream_narrow(arrays *a) {
  for (int64_t i = 0; i < a->n; i += 4 * AT_ONCE) {
    numbers v = load(a->x + i) + load(a->x + i + AT_ONCE) + load(a->x + i + 2 * AT_ONCE) + load(a->x + i + 3 * AT_ONCE);
    memcpy(a->codes + i, &v, sizeof v);
  }
}

static void stream_widen(arrays *a) {
  for (int64_t i = 0; i < a->n; i += 4 * AT_ONCE) {
    numbers v;
    memcpy(&v, a->codes + i, sizeof v);
    for (int k = 0; k < 4; k++) store(a->out + i + k * AT_ONCE, v);
  }
}

/* ---- kernels ---- */

static void fake_quantize(arrays *a) { intact__fake_quantize_array(a->isa_set, a->x, a->out, NULL, a->n, &a->affine); }
static void fake_quantize_grad(arrays *a) { intact__fake_quantize_grad_array(a->isa_set, a->x, a->dy, a->out, a->n, &a->affine); }
static void learnable_grad(arrays *a) {
  intact_learned_sums sums = {0};
  intact__learnable_grad_array(a->isa_set, a->x, a->dy, a->out, a->n, &a->affine, &sums);
  a->sink = (float)sums.scale;
}
/* As training runs it: the incoming gradient, read by nobody else, becomes the outgoing one. */
static void learnable_grad_over(arrays *a) {
  intact_learned_sums sums = {0};
  intact__learnable_grad_array(a->isa_set, a->x, a->dy, a->dy, a->n, &a->affine, &sums);
  a->sink = (float)sums.scale;
}
static void quantize(arrays *a) { intact__quantize_array(a->isa_set, a->x, a->codes, INTACT_U8, a->n, &a->affine); }
static void dequantize(arrays *a) { intact__dequantize_array(a->isa_set, a->codes, INTACT_U8, a->out, a->n, 0.05f, 128); }
static void min_max(arrays *a) {
  intact_min_max m = INTACT_MIN_MAX_START;
  intact__min_max_array(a->isa_set, a->x, a->n, &m);
  a->sink = m.high;
}
static void histogram(arrays *a) {
  static const intact_bins bins = {-7.0f, 7.0f, 2048};
  intact__histogram_array(a->isa_set, a->x, a->n, &bins, a->tables);
}

typedef struct bench {
  const char *name;
  work_fn work, stream;
  double bytes; /* per element */
} bench;

static const bench benches[] = {
    {"fake_quantize", fake_quantize, stream_loop, 8},
    {"fake_quantize_backward", fake_quantize_grad, stream_two, 12},
    {"learnable_backward", learnable_grad, stream_two, 12},
    {"learnable_in_place", learnable_grad_over, stream_over, 12},
    {"quantize_u8", quantize, stream_narrow, 5},
    {"dequantize_u8", dequantize, stream_widen, 5},
    {"min_max", min_max, stream_read, 4},
    {"histogram", histogram, stream_read, 4},
};

/* Interleaved: the least of several repeats of each. */
static void measure(arrays *a, const bench *b, double *kernel, double *stream, double *copy) {
  int calls = (int)(INT64_C(8388608) / a->n) * 2 + 1;
  double *best[3] = {kernel, stream, copy};
  const work_fn works[3] = {b->work, b->stream, stream_copy};
  *kernel = *stream = *copy = 1e9;
  for (int repeat = 0; repeat < 12; repeat++) {
    for (int k = 0; k < 3; k++) {
      works[k](a);
      double t = now();
      for (int i = 0; i < calls; i++) works[k](a);
      t = (now() - t) / calls;
      *best[k] = t < *best[k] ? t : *best[k];
    }
  }
}

/* Milliseconds of PyTorch's operator from the file; 0: not there. */
static double torch_ms(const char *path, const char *name, int64_t n) {
  FILE *file = path ? fopen(path, "r") : NULL;
  char line[200], op[100];
  double ms, found = 0;
  long long elements;
  while (file && fgets(line, sizeof line, file))
    if (sscanf(line, "%99s %lld %lf", op, &elements, &ms) == 3 && strcmp(op, name) == 0 && elements == n) found = ms;
  if (file) fclose(file);
  return found;
}

/* Arrays that begin at the same place of a 4 KiB page stall the loads of one on the stores to another: an accident of placement
   that no kernel can answer for, so they are staggered. */
enum { STAGGER = 1344 };

static bool allocate(arrays *a, int64_t most) {
  size_t bytes = (size_t)most * sizeof(float) + 3 * STAGGER;
  uint8_t *memory[3] = {aligned_alloc(64, bytes), aligned_alloc(64, bytes), aligned_alloc(64, bytes)};
  if (!memory[0] || !memory[1] || !memory[2]) return false;
  a->x = (void *)memory[0];
  a->dy = (void *)(memory[1] + STAGGER);
  a->out = (void *)(memory[2] + 2 * STAGGER);
  a->codes = aligned_alloc(64, (size_t)most);
  a->tables = calloc(INTACT_HISTOGRAM_TABLES * 2048, sizeof *a->tables);
  return a->codes && a->tables;
}

int main(int argc, char **argv) {
  static const int64_t sizes[] = {262144, 8388608};
  const char *torch = argc > 1 ? argv[1] : NULL;
  arrays a = {.affine = {0.05f, 1.0f / 0.05f, 128, 0, 255, false}};
  if (!allocate(&a, sizes[1])) return 1;
  uint32_t random = 1;
  for (int64_t i = 0; i < sizes[1]; i++) { /* about normal: a sum of four */
    float sum = 0;
    for (int k = 0; k < 4; k++) {
      random = random * 1664525u + 1013904223u;
      sum += (float)(random >> 8) * 0x1p-24f - 0.5f;
    }
    a.x[i] = sum * 3.0f;
    a.dy[i] = sum - 0.25f;
    a.out[i] = 0;
    a.codes[i] = (uint8_t)(random >> 24);
  }
  printf("%-11s %-23s %9s %8s %8s %9s %9s %9s\n", "isa", "kernel", "elements", "ms", "GB/s", "of stream", "of memcpy", "torch");
  for (int isa = 0; isa < INTACT_ISA_COUNT; isa++) {
    if (!intact_isa_available((intact_isa)isa) || isa == INTACT_ISA_AVX512VNNI) continue;
    a.isa_set = 1u << isa;
    for (size_t s = 0; s < 2; s++) {
      a.n = sizes[s];
      for (size_t b = 0; b < sizeof benches / sizeof benches[0]; b++) {
        double kernel, stream, copy, peer;
        measure(&a, &benches[b], &kernel, &stream, &copy);
        copy *= benches[b].bytes / 8.0; /* memcpy moves 8 bytes an element */
        printf("%-11s %-23s %9lld %8.3f %8.2f %9.2f %9.2f", intact_isa_text((intact_isa)isa), benches[b].name, (long long)a.n, kernel * 1e3,
               benches[b].bytes * (double)a.n / kernel * 1e-9, stream / kernel, copy / kernel);
        peer = torch_ms(torch, benches[b].name, a.n);
        if (peer > 0)
          printf(" %8.1fx\n", peer / (kernel * 1e3));
        else
          printf(" %9s\n", "-");
      }
    }
  }
  free(a.x);
  free((uint8_t *)(void *)a.dy - STAGGER);
  free((uint8_t *)(void *)a.out - 2 * STAGGER);
  free(a.codes);
  free(a.tables);
  return 0;
}
