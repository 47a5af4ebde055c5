/* SPDX-License-Identifier: Apache-2.0 */
/* The interface between the conformance runner and the handlers of its suites.

   How to add a handler:
    1. Write `intact_status conf_handle_<name>(conf_case *c)` in tests/conformance/handle_<family>.c.
    2. Add a line CONF_HANDLER(suite pattern, op pattern, conf_handle_<name>) to handlers.def; the first line that matches
   wins. An op that no line matches is skipped by name.
    3. The handler takes its arguments with conf_attr_* and conf_input*, and gives results with conf_result* under the names
   that the case expects. The runner compares them (type, shape, tolerance, alternatives, engine groups, advisory).
    4. It returns what the library returned: a failure means "refused", which is what error cases want.
       For an op that the library does not have: return conf_skip(c, name).
    5. What the runner can't compare by itself (structure, files) the handler checks and reports with conf_fail.
   Every case runs in a process of a pool with a context of one thread; a crash or a hang fails the case and nothing else. */
#ifndef INTACT_TESTS_CONFORMANCE_CONFORMANCE_H
#define INTACT_TESTS_CONFORMANCE_CONFORMANCE_H

#include <jansson.h>

#include "intact/io.h"
#include "tensor/tensor.h"

/* One file of cases. */
typedef struct conf_set {
  char *path;         /* of the JSON file */
  char *folder;       /* that it lies in */
  char *tensors_path; /* the safetensors file with its tensors; NULL: none */
  json_t *root;
} conf_set;

typedef enum conf_state { CONF_WAITING, CONF_RUNNING, CONF_PASSED, CONF_FAILED, CONF_SKIPPED } conf_state;

/* What became of a case; lies in memory that the processes share. */
typedef struct conf_outcome {
  conf_state state;
  char note[300];    /* printed as NOTE; "" none */
  char message[700]; /* FAILED: "expected ..., got ..."; SKIPPED: the name of what is not there */
} conf_outcome;

typedef struct conf_case {
  const char *suite, *name, *op;
  const conf_set *set;
  const json_t *json;               /* the case */
  intact_context *context;          /* of one thread */
  const intact_tensor_set *tensors; /* of set->tensors_path; NULL: none */
  intact_tensor_set *results;       /* what the handler gave */
  conf_outcome *outcome;
} conf_case;

typedef intact_status (*conf_handler)(conf_case *c);

/* json_object_foreach takes no const object. */
static inline json_t *conf_iterable(const json_t *object) {
  union {
    const json_t *in;
    json_t *out;
  } cast = {object};
  return cast.out;
}

/* ---- arguments ---- */
/* Attribute `name` of the case's "attrs"; NULL when it is not there or null. */
const json_t *conf_attr(const conf_case *c, const char *name);
double conf_attr_f64(const conf_case *c, const char *name, double otherwise); /* numbers, "inf", "-inf", "nan", booleans */
int64_t conf_attr_int(const conf_case *c, const char *name, int64_t otherwise);
bool conf_attr_bool(const conf_case *c, const char *name, bool otherwise);
const char *conf_attr_text(const conf_case *c, const char *name, const char *otherwise);
/* A list of integers (or one integer) into out[capacity]; returns how many, -1 when the attribute is not there. */
int conf_attr_ints(const conf_case *c, const char *name, int64_t *out, int capacity);
/* The same of any JSON value. */
double conf_json_f64(const json_t *value, double otherwise);
int64_t conf_json_int(const json_t *value, int64_t otherwise);
/* Tensor behind input `name` (a printf format, e.g. "x%d", i); NULL when the case has no such input. */
const intact_tensor *conf_input(const conf_case *c, const char *name, ...) INTACT_PRINTF(2, 3);
/* Tensor by its key in the safetensors file; NULL: not there (reported by conf_fail). */
const intact_tensor *conf_tensor(conf_case *c, const char *key);
/* PyTorch's names of types, with or without "torch.": quint8, qint8, qint32, uint8, int8, float32, half, bfloat16 ... */
bool conf_dtype(const char *text, intact_dtype *dtype);

/* ---- results ---- */
/* Gives a result; takes the tensor over. */
intact_status conf_result(conf_case *c, intact_tensor *tensor, const char *name, ...) INTACT_PRINTF(3, 4);
/* A result of type `dtype` from doubles or integers, rounded to the type. rank 0: dims NULL. */
intact_status conf_result_f64(conf_case *c, intact_dtype dtype, int rank, const int64_t *dims, const double *values,
                              const char *name, ...) INTACT_PRINTF(6, 7);
intact_status conf_result_s64(conf_case *c, intact_dtype dtype, int rank, const int64_t *dims, const int64_t *values,
                              const char *name, ...) INTACT_PRINTF(6, 7);
/* Whether the case (any of its groups) expects a result of this name. */
bool conf_expects(const conf_case *c, const char *name, ...) INTACT_PRINTF(2, 3);
/* Whether the case is one that must be refused. */
bool conf_expects_error(const conf_case *c);

/* ---- verdicts ---- */
/* The case fails: "expected ..., got ...". The first failure is kept. Returns INTACT_OK, for `return conf_fail(...)`. */
intact_status conf_fail(conf_case *c, const char *format, ...) INTACT_PRINTF(2, 3);
/* The case is not run because the library has no `what` (an op, a format). */
intact_status conf_skip(conf_case *c, const char *what);
/* The case passes (unless it fails otherwise) and a NOTE is printed. */
void conf_note(conf_case *c, const char *format, ...) INTACT_PRINTF(2, 3);
/* Compares by a tolerance object {"kind": ...} (NULL: exact). On a difference false, and why in message[size]. */
bool conf_equal(const conf_case *c, const intact_tensor *got, const intact_tensor *want, const json_t *tolerance,
                char *message, size_t size);
/* The same, and conf_fail with `name` when they differ. */
bool conf_compare(conf_case *c, const char *name, const intact_tensor *got, const intact_tensor *want,
                  const json_t *tolerance);

#define CONF_HANDLER(suite, op, function) intact_status function(conf_case *c);
#include "conformance/handlers.def"
#undef CONF_HANDLER

/* ---- runner (find.c, check.c, handlers.c, run.c) ---- */
typedef struct conf_list {
  conf_set **sets;
  size_t n_sets, sets_capacity;
  conf_case *cases; /* context, tensors, results, outcome unset */
  size_t n_cases, cases_capacity;
} conf_list;
/* Adds all cases of the sets below `folder` whose "suite/name" matches one of the comma-separated patterns (NULL: all).
   False, with a line on standard error, when something can't be read. */
bool conf_find(const char *folder, const char *only, conf_list *list);
void conf_list_destroy(conf_list *list);
conf_handler conf_find_handler(const conf_case *c);
/* Judges the results of a case by its expectations. `status` is what the handler returned. */
void conf_check(conf_case *c, intact_status status);
/* Runs all cases in `processes` processes; outcomes[i] is that of case i. */
bool conf_run(const conf_list *list, conf_outcome *outcomes, int processes);

#endif
