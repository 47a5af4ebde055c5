/* SPDX-License-Identifier: Apache-2.0 */
/* SIMDe, and in plain C what version 0.7 of it lacks: conversions with rounding, masked moves of bytes. For tests only. */
#ifndef INTACT_KERNELS_SIMD_AVX512_EMULATION_H
#define INTACT_KERNELS_SIMD_AVX512_EMULATION_H

#pragma GCC diagnostic ignored "-Wpsabi" /* 512-bit values by value: within this file only */
#define SIMDE_ENABLE_NATIVE_ALIASES
#include <math.h>
#include <simde/x86/avx512.h>
#include <stdint.h>
#include <string.h>

#define INTACT_EMULATE static inline __attribute__((unused))
#undef __mmask16
#undef __mmask32
#undef __mmask64
#define __mmask16 uint16_t
#define __mmask32 uint32_t
#define __mmask64 uint64_t

INTACT_EMULATE __m512 intact__cvtepi32_ps(__m512i a) {
  int32_t in[16];
  float out[16];
  memcpy(in, &a, sizeof in);
  for (int i = 0; i < 16; i++) out[i] = (float)in[i];
  return _mm512_loadu_ps(out);
}

/* a * b - c, rounded once. */
INTACT_EMULATE __m512 intact__fmsub_ps(__m512 a, __m512 b, __m512 c) {
  float x[16], y[16], z[16];
  memcpy(x, &a, sizeof x);
  memcpy(y, &b, sizeof y);
  memcpy(z, &c, sizeof z);
  for (int i = 0; i < 16; i++) x[i] = fmaf(x[i], y[i], -z[i]);
  return _mm512_loadu_ps(x);
}

/* Half to even; out of range and NaN give -2^31. */
INTACT_EMULATE __m512i intact__cvtps_epi32(__m512 a) {
  float in[16];
  int32_t out[16];
  memcpy(in, &a, sizeof in);
  for (int i = 0; i < 16; i++) out[i] = in[i] >= -0x1p31f && in[i] < 0x1p31f ? (int32_t)nearbyintf(in[i]) : INT32_MIN;
  return _mm512_loadu_si512(out);
}

/* Toward zero; out of range and NaN give -2^31. */
INTACT_EMULATE __m512i intact__cvttps_epi32(__m512 a) {
  float in[16];
  int32_t out[16];
  memcpy(in, &a, sizeof in);
  for (int i = 0; i < 16; i++) out[i] = in[i] >= -0x1p31f && in[i] < 0x1p31f ? (int32_t)in[i] : INT32_MIN;
  return _mm512_loadu_si512(out);
}

INTACT_EMULATE __m128i intact__cvtepi32_epi8(__m512i a) {
  int32_t in[16];
  uint8_t out[16];
  memcpy(in, &a, sizeof in);
  for (int i = 0; i < 16; i++) out[i] = (uint8_t)in[i];
  return _mm_loadu_si128((const __m128i *)(const void *)out);
}

INTACT_EMULATE __m512i intact__cvtepu8_epi32(__m128i a) {
  uint8_t in[16];
  int32_t out[16];
  memcpy(in, &a, sizeof in);
  for (int i = 0; i < 16; i++) out[i] = in[i];
  return _mm512_loadu_si512(out);
}

INTACT_EMULATE __m512i intact__cvtepi8_epi32(__m128i a) {
  int8_t in[16];
  int32_t out[16];
  memcpy(in, &a, sizeof in);
  for (int i = 0; i < 16; i++) out[i] = in[i];
  return _mm512_loadu_si512(out);
}

INTACT_EMULATE __m512i intact__cvtepu8_epi16(__m256i a) {
  uint8_t in[32];
  int16_t out[32];
  memcpy(in, &a, sizeof in);
  for (int i = 0; i < 32; i++) out[i] = in[i];
  return _mm512_loadu_si512(out);
}

INTACT_EMULATE __m512i intact__cvtepu16_epi32(__m256i a) {
  uint16_t in[16];
  int32_t out[16];
  memcpy(in, &a, sizeof in);
  for (int i = 0; i < 16; i++) out[i] = in[i];
  return _mm512_loadu_si512(out);
}

/* Elements whose bit is clear are neither read nor written. */
INTACT_EMULATE void intact__masked(void *to, const void *from, uint64_t mask, int n) {
  for (int i = 0; i < n; i++)
    if (mask >> i & 1) ((uint8_t *)to)[i] = ((const uint8_t *)from)[i];
}

INTACT_EMULATE void intact__mask_storeu_epi8(void *to, uint64_t mask, __m512i a) { intact__masked(to, &a, mask, 64); }

INTACT_EMULATE void intact__mask_storeu_epi8_128(void *to, uint64_t mask, __m128i a) { intact__masked(to, &a, mask, 16); }

INTACT_EMULATE __m512i intact__maskz_loadu_epi8(uint64_t mask, const void *from) {
  __m512i a = _mm512_setzero_si512();
  intact__masked(&a, from, mask, 64);
  return a;
}

INTACT_EMULATE __m128i intact__maskz_loadu_epi8_128(uint64_t mask, const void *from) {
  __m128i a = _mm_setzero_si128();
  intact__masked(&a, from, mask, 16);
  return a;
}

INTACT_EMULATE __m512 intact__maskz_loadu_ps(uint16_t mask, const float *from) {
  float in[16] = {0};
  for (int i = 0; i < 16; i++)
    if (mask >> i & 1) in[i] = from[i];
  return _mm512_loadu_ps(in);
}

INTACT_EMULATE void intact__mask_storeu_ps(float *to, uint16_t mask, __m512 a) {
  float out[16];
  memcpy(out, &a, sizeof out);
  for (int i = 0; i < 16; i++)
    if (mask >> i & 1) to[i] = out[i];
}

#undef _mm512_fmsub_ps
#undef _mm512_maskz_loadu_ps
#undef _mm512_mask_storeu_ps
#define _mm512_maskz_loadu_ps intact__maskz_loadu_ps
#define _mm512_mask_storeu_ps intact__mask_storeu_ps
#define _mm512_fmsub_ps intact__fmsub_ps
#define _mm512_cvtepi32_ps intact__cvtepi32_ps
#define _mm512_cvtps_epi32 intact__cvtps_epi32
#define _mm512_cvttps_epi32 intact__cvttps_epi32
#define _mm512_cvtepi8_epi32 intact__cvtepi8_epi32
#define _mm512_cvtepi32_epi8 intact__cvtepi32_epi8
#define _mm512_cvtepu8_epi32 intact__cvtepu8_epi32
#define _mm512_cvtepu8_epi16 intact__cvtepu8_epi16
#define _mm512_cvtepu16_epi32 intact__cvtepu16_epi32
#define _mm512_mask_storeu_epi8 intact__mask_storeu_epi8
#define _mm_mask_storeu_epi8 intact__mask_storeu_epi8_128
#define _mm512_maskz_loadu_epi8 intact__maskz_loadu_epi8
#define _mm_maskz_loadu_epi8 intact__maskz_loadu_epi8_128

#endif
