/* SPDX-License-Identifier: Apache-2.0 */
/* Sums of quantized products by the integer kernels: linear layers, matrices, convolutions. */
#include <string.h>

#include "kernels/qgemm/qgemm.h"
#include "kernels/qlayout/qlayout.h"
#include "ops/conv.h"
#include "ops/quantized/quantized.h"

typedef struct sums_job {
  intact_context *context;
  intact_qgemm_shape shape;
  intact_qgemm_weights weights;
  intact_qgemm_plan plan;
  const void *x; /* channels last */
  int32_t *sums; /* pixels x channels */
  uint8_t *scratch;
} sums_job;

static void run_bands(void *user, int64_t begin, int64_t end) {
  const sums_job *job = user;
  uint8_t *scratch = job->scratch + (size_t)intact__thread_index() * job->plan.scratch_bytes;
  intact__qgemm_run(&job->plan, job->x, job->sums, scratch, begin, end);
}

static intact_status run_kernel(sums_job *job) {
  const int threads = intact_context_threads(job->context);
  const intact_qgemm_kernel *kernel = intact__qgemm_pick(intact__isa_set(job->context), &job->shape, &job->weights);
  if (!intact__qgemm_plan(kernel, &job->shape, threads, &job->plan))
    INTACT_FAIL(job->context, OVERFLOW, "", "the sizes of a quantized product overflow");
  const size_t packed = (intact__qgemm_packed_bytes(&job->plan, &job->weights) + 63) / 64 * 64;
  const size_t segments = ((size_t)job->plan.n_segments * sizeof(int64_t) + 63) / 64 * 64;
  const size_t scratch = job->plan.scratch_bytes * (size_t)threads, bytes = packed + segments + scratch;
  uint8_t *memory = intact__alloc(job->context, bytes + 64, 1);
  if (memory == NULL) return intact__no_memory(job->context, bytes);
  intact__qgemm_pack(&job->plan, &job->weights, (int64_t *)(void *)(memory + packed), memory);
  job->scratch = memory + packed + segments;
  intact__parallel(job->context, job->plan.n_bands, job->plan.grain, run_bands, job);
  intact__free(job->context, memory);
  return INTACT_OK;
}

/* ---- shapes ---- */

/* Rows of k elements times weights [channels, k], or [k, channels] when `across`. */
static void product_shape(sums_job *job, const intact_tensor *x, int64_t k, int64_t channels, bool across) {
  const intact_conv_axis one = {1, 1, 1, 1, 1, 0};
  job->shape.batch = k > 0 ? x->count / k : 0;
  job->shape.axis[0] = job->shape.axis[1] = job->shape.axis[2] = one;
  job->shape.groups = 1;
  job->shape.in_channels = k;
  job->shape.out_channels = channels;
  job->weights.n_stride = across ? 1 : k;
  job->weights.c_stride = across ? channels : 1;
}

static void conv_shape(sums_job *job, const intact_window *window, const intact_tensor *x, const intact_tensor *w,
                       int64_t groups) {
  static const int order[4][3] = {{0, 1, 2}, {2, 0, 1}, {1, 0, 2}, {0, 1, 2}}; /* bands are cut along the first */
  const int64_t taps = intact__window_taps(window);
  job->shape.batch = x->dims[0];
  job->shape.groups = groups;
  job->shape.in_channels = w->dims[1];
  job->shape.out_channels = w->dims[0] / groups;
  for (int i = 0; i < 3; i++) {
    const int a = order[window->n][i];
    job->shape.axis[i] = (intact_conv_axis){window->in[a],     window->out[a],      window->kernel[a],
                                            window->stride[a], window->dilation[a], window->before[a]};
  }
  job->weights.n_stride = w->dims[1] * taps;
  job->weights.tap_stride = 1;
  job->weights.c_stride = taps;
}

/* ---- order of the elements ---- */

static intact_status channels_last(const intact_tensor *x, intact_tensor **y) {
  const intact_qlayout_kernel *kernel = intact__qlayout_pick(intact__isa_set(x->context));
  const int64_t channels = x->dims[1], inner = intact__known_product(x->dims, 2, x->rank), size = channels * inner;
  INTACT_TRY(intact__tensor_create_raw(x->context, x->dtype, x->rank, x->dims, y));
  for (int64_t n = 0; n < x->dims[0]; n++)
    kernel->transpose((const uint8_t *)x->data + n * size, channels, inner, (uint8_t *)(*y)->data + n * size);
  return INTACT_OK;
}

/* s32 [rows, positions, channels] -> f32 [rows, channels, positions]. */
static void channels_second(const int32_t *from, int64_t rows, int64_t positions, int64_t channels, float *to) {
  for (int64_t n = 0; n < rows; n++)
    for (int64_t c = 0; c < channels; c++)
      for (int64_t p = 0; p < positions; p++)
        to[(n * channels + c) * positions + p] = (float)from[(n * positions + p) * channels + c];
}

/* ---- the product ---- */

/* Sums stay below 2^31, and the weights are one number for all or one per output channel. */
static bool is_kernels(const intact_op *row, const intact_codes *x, const intact_tensor *w, const intact_qparams *q,
                       int64_t groups) {
  const int64_t depth = row == &intact_op_linear   ? w->dims[1]
                        : row == &intact_op_matmul ? w->dims[0]
                                                   : w->count / (w->dims[0] > 0 ? w->dims[0] : 1);
  if (x->q->count == 0 || w->count == 0 || depth > 32768) return false;
  if (row == &intact_op_matmul) return w->rank == 2 && q->n == 1;
  if (row == &intact_op_linear) return q->n == 1 || q->axis == 0;
  const bool transposed = strncmp(row->name, "conv_transpose", 14) == 0, depthwise = groups > 1 && w->dims[1] == 1;
  return !transposed && !depthwise && (q->n == 1 || q->axis == 0);
}

static intact_status prepare(sums_job *job, const intact_codes *x, const intact_tensor *w, const intact_qparams *q,
                             const intact_tensor *bias, int32_t **per_channel) {
  const int64_t channels = job->shape.out_channels * job->shape.groups;
  *per_channel = intact__alloc(job->context, (size_t)(2 * channels), sizeof(int32_t));
  if (*per_channel == NULL) return intact__no_memory(job->context, (size_t)(2 * channels) * sizeof(int32_t));
  for (int64_t c = 0; c < channels; c++) {
    (*per_channel)[c] = q->zero_point[q->n == 1 ? 0 : c];
    (*per_channel)[channels + c] = bias != NULL ? (int32_t)intact__f32(bias)[c] : 0;
  }
  job->shape.x_signed = x->q->dtype == INTACT_S8;
  job->shape.zero_x = x->zero_point;
  job->shape.output = INTACT_QGEMM_S32;
  job->weights.data = w->data;
  job->weights.is_unsigned = w->dtype == INTACT_U8;
  job->weights.zero = *per_channel;
  job->weights.bias = *per_channel + channels;
  return INTACT_OK;
}

/* The result's shape: the float row's, on f32 values of these shapes. */
static intact_status result_shape(const intact_call *call, intact_twin *twin, const intact_op *row, const intact_tensor *x,
                                  intact_value *shape) {
  intact_value *results = shape;
  intact__twin_make(twin, call->node, row, 2);
  *shape = (intact_value){.name = "y", .rank = -1};
  for (int i = 0; i < 2; i++) {
    const intact_tensor *tensor = i == 0 ? x : call->operands[1];
    twin->values[i].dtype = INTACT_F32;
    twin->values[i].rank = tensor->rank;
    memcpy(twin->values[i].dims, tensor->dims, sizeof tensor->dims);
  }
  twin->node.results = &results;
  intact_infer infer = {.context = call->context, .node = &twin->node};
  return row->infer(&infer);
}

static bool is_large(const intact_tensor *bias) {
  for (int64_t i = 0; bias != NULL && i < bias->count; i++)
    if (!(fabsf(intact__f32(bias)[i]) < 0x1p30f)) return true;
  return false;
}

intact_status intact__sums_fast(const intact_call *call, const intact_op *row, const intact_codes *x,
                                const intact_tensor *bias, intact_tensor **sums) {
  const intact_tensor *w = call->operands[1];
  const intact_qparams *q = intact__operand_qparams(call->node, 1);
  const bool product = row == &intact_op_linear || row == &intact_op_matmul;
  const int64_t groups = product ? 1 : intact__attr_int(call->node, "groups");
  if (!is_kernels(row, x, w, q, groups) || is_large(bias)) return intact__sums(call, row, x, bias, sums);
  sums_job job = {.context = call->context, .x = x->q->data};
  intact_tensor *moved = NULL;
  int32_t *per_channel = NULL;
  intact_twin twin;
  intact_value shape;
  intact_status status = INTACT_OK;
  INTACT_TRY_TO(done, result_shape(call, &twin, row, x->q, &shape));
  INTACT_TRY_TO(done, intact__tensor_create_raw(call->context, INTACT_F32, shape.rank, shape.dims, sums));
  if (product) {
    const bool across = row == &intact_op_matmul;
    product_shape(&job, x->q, w->dims[across ? 0 : 1], w->dims[across ? 1 : 0], across);
  } else {
    intact_window window;
    intact__window_known(&twin.node, x->q->rank - 2, x->q->dims + 2, w->dims + 2, (*sums)->dims + 2, false, &window);
    conv_shape(&job, &window, x->q, w, groups);
    INTACT_TRY_TO(done, channels_last(x->q, &moved));
    job.x = moved->data;
  }
  INTACT_TRY_TO(done, prepare(&job, x, w, q, bias, &per_channel));
  job.sums = intact__alloc(call->context, (size_t)(*sums)->count + 1, sizeof(int32_t));
  if (job.sums == NULL) INTACT_TRY_TO(done, intact__no_memory(call->context, (size_t)(*sums)->count * sizeof(int32_t)));
  INTACT_TRY_TO(done, run_kernel(&job));
  const int64_t channels = job.shape.out_channels * job.shape.groups;
  const int64_t positions = product ? 1 : intact__known_product(shape.dims, 2, shape.rank);
  channels_second(job.sums, (*sums)->count / (channels * positions > 0 ? channels * positions : 1), positions, channels,
                  intact__f32(*sums));
done:
  intact__free(call->context, job.sums);
  intact__free(call->context, per_channel);
  intact_tensor_destroy(moved);
  if (status != INTACT_OK) {
    intact_tensor_destroy(*sums);
    *sums = NULL;
  }
  return status;
}
