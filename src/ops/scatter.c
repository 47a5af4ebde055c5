/* SPDX-License-Identifier: Apache-2.0 */
/* Combining elements that are written by index. */
#include "ops/scatter.h"

#include <string.h>

void intact__copy_element(intact_tensor *to, int64_t at, const intact_tensor *from, int64_t i) {
  if (intact_dtype_is_float(to->dtype)) {
    intact__tensor_set_f64(to, at, intact__tensor_get_f64(from, i));
  } else {
    intact__tensor_set_s64(to, at, intact__tensor_get_s64(from, i));
  }
}

intact_scatter_kind intact__scatter_kind(const char *name) {
  const struct {
    const char *name;
    intact_scatter_kind kind;
  } names[] = {
      {"none", INTACT_SCATTER_SET}, {"", INTACT_SCATTER_SET},         {"add", INTACT_SCATTER_ADD},
      {"sum", INTACT_SCATTER_ADD},  {"mul", INTACT_SCATTER_MUL},      {"prod", INTACT_SCATTER_MUL},
      {"amax", INTACT_SCATTER_MAX}, {"max", INTACT_SCATTER_MAX},      {"amin", INTACT_SCATTER_MIN},
      {"min", INTACT_SCATTER_MIN},  {"multiply", INTACT_SCATTER_MUL},
  };
  for (int i = 0; i < INTACT_COUNT_OF(names); i++) {
    if (name == NULL || strcmp(name, names[i].name) == 0) return names[i].kind;
  }
  return INTACT_SCATTER_UNKNOWN;
}

static double combine_real(double a, double b, intact_scatter_kind kind) {
  switch (kind) {
    case INTACT_SCATTER_ADD:
      return a + b;
    case INTACT_SCATTER_MUL:
      return a * b;
    case INTACT_SCATTER_MAX:
      return b > a || b != b ? b : a;
    case INTACT_SCATTER_MIN:
      return b < a || b != b ? b : a;
    default:
      return b;
  }
}

static int64_t combine_integer(int64_t a, int64_t b, intact_scatter_kind kind) {
  switch (kind) {
    case INTACT_SCATTER_ADD:
      return (int64_t)((uint64_t)a + (uint64_t)b);
    case INTACT_SCATTER_MUL:
      return (int64_t)((uint64_t)a * (uint64_t)b);
    case INTACT_SCATTER_MAX:
      return b > a ? b : a;
    case INTACT_SCATTER_MIN:
      return b < a ? b : a;
    default:
      return b;
  }
}

void intact__scatter_element(intact_tensor *y, int64_t at, const intact_tensor *src, int64_t i, double number,
                             intact_scatter_kind kind) {
  if (intact_dtype_is_float(y->dtype) || src == NULL) {
    double b = src != NULL ? intact__tensor_get_f64(src, i) : number;
    intact__tensor_set_f64(y, at, combine_real(intact__tensor_get_f64(y, at), b, kind));
  } else {
    intact__tensor_set_s64(y, at, combine_integer(intact__tensor_get_s64(y, at), intact__tensor_get_s64(src, i), kind));
  }
}
