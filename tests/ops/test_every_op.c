/* SPDX-License-Identifier: Apache-2.0 */
/* The contract of op rows: complete, named alike, with cases; inference agrees with evaluation, fast forms with definitions,
   gradients with finite differences. */
#include <jansson.h>
#include <math.h>
#include <string.h>

#include "ops/op_case.h"
#include "ops/ops.h"
#include "support/reference.h"
#include "support/test.h"

/* ---- the cases of each row, where there is a file of them ---- */
#define INTACT_OP(name) extern const op_case_fn op_cases_##name[] __attribute__((weak));
#include "ops/ops.def"
#undef INTACT_OP

typedef struct row_cases {
  const char *op;
  const op_case_fn *cases; /* NULL: no file */
} row_cases;

static const row_cases all_cases[] = {
#define INTACT_OP(name) {#name, op_cases_##name},
#include "ops/ops.def"
#undef INTACT_OP
};

static int complaints; /* of the running test, so that one run tells all */

static void complain(const char *op, const char *what, const char *detail) {
  print_error("%s: %s%s%s\n", op, what, detail != NULL ? ": " : "", detail != NULL ? detail : "");
  complaints++;
}

/* ---- rows are complete ---- */

static bool has_attr(const intact_op *op, const char *name, size_t length) {
  for (int i = 0; i < op->schema.n_attrs; i++) {
    if (strlen(op->schema.attrs[i].name) == length && strncmp(op->schema.attrs[i].name, name, length) == 0) return true;
  }
  return false;
}

/* Every "foreign=ours" and "=ours:value" names an attribute of the schema, or nothing, or what results carry (@). */
static void check_alias(const intact_op *op, const intact_alias *alias) {
  static const char *const formats[] = {"onnx", "aten", "openvino", "quantized"};
  static const char *const carried[] = {"@scale", "@zero_point", "@dtype", "@relu"};
  bool known = false;
  for (int i = 0; i < 4; i++) known = known || (alias->format != NULL && strcmp(alias->format, formats[i]) == 0);
  if (!known || alias->name == NULL) complain(op->name, "an alias of unknown format", alias->name);
  if (alias->since != 0 && alias->until != 0 && alias->since > alias->until)
    complain(op->name, "versions fall", alias->name);
  for (const char *at = alias->attrs != NULL ? alias->attrs : ""; *at != 0;) {
    size_t length = strcspn(at, ",");
    const char *equals = memchr(at, '=', length), *colon = memchr(at, ':', length);
    const char *ours = equals != NULL ? equals + 1 : at, *end = equals == at && colon != NULL ? colon : at + length;
    bool good = equals != NULL && (equals > at || colon != NULL), mine = ours == end;
    for (int i = 0; i < 4; i++)
      mine = mine || ((size_t)(end - ours) == strlen(carried[i]) && strncmp(ours, carried[i], (size_t)(end - ours)) == 0);
    if (!good) {
      complain(op->name, "an attribute map that is not foreign=ours or =ours:value", alias->attrs);
    } else if (!mine && !has_attr(op, ours, (size_t)(end - ours))) {
      complain(op->name, "the alias names an attribute that the schema has not", alias->attrs);
    }
    at += length + (at[length] == ',');
  }
}

static void check_schema(const intact_op *op) {
  const intact_schema *s = &op->schema;
  for (int i = 0; i < s->n_operands; i++) {
    for (int j = 0; j < i; j++) {
      if (strcmp(s->operands[i].name, s->operands[j].name) == 0)
        complain(op->name, "two operands of one name", s->operands[i].name);
    }
    bool variadic = (s->operands[i].flags & INTACT_VARIADIC) != 0;
    if (variadic && i != s->n_operands - 1) complain(op->name, "a variadic operand before the last", s->operands[i].name);
  }
  for (int i = 0; i < s->n_attrs; i++) {
    for (int j = 0; j < i; j++) {
      if (strcmp(s->attrs[i].name, s->attrs[j].name) == 0)
        complain(op->name, "two attributes of one name", s->attrs[i].name);
    }
  }
  for (int i = 0; i < s->n_results; i++) {
    if (s->results == NULL || s->results[i] == NULL) complain(op->name, "a result without a name", NULL);
  }
}

static void test_rows_are_complete(void **state) {
  (void)state;
  complaints = 0;
  for (int i = 0; i < intact__n_ops; i++) {
    const intact_op *op = intact__ops[i];
    if (strcmp(op->name, all_cases[i].op) != 0)
      complain(op->name, "the row's name is not that of its line in ops.def", all_cases[i].op);
    if (i > 0 && strcmp(intact__ops[i - 1]->name, op->name) >= 0) complain(op->name, "ops.def is out of order", NULL);
    if (op->doc == NULL || strlen(op->doc) < 6) complain(op->name, "no doc", NULL);
    if (op->infer == NULL) complain(op->name, "no infer", NULL);
    if (op->eval_f32 == NULL) complain(op->name, "no eval_f32", NULL);
    if (op->grad == NULL)
      complain(op->name, "no grad: write one, or intact__grad_none or intact__grad_straight_through", NULL);
    if (op->lower_int != NULL && op->check_int == NULL) complain(op->name, "lower_int without check_int", NULL);
    check_schema(op);
    for (const intact_alias *alias = op->aliases; alias != NULL && alias->name != NULL; alias++) check_alias(op, alias);
  }
  assert_int_equal(complaints, 0);
}

/* ---- every row has a case ---- */

/* A row whose operands can all be float tensors of one shape needs no file: that is its case. */
static void plain_case(op_case *c, const intact_op *op) {
  int n = op->schema.n_operands;
  if (n > 0 && (op->schema.operands[n - 1].flags & INTACT_VARIADIC) != 0) n++;
  for (int i = 0; i < n; i++) {
    const intact_operand_spec *spec = &op->schema.operands[i < op->schema.n_operands ? i : op->schema.n_operands - 1];
    if ((spec->flags & INTACT_OPTIONAL) != 0) {
      case_left_out(c);
    } else {
      case_f32(c, 0.15f, 0.85f, 3, 2, 3, 4);
    }
  }
}

typedef struct running {
  op_case c;
  const intact_op *op;
  intact_graph *graph;
  intact_node *node;
} running;

static intact_status set_attr(intact_node *node, const case_attr *a) {
  switch (a->type) {
    case INTACT_ATTR_FLOAT:
      intact__attr_set_float(node, a->name, a->f);
      return INTACT_OK;
    case INTACT_ATTR_STRING:
      return intact__attr_set_string(node, a->name, a->s);
    case INTACT_ATTR_INTS:
      return intact__attr_set_ints(node, a->name, a->n, a->ints);
    case INTACT_ATTR_FLOATS:
      return intact__attr_set_floats(node, a->name, a->n, a->floats);
    default:
      intact__attr_set_int(node, a->name, a->i);
      return INTACT_OK;
  }
}

/* A graph of the one node. */
static intact_status make_node(running *r) {
  op_case *c = &r->c;
  intact_value *values[CASE_MAX] = {NULL};
  INTACT_TRY(intact__graph_create(c->context, "case", &r->graph));
  for (int i = 0; i < c->n_operands; i++) {
    char name[20];
    const intact_tensor *x = c->operands[i];
    snprintf(name, sizeof name, "in%d", i);
    if (x == NULL) continue;
    if (c->constant[i]) {
      intact_tensor *shared;
      INTACT_TRY(intact_tensor_share(x, 0, NULL, &shared));
      INTACT_TRY(intact__graph_add_constant(r->graph, name, shared, NULL, &values[i]));
    } else {
      INTACT_TRY(intact__graph_add_input(r->graph, name, x->dtype, x->rank, x->dims, &values[i]));
    }
  }
  int n_results = c->n_results > 0 ? c->n_results : r->op->schema.n_results >= 0 ? r->op->schema.n_results : 1;
  INTACT_TRY(intact__graph_add_node(r->graph, r->op, "node", c->n_operands, values, n_results, NULL, NULL, &r->node));
  for (int i = 0; i < c->n_attrs; i++) INTACT_TRY(set_attr(r->node, &c->attrs[i]));
  return intact__node_infer(r->node);
}

static intact_context *context;

static void start_case(running *r, const intact_op *op, op_case_fn build) {
  memset(r, 0, sizeof *r);
  r->op = op;
  r->c.context = context;
  r->c.random = test_random_start();
  if (build != NULL) {
    build(&r->c);
  } else {
    plain_case(&r->c, op);
  }
}

static void end_case(running *r) {
  intact_graph_destroy(r->graph);
  for (int i = 0; i < r->c.n_operands; i++) intact_tensor_destroy(r->c.operands[i]);
}

static bool plain_case_works(const intact_op *op) {
  running r;
  intact_tensor *results[CASE_MAX] = {NULL};
  if (op->has_effect || op->schema.n_operands == 0) return false;
  start_case(&r, op, NULL);
  bool works = make_node(&r) == INTACT_OK;
  if (works) works = intact__eval_node(r.node, (const intact_tensor *const *)r.c.operands, false, results) == INTACT_OK;
  for (int i = 0; works && i < r.node->n_results; i++) intact_tensor_destroy(results[i]);
  end_case(&r);
  return works;
}

/* A reference suite names the row: by an alias, by its name, or as quantized_decomposed.<name>, with or without overload. */
static bool has_reference(const intact_op *op, const json_t *ops) {
  char decomposed[200] = "";
  if (strncmp(op->name, "decomposed_", 11) == 0)
    snprintf(decomposed, sizeof decomposed, "quantized_decomposed.%s", op->name + 11);
  if (json_object_get(ops, op->name) != NULL || json_object_get(ops, decomposed) != NULL) return true;
  for (const intact_alias *alias = op->aliases; alias != NULL && alias->name != NULL; alias++) {
    if (json_object_get(ops, alias->name) != NULL) return true;
  }
  return false;
}

static json_t *reference_ops(void) {
  static const char *const suites[] = {"float_ops",     "quantize_dequantize",
                                       "fake_quantize", "fake_quantize_learnable",
                                       "qparams",       "fused_moving_avg_obs_fake_quant",
                                       "quantized_ops"};
  json_t *ops = json_object();
  for (size_t s = 0; s < sizeof suites / sizeof suites[0]; s++) {
    char name[100], path[4096];
    snprintf(name, sizeof name, "conformance/%s.json", suites[s]);
    json_t *suite = test_reference_find(name, path, sizeof path) ? json_load_file(path, 0, NULL) : NULL;
    size_t i;
    json_t *item;
    json_array_foreach(json_object_get(suite, "cases"), i, item) {
      char op[200];
      snprintf(op, sizeof op, "%s", json_string_value(json_object_get(item, "op")));
      json_object_set_new(ops, op, json_true());
      char *overload = strrchr(op, '.');
      if (overload != NULL && strcmp(overload, ".tensor") == 0) *overload = 0;
      json_object_set_new(ops, op, json_true());
    }
    json_decref(suite);
  }
  return ops;
}

static void test_every_row_has_a_case(void **state) {
  (void)state;
  json_t *ops = reference_ops();
  complaints = 0;
  if (json_object_size(ops) == 0) print_message("NOTE the reference sets were not found: only rows' own cases count\n");
  for (int i = 0; i < intact__n_ops; i++) {
    const intact_op *op = intact__ops[i];
    if (all_cases[i].cases != NULL || has_reference(op, ops) || plain_case_works(op)) continue;
    if (json_object_size(ops) > 0) complain(op->name, "no case: write tests/ops/cases/<op>.c", NULL);
  }
  json_decref(ops);
  assert_int_equal(complaints, 0);
}

/* ---- what holds of a case ---- */

static void check_inference(const running *r, intact_tensor *const *results) {
  for (int i = 0; i < r->node->n_results; i++) {
    const intact_value *v = r->node->results[i];
    const intact_tensor *t = results[i];
    bool same = v->dtype == t->dtype && (v->rank < 0 || v->rank == t->rank);
    for (int d = 0; same && d < v->rank; d++) same = v->dims[d] < 0 || v->dims[d] == t->dims[d];
    if (!same) complain(r->op->name, "inference and evaluation differ", NULL);
  }
}

static double largest(const intact_tensor *t) {
  double most = 0;
  for (int64_t i = 0; i < t->count; i++) most = fmax(most, fabs(intact__tensor_get_f64(t, i)));
  return most;
}

static void check_close(const char *op, const char *what, const intact_tensor *a, const intact_tensor *b) {
  double allowed = 1e-5 * (1 + largest(b));
  if (a->count != b->count || a->dtype != b->dtype) {
    complain(op, what, "other type or count");
    return;
  }
  for (int64_t i = 0; i < a->count; i++) {
    double x = intact__tensor_get_f64(a, i), y = intact__tensor_get_f64(b, i);
    if (x == y || (isnan(x) && isnan(y)) || fabs(x - y) <= allowed) continue;
    char text[100];
    snprintf(text, sizeof text, "%.9g for %.9g at element %lld", x, y, (long long)i);
    complain(op, what, text);
    return;
  }
}

static void check_fast(const running *r, intact_tensor *const *results) {
  intact_tensor *fast[CASE_MAX] = {NULL};
  if (r->op->eval_fast == NULL) return;
  assert_ok(context, intact__eval_node(r->node, (const intact_tensor *const *)r->c.operands, true, fast));
  for (int i = 0; i < r->node->n_results; i++) {
    check_close(r->op->name, "eval_fast differs from the definition", fast[i], results[i]);
    intact_tensor_destroy(fast[i]);
  }
}

static void check_values(const running *r, const intact_tensor *y) {
  const op_case *c = &r->c;
  if (c->expected == NULL) return;
  if (y->count != c->n_expected) complain(r->op->name, "another number of elements than expected", NULL);
  for (int i = 0; i < c->n_expected && i < y->count; i++) {
    double got = intact__tensor_get_f64(y, i), want = c->expected[i];
    if (fabs(got - want) <= c->expected_tolerance || (isnan(got) && isnan(want)) || got == want) continue;
    char text[100];
    snprintf(text, sizeof text, "%.9g, expected %.9g at element %d", got, want, i);
    complain(r->op->name, "result", text);
  }
}

/* ---- finite differences ---- */

/* The same pseudo-random weight in every call: the loss is the weighted sum of the float results. */
static double weight_of(int result, int64_t element) {
  uint64_t state = (uint64_t)result * 1000003u + (uint64_t)element;
  return test_uniform(&state, 0.5f, 1.5f);
}

static double loss_of(const running *r, const intact_tensor *const *operands) {
  intact_tensor *results[CASE_MAX] = {NULL};
  double sum = 0;
  if (intact__eval_node(r->node, operands, false, results) != INTACT_OK) return NAN;
  for (int i = 0; i < r->node->n_results; i++) {
    for (int64_t k = 0; k < results[i]->count && results[i]->dtype == INTACT_F32; k++) {
      sum += weight_of(i, k) * intact__f32(results[i])[k];
    }
    intact_tensor_destroy(results[i]);
  }
  return sum;
}

/* (loss(x + h) - loss(x - h)) / 2h at one element. */
static double difference(const running *r, intact_tensor **operands, int operand, int64_t element, float h) {
  float *x = intact__f32(operands[operand]) + element, old = *x;
  *x = old + h;
  double width = *x, above = loss_of(r, (const intact_tensor *const *)operands);
  *x = old - h;
  width -= *x;
  double below = loss_of(r, (const intact_tensor *const *)operands);
  *x = old;
  return (above - below) / width;
}

static void check_element(const running *r, intact_tensor **operands, int operand, int64_t element, double got) {
  double wide = difference(r, operands, operand, element, 4e-3f), narrow = difference(r, operands, operand, element, 2e-3f);
  double allowed = 2e-2 * (1 + fabs(narrow));
  if (isnan(wide) || isnan(narrow) || fabs(wide - narrow) > allowed / 2) return; /* a kink or an edge of the domain */
  if (fabs(got - narrow) <= allowed) return;
  char text[160];
  snprintf(text, sizeof text, "of operand %s, element %lld is %.6g, finite differences say %.6g",
           r->op->schema.operands[operand < r->op->schema.n_operands ? operand : r->op->schema.n_operands - 1].name,
           (long long)element, got, narrow);
  complain(r->op->name, "the gradient", text);
}

/* Runs grad or grad_fast; d_operands become owned by the caller. */
static void run_gradient(const running *r, intact_status (*function)(intact_grad *), intact_tensor *const *results,
                         intact_tensor **d_operands) {
  intact_tensor *d_results[CASE_MAX] = {NULL};
  bool needed[CASE_MAX] = {false};
  for (int i = 0; i < r->node->n_results; i++) {
    if (results[i]->dtype != INTACT_F32) continue;
    assert_ok(context, intact_tensor_create(context, INTACT_F32, results[i]->rank, results[i]->dims, &d_results[i]));
    for (int64_t k = 0; k < results[i]->count; k++) intact__f32(d_results[i])[k] = (float)weight_of(i, k);
  }
  for (int i = 0; i < r->c.n_operands; i++) {
    needed[i] = r->c.operands[i] != NULL && r->c.operands[i]->dtype == INTACT_F32 && !r->c.constant[i];
  }
  intact_grad grad = {.context = context,
                      .node = r->node,
                      .n_operands = r->c.n_operands,
                      .n_results = r->node->n_results,
                      .operands = (const intact_tensor *const *)r->c.operands,
                      .results = (const intact_tensor *const *)results,
                      .d_results = (const intact_tensor *const *)d_results,
                      .needed = needed,
                      .d_operands = d_operands};
  assert_ok(context, function(&grad));
  for (int i = 0; i < r->node->n_results; i++) intact_tensor_destroy(d_results[i]);
}

static void check_gradient(running *r, intact_tensor *const *results) {
  intact_tensor *d[CASE_MAX] = {NULL}, *fast[CASE_MAX] = {NULL};
  run_gradient(r, r->op->grad, results, d);
  if (r->op->grad_fast != NULL) run_gradient(r, r->op->grad_fast, results, fast);
  for (int i = 0; i < r->c.n_operands; i++) {
    const intact_tensor *x = r->c.operands[i];
    if (x == NULL || x->dtype != INTACT_F32 || r->c.constant[i]) continue;
    for (int64_t k = 0; k < x->count && k < 60 && r->c.no_gradient == NULL; k++) {
      check_element(r, r->c.operands, i, k, d[i] != NULL ? intact__f32(d[i])[k] : 0);
    }
    if (d[i] != NULL && fast[i] != NULL) check_close(r->op->name, "grad_fast differs from grad", fast[i], d[i]);
    if (r->op->grad_fast != NULL && (d[i] == NULL) != (fast[i] == NULL))
      complain(r->op->name, "grad_fast leaves out a gradient", NULL);
    intact_tensor_destroy(d[i]);
    intact_tensor_destroy(fast[i]);
  }
}

static void run_case(const intact_op *op, op_case_fn build) {
  running r;
  intact_tensor *results[CASE_MAX] = {NULL};
  start_case(&r, op, build);
  if (r.c.not_run == NULL) {
    intact_status status = make_node(&r);
    if (status == INTACT_OK) status = intact__eval_node(r.node, (const intact_tensor *const *)r.c.operands, false, results);
    if (status != INTACT_OK) {
      complain(op->name, "the case is refused", intact_context_message(context));
    } else {
      check_inference(&r, results);
      check_fast(&r, results);
      check_values(&r, results[0]);
      bool through = op->grad == intact__grad_none || op->grad == intact__grad_straight_through;
      if (!through) check_gradient(&r, results);
      for (int i = 0; i < r.node->n_results; i++) intact_tensor_destroy(results[i]);
    }
  }
  end_case(&r);
}

static void test_cases_hold(void **state) {
  (void)state;
  complaints = 0;
  int n = 0;
  for (int i = 0; i < intact__n_ops; i++) {
    const intact_op *op = intact__ops[i];
    for (const op_case_fn *build = all_cases[i].cases; build != NULL && *build != NULL; build++, n++) run_case(op, *build);
    if (all_cases[i].cases == NULL && plain_case_works(op)) {
      run_case(op, NULL);
      n++;
    }
  }
  print_message("%d cases of %d rows\n", n, intact__n_ops);
  assert_int_equal(complaints, 0);
}

int main(void) {
  context = test_context(1);
  const struct CMUnitTest tests[] = {cmocka_unit_test(test_rows_are_complete), cmocka_unit_test(test_every_row_has_a_case),
                                     cmocka_unit_test(test_cases_hold)};
  int failed = cmocka_run_group_tests(tests, NULL, NULL);
  intact_context_destroy(context);
  return failed;
}
