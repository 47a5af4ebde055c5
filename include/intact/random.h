/* SPDX-License-Identifier: Apache-2.0 */
/* Seeded random numbers: the same draws as PyTorch's CPU generator. */
#ifndef INTACT_RANDOM_H
#define INTACT_RANDOM_H

#include "intact/base.h"

#ifdef __cplusplus
extern "C" {
#endif

/* A Mersenne Twister (MT19937) with the cache of one normal number. Every draw below states what it takes from the stream. */
typedef struct intact_generator intact_generator;

/* seed: its low 32 bits start the stream, as torch.manual_seed. */
INTACT_API intact_status intact_generator_create(intact_context *context, uint64_t seed, intact_generator **generator);
INTACT_API void intact_generator_destroy(intact_generator *generator); /* takes NULL */
/* Starts the stream anew and drops the cached normal number. */
INTACT_API void intact_generator_seed(intact_generator *generator, uint64_t seed);

/* The state as torch.get_rng_state() lays it out. */
#define INTACT_GENERATOR_STATE_BYTES 5056
INTACT_API void intact_generator_get_state(const intact_generator *generator, uint8_t state[INTACT_GENERATOR_STATE_BYTES]);
/* Refuses bytes that no generator gives; the generator is then unchanged. */
INTACT_API intact_status intact_generator_set_state(intact_generator *generator,
                                                    const uint8_t state[INTACT_GENERATOR_STATE_BYTES]);

/* One word; two words, the first is the high half. */
INTACT_API uint32_t intact_generator_bits32(intact_generator *generator);
INTACT_API uint64_t intact_generator_bits64(intact_generator *generator);

/* Uniform in [low, high): one word each (float), two words each (double). */
INTACT_API void intact_random_uniform_f32(intact_generator *generator, int64_t n, float low, float high, float *out);
INTACT_API void intact_random_uniform_f64(intact_generator *generator, int64_t n, double low, double high, double *out);
/* Normal numbers, as normal_() on a dense tensor of n elements: below 16 by pairs in double precision (the second of a pair waits
   for the next such draw), else in blocks of 16 in the type's own precision. */
INTACT_API void intact_random_normal_f32(intact_generator *generator, int64_t n, float mean, float std, float *out);
INTACT_API void intact_random_normal_f64(intact_generator *generator, int64_t n, double mean, double std, double *out);
/* One normal number by pairs: what normal_() gives, element by element, for a tensor that is not dense. */
INTACT_API double intact_random_normal_pair(intact_generator *generator, double mean, double std);
/* Integers in [low, high): a word each, two words when the range has 2^28 values or more. Refuses low >= high. */
INTACT_API intact_status intact_random_integers(intact_generator *generator, int64_t n, int64_t low, int64_t high, int64_t *out);
/* A permutation of 0 .. n-1: n-1 words. */
INTACT_API void intact_random_permutation(intact_generator *generator, int64_t n, int64_t *out);
/* 1 with probability p, else 0: bernoulli_(p), two words each. */
INTACT_API void intact_random_bernoulli(intact_generator *generator, int64_t n, double p, float *out);
/* 1 with probability p[i], else 0: bernoulli(p), one word each. */
INTACT_API void intact_random_bernoulli_each(intact_generator *generator, int64_t n, const float *p, float *out);
/* Factors of dropout with drop probability p: 0, or 1/(1-p) for what is kept. */
INTACT_API void intact_random_dropout(intact_generator *generator, int64_t n, double p, float *out);
/* -log(1-u)/rate: two words each. rate > 0. */
INTACT_API void intact_random_exponential(intact_generator *generator, int64_t n, double rate, float *out);
/* `draws` indices of 0..n-1 with chances in the ratio of weights (not negative, sum finite and > 0; without replacement at least
   `draws` of them > 0). */
INTACT_API intact_status intact_random_multinomial(intact_generator *generator, int64_t n, const float *weights, int64_t draws,
                                                   bool replacement, int64_t *out);
/* Sample order of one epoch of a shuffling loader that draws from `generator` (torch.utils.data.DataLoader with a generator of its
   own): continues the stream from epoch to epoch. */
INTACT_API void intact_random_epoch_order(intact_generator *generator, int64_t n, int64_t *order);

#ifdef __cplusplus
}
#endif
#endif
