/* SPDX-License-Identifier: Apache-2.0 */
/* A data set: opened against a network's inputs, read in batches. */
#include "intact/data.h"

#include <inttypes.h>
#include <string.h>

#include "data/samples.h"

static intact_status copy_input(intact_data *data, intact_data_input *input, const intact_value *value) {
  *input = (intact_data_input){.dtype = value->dtype, .rank = value->rank < 0 ? -1 : value->rank - 1};
  input->name = intact__arena_strdup(&data->arena, value->name);
  if (!input->name) return intact__no_memory(data->context, strlen(value->name));
  if (value->qparams) {
    input->qparams = intact__qparams_copy(&data->arena, value->qparams);
    if (!input->qparams) return intact__no_memory(data->context, sizeof *input->qparams);
  }
  if (value->rank == 0) {
    INTACT_FAIL(data->context, WRONG_USE, value->name,
                "input %s is a single number: it has no dimension that counts samples", value->name);
  }
  for (int i = 0; i < input->rank; i++) input->dims[i] = value->dims[i + 1] < 0 ? -1 : value->dims[i + 1];
  return INTACT_OK;
}

static intact_status copy_values(intact_data *data, int n, const double *values, int *count, const float **copy) {
  float *floats = intact__arena_alloc(&data->arena, (size_t)n + 1, sizeof *floats);
  if (!floats) return intact__no_memory(data->context, (size_t)n * sizeof *floats);
  for (int i = 0; i < n; i++) floats[i] = (float)values[i];
  *count = n;
  *copy = floats;
  return INTACT_OK;
}

static intact_status set_up(intact_data *data, const char *path, const intact_graph *graph,
                            const intact_data_options *options) {
  data->path = intact__arena_strdup(&data->arena, path);
  data->inputs = intact__arena_alloc(&data->arena, (size_t)graph->n_inputs + 1, sizeof *data->inputs);
  if (!data->path || !data->inputs) return intact__no_memory(data->context, strlen(path));
  for (int i = 0; i < graph->n_inputs; i++) INTACT_TRY(copy_input(data, &data->inputs[i], graph->inputs[i]));
  data->n_inputs = graph->n_inputs;
  if (data->n_inputs == 0)
    INTACT_FAIL(data->context, WRONG_USE, path, "the network has no inputs that a data set could fill");
  if (options) {
    INTACT_TRY(copy_values(data, options->n_mean, options->mean, &data->n_mean, &data->mean));
    INTACT_TRY(copy_values(data, options->n_std, options->std, &data->n_std, &data->std));
  }
  INTACT_TRY(intact__samples_open(data));
  INTACT_TRY(intact__normalise_check(data));
  data->all = data->count;
  if (options && options->samples > 0 && options->samples < data->count) data->count = options->samples;
  return INTACT_OK;
}

intact_status intact_data_open(intact_context *context, const char *path, const intact_graph *graph,
                               const intact_data_options *options, intact_data **data) {
  intact_data *d = intact__alloc_zeroed(context, 1, sizeof *d);
  if (!d) return intact__no_memory(context, sizeof *d);
  d->context = context;
  d->current = SIZE_MAX;
  intact__arena_init(&d->arena, context);
  intact_status status = set_up(d, path, graph, options);
  if (status != INTACT_OK) {
    intact_data_close(d);
    return status;
  }
  *data = d;
  return INTACT_OK;
}

void intact_data_close(intact_data *data) {
  if (!data) return;
  intact_tensor_set_destroy(data->tensors);
  intact__free(data->context, data->parts);
  intact__arena_fini(&data->arena);
  intact__free(data->context, data);
}

int64_t intact_data_count(const intact_data *data) {
  return data->count;
}

/* The part that holds a sample. */
static const intact_data_part *find_part(const intact_data *data, int64_t sample) {
  size_t low = 0, high = data->n_parts;
  while (high - low > 1) {
    const size_t middle = low + (high - low) / 2;
    if (data->parts[middle].first <= sample) {
      low = middle;
    } else {
      high = middle;
    }
  }
  return &data->parts[low];
}

/* `count` samples of a part from its sample `first` on, into sample `at` of each batch tensor. */
static intact_status fill(intact_data *data, const intact_data_part *part, int64_t first, int64_t count,
                          intact_tensor **batch, int64_t at, bool forget) {
  if (part->is_picture) {
    intact_tensor *pixels;
    INTACT_TRY(intact__tensor_create_raw(data->context, INTACT_U8, data->inputs[0].rank, data->inputs[0].dims, &pixels));
    intact_status status = intact__samples_picture(data, part, pixels->data);
    if (status == INTACT_OK) status = intact__normalise(data, 0, pixels, 0, 1, batch[0], at);
    intact_tensor_destroy(pixels);
    return status;
  }
  for (int i = 0; i < data->n_inputs; i++) {
    const intact_tensor *tensor;
    INTACT_TRY(intact__samples_tensor(data, part, i, &tensor));
    INTACT_TRY(intact__normalise(data, i, tensor, first, count, batch[i], at));
    const int64_t elements = intact__samples_elements(&data->inputs[i]);
    if (forget) intact__tensor_forget(tensor, first * elements, count * elements);
  }
  return INTACT_OK;
}

/* An empty batch tensor: float32 where the network takes floats or quantized values, else of the input's type. */
static intact_status make_batch(intact_data *data, const intact_data_input *input, int64_t count, intact_tensor **tensor) {
  int64_t dims[INTACT_MAX_RANK] = {count};
  for (int i = 0; i < input->rank && i + 1 < INTACT_MAX_RANK; i++) dims[i + 1] = input->dims[i];
  const bool floats = input->qparams || intact_dtype_is_float(input->dtype);
  return intact__tensor_create_raw(data->context, floats ? INTACT_F32 : input->dtype, input->rank + 1, dims, tensor);
}

/* The float batch in the type that the input takes. */
static intact_status finish(const intact_data_input *input, intact_tensor **tensor) {
  if ((*tensor)->dtype == input->dtype && !input->qparams) return INTACT_OK;
  intact_tensor *other;
  INTACT_TRY(input->qparams ? intact__quantize_tensor(*tensor, input->qparams, &other)
                            : intact_tensor_cast(*tensor, input->dtype, &other));
  intact_tensor_destroy(*tensor);
  *tensor = other;
  return INTACT_OK;
}

/* Samples first .. first+count-1, or (samples not NULL) those numbered there. */
static intact_status read_batch(intact_data *data, int64_t first, int64_t count, const int64_t *samples, intact_tensor **batch) {
  for (int i = 0; i < data->n_inputs; i++) INTACT_TRY(make_batch(data, &data->inputs[i], count, &batch[i]));
  for (int64_t done = 0; done < count;) {
    const int64_t sample = samples ? samples[done] : first + done;
    const intact_data_part *part = find_part(data, sample);
    const int64_t within = sample - part->first, left = part->count - within;
    const int64_t take = samples ? 1 : left < count - done ? left : count - done;
    INTACT_TRY(fill(data, part, within, take, batch, done, !samples));
    done += take;
  }
  for (int i = 0; i < data->n_inputs; i++) INTACT_TRY(finish(&data->inputs[i], &batch[i]));
  return INTACT_OK;
}

static intact_status give_batch(intact_data *data, int64_t first, int64_t count, const int64_t *samples, intact_tensor **inputs) {
  intact_context *context = data->context;
  intact_tensor **batch = intact__alloc_zeroed(context, (size_t)data->n_inputs, sizeof(intact_tensor *));
  if (!batch) return intact__no_memory(context, (size_t)data->n_inputs * sizeof(intact_tensor *));
  intact_status status = read_batch(data, first, count, samples, batch);
  for (int i = 0; i < data->n_inputs; i++) {
    if (status == INTACT_OK) {
      inputs[i] = batch[i];
    } else {
      intact_tensor_destroy(batch[i]);
    }
  }
  intact__free(context, batch);
  return status;
}

intact_status intact_data_batch(intact_data *data, int64_t first, int64_t count, intact_tensor **inputs) {
  if (first < 0 || count < 1 || first > data->count || count > data->count - first) {
    INTACT_FAIL(data->context, OUT_OF_RANGE, data->path, "samples %" PRId64 " to %" PRId64 " of a data set with %" PRId64, first,
                first + count - 1, data->count);
  }
  return give_batch(data, first, count, NULL, inputs);
}

intact_status intact_data_gather(intact_data *data, int64_t count, const int64_t *samples, intact_tensor **inputs) {
  if (count < 1) INTACT_FAIL(data->context, OUT_OF_RANGE, data->path, "%" PRId64 " samples; at least one is needed", count);
  for (int64_t i = 0; i < count; i++) {
    if (samples[i] >= 0 && samples[i] < data->count) continue;
    INTACT_FAIL(data->context, OUT_OF_RANGE, data->path, "sample %" PRId64 " of a data set with %" PRId64, samples[i], data->count);
  }
  return give_batch(data, 0, count, samples, inputs);
}

intact_status intact_labels_read(intact_context *context, const char *path, intact_tensor **labels) {
  intact_tensor_set *set;
  char shape[160];
  INTACT_TRY(intact_tensors_read(context, path, &set));
  intact_status status = INTACT_OK;
  intact_tensor *result = NULL;
  if (intact_tensor_set_count(set) != 1) {
    INTACT_FAIL_TO(done, context, WRONG_USE, path, "'%s' holds %d tensors: labels are the only tensor of their file", path,
                   intact_tensor_set_count(set));
  }
  const intact_tensor *stored = intact_tensor_set_get(set, 0);
  if (!intact_dtype_is_integer(stored->dtype)) {
    INTACT_FAIL_TO(done, context, TYPE_MISMATCH, path, "'%s' holds %s: labels are whole numbers of an integer type", path,
                   intact_dtype_text(stored->dtype));
  }
  if (stored->rank < 1 || stored->count != stored->dims[0]) {
    INTACT_FAIL_TO(done, context, SIZE_MISMATCH, path, "'%s' has shape %s: labels are one number per sample, shape [n]",
                   path, intact__shape_text(stored->rank, stored->dims, shape));
  }
  if (stored->count == 0) INTACT_FAIL_TO(done, context, INVALID_VALUE, path, "'%s' holds no labels", path);
  INTACT_TRY_TO(done, intact__tensor_create_raw(context, INTACT_S64, 1, stored->dims, &result));
  for (int64_t i = 0; i < stored->count; i++) ((int64_t *)result->data)[i] = intact__tensor_get_s64(stored, i);
  *labels = result;
done:
  intact_tensor_set_destroy(set);
  return status;
}

intact_status intact_data_labels(intact_data *data, const char *path, intact_tensor **labels) {
  intact_tensor *read;
  INTACT_TRY(intact_labels_read(data->context, path, &read));
  const int64_t n = read->count;
  if (n == data->all || n == data->count) {
    *labels = read;
    return INTACT_OK;
  }
  intact_tensor_destroy(read);
  INTACT_FAIL(data->context, SIZE_MISMATCH, path, "'%s' holds %" PRId64 " labels, '%s' %" PRId64 " samples; give the labels of these samples%s",
              path, n, data->path, data->all, n < data->all ? ", or use fewer of them: --samples" : "");
}
