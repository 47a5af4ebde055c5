/* SPDX-License-Identifier: Apache-2.0 */
/* Sums over runs of float32 for AVX2: two vectors of double hold the parts. Every sum is a chain of additions; what else a step does
   fits in between. Lanes behind a run's end take part in nothing: their terms are +0, which changes no sum that starts at +0. */
#include <immintrin.h>

#include "kernels/moments/moments.h"

typedef struct halves {
  __m256d a, b;
} halves;

INTACT_INLINE halves load(const double *parts) { return (halves){_mm256_loadu_pd(parts), _mm256_loadu_pd(parts + 4)}; }

INTACT_INLINE void store(double *parts, halves v) {
  _mm256_storeu_pd(parts, v.a);
  _mm256_storeu_pd(parts + 4, v.b);
}

INTACT_INLINE halves widened(__m256 v) {
  return (halves){_mm256_cvtps_pd(_mm256_castps256_ps128(v)), _mm256_cvtps_pd(_mm256_extractf128_ps(v, 1))};
}

INTACT_INLINE halves widened_at(const float *x) { return (halves){_mm256_cvtps_pd(_mm_loadu_ps(x)), _mm256_cvtps_pd(_mm_loadu_ps(x + 4))}; }
INTACT_INLINE halves plus(halves x, halves y) { return (halves){_mm256_add_pd(x.a, y.a), _mm256_add_pd(x.b, y.b)}; }
INTACT_INLINE halves minus(halves x, __m256d y) { return (halves){_mm256_sub_pd(x.a, y), _mm256_sub_pd(x.b, y)}; }
INTACT_INLINE halves times(halves x, halves y) { return (halves){_mm256_mul_pd(x.a, y.a), _mm256_mul_pd(x.b, y.b)}; }

/* All bits in the first n lanes. */
INTACT_INLINE __m256i first(int64_t n) {
  return _mm256_cmpgt_epi32(_mm256_set1_epi32((int)n), _mm256_setr_epi32(0, 1, 2, 3, 4, 5, 6, 7));
}

INTACT_INLINE halves only(halves v, __m256i lanes) {
  const __m256i a = _mm256_cvtepi32_epi64(_mm256_castsi256_si128(lanes)), b = _mm256_cvtepi32_epi64(_mm256_extracti128_si256(lanes, 1));
  return (halves){_mm256_and_pd(v.a, _mm256_castsi256_pd(a)), _mm256_and_pd(v.b, _mm256_castsi256_pd(b))};
}

static void moments(const float *x, const intact_runs *runs, double origin, intact_moments *m) {
  const __m256d from = _mm256_set1_pd(origin);
  const int64_t whole = runs->length & -INTACT_PARTS;
  const __m256i rest = first(runs->length - whole);
  halves sum = load(m->sum), square = load(m->square);
  __m256 low = _mm256_loadu_ps(m->low), high = _mm256_loadu_ps(m->high);
  for (int64_t run = 0; run < runs->n; run++, x += runs->stride) {
    for (int64_t i = 0; i < whole; i += INTACT_PARTS) {
      const __m256 v = _mm256_loadu_ps(x + i);
      const halves d = minus(widened(v), from);
      sum = plus(sum, d);
      square = plus(square, times(d, d));
      low = _mm256_min_ps(v, low); /* NaN in the first gives the second */
      high = _mm256_max_ps(v, high);
    }
    if (whole == runs->length) continue;
    const __m256 v = _mm256_maskload_ps(x + whole, rest), lanes = _mm256_castsi256_ps(rest);
    const halves d = only(minus(widened(v), from), rest);
    sum = plus(sum, d);
    square = plus(square, times(d, d));
    low = _mm256_blendv_ps(low, _mm256_min_ps(v, low), lanes);
    high = _mm256_blendv_ps(high, _mm256_max_ps(v, high), lanes);
  }
  store(m->sum, sum);
  store(m->square, square);
  _mm256_storeu_ps(m->low, low);
  _mm256_storeu_ps(m->high, high);
}

static void products(const float *x, const float *dy, const intact_runs *runs, double origin, intact_products *m) {
  const __m256d from = _mm256_set1_pd(origin);
  const int64_t whole = runs->length & -INTACT_PARTS;
  const __m256i rest = first(runs->length - whole);
  halves sum = load(m->sum), product = load(m->product);
  for (int64_t run = 0; run < runs->n; run++, x += runs->stride, dy += runs->stride) {
    for (int64_t i = 0; i < whole; i += INTACT_PARTS) {
      const halves d = widened_at(dy + i);
      sum = plus(sum, d);
      product = plus(product, times(d, minus(widened_at(x + i), from)));
    }
    if (whole == runs->length) continue;
    const halves d = widened(_mm256_maskload_ps(dy + whole, rest));
    sum = plus(sum, d);
    product = plus(product, only(times(d, minus(widened(_mm256_maskload_ps(x + whole, rest)), from)), rest));
  }
  store(m->sum, sum);
  store(m->product, product);
}

const intact_moments_kernel intact_moments_f32__avx2 = {"intact_moments_f32__avx2", INTACT_ISA_AVX2, moments, products};
