/* SPDX-License-Identifier: Apache-2.0 */
/* A case as handlers see it: arguments, results, verdicts. */
#include <math.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "conformance/conformance.h"

enum { NAME = 200 };
#define FORMAT_NAME(buffer, format)                       \
  do {                                                    \
    va_list arguments_;                                   \
    va_start(arguments_, format);                         \
    vsnprintf(buffer, sizeof buffer, format, arguments_); \
    va_end(arguments_);                                   \
  } while (0)

const json_t *conf_attr(const conf_case *c, const char *name) {
  const json_t *value = json_object_get(json_object_get(c->json, "attrs"), name);
  return json_is_null(value) ? NULL : value;
}

double conf_json_f64(const json_t *value, double otherwise) {
  if (json_is_number(value)) return json_number_value(value);
  if (json_is_boolean(value)) return json_is_true(value);
  const char *text = json_string_value(value);
  if (!text) return otherwise;
  if (strcmp(text, "inf") == 0) return INFINITY;
  if (strcmp(text, "-inf") == 0) return -INFINITY;
  if (strcmp(text, "nan") == 0) return NAN;
  return otherwise;
}

int64_t conf_json_int(const json_t *value, int64_t otherwise) {
  if (json_is_integer(value)) return json_integer_value(value);
  if (json_is_boolean(value)) return json_is_true(value);
  if (!json_is_real(value)) return otherwise;
  const double real = json_real_value(value);
  return real >= -0x1p63 && real < 0x1p63 && real == floor(real) ? (int64_t)real : otherwise;
}

double conf_attr_f64(const conf_case *c, const char *name, double otherwise) {
  return conf_json_f64(conf_attr(c, name), otherwise);
}

int64_t conf_attr_int(const conf_case *c, const char *name, int64_t otherwise) {
  return conf_json_int(conf_attr(c, name), otherwise);
}

bool conf_attr_bool(const conf_case *c, const char *name, bool otherwise) {
  return conf_json_int(conf_attr(c, name), otherwise) != 0;
}

const char *conf_attr_text(const conf_case *c, const char *name, const char *otherwise) {
  const char *text = json_string_value(conf_attr(c, name));
  return text ? text : otherwise;
}

int conf_attr_ints(const conf_case *c, const char *name, int64_t *out, int capacity) {
  const json_t *value = conf_attr(c, name);
  if (!value) return -1;
  if (!json_is_array(value)) {
    if (capacity > 0) out[0] = conf_json_int(value, 0);
    return 1;
  }
  int n = 0;
  size_t i;
  const json_t *item;
  json_array_foreach(value, i, item) {
    if (n < capacity) out[n++] = conf_json_int(item, 0);
  }
  return n;
}

const intact_tensor *conf_tensor(conf_case *c, const char *key) {
  const intact_tensor *tensor = c->tensors && key ? intact_tensor_set_find(c->tensors, key) : NULL;
  if (!tensor) conf_fail(c, "expected tensor '%s' in the set, got none", key ? key : "");
  return tensor;
}

const intact_tensor *conf_input(const conf_case *c, const char *name, ...) {
  char full[NAME];
  FORMAT_NAME(full, name);
  const char *key = json_string_value(json_object_get(json_object_get(c->json, "inputs"), full));
  return key && c->tensors ? intact_tensor_set_find(c->tensors, key) : NULL;
}

bool conf_dtype(const char *text, intact_dtype *dtype) {
  static const struct {
    const char *name;
    intact_dtype dtype;
  } names[] = {{"quint8", INTACT_U8},
               {"qint8", INTACT_S8},
               {"qint32", INTACT_S32},
               {"uint8", INTACT_U8},
               {"int8", INTACT_S8},
               {"int16", INTACT_S16},
               {"uint16", INTACT_U16},
               {"int32", INTACT_S32},
               {"uint32", INTACT_U32},
               {"int64", INTACT_S64},
               {"uint64", INTACT_U64},
               {"float32", INTACT_F32},
               {"float", INTACT_F32},
               {"float16", INTACT_F16},
               {"half", INTACT_F16},
               {"bfloat16", INTACT_BF16},
               {"float64", INTACT_F64},
               {"double", INTACT_F64},
               {"bool", INTACT_BOOL},
               {"quint4x2", INTACT_U4},
               {"quint2x4", INTACT_U2},
               {"int4", INTACT_S4},
               {"uint4", INTACT_U4},
               {"long", INTACT_S64},
               {"complex64", INTACT_C64},
               {"int", INTACT_S32},
               {"uint2", INTACT_U2},
               {"int2", INTACT_S2},
               {"float8_e4m3fn", INTACT_F8E4M3FN},
               {"float8_e5m2", INTACT_F8E5M2},
               {"float8_e4m3fnuz", INTACT_F8E4M3FNUZ},
               {"float8_e5m2fnuz", INTACT_F8E5M2FNUZ},
               {"float8_e8m0fnu", INTACT_F8E8M0},
               {"float4_e2m1fn_x2", INTACT_F4E2M1}};
  if (!text) return false;
  if (strncmp(text, "torch.", 6) == 0) text += 6;
  for (size_t i = 0; i < sizeof names / sizeof names[0]; i++) {
    if (strcmp(names[i].name, text) == 0) {
      *dtype = names[i].dtype;
      return true;
    }
  }
  return false;
}

intact_status conf_result(conf_case *c, intact_tensor *tensor, const char *name, ...) {
  char full[NAME];
  FORMAT_NAME(full, name);
  return intact_tensor_set_add(c->results, full, tensor);
}

intact_status conf_result_f64(conf_case *c, intact_dtype dtype, int rank, const int64_t *dims, const double *values,
                              const char *name, ...) {
  char full[NAME];
  FORMAT_NAME(full, name);
  intact_tensor *tensor;
  intact_status status = intact_tensor_create(c->context, dtype, rank, dims, &tensor);
  if (status != INTACT_OK) return status;
  for (int64_t i = 0; i < tensor->count; i++) intact__tensor_set_f64(tensor, i, values[i]);
  return intact_tensor_set_add(c->results, full, tensor);
}

intact_status conf_result_s64(conf_case *c, intact_dtype dtype, int rank, const int64_t *dims, const int64_t *values,
                              const char *name, ...) {
  char full[NAME];
  FORMAT_NAME(full, name);
  intact_tensor *tensor;
  intact_status status = intact_tensor_create(c->context, dtype, rank, dims, &tensor);
  if (status != INTACT_OK) return status;
  for (int64_t i = 0; i < tensor->count; i++) intact__tensor_set_s64(tensor, i, values[i]);
  return intact_tensor_set_add(c->results, full, tensor);
}

bool conf_expects(const conf_case *c, const char *name, ...) {
  char full[NAME];
  FORMAT_NAME(full, name);
  const char *key;
  json_t *value;
  json_object_foreach(conf_iterable(c->json), key, value) {
    if (strncmp(key, "expect", 6) == 0 && json_object_get(value, full)) return true;
  }
  return false;
}

bool conf_expects_error(const conf_case *c) {
  return json_is_true(json_object_get(json_object_get(c->json, "expect"), "error"));
}

intact_status conf_fail(conf_case *c, const char *format, ...) {
  if (c->outcome->state == CONF_FAILED) return INTACT_OK;
  c->outcome->state = CONF_FAILED;
  FORMAT_NAME(c->outcome->message, format);
  return INTACT_OK;
}

intact_status conf_skip(conf_case *c, const char *what) {
  if (c->outcome->state == CONF_FAILED) return INTACT_OK;
  c->outcome->state = CONF_SKIPPED;
  snprintf(c->outcome->message, sizeof c->outcome->message, "%s", what);
  return INTACT_OK;
}

void conf_note(conf_case *c, const char *format, ...) {
  FORMAT_NAME(c->outcome->note, format);
}

bool conf_compare(conf_case *c, const char *name, const intact_tensor *got, const intact_tensor *want,
                  const json_t *tolerance) {
  char message[500];
  if (conf_equal(c, got, want, tolerance, message, sizeof message)) return true;
  conf_fail(c, "%s: %s", name, message);
  return false;
}
