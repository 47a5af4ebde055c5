/* SPDX-License-Identifier: Apache-2.0 */
/* Comparison of tensors by tolerance, and the verdict on a case: expectations, alternatives, engine groups, refusals. */
#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "conformance/conformance.h"

typedef enum kind { EXACT, ULP, ABS, REL, ABSREL, QSTEP } kind;
typedef struct tolerance {
  kind kind;
  double abs, rel;
  bool one_zero; /* -0 is 0, also where all else is exact */
} tolerance;

static bool read_tolerance(const json_t *json, tolerance *t) {
  static const char *const names[] = {"exact", "ulp", "abs", "rel", "absrel", "qstep"};
  *t = (tolerance){.kind = EXACT};
  if (!json) return true;
  const char *text = json_string_value(json_object_get(json, "kind"));
  const double value = conf_json_f64(json_object_get(json, "value"), 0);
  for (int k = 0; text && k < 6; k++) {
    if (strcmp(text, names[k]) != 0) continue;
    t->kind = (kind)k;
    if (t->kind == ABSREL) {
      t->abs = conf_json_f64(json_object_get(json, "abs"), 0);
      t->rel = conf_json_f64(json_object_get(json, "rel"), 0);
    } else if (t->kind == REL) {
      t->rel = value;
    } else {
      t->abs = value;
    }
    return true;
  }
  return false;
}

/* Distance of two finite floats of a type in units of the last place. */
static double ulps(intact_dtype dtype, double a, double b) {
  const int mantissa = dtype == INTACT_F64 ? 52 : dtype == INTACT_F16 ? 10 : dtype == INTACT_BF16 ? 7 : 23;
  const int lowest = dtype == INTACT_F64 ? -1022 : dtype == INTACT_F16 ? -14 : -126;
  const double larger = fmax(fabs(a), fabs(b));
  if (larger == 0) return 0;
  int exponent;
  frexp(larger, &exponent);
  exponent = exponent - 1 < lowest ? lowest : exponent - 1;
  return fabs(a - b) / ldexp(1, exponent - mantissa);
}

static bool close_enough(intact_dtype dtype, double got, double want, const tolerance *t) {
  if (isnan(got) || isnan(want)) return isnan(got) && isnan(want);
  if (t->kind == EXACT) return got == want && (t->one_zero || signbit(got) == signbit(want));
  if (got == want) return true;
  if (isinf(got) || isinf(want)) return false;
  if (t->kind == ULP) return ulps(dtype, got, want) <= t->abs;
  return fabs(got - want) <= t->abs + t->rel * fabs(want);
}

static bool equal_integers(const intact_tensor *got, const intact_tensor *want, const tolerance *t, char *message,
                           size_t size) {
  for (int64_t i = 0; i < want->count; i++) {
    const int64_t g = intact__tensor_get_s64(got, i), w = intact__tensor_get_s64(want, i);
    const double distance = fabs((double)g - (double)w), allowed = t->kind == EXACT ? 0 : t->abs + t->rel * fabs((double)w);
    if (g != w && distance <= allowed) continue;
    if (g != w) {
      snprintf(message, size, "expected %" PRId64 ", got %" PRId64 " at element %" PRId64, w, g, i);
      return false;
    }
  }
  return true;
}

static bool equal_floats(const intact_tensor *got, const intact_tensor *want, const tolerance *t, char *message,
                         size_t size) {
  int64_t different = 0, first = -1;
  double largest = 0;
  const int64_t parts = want->dtype == INTACT_C64 ? 2 : 1;
  for (int64_t i = 0; i < want->count * parts; i++) {
    double g, w;
    if (parts == 2) {
      g = ((const float *)got->data)[i];
      w = ((const float *)want->data)[i];
    } else {
      g = intact__tensor_get_f64(got, i);
      w = intact__tensor_get_f64(want, i);
    }
    if (close_enough(want->dtype, g, w, t)) continue;
    different++;
    if (first < 0) first = i;
    if (fabs(g - w) > largest) largest = fabs(g - w);
  }
  if (!different) return true;
  if (parts == 2) {
    snprintf(message, size, "%" PRId64 " of %" PRId64 " parts differ", different, want->count * 2);
    return false;
  }
  const double w = intact__tensor_get_f64(want, first), g = intact__tensor_get_f64(got, first);
  snprintf(message, size,
           "expected %.9g, got %.9g at element %" PRId64 "; %" PRId64 " of %" PRId64
           " elements differ, by up to %.3g (allowed: abs %.3g rel %.3g)",
           w, g, first, different, want->count, largest, t->abs, t->rel);
  return false;
}

/* The suites of operators and training take -0 for 0 (operators.md), those of quantization arithmetic do not. */
static bool has_one_zero(const conf_case *c) {
  static const char *const suites[] = {"float_ops", "quantized_ops", "qat_training", "optimizers", "random"};
  for (size_t i = 0; i < sizeof suites / sizeof suites[0]; i++) {
    if (strcmp(c->suite, suites[i]) == 0) return true;
  }
  return false;
}

bool conf_equal(const conf_case *c, const intact_tensor *got, const intact_tensor *want, const json_t *json, char *message,
                size_t size) {
  tolerance t;
  char a[200], b[200];
  if (!read_tolerance(json, &t)) {
    snprintf(message, size, "unknown kind of tolerance");
    return false;
  }
  t.one_zero = has_one_zero(c);
  if (got->dtype != want->dtype || !intact__shape_equal(got->rank, got->dims, want->rank, want->dims)) {
    snprintf(message, size, "expected %s %s, got %s %s", intact_dtype_text(want->dtype),
             intact__shape_text(want->rank, want->dims, a), intact_dtype_text(got->dtype),
             intact__shape_text(got->rank, got->dims, b));
    return false;
  }
  if (intact_dtype_is_float(want->dtype) || want->dtype == INTACT_C64) return equal_floats(got, want, &t, message, size);
  return equal_integers(got, want, &t, message, size);
}

/* Whether the results meet one group of expectations {"y": key}. */
static bool meets(conf_case *c, const json_t *group, char *message, size_t size) {
  const char *name;
  json_t *key;
  char inner[500];
  const json_t *tolerances = json_object_get(c->json, "tolerance");
  json_object_foreach(conf_iterable(group), name, key) {
    const intact_tensor *want = intact_tensor_set_find(c->tensors, json_string_value(key) ? json_string_value(key) : "");
    const intact_tensor *got = intact_tensor_set_find(c->results, name);
    if (!want) {
      snprintf(message, size, "%s: the set holds no tensor '%s'", name,
               json_string_value(key) ? json_string_value(key) : "");
      return false;
    }
    if (!got) {
      snprintf(message, size, "%s: expected a result, got none", name);
      return false;
    }
    if (!conf_equal(c, got, want, json_object_get(tolerances, name), inner, sizeof inner)) {
      snprintf(message, size, "%s: %s", name, inner);
      return false;
    }
  }
  return true;
}

static bool meets_any(conf_case *c, char *message, size_t size) {
  const json_t *expect = json_object_get(c->json, "expect");
  char other[600];
  if (expect && meets(c, expect, message, size)) return true;
  const char *key;
  json_t *group;
  bool first = expect == NULL;
  json_object_foreach(json_object_get(c->json, "alternatives"), key, group) {
    if (meets(c, group, other, sizeof other)) return true;
  }
  json_object_foreach(conf_iterable(c->json), key, group) {
    if (strncmp(key, "expect_", 7) != 0) continue;
    if (meets(c, group, other, sizeof other)) return true;
    if (first) snprintf(message, size, "(%s) %.500s", key + 7, other);
    first = false;
  }
  return false;
}

static bool has_expectations(const conf_case *c) {
  const char *key;
  json_t *group;
  json_object_foreach(conf_iterable(c->json), key, group) {
    if (strncmp(key, "expect", 6) == 0 && json_is_object(group)) return true;
  }
  return false;
}

static bool is_refusal(intact_status status) {
  return status != INTACT_OK && status != INTACT_NO_MEMORY && status != INTACT_IO && status != INTACT_INTERNAL;
}

void conf_check(conf_case *c, intact_status status) {
  char message[600];
  if (c->outcome->state == CONF_SKIPPED || c->outcome->state == CONF_FAILED) return;
  if (conf_expects_error(c)) {
    const char *why = json_string_value(json_object_get(json_object_get(c->json, "expect"), "why"));
    if (status == INTACT_OK) {
      conf_fail(c, "expected a refusal (%s), got a result", why ? why : "?");
    } else if (!is_refusal(status)) {
      conf_fail(c, "expected a refusal (%s), got %s: %s", why ? why : "?", intact_status_text(status),
                intact_context_message(c->context));
    }
  } else if (status != INTACT_OK) {
    conf_fail(c, "expected a result, got %s: %s", intact_status_text(status), intact_context_message(c->context));
  } else if (has_expectations(c) && !meets_any(c, message, sizeof message)) {
    const char *advisory = json_string_value(json_object_get(c->json, "advisory"));
    if (advisory) {
      conf_note(c, "%.150s (advisory: %.100s)", message, advisory);
    } else {
      conf_fail(c, "%s", message);
    }
  }
  if (c->outcome->state == CONF_RUNNING) c->outcome->state = CONF_PASSED;
}
