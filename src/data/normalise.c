/* SPDX-License-Identifier: Apache-2.0 */
/* From stored elements to what the network takes. Float32 throughout, in this order: bytes (u8 / 255 - mean) / std, all
   other types (x - mean) / std; without mean and std bytes are divided by 255 and the rest is taken as it is. */
#include <inttypes.h>
#include <math.h>
#include <string.h>

#include "data/samples.h"

/* How channels lie in a sample: element e is of channel e / inner % channels. */
typedef struct layout {
  int64_t elements, inner, channels;
} layout;

/* Axis of a sample (from 0) with as many channels as there are values: the first, else the last; -1 none. */
static int channel_axis(const intact_data_input *input, int values) {
  if (input->rank >= 1 && input->dims[0] == values) return 0;
  if (input->rank >= 2 && input->dims[input->rank - 1] == values) return input->rank - 1;
  return -1;
}

static layout layout_of(const intact_data *data, const intact_data_input *input) {
  const int values = data->n_mean > data->n_std ? data->n_mean : data->n_std;
  layout l = {.elements = intact__samples_elements(input), .inner = 1, .channels = 1};
  if (values <= 1) return l;
  const int axis = channel_axis(input, values);
  for (int i = axis + 1; i < input->rank; i++) l.inner *= input->dims[i];
  l.channels = values;
  return l;
}

static bool takes_floats(const intact_data_input *input) {
  return input->qparams || intact_dtype_is_float(input->dtype);
}

intact_status intact__normalise_check(const intact_data *data) {
  const int values = data->n_mean > data->n_std ? data->n_mean : data->n_std;
  for (int i = 0; i < data->n_mean; i++) {
    if (!isfinite(data->mean[i]))
      INTACT_FAIL(data->context, INVALID_VALUE, "mean", "mean %g is not finite", (double)data->mean[i]);
  }
  for (int i = 0; i < data->n_std; i++) {
    if (!isfinite(data->std[i]) || !(data->std[i] > 0)) {
      INTACT_FAIL(data->context, INVALID_VALUE, "std", "std %g: it must be finite and above 0", (double)data->std[i]);
    }
  }
  if (data->n_mean > 1 && data->n_std > 1 && data->n_mean != data->n_std) {
    INTACT_FAIL(data->context, WRONG_USE, "mean", "%d values of mean and %d of std: give one or one per channel of each",
                data->n_mean, data->n_std);
  }
  for (int i = 0; i < data->n_inputs && values > 1; i++) {
    const intact_data_input *input = &data->inputs[i];
    char shape[160];
    if (takes_floats(input) && channel_axis(input, values) < 0) {
      INTACT_FAIL(data->context, WRONG_USE, input->name,
                  "%d values of mean or std, but a sample of input %s is %s: give one value or "
                  "one per channel",
                  values, input->name, intact__shape_text(input->rank, input->dims, shape));
    }
  }
  return INTACT_OK;
}

static float mean_of(const intact_data *data, int64_t channel) {
  return data->n_mean == 0 ? 0.0f : data->mean[data->n_mean == 1 ? 0 : channel];
}
static float std_of(const intact_data *data, int64_t channel) {
  return data->n_std == 0 ? 1.0f : data->std[data->n_std == 1 ? 0 : channel];
}

/* Bytes through a table per channel; the table holds the formula's own results. */
static intact_status from_bytes(intact_data *data, const layout *l, const uint8_t *from, int64_t count, float *to) {
  float(*table)[256] = intact__alloc(data->context, (size_t)l->channels, sizeof *table);
  if (!table) return intact__no_memory(data->context, (size_t)l->channels * sizeof *table);
  for (int64_t c = 0; c < l->channels; c++) {
    for (int v = 0; v < 256; v++) table[c][v] = ((float)v / 255.0f - mean_of(data, c)) / std_of(data, c);
  }
  const int64_t total = count * l->elements;
  for (int64_t at = 0, c = 0; at < total; at += l->inner, c = c + 1 == l->channels ? 0 : c + 1) {
    const int64_t end = total - at < l->inner ? total : at + l->inner;
    for (int64_t i = at; i < end; i++) to[i] = table[c][from[i]];
  }
  intact__free(data->context, table);
  return INTACT_OK;
}

static void from_floats(const intact_data *data, const layout *l, const intact_tensor *from, int64_t first, int64_t count,
                        float *to) {
  const float *direct = from->dtype == INTACT_F32 ? (const float *)from->data + first * l->elements : NULL;
  const int64_t total = count * l->elements;
  for (int64_t at = 0, c = 0; at < total; at += l->inner, c = c + 1 == l->channels ? 0 : c + 1) {
    const int64_t end = total - at < l->inner ? total : at + l->inner;
    const float mean = mean_of(data, c), std = std_of(data, c);
    for (int64_t i = at; i < end; i++) {
      const float x = direct ? direct[i] : (float)intact__tensor_get_f64(from, first * l->elements + i);
      to[i] = (x - mean) / std;
    }
  }
}

/* Integers that stay integers: each value must be one of the input's type. */
static intact_status from_integers(intact_data *data, const intact_data_input *input, const intact_tensor *from,
                                   int64_t first, int64_t count, intact_tensor *to, int64_t at) {
  const int64_t elements = intact__samples_elements(input);
  const bool boolean = input->dtype == INTACT_BOOL;
  const int64_t low = boolean ? 0 : intact_dtype_min(input->dtype), high = boolean ? 1 : intact_dtype_max(input->dtype);
  for (int64_t i = 0; i < count * elements; i++) {
    const int64_t value = intact__tensor_get_s64(from, first * elements + i);
    if (value < low || value > high) {
      INTACT_FAIL(data->context, OUT_OF_RANGE, data->path, "value %" PRId64 " in '%s' is no %s, which input %s takes", value,
                  data->path, intact_dtype_text(input->dtype), input->name);
    }
    intact__tensor_set_s64(to, at * elements + i, value);
  }
  return INTACT_OK;
}

intact_status intact__normalise(intact_data *data, int index, const intact_tensor *from, int64_t first, int64_t count,
                                intact_tensor *to, int64_t at) {
  const intact_data_input *input = &data->inputs[index];
  if (!takes_floats(input)) return from_integers(data, input, from, first, count, to, at);
  const layout l = layout_of(data, input);
  if (l.elements == 0) return INTACT_OK;
  float *out = intact__f32(to) + at * l.elements;
  if (from->dtype == INTACT_U8) return from_bytes(data, &l, (const uint8_t *)from->data + first * l.elements, count, out);
  from_floats(data, &l, from, first, count, out);
  return INTACT_OK;
}
