/* SPDX-License-Identifier: Apache-2.0 */
/* Pictures that vary: shifted (what comes in from outside is the picture's edge value) and mirrored. */
#include <string.h>

#include "train/trainer.h"

typedef struct move {
  int64_t down, right;
  bool mirror;
} move;

static int64_t clamped(int64_t at, int64_t size) { return at < 0 ? 0 : at >= size ? size - 1 : at; }

static void move_plane(float *plane, float *scratch, int64_t height, int64_t width, move m) {
  memcpy(scratch, plane, (size_t)(height * width) * sizeof *plane);
  for (int64_t y = 0; y < height; y++) {
    const float *from = scratch + clamped(y - m.down, height) * width;
    for (int64_t x = 0; x < width; x++) {
      const int64_t source = clamped(x - m.right, width);
      plane[y * width + x] = from[m.mirror ? width - 1 - source : source];
    }
  }
}

/* The same draws for a sample of an epoch wherever it is trained, and after a resume. */
static move draw(const intact_trainer *t, intact_generator *generator, int64_t id) {
  const int shift = t->options->augment_shift;
  uint64_t seed = t->options->seed * UINT64_C(0x9e3779b97f4a7c15) + (uint64_t)t->epoch;
  seed = (seed ^ (seed >> 29)) * UINT64_C(0xbf58476d1ce4e5b9) + (uint64_t)id;
  seed = (seed ^ (seed >> 32)) * UINT64_C(0x94d049bb133111eb);
  intact_generator_seed(generator, seed >> 32);
  const uint64_t span = 2 * (uint64_t)shift + 1;
  move m = {.down = (int64_t)(intact_generator_bits32(generator) % span) - shift,
            .right = (int64_t)(intact_generator_bits32(generator) % span) - shift};
  m.mirror = (intact_generator_bits32(generator) & 1) && t->options->augment_flip;
  return m;
}

intact_status intact__augment(const intact_trainer *t, intact_tensor *pictures, const int64_t *ids) {
  if (t->options->augment_shift == 0 && !t->options->augment_flip) return INTACT_OK;
  const int64_t n = pictures->dims[0], height = pictures->dims[2], width = pictures->dims[3], plane = height * width;
  intact_generator *generator;
  float *scratch = intact__alloc(t->context, (size_t)plane, sizeof *scratch);
  if (!scratch) return intact__no_memory(t->context, (size_t)plane * sizeof *scratch);
  float *values = intact_tensor_mutable_data(pictures);
  const intact_status status = intact_generator_create(t->context, 0, &generator);
  for (int64_t i = 0; status == INTACT_OK && i < n; i++) {
    const move m = draw(t, generator, ids[i]);
    for (int64_t c = 0; c < pictures->dims[1]; c++) {
      move_plane(values + (i * pictures->dims[1] + c) * plane, scratch, height, width, m);
    }
  }
  if (status == INTACT_OK) intact_generator_destroy(generator);
  intact__free(t->context, scratch);
  return status;
}
