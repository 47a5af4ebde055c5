/* SPDX-License-Identifier: Apache-2.0 */
/* Quantize and dequantize to and from 8 bits, with the change of order between channels first (float) and last (integer). */
#include <string.h>

#include "kernels/affine/affine.h"
#include "kernels/qlayout/qlayout.h"
#include "ops/lower.h"

enum { PIXELS = 1024, GRAIN = 1 << 13 };

typedef struct edge_step {
  bool to_integer;
  uint32_t isa_set;
  intact_dtype dtype;
  intact_affine affine;
  intact_qlayout_fn *transpose;
  int64_t images, channels, pixels; /* channels 1: no change of order */
  int64_t chunks;                   /* of an image */
} edge_step;

static const char *check(const intact_value *real, const intact_value *integer) {
  if (!intact__is_int8(integer)) return "the integers are not 8 bits per tensor";
  return real->dtype == INTACT_F32 ? NULL : "the floats are not float32";
}

const char *intact__check_quantize(const intact_node *node) { return check(node->operands[0], node->results[0]); }
const char *intact__check_dequantize(const intact_node *node) { return check(node->results[0], node->operands[0]); }

typedef struct edge_job {
  const edge_step *step;
  const uint8_t *in;
  uint8_t *out, *scratch;
} edge_job;

static void run_flat(void *user, int64_t begin, int64_t end) {
  const edge_job *job = user;
  const edge_step *s = job->step;
  if (s->to_integer)
    intact__quantize_array(s->isa_set, (const float *)(const void *)job->in + begin, job->out + begin, s->dtype, end - begin,
                           &s->affine);
  else
    intact__dequantize_array(s->isa_set, job->in + begin, s->dtype, (float *)(void *)job->out + begin, end - begin,
                             s->affine.scale, s->affine.zero_point);
}

/* Chunks of PIXELS pixels: through a buffer with one row a channel. */
static void run_chunks(void *user, int64_t begin, int64_t end) {
  const edge_job *job = user;
  const edge_step *s = job->step;
  uint8_t *buffer = job->scratch + intact__thread_index() * s->channels * PIXELS;
  for (int64_t chunk = begin; chunk < end; chunk++) {
    int64_t image = chunk / s->chunks, first = chunk % s->chunks * PIXELS;
    int64_t n = s->pixels - first < PIXELS ? s->pixels - first : PIXELS;
    int64_t plane = image * s->channels * s->pixels + first, pixel = (image * s->pixels + first) * s->channels;
    if (s->to_integer) {
      const float *x = (const float *)(const void *)job->in + plane;
      for (int64_t c = 0; c < s->channels; c++)
        intact__quantize_array(s->isa_set, x + c * s->pixels, buffer + c * n, s->dtype, n, &s->affine);
      s->transpose(buffer, s->channels, n, job->out + pixel);
    } else {
      float *x = (float *)(void *)job->out + plane;
      s->transpose(job->in + pixel, n, s->channels, buffer);
      for (int64_t c = 0; c < s->channels; c++)
        intact__dequantize_array(s->isa_set, buffer + c * n, s->dtype, x + c * s->pixels, n, s->affine.scale,
                                 s->affine.zero_point);
    }
  }
}

static intact_status run_edge(const intact_step_call *call) {
  const edge_step *s = call->step->params;
  edge_job job = {s, call->in[0], call->out[0], call->scratch};
  if (s->channels == 1)
    intact__parallel(call->context, s->images * s->pixels, GRAIN, run_flat, &job);
  else
    intact__parallel(call->context, s->images * s->chunks, 1, run_chunks, &job);
  return INTACT_OK;
}

static intact_status lower_edge(intact_lower *lower, const intact_value *integer, bool to_integer) {
  edge_step *s;
  INTACT_TRY(INTACT_LOWER_NEW(lower, 1, &s));
  const intact_qparams *q = integer->qparams;
  s->to_integer = to_integer;
  s->isa_set = lower->isa_set;
  s->dtype = integer->dtype;
  s->affine = intact__affine(q->scale[0], q->zero_point[0], q->quant_min, q->quant_max);
  s->affine.divide = to_integer && strcmp(intact__attr_string(lower->node, "rule"), "divide") == 0;
  s->images = 1, s->channels = 1, s->pixels = intact__value_count(integer);
  if (lower->channels_last && integer->rank >= 3 && s->pixels > 0) {
    int64_t spatial = s->pixels / integer->dims[0] / integer->dims[1];
    if (spatial > 1 && integer->dims[1] > 1) {
      s->images = integer->dims[0], s->channels = integer->dims[1], s->pixels = spatial;
      lower->step->scratch_bytes = (size_t)intact_context_threads(lower->context) * (size_t)s->channels * PIXELS;
    }
  }
  s->chunks = (s->pixels + PIXELS - 1) / PIXELS;
  const intact_qlayout_kernel *kernel = intact__qlayout_pick(lower->isa_set);
  s->transpose = kernel->transpose;
  lower->step->kernel = kernel->name;
  lower->step->run = run_edge;
  lower->step->params = s;
  return INTACT_OK;
}

intact_status intact__lower_quantize(intact_lower *lower) { return lower_edge(lower, lower->node->results[0], true); }
intact_status intact__lower_dequantize(intact_lower *lower) { return lower_edge(lower, lower->node->operands[0], false); }
