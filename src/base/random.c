/* SPDX-License-Identifier: Apache-2.0 */
/* MT19937 (Matsumoto and Nishimura 1998) and the distributions drawn from it. */
#include "intact/random.h"

#include <math.h>
#include <string.h>

#include "base/context.h"

enum { STATE_WORDS = 624, STATE_SHIFT = 397, BLOCK = 16 };
#define TWO_PI 6.283185307179586476925286766559

struct intact_generator {
  intact_context *context;
  uint64_t initial_seed;
  uint32_t words[STATE_WORDS];
  int left;      /* words of this block that are still to be drawn, +1 before the first */
  uint32_t next; /* index of the next one */
  bool cached;   /* `normal` waits for the next draw by pairs */
  double normal;
};

void intact_generator_seed(intact_generator *generator, uint64_t seed) {
  generator->initial_seed = seed;
  generator->words[0] = (uint32_t)seed;
  for (uint32_t i = 1; i < STATE_WORDS; i++) {
    const uint32_t before = generator->words[i - 1];
    generator->words[i] = 1812433253u * (before ^ (before >> 30)) + i;
  }
  generator->left = 1;
  generator->next = 0;
  generator->cached = false;
  generator->normal = 0;
}

intact_status intact_generator_create(intact_context *context, uint64_t seed, intact_generator **generator) {
  intact_generator *made = intact__alloc(context, 1, sizeof *made);
  if (!made) return intact__no_memory(context, sizeof *made);
  made->context = context;
  intact_generator_seed(made, seed);
  *generator = made;
  return INTACT_OK;
}

void intact_generator_destroy(intact_generator *generator) {
  if (generator) intact__free(generator->context, generator);
}

static void next_block(intact_generator *generator) {
  uint32_t *words = generator->words;
  for (int i = 0; i < STATE_WORDS; i++) {
    const uint32_t mixed = (words[i] & 0x80000000u) | (words[(i + 1) % STATE_WORDS] & 0x7fffffffu);
    words[i] = words[(i + STATE_SHIFT) % STATE_WORDS] ^ (mixed >> 1) ^ ((mixed & 1) ? 0x9908b0dfu : 0);
  }
  generator->left = STATE_WORDS;
  generator->next = 0;
}

uint32_t intact_generator_bits32(intact_generator *generator) {
  if (--generator->left == 0) next_block(generator);
  uint32_t word = generator->words[generator->next++];
  word ^= word >> 11;
  word ^= (word << 7) & 0x9d2c5680u;
  word ^= (word << 15) & 0xefc60000u;
  return word ^ (word >> 18);
}

uint64_t intact_generator_bits64(intact_generator *generator) {
  const uint64_t high = intact_generator_bits32(generator);
  return high << 32 | intact_generator_bits32(generator);
}

/* ---- state: the layout of the reference on a little-endian 64-bit machine ---- */
typedef struct stored_state {
  uint64_t initial_seed;
  int32_t left, seeded;
  uint64_t next;
  uint64_t words[STATE_WORDS];
  double normal_x, normal, normal_rho; /* x and rho: always 0 */
  int32_t cached, padding;
  float normal_f32; /* a cache that the float32 draws never fill */
  uint32_t cached_f32;
} stored_state;
_Static_assert(sizeof(stored_state) == INTACT_GENERATOR_STATE_BYTES, "state bytes");

void intact_generator_get_state(const intact_generator *generator, uint8_t state[INTACT_GENERATOR_STATE_BYTES]) {
  stored_state stored;
  memset(&stored, 0, sizeof stored);
  stored.initial_seed = generator->initial_seed;
  stored.left = generator->left;
  stored.seeded = 1;
  stored.next = generator->next;
  for (int i = 0; i < STATE_WORDS; i++) stored.words[i] = generator->words[i];
  stored.cached = generator->cached;
  stored.normal = generator->cached ? generator->normal : 0;
  memcpy(state, &stored, sizeof stored);
}

intact_status intact_generator_set_state(intact_generator *generator, const uint8_t state[INTACT_GENERATOR_STATE_BYTES]) {
  stored_state stored;
  memcpy(&stored, state, sizeof stored);
  bool valid = stored.seeded == 1 && stored.left >= 1 && stored.left <= STATE_WORDS && stored.next <= STATE_WORDS &&
               (stored.cached == 0 || stored.cached == 1) && isfinite(stored.normal);
  valid = valid && (stored.next + (uint64_t)stored.left == STATE_WORDS + 1 || (stored.next == 0 && stored.left == 1));
  for (int i = 0; i < STATE_WORDS && valid; i++) valid = stored.words[i] <= UINT32_MAX;
  if (!valid) {
    INTACT_FAIL(generator->context, INVALID_VALUE, "", "bytes that are no state of a generator; give what get_state gave");
  }
  generator->initial_seed = stored.initial_seed;
  generator->left = stored.left;
  generator->next = (uint32_t)stored.next;
  for (int i = 0; i < STATE_WORDS; i++) generator->words[i] = (uint32_t)stored.words[i];
  generator->cached = stored.cached != 0;
  generator->normal = stored.cached ? stored.normal : 0;
  return INTACT_OK;
}

/* ---- uniform ---- */
static float unit_f32(intact_generator *generator) {
  return (float)(intact_generator_bits32(generator) & 0xffffffu) * 0x1p-24f;
}
static double unit_f64(intact_generator *generator) {
  return (double)(intact_generator_bits64(generator) & 0x1fffffffffffffu) * 0x1p-53;
}

void intact_random_uniform_f32(intact_generator *generator, int64_t n, float low, float high, float *out) {
  const float width = high - low;
  for (int64_t i = 0; i < n; i++) out[i] = fmaf(unit_f32(generator), width, low);
}

void intact_random_uniform_f64(intact_generator *generator, int64_t n, double low, double high, double *out) {
  const double width = high - low;
  for (int64_t i = 0; i < n; i++) out[i] = fma(unit_f64(generator), width, low);
}

/* ---- normal: Box and Muller ---- */
double intact_random_normal_pair(intact_generator *generator, double mean, double std) {
  if (generator->cached) {
    generator->cached = false;
    return generator->normal * std + mean;
  }
  const double angle = TWO_PI * unit_f64(generator);
  const double radius = sqrt(-2.0 * log1p(-unit_f64(generator)));
  generator->normal = radius * sin(angle);
  generator->cached = true;
  return radius * cos(angle) * std + mean;
}

static void block_f32(float *x, float mean, float std) {
  for (int j = 0; j < BLOCK / 2; j++) {
    const float radius = sqrtf(-2.0f * logf(1.0f - x[j])), angle = (float)TWO_PI * x[j + BLOCK / 2];
    x[j] = radius * cosf(angle) * std + mean;
    x[j + BLOCK / 2] = radius * sinf(angle) * std + mean;
  }
}

static void block_f64(double *x, double mean, double std) {
  for (int j = 0; j < BLOCK / 2; j++) {
    const double radius = sqrt(-2.0 * log(1.0 - x[j])), angle = TWO_PI * x[j + BLOCK / 2];
    x[j] = radius * cos(angle) * std + mean;
    x[j + BLOCK / 2] = radius * sin(angle) * std + mean;
  }
}

void intact_random_normal_f32(intact_generator *generator, int64_t n, float mean, float std, float *out) {
  if (n < BLOCK) {
    for (int64_t i = 0; i < n; i++) out[i] = (float)intact_random_normal_pair(generator, mean, std);
    return;
  }
  intact_random_uniform_f32(generator, n, 0, 1, out);
  for (int64_t i = 0; i + BLOCK <= n; i += BLOCK) block_f32(out + i, mean, std);
  if (n % BLOCK) {
    intact_random_uniform_f32(generator, BLOCK, 0, 1, out + n - BLOCK);
    block_f32(out + n - BLOCK, mean, std);
  }
}

void intact_random_normal_f64(intact_generator *generator, int64_t n, double mean, double std, double *out) {
  if (n < BLOCK) {
    for (int64_t i = 0; i < n; i++) out[i] = intact_random_normal_pair(generator, mean, std);
    return;
  }
  intact_random_uniform_f64(generator, n, 0, 1, out);
  for (int64_t i = 0; i + BLOCK <= n; i += BLOCK) block_f64(out + i, mean, std);
  if (n % BLOCK) {
    intact_random_uniform_f64(generator, BLOCK, 0, 1, out + n - BLOCK);
    block_f64(out + n - BLOCK, mean, std);
  }
}

/* ---- integers ---- */
intact_status intact_random_integers(intact_generator *generator, int64_t n, int64_t low, int64_t high, int64_t *out) {
  if (low >= high) {
    INTACT_FAIL(generator->context, OUT_OF_RANGE, "", "random integers from %lld up to, not including, %lld: there are none",
                (long long)low, (long long)high);
  }
  const uint64_t range = (uint64_t)high - (uint64_t)low;
  for (int64_t i = 0; i < n; i++) {
    const uint64_t bits = range >= (UINT64_C(1) << 28) ? intact_generator_bits64(generator) : intact_generator_bits32(generator);
    out[i] = (int64_t)(bits % range + (uint64_t)low);
  }
  return INTACT_OK;
}

void intact_random_permutation(intact_generator *generator, int64_t n, int64_t *out) {
  for (int64_t i = 0; i < n; i++) out[i] = i;
  for (int64_t i = 0; i < n - 1; i++) {
    const int64_t j = i + (int64_t)(intact_generator_bits32(generator) % (uint64_t)(n - i)), kept = out[i];
    out[i] = out[j];
    out[j] = kept;
  }
}

/* A loader draws one 64-bit seed for its workers, then the order; the sampler then draws another permutation of which it takes
   n mod n = 0 samples. */
void intact_random_epoch_order(intact_generator *generator, int64_t n, int64_t *order) {
  intact_generator_bits64(generator);
  intact_random_permutation(generator, n, order);
  for (int64_t i = 0; i < n - 1; i++) intact_generator_bits32(generator);
}

/* ---- the rest ---- */
void intact_random_bernoulli(intact_generator *generator, int64_t n, double p, float *out) {
  for (int64_t i = 0; i < n; i++) out[i] = unit_f64(generator) < p;
}

void intact_random_bernoulli_each(intact_generator *generator, int64_t n, const float *p, float *out) {
  for (int64_t i = 0; i < n; i++) out[i] = unit_f32(generator) < p[i];
}

void intact_random_dropout(intact_generator *generator, int64_t n, double p, float *out) {
  intact_random_bernoulli(generator, n, 1 - p, out);
  const float kept = p < 1 ? 1.0f / (float)(1 - p) : 0;
  for (int64_t i = 0; i < n; i++) out[i] *= kept;
}

void intact_random_exponential(intact_generator *generator, int64_t n, double rate, float *out) {
  for (int64_t i = 0; i < n; i++) out[i] = (float)(-log1p(-unit_f64(generator)) / rate);
}

static void draw_with_replacement(intact_generator *generator, int64_t n, const float *cumulated, int64_t draws, int64_t *out) {
  for (int64_t i = 0; i < draws; i++) {
    const double u = unit_f64(generator);
    int64_t low = 0, high = n;
    while (low < high) {
      const int64_t middle = low + (high - low) / 2;
      if (cumulated[middle] < u) {
        low = middle + 1;
      } else {
        high = middle;
      }
    }
    out[i] = low;
  }
}

/* The largest weight / Exp(1) first. */
static void draw_without(intact_generator *generator, int64_t n, const float *weights, float *score, int64_t draws,
                         int64_t *out) {
  intact_random_exponential(generator, n, 1, score);
  for (int64_t i = 0; i < n; i++) score[i] = weights[i] / score[i];
  for (int64_t i = 0; i < draws; i++) {
    int64_t best = 0;
    for (int64_t k = 1; k < n; k++) {
      if (score[k] > score[best]) best = k;
    }
    out[i] = best;
    score[best] = -1;
  }
}

intact_status intact_random_multinomial(intact_generator *generator, int64_t n, const float *weights, int64_t draws,
                                        bool replacement, int64_t *out) {
  intact_context *context = generator->context;
  double sum = 0;
  int64_t positive = 0;
  for (int64_t i = 0; i < n; i++) {
    if (!(weights[i] >= 0) || isinf(weights[i])) {
      INTACT_FAIL(context, INVALID_VALUE, "", "multinomial: weight %lld is %g; weights are finite and not negative", (long long)i,
                  (double)weights[i]);
    }
    sum += weights[i];
    positive += weights[i] > 0;
  }
  if (!(sum > 0)) INTACT_FAIL(context, INVALID_VALUE, "", "multinomial: the weights sum to %g; give one above 0", sum);
  if (draws < 1 || (!replacement && draws > positive)) {
    INTACT_FAIL(context, OUT_OF_RANGE, "", "multinomial: %lld draws; %s", (long long)draws,
                replacement ? "at least 1 is needed" : "without replacement at least 1 and at most as many as weights above 0");
  }
  float *scratch = intact__alloc(context, (size_t)n, sizeof *scratch);
  if (!scratch) return intact__no_memory(context, (size_t)n * sizeof *scratch);
  if (replacement && draws > 1) {
    float cumulated = 0;
    for (int64_t i = 0; i < n; i++) scratch[i] = cumulated += weights[i];
    for (int64_t i = 0; i < n; i++) scratch[i] /= cumulated;
    scratch[n - 1] = 1;
    draw_with_replacement(generator, n, scratch, draws, out);
  } else {
    draw_without(generator, n, weights, scratch, draws, out);
  }
  intact__free(context, scratch);
  return INTACT_OK;
}
