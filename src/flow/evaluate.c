/* SPDX-License-Identifier: Apache-2.0 */
/* Accuracy over a data set, and the time of one inference. */
#include <math.h>
#include <stdlib.h>
#include <time.h>

#include "base/comm.h"
#include "graph/graph.h"
#include "intact/inspect.h"
#include "intact/run.h"

static double seconds_now(void) {
  struct timespec now;
  clock_gettime(CLOCK_MONOTONIC, &now);
  return (double)now.tv_sec + (double)now.tv_nsec * 1e-9;
}

/* One way to run a graph, made once. */
typedef struct runner {
  const intact_graph *graph;
  intact_engine engine;
  intact_program *program; /* for INTACT_ENGINE_INT */
} runner;

static intact_status runner_init(runner *r, const intact_graph *graph, intact_engine engine) {
  *r = (runner){.graph = graph, .engine = engine};
  return engine == INTACT_ENGINE_INT ? intact_program_create(graph, &r->program) : INTACT_OK;
}

static intact_status runner_run(runner *r, const intact_tensor *const *inputs, intact_tensor **outputs) {
  if (r->program) return intact_program_run(r->program, inputs, outputs);
  return intact_graph_interpret(r->graph, inputs, r->engine == INTACT_ENGINE_FLOAT, outputs);
}

typedef struct tally {
  int64_t samples, top1, top5, values;
  double sum, squares, min, max;
} tally;

/* Rank of the labelled class among the scores: how many are larger (the first of equals counts as larger). */
static int64_t rank_of(const intact_tensor *scores, int64_t row, int64_t classes, int64_t label) {
  const double own = intact__tensor_get_f64(scores, row * classes + label);
  int64_t rank = 0;
  for (int64_t k = 0; k < classes; k++) {
    const double other = intact__tensor_get_f64(scores, row * classes + k);
    rank += other > own || (other == own && k < label);
  }
  return isnan(own) ? classes : rank;
}

/* `rows` samples were run, the first `count` of them count. */
static intact_status score(intact_context *context, const intact_tensor *out, const intact_tensor *labels, int64_t first, int64_t rows,
                           int64_t count, tally *t) {
  char text[200];
  const int64_t classes = rows ? out->count / rows : 0;
  if (out->rank < 1 || out->dims[0] != rows || classes < 2)
    INTACT_FAIL(context, TYPE_MISMATCH, "", "can't count accuracy: the first output is %s, it must be [samples, classes]",
                intact__shape_text(out->rank, out->dims, text));
  const int64_t *label = intact_tensor_data(labels);
  for (int64_t i = 0; i < count; i++) {
    if (label[first + i] < 0 || label[first + i] >= classes)
      INTACT_FAIL(context, OUT_OF_RANGE, "", "label %lld of sample %lld is outside of 0..%lld, the network's classes",
                  (long long)label[first + i], (long long)(first + i), (long long)(classes - 1));
    const int64_t rank = rank_of(out, i, classes, label[first + i]);
    t->top1 += rank == 0;
    t->top5 += rank < 5;
  }
  return INTACT_OK;
}

static void add_statistics(const intact_tensor *out, int64_t n, tally *t) {
  for (int64_t i = 0; i < n; i++) {
    const double v = intact__tensor_get_f64(out, i);
    t->sum += v;
    t->squares += v * v;
    if (!t->values || v < t->min) t->min = v;
    if (!t->values || v > t->max) t->max = v;
    t->values++;
  }
}

/* `count` samples; the last one is repeated until there are `rows`, which a network of a fixed batch needs. */
static intact_status read_rows(intact_context *context, intact_data *data, int64_t first, int64_t count, int64_t rows, intact_tensor **tensors) {
  if (rows == count) return intact_data_batch(data, first, count, tensors);
  int64_t *samples = intact__alloc(context, (size_t)rows, sizeof *samples);
  if (!samples) return intact__no_memory(context, (size_t)rows * sizeof *samples);
  for (int64_t i = 0; i < rows; i++) samples[i] = first + (i < count ? i : count - 1);
  const intact_status status = intact_data_gather(data, rows, samples, tensors);
  intact__free(context, samples);
  return status;
}

static intact_status evaluate_batch(runner *r, intact_data *data, const intact_tensor *labels, int64_t first, int64_t count, tally *t) {
  intact_context *context = r->graph->context;
  const size_t n_in = (size_t)r->graph->n_inputs, n_out = (size_t)r->graph->n_outputs;
  intact_tensor **tensors = intact__alloc_zeroed(context, n_in + n_out + 1, sizeof *tensors);
  if (!tensors) return intact__no_memory(context, n_in);
  union {
    intact_tensor **from;
    const intact_tensor *const *to;
  } inputs = {tensors};
  const intact_tensor *out = NULL;
  const int64_t fixed = intact_graph_batch(r->graph), rows = fixed > 0 ? fixed : count;
  intact_status status = read_rows(context, data, first, count, rows, tensors);
  if (status == INTACT_OK) status = runner_run(r, inputs.to, tensors + n_in);
  if (status == INTACT_OK && n_out) out = tensors[n_in];
  if (out && labels) status = score(context, out, labels, first, rows, count, t);
  if (out && !labels) add_statistics(out, out->rank > 0 && out->dims[0] == rows ? out->count / rows * count : out->count, t);
  for (size_t i = 0; i < n_in + n_out; i++) intact_tensor_destroy(tensors[i]);
  intact__free(context, tensors);
  t->samples += count;
  return status;
}

/* What all processes have counted together. */
static intact_status join(intact_context *context, tally *t) {
  double sums[6] = {(double)t->samples, (double)t->top1, (double)t->top5, (double)t->values, t->sum, t->squares};
  float ends[2] = {t->values ? -(float)t->min : -INFINITY, t->values ? (float)t->max : -INFINITY};
  if (intact_comm_size(context) < 2) return INTACT_OK;
  INTACT_TRY(intact__comm_sum_f64(context, sums, 6));
  INTACT_TRY(intact__comm_max_f32(context, ends, 2));
  *t = (tally){(int64_t)sums[0], (int64_t)sums[1], (int64_t)sums[2], (int64_t)sums[3], sums[4], sums[5],
               -(double)ends[0], (double)ends[1]};
  return INTACT_OK;
}

intact_status intact_evaluate(const intact_graph *graph, intact_engine engine, intact_data *data, const intact_tensor *labels,
                              int64_t batch, intact_evaluation *result) {
  intact_context *context = graph->context;
  const int64_t samples = intact_data_count(data);
  if (batch < 1) INTACT_FAIL(context, WRONG_USE, "", "a batch of %lld samples: at least 1 is needed", (long long)batch);
  if (labels && labels->count < samples)
    INTACT_FAIL(context, SIZE_MISMATCH, "", "there are %lld labels for %lld samples; give as many labels, or --samples %lld",
                (long long)labels->count, (long long)samples, (long long)labels->count);
  if (intact_graph_batch(graph) > 0) batch = intact_graph_batch(graph);
  runner r;
  INTACT_TRY(runner_init(&r, graph, engine));
  tally t = {0};
  const double start = seconds_now();
  intact_status status = INTACT_OK;
  for (int64_t first = 0; first < samples && status == INTACT_OK; first += batch) {
    const int64_t count = samples - first < batch ? samples - first : batch;
    if (first / batch % intact_comm_size(context) != intact_comm_rank(context)) continue;
    status = evaluate_batch(&r, data, labels, first, count, &t);
    if (status == INTACT_OK) intact__progress(context, "evaluate", first + count, samples);
  }
  intact_program_destroy(r.program);
  if (status == INTACT_OK) status = join(context, &t);
  INTACT_TRY(status);
  const double n = (double)t.values, mean = t.values ? t.sum / n : NAN;
  *result = (intact_evaluation){.samples = t.samples,
                                .accuracy = labels ? 100.0 * (double)t.top1 / (double)t.samples : NAN,
                                .top5 = labels ? 100.0 * (double)t.top5 / (double)t.samples : NAN,
                                .seconds = seconds_now() - start,
                                .mean = mean,
                                .std = t.values ? sqrt(fmax(t.squares / n - mean * mean, 0)) : NAN,
                                .min = t.values ? t.min : NAN,
                                .max = t.values ? t.max : NAN};
  return INTACT_OK;
}

static int compare_doubles(const void *a, const void *b) {
  const double x = *(const double *)a, y = *(const double *)b;
  return (x > y) - (x < y);
}

enum { WARM_UPS = 2, LEAST_RUNS = 5, MOST_RUNS = 100000 };

intact_status intact_benchmark(const intact_graph *graph, intact_engine engine, const intact_tensor *const *inputs, int runs,
                               intact_timing *timing, intact_tensor **outputs) {
  intact_context *context = graph->context;
  const size_t n_out = (size_t)graph->n_outputs;
  const int most = runs > 0 ? runs : MOST_RUNS;
  double *times = intact__alloc(context, (size_t)most, sizeof *times);
  intact_tensor **out = intact__alloc_zeroed(context, n_out + 1, sizeof *out);
  runner r = {0};
  intact_status status = times && out ? runner_init(&r, graph, engine) : intact__no_memory(context, (size_t)most);
  const double start = seconds_now();
  int done = 0;
  for (int i = 0; i < WARM_UPS + most && status == INTACT_OK; i++) {
    for (size_t k = 0; k < n_out; k++) {
      intact_tensor_destroy(out[k]);
      out[k] = NULL;
    }
    const double before = seconds_now();
    status = runner_run(&r, inputs, out);
    if (i >= WARM_UPS) times[done++] = (seconds_now() - before) * 1e3;
    if (runs <= 0 && done >= LEAST_RUNS && seconds_now() - start > 1) break;
  }
  intact_program_destroy(r.program);
  if (status == INTACT_OK) {
    qsort(times, (size_t)done, sizeof *times, compare_doubles);
    *timing = (intact_timing){.runs = done, .ms_min = times[0], .ms_median = times[done / 2]};
  }
  for (size_t k = 0; out && k < n_out; k++) {
    if (status == INTACT_OK && outputs)
      outputs[k] = out[k];
    else
      intact_tensor_destroy(out[k]);
  }
  intact__free(context, out);
  intact__free(context, times);
  return status;
}
