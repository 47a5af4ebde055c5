/* SPDX-License-Identifier: Apache-2.0 */
/* Building the operands and attributes of op cases. */
#include "ops/op_case.h"

#include <stdarg.h>
#include <string.h>

#include "support/test.h"

static intact_tensor *add_operand(op_case *c, intact_dtype dtype, int rank, va_list dims) {
  int64_t shape[INTACT_MAX_RANK];
  for (int i = 0; i < rank; i++) shape[i] = va_arg(dims, int);
  assert_in_range(c->n_operands, 0, CASE_MAX - 1);
  intact_tensor *tensor;
  assert_ok(c->context, intact_tensor_create(c->context, dtype, rank, shape, &tensor));
  c->operands[c->n_operands++] = tensor;
  return tensor;
}

void case_f32(op_case *c, float low, float high, int rank, ...) {
  va_list dims;
  va_start(dims, rank);
  intact_tensor *t = add_operand(c, INTACT_F32, rank, dims);
  va_end(dims);
  for (int64_t i = 0; i < t->count; i++) intact__f32(t)[i] = test_uniform(&c->random, low, high);
}

void case_integers(op_case *c, intact_dtype dtype, int64_t low, int64_t high, int rank, ...) {
  va_list dims;
  va_start(dims, rank);
  intact_tensor *t = add_operand(c, dtype, rank, dims);
  va_end(dims);
  for (int64_t i = 0; i < t->count; i++) {
    intact__tensor_set_s64(t, i, low + (int64_t)(test_random(&c->random) % (uint64_t)(high - low + 1)));
  }
}

void case_f32_values(op_case *c, const float *values, int rank, ...) {
  va_list dims;
  va_start(dims, rank);
  intact_tensor *t = add_operand(c, INTACT_F32, rank, dims);
  va_end(dims);
  memcpy(t->data, values, (size_t)t->count * sizeof(float));
}

void case_s64_values(op_case *c, const int64_t *values, int rank, ...) {
  va_list dims;
  va_start(dims, rank);
  intact_tensor *t = add_operand(c, INTACT_S64, rank, dims);
  va_end(dims);
  memcpy(t->data, values, (size_t)t->count * sizeof(int64_t));
}

void case_left_out(op_case *c) {
  c->operands[c->n_operands++] = NULL;
}
void case_constant(op_case *c) {
  c->constant[c->n_operands - 1] = true;
}

static case_attr *add_attr(op_case *c, const char *name, intact_attr_type type) {
  assert_in_range(c->n_attrs, 0, CASE_MAX - 1);
  case_attr *a = &c->attrs[c->n_attrs++];
  a->name = name;
  a->type = type;
  return a;
}

void case_int(op_case *c, const char *attr, int64_t value) {
  add_attr(c, attr, INTACT_ATTR_INT)->i = value;
}
void case_float(op_case *c, const char *attr, double value) {
  add_attr(c, attr, INTACT_ATTR_FLOAT)->f = value;
}
void case_string(op_case *c, const char *attr, const char *value) {
  add_attr(c, attr, INTACT_ATTR_STRING)->s = value;
}

void case_ints(op_case *c, const char *attr, int n, ...) {
  case_attr *a = add_attr(c, attr, INTACT_ATTR_INTS);
  va_list values;
  va_start(values, n);
  a->n = n;
  for (int i = 0; i < n; i++) a->ints[i] = va_arg(values, int);
  va_end(values);
}

void case_floats(op_case *c, const char *attr, int n, ...) {
  case_attr *a = add_attr(c, attr, INTACT_ATTR_FLOATS);
  va_list values;
  va_start(values, n);
  a->n = n;
  for (int i = 0; i < n; i++) a->floats[i] = va_arg(values, double);
  va_end(values);
}

void case_expect(op_case *c, const float *values, int n, double tolerance) {
  c->expected = values;
  c->n_expected = n;
  c->expected_tolerance = tolerance;
}
