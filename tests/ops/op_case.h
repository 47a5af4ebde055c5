/* SPDX-License-Identifier: Apache-2.0 */
/* Cases of op rows: tests/ops/cases/<op>.c holds functions that build operands and attributes, and lists them:
     static void strided(op_case *c) { case_f32(c, -1, 1, 4, 2, 3, 7, 7); ...; case_ints(c, "stride", 2, 2, 1); }
     OP_CASES(conv2d) = {strided, NULL};
   test_every_op runs each: inference agrees with evaluation, the fast form with the definition, the gradient with finite
   differences. case_expect gives values from another source. */
#ifndef INTACT_TESTS_OPS_OP_CASE_H
#define INTACT_TESTS_OPS_OP_CASE_H

#include "graph/graph.h"

enum { CASE_MAX = 32 };

typedef struct case_attr {
  const char *name;
  intact_attr_type type;
  int64_t i;
  double f;
  const char *s;
  int n;
  int64_t ints[8];
  double floats[8];
} case_attr;

typedef struct op_case {
  intact_context *context;
  uint64_t random;
  int n_operands, n_attrs, n_results; /* n_results 0: as the schema says, 1 where it says as many as wanted */
  intact_tensor *operands[CASE_MAX];  /* NULL: left out */
  bool constant[CASE_MAX];
  case_attr attrs[CASE_MAX];
  const float *expected; /* elements of result 0, NULL: not compared */
  int n_expected;
  double expected_tolerance;
  const char *no_gradient; /* why finite differences say nothing here, NULL: they do */
  const char *not_run;     /* why the row cannot be run alone, and where it is tested */
} op_case;

typedef void (*op_case_fn)(op_case *c);
#define OP_CASES(op)                       \
  extern const op_case_fn op_cases_##op[]; \
  const op_case_fn op_cases_##op[]

/* The next operand: random numbers in low..high; rank, then that many dims as int. */
void case_f32(op_case *c, float low, float high, int rank, ...);
/* Random integers in low..high (s64, s32, u8, bool ...). */
void case_integers(op_case *c, intact_dtype dtype, int64_t low, int64_t high, int rank, ...);
/* These elements. */
void case_f32_values(op_case *c, const float *values, int rank, ...);
void case_s64_values(op_case *c, const int64_t *values, int rank, ...);
void case_left_out(op_case *c);
/* The operand given last becomes a constant of the graph; its gradient is not looked at. */
void case_constant(op_case *c);

void case_int(op_case *c, const char *attr, int64_t value); /* int, bool, dtype */
void case_float(op_case *c, const char *attr, double value);
void case_string(op_case *c, const char *attr, const char *value);
void case_ints(op_case *c, const char *attr, int n, ...); /* n ints */
void case_floats(op_case *c, const char *attr, int n, ...);
void case_expect(op_case *c, const float *values, int n, double tolerance);

#endif
