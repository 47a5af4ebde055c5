/* SPDX-License-Identifier: Apache-2.0 */
/* Finds the files of a data set, counts their samples, and holds their shapes against the network's inputs. */
#include "data/samples.h"

#include <dirent.h>
#include <errno.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "data/picture.h"

int64_t intact__samples_elements(const intact_data_input *input) {
  int64_t count = 1;
  for (int i = 0; i < input->rank; i++) count *= input->dims[i];
  return count;
}

static bool known_shape(const intact_data_input *input) {
  for (int i = 0; i < input->rank; i++) {
    if (input->dims[i] < 0) return false;
  }
  return input->rank >= 0;
}

/* Holds a sample of rank x dims against the input: equal element counts, or, while the input's shape is not all known, the
   same rank and the same known sizes (then the input takes the sample's). */
static bool fits(intact_data_input *input, int rank, const int64_t *dims) {
  int64_t count = 1, wanted = 1;
  for (int i = 0; i < rank; i++) {
    if (__builtin_mul_overflow(count, dims[i], &count)) return false;
  }
  if (known_shape(input)) {
    for (int i = 0; i < input->rank; i++) {
      if (__builtin_mul_overflow(wanted, input->dims[i], &wanted)) return false;
    }
    return count == wanted;
  }
  if (input->rank >= 0 && input->rank != rank) return false;
  for (int i = 0; i < input->rank; i++) {
    if (input->dims[i] >= 0 && input->dims[i] != dims[i]) return false;
  }
  input->rank = rank;
  if (rank) memcpy(input->dims, dims, (size_t)rank * sizeof *dims);
  return true;
}

static intact_status misfit(const intact_data *data, const char *path, const intact_data_input *input, int rank,
                            const int64_t *dims) {
  char found[160], wanted[160];
  INTACT_FAIL(
      data->context, SIZE_MISMATCH, path,
      "a sample of '%s' has shape %s, input %s needs %s: the element counts must agree; the first dimension counts samples",
      path, intact__shape_text(rank, dims, found), input->name, intact__shape_text(input->rank, input->dims, wanted));
}

/* The tensor named like the input; the only tensor for the only input. */
static intact_status find_tensor(const intact_data *data, const char *path, const intact_tensor_set *set, int index,
                                 const intact_tensor **tensor) {
  const int n = intact_tensor_set_count(set);
  const char *name = data->inputs[index].name;
  const intact_tensor *found = intact_tensor_set_find(set, name);
  if (!found && n == 1 && data->n_inputs == 1) found = intact_tensor_set_get(set, 0);
  if (found) {
    *tensor = found;
    return INTACT_OK;
  }
  intact_text names;
  intact__text_init(&names, data->context);
  for (int i = 0; i < n && i < 8; i++) {
    intact__text_add(&names, "%s'%s'", i ? ", " : "", intact_tensor_set_name(set, i));
  }
  intact_status status =
      intact__fail(data->context, INTACT_MISSING_ENTRY, path, __FILE__, __LINE__,
                   "'%s' has no tensor for input '%s'; it holds %s%s: name the tensors as the network's inputs", path, name,
                   names.length ? names.data : "nothing", n > 8 ? " ..." : "");
  intact__text_fini(&names);
  return status;
}

/* Samples of one tensor for an input: its first dimension, or 1 when all of it is one sample of a known shape. */
static intact_status count_samples(const intact_data *data, const char *path, intact_data_input *input,
                                   const intact_tensor *tensor, int64_t *count) {
  if (tensor->rank >= 1 && fits(input, tensor->rank - 1, tensor->dims + 1)) {
    *count = tensor->dims[0];
    return INTACT_OK;
  }
  if (known_shape(input) && fits(input, tensor->rank, tensor->dims)) {
    *count = 1;
    return INTACT_OK;
  }
  if (tensor->rank >= 1) return misfit(data, path, input, tensor->rank - 1, tensor->dims + 1);
  return misfit(data, path, input, 0, NULL);
}

static intact_status check_type(const intact_data *data, const char *path, const intact_data_input *input,
                                intact_dtype dtype) {
  const bool to_float = input->qparams || intact_dtype_is_float(input->dtype);
  if (dtype == INTACT_C64 || (!to_float && intact_dtype_is_float(dtype))) {
    INTACT_FAIL(data->context, TYPE_MISMATCH, path, "'%s' holds %s, input %s takes %s", path, intact_dtype_text(dtype),
                input->name, intact_dtype_text(input->dtype));
  }
  return INTACT_OK;
}

static intact_status add_part(intact_data *data, const char *path, int64_t count, bool is_picture) {
  INTACT_TRY(
      intact__reserve(data->context, (void **)&data->parts, &data->parts_capacity, data->n_parts + 1, sizeof *data->parts));
  char *copy = intact__arena_strdup(&data->arena, path);
  if (!copy) return intact__no_memory(data->context, strlen(path));
  data->parts[data->n_parts++] = (intact_data_part){copy, data->count, count, is_picture};
  if (__builtin_add_overflow(data->count, count, &data->count)) {
    INTACT_FAIL(data->context, OVERFLOW, path, "too many samples");
  }
  return INTACT_OK;
}

static intact_status check_tensors(intact_data *data, const char *path, const intact_tensor_set *set) {
  int64_t samples = -1;
  for (int i = 0; i < data->n_inputs; i++) {
    const intact_tensor *tensor;
    int64_t count = 0;
    INTACT_TRY(find_tensor(data, path, set, i, &tensor));
    INTACT_TRY(count_samples(data, path, &data->inputs[i], tensor, &count));
    INTACT_TRY(check_type(data, path, &data->inputs[i], tensor->dtype));
    if (samples >= 0 && count != samples) {
      INTACT_FAIL(data->context, SIZE_MISMATCH, path, "'%s' has %" PRId64 " samples for input %s, %" PRId64 " for input %s",
                  path, samples, data->inputs[0].name, count, data->inputs[i].name);
    }
    samples = count;
  }
  return add_part(data, path, samples, false);
}

/* ---- pictures ---- */

/* Height, width and channels of the picture input; false when it can't take pictures. */
static bool picture_shape(const intact_data *data, int64_t *height, int64_t *width, int *channels) {
  const intact_data_input *input = &data->inputs[0];
  if (input->rank != 3) return false;
  const int64_t c = input->dims[data->channels_last ? 2 : 0];
  *height = input->dims[data->channels_last ? 0 : 1];
  *width = input->dims[data->channels_last ? 1 : 2];
  *channels = (int)c;
  return c == 1 || c == 3;
}

static intact_status add_picture(intact_data *data, const char *path, const intact_mapping *mapping) {
  intact_data_input *input = &data->inputs[0];
  int64_t height = -1, width = -1;
  int channels = 0;
  if (data->n_parts == 0 && input->rank == 3) {
    data->channels_last = input->dims[0] != 1 && input->dims[0] != 3 && (input->dims[2] == 1 || input->dims[2] == 3);
  }
  if (data->n_inputs != 1 || !picture_shape(data, &height, &width, &channels)) {
    char shape[160];
    INTACT_FAIL(
        data->context, SIZE_MISMATCH, path,
        "pictures fill one input of shape [1|3,height,width] or [height,width,1|3] a sample; the network has %d inputs, "
        "the first of %s",
        data->n_inputs, intact__shape_text(input->rank < 0 ? 0 : input->rank, input->dims, shape));
  }
  intact_picture_info info;
  INTACT_TRY(
      intact__picture_info(data->context, path, intact__mapping_data(mapping), intact__mapping_bytes(mapping), &info));
  const int64_t dims[3] = {data->channels_last ? info.height : channels, data->channels_last ? info.width : info.height,
                           data->channels_last ? channels : info.width};
  if ((height >= 0 && height != info.height) || (width >= 0 && width != info.width))
    return misfit(data, path, input, 3, dims);
  memcpy(input->dims, dims, sizeof dims);
  return add_part(data, path, 1, true);
}

intact_status intact__samples_picture(intact_data *data, const intact_data_part *part, uint8_t *pixels) {
  intact_picture_info info = {0, 0};
  int channels = 0;
  if (!picture_shape(data, &info.height, &info.width, &channels)) {
    INTACT_FAIL(data->context, INTERNAL, part->path, "input %s can't take pictures", data->inputs[0].name);
  }
  const size_t plane = (size_t)(info.height * info.width);
  intact_mapping *mapping;
  INTACT_TRY(intact__map_file(data->context, part->path, &mapping));
  uint8_t *rows = data->channels_last || channels == 1 ? pixels : intact__alloc(data->context, plane, 3);
  intact_status status = rows ? INTACT_OK : intact__no_memory(data->context, plane * 3);
  if (status == INTACT_OK) {
    status = intact__picture_decode(data->context, part->path, intact__mapping_data(mapping), intact__mapping_bytes(mapping),
                                    &info, channels, rows);
  }
  if (rows != pixels) {
    for (size_t i = 0; i < plane && status == INTACT_OK; i++) {
      for (size_t c = 0; c < 3; c++) pixels[c * plane + i] = rows[3 * i + c];
    }
    intact__free(data->context, rows);
  }
  intact__mapping_release(mapping);
  return status;
}

/* ---- files and folders ---- */

static intact_status add_file(intact_data *data, const char *path, bool keep_open) {
  intact_mapping *mapping;
  intact_tensor_set *set;
  INTACT_TRY(intact__map_file(data->context, path, &mapping));
  const bool picture = intact__picture_magic(intact__mapping_data(mapping), intact__mapping_bytes(mapping));
  intact_status status = picture ? add_picture(data, path, mapping) : INTACT_OK;
  intact__mapping_release(mapping);
  if (picture || status != INTACT_OK) return status;
  INTACT_TRY(intact_tensors_read(data->context, path, &set));
  status = check_tensors(data, path, set);
  if (status == INTACT_OK && keep_open) {
    data->tensors = set;
    data->current = 0;
  } else {
    intact_tensor_set_destroy(set);
  }
  return status;
}

static int visible(const struct dirent *entry) {
  return entry->d_name[0] != '.';
}

static int by_bytes(const struct dirent **a, const struct dirent **b) {
  return strcmp((*a)->d_name, (*b)->d_name);
}

static intact_status add_folder(intact_data *data) {
  struct dirent **names;
  const int n = scandir(data->path, &names, visible, by_bytes);
  if (n < 0) INTACT_FAIL(data->context, IO, data->path, "can't read folder '%s': %s", data->path, strerror(errno));
  intact_status status = INTACT_OK;
  for (int i = 0; i < n; i++) {
    if (status == INTACT_OK) {
      const char *path = intact__arena_format(&data->arena, "%s/%s", data->path, names[i]->d_name);
      status = path ? add_file(data, path, false) : intact__no_memory(data->context, strlen(data->path));
    }
    free(names[i]);
  }
  free(names);
  return status;
}

intact_status intact__samples_open(intact_data *data) {
  struct stat info;
  if (stat(data->path, &info) != 0) {
    if (errno == ENOENT) INTACT_FAIL(data->context, MISSING_ENTRY, data->path, "there is no data set '%s'", data->path);
    INTACT_FAIL(data->context, IO, data->path, "can't read '%s': %s", data->path, strerror(errno));
  }
  INTACT_TRY(S_ISDIR(info.st_mode) ? add_folder(data) : add_file(data, data->path, true));
  if (data->count == 0)
    INTACT_FAIL(data->context, INVALID_VALUE, data->path, "the data set '%s' holds no sample", data->path);
  return INTACT_OK;
}

intact_status intact__samples_tensor(intact_data *data, const intact_data_part *part, int index,
                                     const intact_tensor **tensor) {
  const size_t number = (size_t)(part - data->parts);
  if (data->current != number) {
    intact_tensor_set *set;
    INTACT_TRY(intact_tensors_read(data->context, part->path, &set));
    intact_tensor_set_destroy(data->tensors);
    data->tensors = set;
    data->current = number;
  }
  INTACT_TRY(find_tensor(data, part->path, data->tensors, index, tensor));
  int64_t wanted;
  if (__builtin_mul_overflow(part->count, intact__samples_elements(&data->inputs[index]), &wanted) ||
      (*tensor)->count != wanted) {
    INTACT_FAIL(data->context, SIZE_MISMATCH, part->path, "'%s' has changed since the data set was opened", part->path);
  }
  return check_type(data, part->path, &data->inputs[index], (*tensor)->dtype);
}
